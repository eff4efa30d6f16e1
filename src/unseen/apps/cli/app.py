"""The Typer application, and what every command shares: options, errors and exit codes.

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
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from unseen import __version__
from unseen.apps.cli.output import emit, print_error, show_log, stderr
from unseen.util.devices import quick_start
from unseen.util.errors import UnseenError
from unseen.util.safe_text import visible
from unseen.util.settings import Setting, list_settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Command -> its module and its line in --help, in the order of --help. A module is imported when its command is run.
COMMANDS = {
    "demo": (".demo", "See it work: predict 21,842 classifiers, check them, and label sample photos."),
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
    "hierarchy": (".hierarchy", "Look at a class hierarchy, check it, or get one for a list of names."),
    "export": (".info", "Write network and classes as one file that runs without unseen."),
    "compare": ("unseen_lab.commands", "Train and evaluate all methods on the same data."),
    "reproduce": ("unseen_lab.commands", "Run a table of the paper and compare it with the published figures."),
    "info": (".info", "Show versions, data, devices and the cache, or what a bundle contains."),
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

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except Exception as error:
            if ctx.meta.get("json") and hasattr(error, "format_message"):  # wrong usage, in any version of click
                emit({"error": error.format_message()}, True)  # pyright: ignore[reportAttributeAccessIssue]
            raise

    def resolve_command(self, ctx, args):
        ctx.meta["json"] = "--json" in args
        if args[0] in COMMANDS:
            self.commands[args[0]] = load_command(args[0])
        return super().resolve_command(ctx, args)


def load_command(name: str):
    """The command of that name, imported with its options."""
    with quick_start():
        import_module(COMMANDS[name][0], "unseen.apps.cli")
    return get_command(_loaded[name])


def read_config(ctx: typer.Context, path: Path | None) -> None:
    """Values for options from a TOML file; what its top says holds for every command."""
    if path is None:
        return
    try:
        stated = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(visible(f"{path}: cannot be read as TOML: {error}")) from None
    tables = {name: value for name, value in stated.items() if isinstance(value, dict)}
    unknown = sorted(tables.keys() - COMMANDS.keys())
    if unknown:
        raise typer.BadParameter(
            visible(f"{path}: there is no command [{unknown[0]}]; there are: {', '.join(COMMANDS)}")
        )
    shared = {name: value for name, value in stated.items() if name not in tables}
    chosen = {name: shared | tables.get(name, {}) for name in COMMANDS}
    ctx.default_map = {
        name: {key.replace("-", "_"): value for key, value in options.items()} for name, options in chosen.items()
    }


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
        Path | None,
        Option(
            callback=read_config,
            envvar="UNSEEN_CONFIG",
            help="A TOML file with values for options, before the command. Options also come from the environment: "
            "UNSEEN_CLASSIFY_BUNDLE.",
        ),
    ] = None,
) -> None:
    """Teach an image classifier classes it was never shown, from the class hierarchy and the class names alone."""


KEYWORD = inspect.Parameter.KEYWORD_ONLY
JsonFlag = Annotated[bool, Option("--json", help="Print one JSON object on standard output and nothing else.")]
VerboseFlag = Annotated[bool, Option("--verbose", "-v", help="Also show details of what is being done.")]
QuietFlag = Annotated[bool, Option("--quiet", "-q", help="Show warnings and errors only.")]


def command(name: str, *, group: typer.Typer | None = None, examples: str = "") -> Callable:
    """Register a function as a command: its examples go below --help, its `UnseenError`s become one line and exit 1.

    Where a parameter of the function is a dataclass of settings, each of its fields becomes an option.
    """
    context: dict[str, Any] = {}
    if group is None:
        group, context = typer.Typer(**SETTINGS), {"auto_envvar_prefix": f"UNSEEN_{name.upper()}"}
        _loaded[name] = group

    def register(function: Callable) -> Callable:
        signature = inspect.signature(function, eval_str=True)
        annotated: dict[str, Any] = {name: one.annotation for name, one in signature.parameters.items()}
        settings = {name: kind for name, kind in annotated.items() if is_dataclass(kind)}

        @functools.wraps(function)
        def run(*args, verbose: bool = False, quiet: bool = False, **kwargs):
            show_log(verbose, quiet)
            with reporting_errors(kwargs.get("json_", False)):
                if str(kwargs.get("bundle")) == "default" and not kwargs["bundle"].exists():
                    from unseen.training.default import default_bundle

                    kwargs["bundle"] = default_bundle().path
                chosen = {name: read_settings(kind, kwargs) for name, kind in settings.items()}
                return function(*args, **kwargs, **chosen)

        parameters = _list_parameters(signature, settings)
        run.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        lines = [line.strip() for line in examples.strip().splitlines() if line.strip()]
        epilog = "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  $ {line}" for line in lines) if lines else None
        group.command(name, epilog=epilog, context_settings=context)(run)
        return run

    return register


@contextmanager
def reporting_errors(as_json: bool) -> Iterator[None]:
    """What a command could not do becomes one line and exit status 1."""
    try:
        yield
        return
    except UnseenError as error:
        print_error(str(error), as_json)
    except BrokenPipeError:
        pass
    except OSError as error:  # a name that is too long, a folder that may not be read
        print_error(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error), as_json)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, lambda *_: os._exit(1))  # a second one ends it at once, in silence
        stderr.print("stopped.")
    raise typer.Exit(1)


def _list_parameters(signature: inspect.Signature, settings: dict[str, Any]) -> list[inspect.Parameter]:
    """What Typer makes the options of: settings are replaced by their fields."""
    parameters = []
    for name, one in signature.parameters.items():
        fields = list_settings(settings[name]) if name in settings else None
        parameters += [one.replace(kind=KEYWORD)] if fields is None else map(_option, fields)
    parameters += [_parameter("verbose", VerboseFlag, False), _parameter("quiet", QuietFlag, False)]
    for one in parameters:
        info = one.annotation.__metadata__[0]
        info.show_envvar = bool(info.envvar)  # every option has one, as the help of --config says
    return parameters


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, KEYWORD, default=default, annotation=annotation)


def _option(field: Setting) -> inspect.Parameter:
    """The option for a field of a settings dataclass; a name of one letter makes a short one, -k."""
    kind = str if field.kind is Any else field.kind
    names = ["-" + field.name] if len(field.name) == 1 else []
    option = Option(*names, help=field.help, min=field.limit.least if kind is int else None)
    annotation = list[kind] if field.several else kind
    optional = field.optional or field.default is None
    return _parameter(field.name, Annotated[annotation | None if optional else annotation, option], field.default)


def read_settings(kind: Any, options: dict[str, Any]) -> Any:
    """The dataclass, with its fields taken out of the options that the user gave."""
    return kind(**{field.name: options.pop(field.name) for field in list_settings(kind)})


def command_group(name: str, help: str) -> typer.Typer:
    """A command that has commands of its own: `unseen hierarchy check`."""
    context = {**SETTINGS["context_settings"], "auto_envvar_prefix": f"UNSEEN_{name.upper()}"}
    _loaded[name] = typer.Typer(help=help, **{**SETTINGS, "context_settings": context})
    return _loaded[name]


def main() -> None:
    atexit.register(gc.freeze)  # at the end there is no point in looking for garbage among all that was imported
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # whatever a file is called, its name can be shown
    app()
