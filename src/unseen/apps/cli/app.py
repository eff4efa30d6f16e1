"""The Typer application, and what every command shares: errors, exit codes and the `--json` contract.

With `--json` the last line on standard output is one JSON object and nothing else is on that stream; messages and
progress go to standard error, and so do errors, beside {"error": message}. Exit status: 0 done, 1 could not, 2 wrong
usage, 3 some photos could not be read.

Every option may also come from the environment, UNSEEN_CLASSIFY_BUNDLE, or from a TOML file that --config or
UNSEEN_CONFIG names: keys at its top hold for all commands that have such an option, a table [classify] for one.
"""

from __future__ import annotations

import atexit
import functools
import gc
import inspect
import io
import json
import logging
import math
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer import Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from unseen import __version__
from unseen.util.errors import UnseenError
from unseen.util.safe_text import SafeConsole, visible
from unseen.util.settings import Setting, list_settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Command -> its module and its line in --help, in the order of --help. A module is imported when its command is run.
COMMANDS = {
    "demo": (".classify", "See it work: predict 21,842 classifiers, check them, and label sample photos."),
    "classify": (".classify", "Label photos with any class, seen or unseen."),
    "expect": (".classify", "Estimate how often a list of names will be answered rightly, without photos."),
    "serve": (".serve", "Open a local web page: drop photos, compare bundles, add classes."),
    "train": (".train", "Predict a classifier for every class of a hierarchy."),
    "evaluate": (".evaluate", "Measure Hit@k on photos sorted by class."),
    "calibrate": (".train", "Choose the balance between seen and unseen classes."),
    "features": (".evaluate", "Compute the features of a folder of photos once and keep them."),
    "finetune": (".train", "Finetune the network under its predicted classifiers (the paper's second stage)."),
    "add": (".grow", "Add classes to a bundle without training."),
    "teach": (".grow", "Teach classes of a bundle with a few photos, without training."),
    "remove": (".grow", "Remove classes from a bundle."),
    "rename": (".grow", "Rename a class of a bundle."),
    "hierarchy": (".hierarchy", "Look at a class hierarchy, check it, or get one for a list of names."),
    "export": (".info", "Write network and classes as one file that runs without unseen."),
    "compare": ("unseen_lab.commands", "Train and evaluate all methods on the same data."),
    "reproduce": ("unseen_lab.commands", "Run a table of the paper and compare it with the published figures."),
    "report": ("unseen_lab.commands", "Make the report again from saved results."),
    "bench": ("unseen_lab.commands", "Measure how fast this machine is."),
    "cache": (".info", "List or clear what is kept on disk: the default bundle, features, downloads."),
    "info": (".info", "Show versions, data and devices, or what a bundle contains."),
}
# Former names of options and commands, which keep working.
ALIASES = {"backbone": "network", "graph": "hierarchy", "images": "photos", "sure": "confidence"}
ALIASES |= {"taxonomy": "hierarchy"}
SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "context_settings": {
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda token: ALIASES.get(token, token),
    },
}
_loaded: dict[str, typer.Typer] = {}  # what the modules that were imported have registered


class LazyCommands(TyperGroup):
    """Lists all commands by their line in COMMANDS, and imports only the one that is run."""

    def __init__(self, **settings: Any):
        settings["commands"] = {name: TyperCommand(name, short_help=line) for name, (_, line) in COMMANDS.items()}
        super().__init__(**settings)

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except Exception as error:
            if ctx.meta.get("json") and hasattr(error, "format_message"):  # wrong usage, in any version of click
                emit({"error": error.format_message()}, True)  # pyright: ignore[reportAttributeAccessIssue]
            raise

    def resolve_command(self, ctx, args):
        ctx.meta["json"] = "--json" in args
        name = ALIASES.get(args[0], args[0])
        if name in COMMANDS:
            self.commands[name] = load_command(name)
            stated = read_config(ctx.params.get("config"))
            ctx.default_map = {name: find_defaults(self.commands[name], (name,), stated, ctx.params.get("config"))}
        return super().resolve_command(ctx, args)


