"""What a command prints: one JSON object or text on standard output, messages on standard error.

Both consoles show text just as it is: names from outside need no escaping, and a line stays one line however narrow the
terminal.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from unseen.util.devices import own_rank
from unseen.util.safe_text import SafeConsole, visible

stdout = SafeConsole(markup=False, highlight=False, emoji=False, soft_wrap=True)
stderr = SafeConsole(markup=False, highlight=False, emoji=False, soft_wrap=True, stderr=True)


def emit(result: dict[str, Any], as_json: bool, show: Callable[[], None] | None = None) -> None:
    """End a command: the JSON object, or what a person wants to see; without `show` that is what the JSON holds."""
    if as_json:
        text = json.dumps(_plain(result), ensure_ascii=False, allow_nan=False)
        try:
            text.encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:  # such as the name of a file that is not UTF-8
            text = json.dumps(_plain(result), allow_nan=False)
        sys.stdout.write(visible(text) + "\n")  # JSON has the same escapes
        sys.stdout.flush()
    elif show is not None:
        show()
    else:
        made, *facts = result.items()
        print_facts(made[1], {name: in_words(value) for name, value in facts if value is not None})


def in_words(value: Any) -> str:
    """A JSON value for a person.

    >>> in_words({"classes": 1000, "hit@1": 33.333333, "hops": [0.5, 0.25]})
    'classes 1,000, hit@1 33.333, hops 0.5 0.25'
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_words(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(in_words, value))
    return f"{value:,}" if type(value) is int else f"{value:.5g}" if isinstance(value, float) else str(value)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, words: int = 1) -> None:
    """A table that is never cut, however narrow the terminal; its first `words` columns are text, others figures."""
    table = Table(title=title, title_justify="left")
    for column, name in enumerate(header):
        table.add_column(name, justify="left" if column < words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    table.width = stdout.measure(table, options=stdout.options.update(max_width=10_000)).maximum
    stdout.print(table)


def print_facts(title: Any, facts: dict[str, str]) -> None:
    """Names with a text each, a line each."""
    stdout.print(str(title), style="bold")
    width = max(map(len, facts), default=0)
    for name, text in facts.items():
        stdout.print(f"  {name:{width}}  {text}")


def print_error(message: str, as_json: bool) -> None:
    if as_json:
        emit({"error": message}, True)
    stderr.print("error:", style="bold red", end=" ")
    stderr.print(message)


class LogHandler(logging.Handler):
    """Shows the library's messages on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            stderr.print("warning:", style="yellow", end=" ")
        stderr.print(self.format(record))


def show_log(verbose: bool, quiet: bool) -> None:
    logger = logging.getLogger("unseen")
    logger.handlers = [LogHandler()]
    silent = quiet or own_rank() > 0  # under torchrun one process speaks for all
    logger.setLevel(logging.WARNING if silent else logging.DEBUG if verbose else logging.INFO)


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays, paths and non-finite numbers as plain JSON values."""
    if type(value) in (int, str):  # most are, and a hierarchy may have a million
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
