"""A table of figures, as every command of the laboratory prints it and every page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table as ConsoleTable
from rich.text import Text

MISSING = "–"


@dataclass(frozen=True)
class Table:
    """Text cells under a header; the first `words` columns are text, the others numbers. `**` makes a cell bold."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def markdown(self) -> str:
        align = "|" + ":---|" * self.words + "---:|" * (len(self.header) - self.words)
        return "\n".join([markdown_line(self.header), align, *map(markdown_line, self.rows)])

    def console(self, title: str = "") -> ConsoleTable:
        """With a line for "@5" of its own below the name of the list."""
        table = ConsoleTable(title=Text(title) if title else None, title_justify="left")
        for column, name in enumerate(self.header):
            side = "left" if column < self.words else "right"
            table.add_column(Text(name.replace(" @", "\n@")), justify=side, no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(cell.replace("**", "")) for cell in row))
        return table


def markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace(" *", " \\*") for cell in cells) + " |"


def figure(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"