def read_config(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        stated = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = f"{path}: cannot be read as TOML: {getattr(error, 'strerror', None) or error}"
        raise typer.BadParameter(visible(why)) from None  # Typer has a console of its own
    for name, value in stated.items():
        if isinstance(value, dict) and name not in COMMANDS:
            why = f"{path}: there is no command [{name}]; there are: {', '.join(COMMANDS)}"
            raise typer.BadParameter(visible(why))
    return stated


def find_defaults(command: Any, way: tuple[str, ...], stated: dict[str, Any], file: Path | None) -> dict[str, Any]:
    """Values for the options of a command: from the environment, else from its table in the configuration, else from
    the top of it."""
    table, prefix = stated, "_".join(("UNSEEN", *way)).upper()
    for part in way:
        table = table.get(part, {})
    if hasattr(command, "commands"):  # `unseen hierarchy check`
        return {name: find_defaults(inner, (*way, name), stated, file) for name, inner in command.commands.items()}
    defaults, known = {}, set()
    for parameter in command.params:
        options = [name for name in parameter.opts if name.startswith("-")]  # no arguments
        names = [name.lstrip("-") for name in options if name.startswith("--") or len(options) == 1]
        known |= set(names)
        for name in names:
            text = os.environ.get(f"{prefix}_{name.upper().replace('-', '_')}")
            value = text if text is not None else table.get(name, stated.get(name))
            if value is not None:
                defaults[parameter.name] = value.split(os.pathsep) if text and parameter.multiple else value
    unknown = sorted(key for key in table if key not in known) if table is not stated else []
    if unknown:
        there = ", ".join(sorted(known))
        why = f"{file}: [{'.'.join(way)}] has no option {unknown[0]}; there are: {there}"
        raise typer.BadParameter(visible(why))
    return defaults


def load_command(name: str):
    """The command of that name, imported with its options."""
    import_module(COMMANDS[name][0], "unseen.apps.cli")
    return get_command(_loaded[name])


app = typer.Typer(cls=LazyCommands, **dict[str, Any](SETTINGS, add_completion=True))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unseen {__version__}")
        raise typer.Exit()


@app.callback()
def unseen(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    config: Annotated[
        Path | None, Option(envvar="UNSEEN_CONFIG", help="A TOML file with values for options, before the command.")
    ] = None,
) -> None:
    """Teach an image classifier classes it was never shown, from the class hierarchy and the class names alone."""


stdout = SafeConsole(emoji=False)  # the ":boom" of module:boom is a name
stderr = SafeConsole(
    stderr=True, emoji=False, soft_wrap=True
)  # a message is one line of a log, however narrow the screen

JsonFlag = Annotated[bool, Option("--json", help="Print one JSON object on standard output and nothing else.")]
VerboseFlag = Annotated[bool, Option("--verbose", "-v", help="Also show details of what is being done.")]
QuietFlag = Annotated[bool, Option("--quiet", "-q", help="Show warnings and errors only.")]


def command(name: str, *, group: typer.Typer | None = None, examples: str = "") -> Callable:
    """Register a function as a command: its examples go below --help, its `UnseenError`s become one line and exit 1.

    Where a parameter of the function is a dataclass of settings, each of its fields becomes an option.
    """
    if group is None:
        group = _loaded[name] = typer.Typer(**SETTINGS)

    def register(function: Callable) -> Callable:
        signature = inspect.signature(function, eval_str=True)
        settings = {name: one.annotation for name, one in signature.parameters.items() if is_dataclass(one.annotation)}

        @functools.wraps(function)
        def run(*args, verbose: bool = False, quiet: bool = False, **kwargs):
            _show_log(verbose, quiet)
            try:
                if str(kwargs.get("bundle")) == "default" and not kwargs["bundle"].exists():
                    from unseen.training.default import default_bundle

                    kwargs["bundle"] = default_bundle().path
                chosen = {name: read_settings(kind, kwargs) for name, kind in settings.items()}
                return function(*args, **kwargs, **chosen)
            except UnseenError as error:
                _fail(str(error), kwargs.get("json_", False))
            except BrokenPipeError:
                pass
            except OSError as error:  # a name that is too long, a folder that may not be read
                why = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
                _fail(why, kwargs.get("json_", False))
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, lambda *_: os._exit(1))  # a second one ends it at once, in silence
                stderr.print("stopped.")
            raise typer.Exit(1)

        flags = [_parameter("verbose", VerboseFlag, False), _parameter("quiet", QuietFlag, False)]
        parameters = [one for name, one in signature.parameters.items() if name not in settings]
        parameters += [_option(field) for kind in settings.values() for field in list_settings(kind)] + flags
        run.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        lines = [line.strip() for line in examples.strip().splitlines() if line.strip()]
        epilog = "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  $ {line}" for line in lines) if lines else None
        group.command(name, epilog=epilog)(run)
        return run

    return register


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(field: Setting) -> inspect.Parameter:
    """The option for a field of a settings dataclass; a name of one letter makes a short one, -k."""
    kind = Path if field.kind is Any else field.kind
    least = {"of at least 0": 0, "of at least 1": 1}.get(field.limit.words)
    names = ["-" + field.name] if len(field.name) == 1 else []
    option = Option(*names, help=field.help, min=least if kind is int else None)
    annotation = list[kind] if field.several else kind
    optional = field.optional or field.default is None
    return _parameter(field.name, Annotated[annotation | None if optional else annotation, option], field.default)


def read_settings(kind: type, options: dict[str, Any]) -> Any:
    """The dataclass, with its fields taken out of the options that the user gave."""
    return kind(**{field.name: options.pop(field.name) for field in list_settings(kind)})


class LogHandler(logging.Handler):
    """Shows the library's messages on standard error, without markup: they name files."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            stderr.print("warning:", style="yellow", end=" ", highlight=False)
        tell(self.format(record))


def _show_log(verbose: bool, quiet: bool) -> None:
    logger = logging.getLogger("unseen")
    logger.handlers = [LogHandler()]
    first = os.environ.get("RANK", "0") == "0"  # under torchrun one process speaks for all
    logger.setLevel(logging.WARNING if quiet or not first else logging.DEBUG if verbose else logging.INFO)


def command_group(name: str, help: str) -> typer.Typer:
    """A command that has commands of its own: `unseen hierarchy check`."""
    _loaded[name] = typer.Typer(help=help, **SETTINGS)
    return _loaded[name]


def _fail(message: str, as_json: bool) -> None:
    if as_json:
        emit({"error": message}, True)
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
        sys.stdout.write(visible(text) + "\n")  # JSON has the same escapes
        sys.stdout.flush()
    elif show is not None:
        show()


def say(message: str) -> None:
    """A message for the person, on standard error. Its [markup] counts: names from outside go through `escaped`."""
    stderr.print(message, highlight=False)


def escaped(name: Any) -> str:
    """A name or a path from outside, for a text whose [markup] counts."""
    return escape(str(name))


def show_line(text: str) -> None:
    """A result, on one line of standard output however narrow the screen."""
    stdout.print(text, soft_wrap=True)


def show_facts(title: Any, facts: dict[str, str]) -> None:
    """A table of names and texts from outside."""
    table = Table(show_header=False, title=escaped(title), title_justify="left")
    for name, text in facts.items():
        table.add_row(name, escaped(text))
    stdout.print(table)


def tell(message: str) -> None:
    """A message on standard error without markup: the library's messages name files."""
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
