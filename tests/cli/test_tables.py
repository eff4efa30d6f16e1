"""However narrow the terminal: every figure of a wide table is there, whole, beside the name of its row."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from unseen.cli.tables import show_figures

GROUPS = [1, 1, 5, 5, 5]
HEADER = ["2-hops", "epochs", *(f"{kind}\n@{k}" for kind in ("images", "classes", "paper") for k in (1, 2, 5, 10, 20))]
ROWS = [
    [name, "3000+20", *(f"{10 * place + i}.{i}" for i in range(15))] for place, name in enumerate(("dgp", "x[red]"))
]


def shown(width: int, terminal: bool = True) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    show_figures(console, HEADER, ROWS, GROUPS, "A title")
    return out.getvalue().splitlines()


def cells(lines: list[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]


@pytest.mark.parametrize("width", [30, 50, 80, 120])
def test_a_narrow_terminal(width):
    lines = shown(width)
    assert max(map(len, lines)) <= width and "…" not in "".join(lines)
    found: dict[str, list[str]] = {name: [] for name, *_ in ROWS}
    for name, *figures in cells(lines):
        found[name] += figures
    assert [[name, *figures] for name, figures in found.items()] == ROWS
    assert sum("A title" in line for line in lines) == 1


def test_what_belongs_together_stays_together():
    assert [len(row) for row in cells(shown(80))[::2]] == [7, 6, 6]


def test_whole_where_it_fits_or_nobody_looks():
    assert cells(shown(200)) == ROWS
    assert shown(80, terminal=False) == shown(200)
