"""Draw the plan of the house into docs/how-it-works.md: layers, lines of code, and what each package is for; the
laboratory stands above the tool.

    python tools/draw_plan.py

The layers come from `.importlinter`, the sentences from the packages' docstrings. Lines are rounded to hundreds.
"""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
PAGE = ROOT / "docs" / "how-it-works.md"
BLOCK = re.compile(r"(<!-- plan: tools/draw_plan.py -->\n)(.*?)(<!-- end of plan -->)", re.DOTALL)


def layers() -> list[list[str]]:
    """The packages of each layer, from top to bottom."""
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    lines = contract["importlinter:contract:layers"]["layers"].split("\n")
    return [re.split(r"\s*[:|]\s*", line.strip()) for line in lines if line.strip()]


def place(package: str) -> Path:
    """Its folder, or its file."""
    folder = SOURCES.joinpath(*package.split("."))
    return folder if folder.is_dir() else folder.with_suffix(".py")


def count_lines(package: str) -> int:
    there = place(package)
    files = sorted(there.rglob("*.py")) if there.is_dir() else [there]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def sentence(package: str) -> str:
    """The first sentence of its docstring."""
    there = place(package)
    file = there / "__init__.py" if there.is_dir() else there
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    if not docstring:
        raise SystemExit(f"{file.relative_to(ROOT)} has no docstring")
    return re.split(r"(?<=\.)\s", docstring.split("\n\n")[0].replace("\n", " "))[0].replace("|", "\\|")


def rows() -> list[tuple[int, str, int, str]]:
    """Layer (1 is the lowest), package, lines, sentence."""
    plan = layers()
    parts = (path for path in (SOURCES / "unseen_lab").iterdir() if not path.name.startswith("__"))
    laboratory = sorted(f"unseen_lab.{path.stem}" for path in parts)
    plan = [laboratory, *([f"unseen.{package}" for package in layer] for layer in plan)]
    return [
        (len(plan) - number, package, count_lines(package), sentence(package))
        for number, layer in enumerate(plan)
        for package in layer
    ]


def draw() -> str:
    lines = ["| layer | package | lines | what it does |", "|--:|:--|--:|:--|"]
    for layer, package, count, what in rows():
        lines.append(f"| {layer} | `{package}` | {max(100, round(count, -2)):,} | {what} |")
    return "\n".join(lines) + "\n"


def drawn() -> list[tuple[int, str, int, str]]:
    """The rows that the page shows now."""
    (block,) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    cells = re.findall(r"(?m)^\| (\d+) \| `([\w.]+)` \| ([\d,]+) \| (.*) \|$", block[1])
    return [(int(layer), package, int(count.replace(",", "")), what) for layer, package, count, what in cells]


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda found: f"{found[1]}\n{draw()}\n{found[3]}", page), encoding="utf-8")
