"""The Typer application, and what every command shares: errors, exit codes and the `--json` contract.

With `--json` the last line on standard output is one JSON object and nothing else is on that stream; messages and
progress go to standard error. Exit status: 0 done, 1 could not, 2 wrong usage.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from unseen.errors import UnseenError

app = typer.Typer(
    name="unseen",
    help="Teach an image classifier classes it was never shown, from the class hierarchy and the class names alone.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
stdout = Console(emoji=False)  # the ":boom" of module:boom is a name
stderr = Console(stderr=True, emoji=False, soft_wrap=True)  # a message is one line of a log, however narrow the screen

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]

# One module a command, in the order that --help lists them.
COMMANDS = [
    "demo",
    "classify",
    "serve",
    "train",
    "evaluate",
    "calibrate",
    "features",
    "finetune",
    "grow",
    "taxonomy",
    "export",
    "compare",
    "reproduce",
    "bench",
    "info",
]


def command(name: str, *, group: typer.Typer = app, examples: str = "") -> Callable:
    """Register a function as a command: its examples go below --help, its `UnseenError`s become one line and exit 1."""

    def register(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except UnseenError as error:
                _fail(str(error))
                raise typer.Exit(1) from None
            except BrokenPipeError:
                raise typer.Exit(1) from None
            except OSError as error:  # a name that is too long, a folder that may not be read
                _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
                raise typer.Exit(1) from None
            except KeyboardInterrupt:
                stderr.print("stopped.")
                raise typer.Exit(1) from None

        lines = [line.strip() for line in examples.strip().splitlines() if line.strip()]
        epilog = "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  $ {line}" for line in lines) if lines else None
        group.command(name, epilog=epilog)(run)
        return run

    return register


def _fail(message: str) -> None:
    stderr.print("error:", style="bold red", end=" ", highlight=False)
    tell(message)


def emit(result: dict[str, Any], as_json: bool, show: Callable[[], None] | None = None) -> None:
    """End a command: the JSON object, or what a person wants to see."""
    if as_json:
        text = json.dumps(_plain(result), ensure_ascii=False, allow_nan=False)
        try:
            text.encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:  # such as the name of a file that is not UTF-8
            text = json.dumps(_plain(result), allow_nan=False)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    elif show is not None:
        show()


def say(message: str) -> None:
    """A message for the person, on standard error. Its [markup] counts: names from outside go through `escaped`."""
    stderr.print(message, highlight=False)


def escaped(name: Any) -> str:
    """A name or a path from outside, for a text whose [markup] counts."""
    return escape(str(name))


def tell(message: str) -> None:
    """A message on standard error just as it is, such as the library's, which name files: no markup."""
    stderr.print(message, markup=False, highlight=False)


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays, paths and non-finite numbers as plain JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # whatever a file is called, its name can be told
    for name in COMMANDS:
        import_module(f"unseen.cli.{name}")
    app()
