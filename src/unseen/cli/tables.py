"""Wide tables of figures, in such a way that every figure can be read, however narrow the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

ENOUGH = 10_000  # columns: no table is as wide


def show_figures(
    console: Console, header: Sequence[str], rows: Sequence[Sequence[str]], groups: Sequence[int], title: str = ""
) -> None:
    """Print a table whole where it fits or nobody looks (a file, a pipe); else as tables below each other.

    `groups`: how many columns belong together, which are kept together where they can be. The first group names the
    row, and each of the tables begins with it.
    """
    limit = console.width if console.is_terminal else ENOUGH
    for index, columns in enumerate(_split(console, header, rows, groups, limit)):
        table = _table(header, rows, columns, groups[0], title if index == 0 else "")
        table.width = min(_width(console, table), limit)  # not the console's, which is 80 where there is no terminal
        console.print(table, crop=False)


def _split(
    console: Console, header: Sequence[str], rows: Sequence[Sequence[str]], groups: Sequence[int], limit: int
) -> list[list[int]]:
    """The columns of each table, the naming ones first."""
    naming = list(range(groups[0]))

    def fits(columns: list[int]) -> bool:
        return _width(console, _table(header, rows, columns, groups[0])) <= limit

    tables, start = [list(naming)], groups[0]
    for count in groups[1:]:
        group = list(range(start, start + count))
        start += count
        for part in [group] if fits(naming + group) else [[column] for column in group]:
            if fits(tables[-1] + part) or tables[-1] == naming:
                tables[-1] += part
            else:
                tables.append(naming + part)
    return tables


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int], naming: int, title: str = ""
) -> Table:
    """Text, not str: a name with [brackets] is no markup."""
    table = Table(title=Text(title) if title else None, title_justify="left")
    for column in columns:
        table.add_column(Text(header[column]), justify="left" if column < naming else "right")
    for row in rows:
        table.add_row(*(Text(row[column]) for column in columns))
    return table


def _width(console: Console, table: Table) -> int:
    """As wide as the table is when nothing is cut or wrapped."""
    return console.measure(table, options=console.options.update(max_width=ENOUGH)).maximum
