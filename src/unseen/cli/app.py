"""The Typer application, and what every command shares: errors, exit codes and the `--json` contract.

With `--json` the last line on standard output is one JSON object and nothing else is on that stream; messages and
progress go to standard error. Exit status: 0 done, 1 could not, 2 wrong usage.
"""

from __future__ import annotations

import atexit
import functools
import gc
import io
import json
import math
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from unseen import __version__
from unseen.errors import UnseenError

# Command -> its module and its line in --help, in the order of --help. A module is imported when its command is run.
COMMANDS = {
    "demo": ("demo", "See it work: predict 21,842 classifiers, check them, and label sample photos."),
    "classify": ("classify", "Label photos with any class, seen or unseen."),
    "serve": ("serve", "Open a local web page: drop photos, compare bundles, add classes."),
    "train": ("train", "Predict a classifier for every class of a hierarchy."),
    "evaluate": ("evaluate", "Measure Hit@k on photos sorted by class."),
    "calibrate": ("calibrate", "Choose the balance between seen and unseen classes."),
    "features": ("features", "Compute the features of a folder of photos once and keep them."),
    "finetune": ("finetune", "Finetune the network under its predicted classifiers (the paper's second stage)."),
    "add": ("grow", "Add classes to a bundle without training."),
    "teach": ("teach", "Teach classes of a bundle with a few photos, without training."),
    "remove": ("grow", "Remove classes from a bundle."),
    "rename": ("grow", "Rename a class of a bundle."),
    "taxonomy": ("taxonomy", "Look at a class hierarchy, check it, or get one for a list of names."),
    "export": ("export", "Write network and classes as one file that runs without unseen."),
    "compare": ("compare", "Train and evaluate all methods on the same data."),
    "reproduce": ("reproduce", "Run a table of the paper and compare it with the published figures."),
    "report": ("reproduce", "Make the report again from saved results."),
    "bench": ("bench", "Measure how fast this machine is."),
    "info": ("info", "Show versions, data and devices, or what a bundle contains."),
}
SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
_loaded: dict[str, typer.Typer] = {}  # what the modules that were imported have registered


class LazyCommands(TyperGroup):
    """Lists all commands by their line in COMMANDS, and imports only the one that is run."""

    def __init__(self, **settings: Any):
        settings["commands"] = {name: TyperCommand(name, short_help=line) for name, (_, line) in COMMANDS.items()}
        super().__init__(**settings)

    def resolve_command(self, ctx, args):
        if args[0] in COMMANDS:
            self.commands[args[0]] = load_command(args[0])
        return super().resolve_command(ctx, args)


def load_command(name: str):
    """The command of that name, imported with its options."""
    import_module(f"unseen.cli.{COMMANDS[name][0]}")
    return get_command(_loaded[name])


app = typer.Typer(cls=LazyCommands, **SETTINGS)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unseen {__version__}")
        raise typer.Exit()


@app.callback()
def unseen(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Teach an image classifier classes it was never shown, from the class hierarchy and the class names alone."""


stdout = Console(emoji=False)  # the ":boom" of module:boom is a name
stderr = Console(stderr=True, emoji=False, soft_wrap=True)  # a message is one line of a log, however narrow the screen

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


def command(name: str, *, group: typer.Typer | None = None, examples: str = "") -> Callable:
    """Register a function as a command: its examples go below --help, its `UnseenError`s become one line and exit 1."""
    if group is None:
        group = _loaded[name] = typer.Typer(**SETTINGS)

    def register(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except UnseenError as error:
                _fail(with_options(error))
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


def command_group(name: str, help: str) -> typer.Typer:
    """A command that has commands of its own: `unseen taxonomy check`."""
    _loaded[name] = typer.Typer(help=help, **SETTINGS)
    return _loaded[name]


def with_options(error: UnseenError) -> str:
    """The error's message, with options of the command line in place of the Python arguments that it names."""
    message = str(error)
    for argument in error.arguments:
        name, _, value = argument.partition("=")
        option = f"--{name.replace('_', '-')}" + ("" if value in ("", "True") else f" {value.strip(chr(39))}")
        message = re.sub(rf"(?<![\w-]){re.escape(argument)}(?!\w)", lambda _, option=option: option, message)
    return message


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


def main() -> None:
    atexit.register(gc.freeze)  # at the end there is no point in looking for garbage among all that was imported
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # whatever a file is called, its name can be shown
    app()
