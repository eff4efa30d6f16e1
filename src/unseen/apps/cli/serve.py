"""`unseen serve`: the web page and its API."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command
from unseen.apps.cli.output import emit, stderr, stdout
from unseen.model import load
from unseen.util.errors import UnseenError
from unseen.util.names import how_to_install


@command(
    "serve",
    examples="""
    unseen serve --open
    unseen serve my-bundle --port 9000
    unseen serve --host 0.0.0.0 --read-only
    UNSEEN_TOKEN=$(openssl rand -hex 16) unseen serve --host 0.0.0.0
    """,
)
def serve(
    bundle: Annotated[Path | None, Argument(help="By default the built-in one.")] = None,
    host: Annotated[str, Option(help="The address to listen on; 0.0.0.0 lets others in.")] = "127.0.0.1",
    port: Annotated[int | None, Option(min=0, max=65535, help="By default the first free one from 8000.")] = None,
    open_: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
    save_folder: Annotated[Path | None, Option(help="Where the page saves bundles; by default the cache.")] = None,
    read_only: Annotated[bool, Option("--read-only", help="Do not let visitors add or save anything.")] = False,
    allow_host: Annotated[list[str] | None, Option(help="Another host name to answer to; repeatable.")] = None,
    token: Annotated[str | None, Option(envvar="UNSEEN_TOKEN", help="Answer only who sends this token.")] = None,
    trust_code: options.TrustCode = False,
    device: options.Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Open a local web page: drop photos, see their labels and why, look at the map of all classes, add some.

    It also answers a JSON API, described at /openapi.json. Press Ctrl-C to stop it.
    """
    try:
        from unseen.apps.web.app import create_app
        from unseen.apps.web.guards import check_token, is_loopback
        from unseen.apps.web.server import address_of, bind, run
        from unseen.apps.web.service import Service
    except ModuleNotFoundError as error:
        raise UnseenError(f"{error.name} is not installed: {how_to_install('web')}") from None

    check_token(os.environ.get("UNSEEN_TOKEN") if token is None else token)  # an empty one serves nobody openly
    bound = bind(host, port)  # first, since loading takes longer than finding out that the port is taken
    address = address_of(bound, host)
    if not is_loopback(host) and token is None:
        more = "" if read_only else " They can also add classes and save bundles, unless you start it with --read-only."
        stderr.print("Anyone who reaches this machine can use the page:", style="bold red", end=" ")
        stderr.print(f"there is no password. Set one with --token or UNSEEN_TOKEN.{more}")
    stderr.print("Loading the network and the classifiers ...")
    name = "default" if bundle is None else bundle.resolve().name
    service = Service(load(bundle, device=device, trust_code=trust_code), name, save_folder, read_only)
    service.warm_up()

    def ready() -> None:
        shown = address if token is None else f"{address}/?token={token}"
        info = service.view.info()
        emit({"address": address, "bundle": info}, json_, lambda: _show(shown, info))
        if open_:
            webbrowser.open(shown)

    run(create_app(service, host, allow_host or [], token), bound, ready)
    service.close()
    stderr.print("The server has stopped.")


def _show(address: str, info: dict) -> None:
    what = f"{info['name']}: {info['method']}, {info['classes']:,} classes, {info['seen']:,} of them seen by "
    stdout.print(f"  {what}{info['network']}")
    stdout.print(f"The page is at {address}   (press Ctrl-C to stop)")
