"""Draw the plan of the house: into docs/how-it-works.md the layers, their lines of code and what each package is for,
the laboratory above the tool; into CONTRIBUTING.md the way of one photo.

    python tools/draw_plan.py

The layers come from `.importlinter`, the sentences from the packages' docstrings, the way of a photo from a trace of
`model.classify(photo)` on the model of the documentation. Lines are rounded to hundreds.
"""

from __future__ import annotations

import ast
import configparser
import re
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
PAGE = ROOT / "docs" / "how-it-works.md"
GUIDE = ROOT / "CONTRIBUTING.md"
WALK = re.compile(r"(<!-- walk: tools/draw_plan.py -->\n)(.*?)(<!-- end of walk -->)", re.DOTALL)
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


def trace() -> list[tuple[str, str]]:
    """(file, function) of every call while a model that is warm classifies a photo."""
    from unseen.examples import fruits, photo

    model, picture, calls = fruits(), photo("crimson"), []
    marker = f"{(SOURCES / 'unseen').resolve()}/"

    def note(frame, event, _):
        name, function = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and name.startswith(marker) and not function.startswith("<"):
            calls.append((name.removeprefix(marker), function))

    model.classify(picture)
    sys.setprofile(note)
    try:
        model.classify(picture)
    finally:
        sys.setprofile(None)
    return calls


def draw_walk() -> str:
    lines = ["| file | what is called there |", "|:--|:--|"]
    for file, calls in groupby(trace(), key=lambda call: call[0]):
        functions = dict.fromkeys(function for _, function in calls)
        lines.append(f"| `{file}` | {', '.join(f'`{function}`' for function in functions)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    guide = GUIDE.read_text(encoding="utf-8")
    GUIDE.write_text(WALK.sub(lambda found: f"{found[1]}\n{draw_walk()}\n{found[3]}", guide), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda found: f"{found[1]}\n{draw()}\n{found[3]}", page), encoding="utf-8")
