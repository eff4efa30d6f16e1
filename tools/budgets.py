"""Print how large every part of the repository is, beside its budget in CONTRIBUTING.md.

    python tools/budgets.py            # the table of CONTRIBUTING.md, with today's figures
    python tools/budgets.py --lower    # write it, with each budget lowered to today's figure, rounded up to 50

`tests/test_budgets.py` fails above the budget. Statements are `ast.stmt`; words are those written by hand.
"""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
HEADER = "| part | statements | lines or words | asked |\n|:---|---:|---:|---:|\n"
TABLE = re.compile(rf"{re.escape(HEADER)}((?:\|.*\n)+)")
GENERATED = re.compile(r"(?s:<!-- plan.*?<!-- end of plan -->)|<!-- (?:table|sources).*-->\n\n?(?:[|-] ?.*\n)+")
TOOL, LABORATORY = ROOT / "src" / "unseen", ROOT / "src" / "unseen_lab"


class Size(NamedTuple):
    statements: int | None  # of Python
    length: int  # lines; words of documents


def measure() -> dict[str, Size]:
    packages = {path for path in TOOL.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    sizes = {f"`{path.name}`": _python(path) for path in sorted(packages)}
    return sizes | {
        "tool": _python(TOOL),
        "laboratory": _python(LABORATORY),
        "tests": Size(None, _python(ROOT / "tests").length),
        "JavaScript": Size(None, _lines("*.js")),
        "CSS": Size(None, _lines("*.css")),
        "benchmarks": Size(None, _python(ROOT / "benchmarks").length),
        "tools": Size(None, _python(ROOT / "tools").length),
        "docs, words by hand": Size(None, sum(map(_words, _pages()))),
        "README, words": Size(None, _words(ROOT / "README.md")),
    }


def _python(path: Path) -> Size:
    texts = [file.read_text(encoding="utf-8") for file in ([path] if path.is_file() else path.rglob("*.py"))]
    nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
    return Size(sum(isinstance(node, ast.stmt) for node in nodes), sum(len(text.splitlines()) for text in texts))


def _lines(pattern: str) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in TOOL.rglob(pattern))


def _pages() -> list[Path]:
    return [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]


def _words(page: Path) -> int:
    return len(GENERATED.sub("", page.read_text(encoding="utf-8")).split())


def budgets() -> dict[str, tuple[Size, str]]:
    """Part -> its budget, and what is asked."""
    found = {}
    for line in TABLE.findall(PAGE.read_text(encoding="utf-8"))[0].splitlines():
        part, statements, length, asked = (cell.strip() for cell in line.strip("|").split("|"))
        found[part] = Size(_number(statements) if statements else None, _number(length)), asked
    return found


def _number(cell: str) -> int:
    return int(cell.replace(",", ""))


def table(rows: dict[str, tuple[Size, str]]) -> str:
    lines = []
    for part, (size, asked) in rows.items():
        statements = "" if size.statements is None else f"{size.statements:,}"
        lines.append(f"| {part} | {statements} | {size.length:,} | {asked} |\n")
    return HEADER + "".join(lines)


def lowered() -> dict[str, tuple[Size, str]]:
    """Today's figures rounded up, but never above the budget of a part that has one."""
    now, stated = measure(), budgets()
    rows = {}
    for part, size in now.items():
        budget, asked = stated.get(part, (size, ""))
        pairs = zip([_rounded(of) for of in size], budget if part in stated else [10**9] * 2, strict=True)
        rows[part] = Size(*(None if new is None else min(new, old or new) for new, old in pairs)), asked
    return rows


def _rounded(size: int | None) -> int | None:
    return None if size is None else -(-size // 50) * 50


def main(lower: bool) -> None:
    if lower:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(TABLE.sub(lambda _: table(lowered()), text), encoding="utf-8")
    stated = budgets()
    shown = {part: (size, f"budget {_told(stated[part][0])}" if part in stated else "no budget")
             for part, size in measure().items()}  # fmt: skip
    print(table(shown).replace("asked", "budget"))


def _told(size: Size) -> str:
    return " / ".join(f"{of:,}" for of in size if of is not None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lower", action="store_true", help="write the table of CONTRIBUTING.md")
    main(parser.parse_args().lower)
