"""A table of figures, as every command of the laboratory prints it and every page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace(" *", " \\*") for cell in cells) + " |"


def figure(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"
