"""`unseen serve`: the web page and its API."""

from __future__ import annotations

import json
import os
import tempfile
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command, emit, say, stdout
from unseen.util.errors import UnseenError
from unseen.util.names import how_to_install


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
    bundles: Annotated[list[Path] | None, Argument(help="Bundles; `default` is the built-in one.")] = None,
    host: Annotated[str, Option(help="The address to listen on; 0.0.0.0 lets others in.")] = "127.0.0.1",
    port: Annotated[int | None, Option(min=0, max=65535, help="By default the first free one from 8000.")] = None,
    open_: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
    save_folder: Annotated[Path | None, Option(help="Where the page saves bundles; by default the cache.")] = None,
    read_only: Annotated[bool, Option("--read-only", help="Do not let visitors add or save anything.")] = False,
    allow_host: Annotated[list[str] | None, Option(help="Another host name to answer to; repeatable.")] = None,
    token: Annotated[str | None, Option(envvar="UNSEEN_TOKEN", help="Answer only who sends this token.")] = None,
    workers: Annotated[int, Option(min=1, max=64, help="Processes; several imply --read-only.")] = 1,
    batch: Annotated[int, Option(min=1, max=256, help="Most photos in one run of the network.")] = 16,
    trust_code: options.TrustCode = False,
    device: options.Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Open a local web page: drop photos, see their labels and why, compare bundles, add classes.

    It also answers a JSON API, described on the page /docs. Press Ctrl-C to stop it.
    """
    try:
        from unseen.apps.web.app import create_app
        from unseen.apps.web.guards import check_token, is_loopback
        from unseen.apps.web.server import address_of, bind, run, when_ready
        from unseen.apps.web.service import ENVIRONMENT, ServiceOptions, open_models, open_service
    except ModuleNotFoundError as error:
        raise UnseenError(f"{error.name} is not installed: {how_to_install('web')}") from None

    check_token(os.environ.get("UNSEEN_TOKEN") if token is None else token)  # an empty one serves nobody openly
    bound = bind(host, port)  # first, since loading takes longer than finding out that the port is taken
    read_only = read_only or workers > 1  # what one process adds the others would not know
    address = address_of(bound, host)
    if not is_loopback(host) and token is None:
        more = "" if read_only else " They can also add classes and save bundles, unless you start it with --read-only."
        say(
            "[bold red]Anyone who reaches this machine can use the page[/bold red]: there is no password. "
            f"Set one with --token or UNSEEN_TOKEN.{more}"
        )
    chosen = ServiceOptions(
        bundles=[str(path) for path in bundles or []],
        host=host,
        allow_host=allow_host or [],
        save_folder=None if save_folder is None else str(save_folder),
        read_only=read_only,
        batch=batch,
        device=device,
        trust_code=trust_code,
        token=token,
        workers=workers,
    )

    def ready(listed: list[dict]) -> None:
        shown = address if token is None else f"{address}/?token={token}"
        emit({"address": address, "bundles": listed}, json_, lambda: _show(shown, listed))
        if workers > 1:
            say(f"To restart the processes without losing a request: kill -HUP {os.getpid()}")
        if open_:
            webbrowser.open(shown)

    say("Loading the network and the classifiers ...")
    when_ready(address, token, ready)
    if workers == 1:
        service = open_service(chosen)
        run(create_app(service, host, chosen.allow_host, token), bound)
        service.close()
    else:
        open_models([Path(path) for path in chosen.bundles], device, trust_code)  # or an error, once
        with tempfile.TemporaryDirectory(prefix="unseen-serve-") as folder:  # of this user alone
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            os.environ[ENVIRONMENT] = json.dumps(asdict(chosen) | {"shared": folder})
            run("unseen.apps.web.app:from_environment", bound, workers)
    say("The server has stopped.")


def _show(address: str, listed: list[dict]) -> None:
    for info in listed:
        stdout.print(
            f"  {info['name']}: {info['method']}, {info['classes']:,} classes, {info['seen']:,} of them seen by "
            f"{info['network']}",
            markup=False,
            highlight=False,
        )
    stdout.print(f"The page is at [bold]{address}[/bold]   (press Ctrl-C to stop)", highlight=False)
