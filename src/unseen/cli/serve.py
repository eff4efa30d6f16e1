"""`unseen serve`: the web page and its API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, say, stdout, tell
from unseen.cli.options import DeviceOption, TrustCodeOption
from unseen.errors import UnseenError

DEFAULT = Path("default")


@command(
    "serve",
    examples="""
    unseen serve --open
    unseen serve my-bundle
    unseen serve default my-bundle --port 9000
    unseen serve --host 0.0.0.0 --read-only
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
    batch: Annotated[int, typer.Option(min=1, max=256, help="Most photos in one run of the network.")] = 16,
    trust_code: TrustCodeOption = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Open a local web page: drop photos, see their labels and why, compare bundles, add classes.

    It also answers a JSON API, described on the page /docs. Press Ctrl-C to stop it.
    """
    try:
        from unseen.web.app import create_app
        from unseen.web.guard import is_loopback
        from unseen.web.server import address_of, bind, open_browser, run
        from unseen.web.service import Service
    except ModuleNotFoundError as error:
        raise UnseenError(f"{error.name} is not installed: pip install 'unseen\\[web]'".replace("\\", "")) from None

    bound = bind(host, port)  # first, since loading takes longer than finding out that the port is taken
    say("Loading the network and the classifiers ...")
    service = Service(open_models(bundles or [], device, trust_code), save_folder, read_only, batch)
    service.warm_up()
    address = address_of(bound, host)
    if not is_loopback(host):
        more = "" if read_only else " They can also add classes and save bundles, unless you start it with --read-only."
        say(f"[yellow]Anyone who reaches this machine can use the page[/yellow]: there is no password.{more}")

    def ready() -> None:
        listed = [served.info() for served in service.bundles.values()]
        emit({"address": address, "bundles": listed}, json_, lambda: _show(address, listed))
        if open_:
            open_browser(address)

    app = create_app(service, host, allow_host or [])
    run(app, bound, ready)
    service.close()
    say("The server has stopped.")


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
