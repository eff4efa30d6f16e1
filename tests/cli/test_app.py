"""Messages show names from outside just as they are, each on one line."""

from __future__ import annotations

from unseen.cli.app import say, stdout, tell

LONG = "a " * 100  # wider than any screen


def test_tell_leaves_everything_as_it_is(capsys):
    tell(f"x[red].jpg and module:boom: {LONG}.")
    assert capsys.readouterr().err == f"x[red].jpg and module:boom: {LONG}.\n"


def test_say_has_markup_but_neither_emoji_nor_line_breaks(capsys):
    say(f"[bold]module:boom:[/bold] {LONG}.")
    assert capsys.readouterr().err == f"module:boom: {LONG}.\n"


def test_no_emoji_among_results(capsys):
    stdout.print("module:boom:")
    assert capsys.readouterr().out == "module:boom:\n"


def test_an_error_names_what_was_typed(unseen, tmp_path):
    done = unseen("train", "--backbone", "no_such:boom:x[red]", "--out", tmp_path / "new")
    assert done.code == 1 and done.err.startswith("error: no_such:boom:x[red]: there is no Python module 'no_such'")
