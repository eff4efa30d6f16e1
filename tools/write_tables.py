"""Tables of README.md and docs/, taken from the pages of results, so that no figure is copied by hand.

    python tools/write_tables.py            # or: make tables
    python tools/write_tables.py --check    # only say what is out of date

A page has a line `<!-- table: NAME -->`; the table below it is replaced. NAME is one of TABLES: a page of results, the
table on it that has these columns, and the rows to leave out. The best figure of a column is bold. Below a line
`<!-- sources: NAME -->` stands what `docs/results/sources.md` has below the same line, and below a line
`<!-- settings: MODULE:CLASS -->` the fields of that dataclass.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"(?m)^<!-- table: ([\w-]+) -->\n(?:\n?(?:\|.*\n)+)?")

SETTINGS = re.compile(r"(?m)^<!-- settings: ([\w.]+):(\w+) -->\n(?:\n?(?:\|.*\n)+)?")
SOURCES = re.compile(r"(?m)^<!-- sources: (.+) -->\n((?:.+\n)*)")


@dataclass(frozen=True)
class Choice:
    """Columns of a table on a page of results; `plain` ones have no best figure."""

    page: str
    columns: tuple[str, ...]
    plain: tuple[str, ...] = ()
    without: tuple[str, ...] = ()  # rows, by their first cell


TABLES = {
    "comparison": Choice(
        "docs/results/comparison.md",
        ("method", "vectors", "photos", "2-hops @1", "2-hops @5", "3-hops @1", "3-hops @5", "all @1", "all @5",
         "novel @1", "2-hops+1K @1", "seen", "H"),
        plain=("method", "vectors", "photos"),
        without=("network",),
    ),
    "lists": Choice(
        "docs/results/lists.md",
        ("photos of each", "method", "5", "10", "20", "50", "100", "200"),
        plain=("photos of each", "method", "5", "10", "20", "50", "100", "200"),
    ),
}  # fmt: skip


def tables_of(text: str) -> list[list[list[str]]]:
    """The cells of every Markdown table, without the line below the header."""
    blocks = re.findall(r"(?m)(?:^\|.*\n?)+", text)
    cells = [[[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()] for block in blocks]
    return [[lines[0], *lines[2:]] for lines in cells if len(lines) > 2]


def choose(choice: Choice, root: Path = ROOT) -> str:
    """The chosen part of a table, as Markdown."""
    places = [table for table in tables_of((root / choice.page).read_text(encoding="utf-8"))
              if set(choice.columns) <= set(table[0])]  # fmt: skip
    if not places:
        raise SystemExit(f"{choice.page} has no table with the columns {', '.join(choice.columns)}")
    header, *lines = places[0]
    at = [header.index(column) for column in choice.columns]
    rows = [[line[place] for place in at] for line in lines if line[0] not in choice.without]
    for column, name in enumerate(choice.columns):
        values = [_number(row[column]) for row in rows]
        best = max((value for value in values if value is not None), default=None)
        for row, value in zip(rows, values, strict=True):
            if name not in choice.plain and value is not None and value == best:
                row[column] = f"**{row[column]}**"
    align = "|" + "".join(
        "---:|" if name not in ("method", "vectors", "photos of each") else ":---|" for name in choice.columns
    )
    return "\n".join(
        ["| " + " | ".join(choice.columns) + " |", align, *("| " + " | ".join(row) + " |" for row in rows)]
    )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def describe(module: str, name: str) -> str:
    """The fields of a settings dataclass, as Markdown."""
    from unseen.util.settings import list_settings

    rows = [
        f"| `{one.name}` | `{one.default}` | {one.help} |"
        for one in list_settings(getattr(import_module(module), name))
    ]
    return "\n".join(["| name | default | meaning |", "|:--|:--|:--|", *rows])


def fill(text: str, root: Path = ROOT) -> str:
    """The page with its marked tables and sentences made new."""
    if SOURCES.search(text):
        made = dict(SOURCES.findall((root / "docs" / "results" / "sources.md").read_text(encoding="utf-8")))
        text = SOURCES.sub(lambda mark: f"<!-- sources: {mark[1]} -->\n{made[mark[1]]}", text)
    text = SETTINGS.sub(lambda mark: f"<!-- settings: {mark[1]}:{mark[2]} -->\n{describe(mark[1], mark[2])}\n", text)
    return MARK.sub(lambda mark: f"<!-- table: {mark[1]} -->\n{choose(TABLES[mark[1]], root)}\n", text)


def main(check: bool) -> int:
    stale = []
    for page in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "reference").glob("*.md")),
    ]:
        text = page.read_text(encoding="utf-8")
        if (new := fill(text)) != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(new, encoding="utf-8")
    print(f"{'out of date' if check else 'written'}: {', '.join(stale)}" if stale else "tables are up to date")
    return int(check and bool(stale))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a table is out of date")
    raise SystemExit(main(parser.parse_args().check))
