"""Names from outside reach neither a terminal nor a spreadsheet as commands."""

from __future__ import annotations

import csv
import io
import re

import pytest
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from unseen.apps.cli.output import stderr, stdout
from unseen.hierarchy.core import Hierarchy
from unseen.util.run import console as progress_console
from unseen.util.safe_text import SafeConsole, csv_cell, csv_text, to_csv, visible

CLIPBOARD, CLEAR, C1, REVERSED = "a\x1b]52;c;cm0=\a", "b\x1b[2J\r", "c\x9b2J", "d\u202egpj.exe"
EVIL = [CLIPBOARD, CLEAR, C1, REVERSED]


@pytest.mark.parametrize("name", EVIL)
def test_no_way_of_printing_lets_control_characters_through(name):
    file = io.StringIO()
    console = SafeConsole(file=file, force_terminal=True, width=200)
    table, tree = Table(name, title=escape(name)), Tree(Text(name))
    table.add_row(Text(name))
    tree.add(escape(name))
    console.print(f"[bold]{escape(name)}[/bold]", name, Text(name), table, tree)
    console.print(name, markup=False, highlight=False, soft_wrap=True)
    console.log(name)
    with console.status(name):
        pass
    console.print_json(data={"name": name})
    text = file.getvalue()
    assert "\x1b[1m" in text  # styles of its own
    assert not any(evil in text for evil in ("\x1b]52", "\a", "\x1b[2J", "\x9b", "\u202e"))
    assert visible(name.rstrip("\a\r")) in text  # rich itself leaves those two out


def test_all_consoles_of_the_package_are_safe():
    assert all(isinstance(console, SafeConsole) for console in (stdout, stderr, progress_console))


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-x", "@a", "\tx", "\rx", "'=1", "''-", "'a", "okapi", "", "'", "\n=1", "＝1"]
)
def test_cells_that_begin_a_formula_come_back(text):
    (cell,) = next(csv.reader(io.StringIO(to_csv([[text]]), newline="")), [""])
    assert not cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) and csv_text(cell) == text


def test_a_configuration_that_is_refused_is_safe_to_show(tmp_path):
    from typer.testing import CliRunner

    from unseen.apps.cli.app import app

    (file := tmp_path / "config\x1b]52;c;cm0=\a.toml").write_text("no TOML")
    done = CliRunner().invoke(app, ["--config", str(file), "info"])
    assert done.exit_code == 2 and "\\u001b]52" in re.sub(r"[\s│]", "", done.output)
    assert "\x1b]52" not in done.output and "\a" not in done.output


@pytest.mark.parametrize("sign", "\u061c\ufeff\u200b\ufff9\U000e0041")
def test_characters_without_width_are_shown_on_a_terminal_and_in_a_table(sign):
    assert sign not in visible(f"oka{sign}pi") and sign not in to_csv([[f"oka{sign}pi", "\x1b]0;title\a"]])
    assert visible("a\u200db") == "a\u200db"  # a joiner, which scripts and emoji need


def test_numbers_stay_numbers():
    assert to_csv([[-0.5, None, True]]) == "-0.5,,True\n" and csv_cell(-1) == -1


def test_a_hierarchy_with_such_names_is_read_as_it_was_written(tmp_path):
    from unseen.apps.cli.hierarchy import _table

    hierarchy = Hierarchy.from_edges([("-b", "=a"), ("c", "=a")], {"=a": "@thing", "-b": "+b", "c": "'=c"})
    (tmp_path / "table.csv").write_text(table := _table(hierarchy), newline="")
    assert not any(cell.startswith(tuple("=+-@")) for row in csv.reader(io.StringIO(table)) for cell in row)
    again = Hierarchy.load(tmp_path / "table.csv")
    assert (again.ids, again.lemmas) == (hierarchy.ids, hierarchy.lemmas)
