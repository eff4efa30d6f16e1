"""`unseen serve`: the web page and its API."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.app import JsonFlag, command, emit, say, stdout, tell
from unseen.cli.options import DeviceOption, TrustCodeOption
from unseen.errors import UnseenError

if TYPE_CHECKING:
    from unseen.web.service import Service

DEFAULT = Path("default")


@command(
    "serve",
    examples="""
    unseen serve --open
    unseen serve my-bundle
    unseen serve default my-bundle --port 9000
    unseen serve --host 0.0.0.0 --read-only
    UNSEEN_TOKEN=$(openssl rand -hex 16) unseen serve --host 0.0.0.0 --workers 2
    """,
)
def serve(
    bundles: Annotated[
        list[Path] | None, typer.Argument(help="Bundles to serve and compare; `default` is the built-in one.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 lets others in.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port; by default the first free one from 8000.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    save_folder: Annotated[
        Path | None, typer.Option(help="Where the page saves bundles; by default a folder in the user's cache.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Do not let visitors add or save anything.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name that this server answers to; may be repeated.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="UNSEEN_TOKEN", help="Answer only those who send this token; for servers on a network."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Serve from so many processes, which SIGHUP restarts gracefully; more than one is read-only.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=256, help="Most photos in one run of the network.")] = 16,
    trust_code: TrustCodeOption = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Open a local web page: drop photos, see their labels and why, compare bundles, add classes.

    It also answers a JSON API, described on the page /docs. Press Ctrl-C to stop it.
    """
    try:
        from unseen.web.guard import is_loopback
        from unseen.web.server import address_of, bind, open_browser
        from unseen.web.token import check_token
    except ModuleNotFoundError as error:
        raise UnseenError(f"{error.name} is not installed: pip install 'unseen\\[web]'".replace("\\", "")) from None

    check_token(token)
    bound = bind(host, port)  # first, since loading takes longer than finding out that the port is taken
    read_only = read_only or (workers or 1) > 1  # what one process adds the others would not know
    address = address_of(bound, host)
    if not is_loopback(host) and token is None:
        more = "" if read_only else " They can also add classes and save bundles, unless you start it with --read-only."
        say(
            "[bold red]Anyone who reaches this machine can use the page[/bold red]: there is no password. "
            f"Set one with --token or UNSEEN_TOKEN.{more}"
        )
    options: dict[str, Any] = {
        "bundles": [str(path) for path in bundles or []],
        "host": host,
        "allow_host": allow_host or [],
        "save_folder": None if save_folder is None else str(save_folder),
        "read_only": read_only,
        "batch": batch,
        "device": device,
        "trust_code": trust_code,
        "token": token,
    }

    def ready(listed: list[dict]) -> None:
        shown = address if token is None else f"{address}/?token={token}"
        emit({"address": address, "bundles": listed}, json_, lambda: _show(shown, listed))
        if open_:
            open_browser(shown)

    if workers is None:
        _serve_here(options, bound, ready)
    else:
        _serve_by_workers(options, bound, workers, ready)
    say("The server has stopped.")


def _serve_here(options: dict[str, Any], bound, ready) -> None:
    from unseen.web.app import create_app
    from unseen.web.server import run

    say("Loading the network and the classifiers ...")
    service = open_service(options)
    app = create_app(service, options["host"], options["allow_host"], options["token"])
    run(app, bound, lambda: ready([served.info() for served in service.bundles.values()]))
    service.close()


def _serve_by_workers(options: dict[str, Any], bound, workers: int, ready) -> None:
    from unseen.web.workers import Supervisor

    say(f"Starting {workers} {'process' if workers == 1 else 'processes'} ...")
    with tempfile.TemporaryDirectory(prefix="unseen-serve-") as folder:  # of this user alone
        told = options | {"workers": workers}

        def started() -> None:
            ready(json.loads((Path(folder) / "bundles.json").read_text(encoding="utf-8")))
            say(f"To restart the workers without losing a request: kill -HUP {os.getpid()}")

        Supervisor(bound, workers, told, Path(folder), tell).run(started)


def serve_as_worker() -> None:
    """What a process of `--workers` runs. It reads its options from standard input, and ends when that ends."""
    import socket

    from unseen.runtime.files import write_atomically
    from unseen.web.app import create_app
    from unseen.web.limits import KEPT_PHOTOS
    from unseen.web.memory import SharedPhotoMemory
    from unseen.web.metrics import Metrics
    from unseen.web.server import run
    from unseen.web.workers import READY, end_with

    options = json.loads(sys.stdin.readline())
    folder = Path(options["folder"])
    try:
        service = open_service(options)
    except UnseenError as error:
        raise SystemExit(f"error: {error}") from None
    if options["workers"] > 1:
        photos = folder / "photos"
        photos.mkdir(exist_ok=True)
        service.photos = SharedPhotoMemory(photos, KEPT_PHOTOS // options["workers"])
    metrics = Metrics(folder / "metrics", options["row"])
    app = create_app(service, options["host"], options["allow_host"], options["token"], metrics)
    end_with(sys.stdin)

    def ready() -> None:
        listed = [served.info() for served in service.bundles.values()]
        write_atomically(folder / "bundles.json", json.dumps(listed).encode())
        print(READY, flush=True)

    run(app, socket.socket(fileno=options["socket"]), ready, options["grace"])
    service.close()


def open_service(options: dict[str, Any]) -> Service:
    """The bundles, loaded and warm."""
    from unseen.web.service import Service

    paths, folder = [Path(path) for path in options["bundles"]], options["save_folder"]
    models = open_models(paths, options["device"], options["trust_code"])
    service = Service(models, None if folder is None else Path(folder), options["read_only"], options["batch"])
    service.warm_up()
    return service


def open_models(paths: list[Path], device: str, trust_code: bool = False) -> dict:
    """Classifiers by the names of their folders; a name that comes twice gets a number."""
    from unseen.classifier import ZeroShotClassifier, load
    from unseen.training.default import default_bundle

    models: dict = {}
    for path in paths or [DEFAULT]:
        if path == DEFAULT and not path.exists():
            name, model = "default", ZeroShotClassifier(default_bundle(tell), device=device)
        else:
            name, model = path.resolve().name, load(path, device=device, trust_code=trust_code)
        number = 2
        while name in models or name == "network":
            name, number = f"{path.resolve().name}-{number}", number + 1
        models[name] = model
    return models


def _show(address: str, listed: list[dict]) -> None:
    for info in listed:
        stdout.print(
            f"  {info['name']}: {info['method']}, {info['classes']:,} classes, {info['seen']:,} of them seen by "
            f"{info['network']}",
            markup=False,
            highlight=False,
        )
    stdout.print(f"The page is at [bold]{address}[/bold]   (press Ctrl-C to stop)", highlight=False)
