"""Write constraints.txt: the version of every package that this environment has for `unseen[dev]`, directly or not.
And hashes.txt: the same with the SHA-256 of the file that pip would install here, which it asks the index for.

    .venv/bin/python tools/write_constraints.py

Run it after an upgrade, once all tests have passed with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

FILE = Path(__file__).resolve().parents[1] / "constraints.txt"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")  # as in pyproject.toml
HEADER = """\
# The versions that are tested: `make` and the workflow install with `pip install -c constraints.txt`.
# Written by tools/write_constraints.py from the environment in which all tests had passed.
"""
HASHES = FILE.with_name("hashes.txt")
HASHES_HEADER = """\
# The same versions with the SHA-256 of their files for {platform}, Python {python}; written by the same tool.
# pip install --require-hashes --no-deps -r hashes.txt && pip install --no-deps -e .
"""


def main() -> None:
    found: dict[str, str] = {}
    _collect(Requirement("unseen[dev]"), found, set())
    del found["unseen"]
    FILE.write_text(HEADER + "".join(f"{line}\n" for _, line in sorted(found.items())), encoding="utf-8")
    print(f"{FILE.name}: {len(found)} packages")
    with tempfile.NamedTemporaryFile() as file:
        ask = ["install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--report", file.name]
        subprocess.run([sys.executable, "-m", "pip", *ask, "-r", FILE], check=True)
        HASHES.write_text(to_hashes(json.load(file)), encoding="utf-8")


def to_hashes(report: dict) -> str:
    """What pip would install, as it reports it -> a file for its --require-hashes."""
    lines = sorted(
        f"{canonicalize_name(item['metadata']['name'])}=={item['metadata']['version'].partition('+')[0]} "
        f"--hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}\n"
        for item in report["install"]
    )
    where = report["environment"]
    platform = f"{where['platform_system']} on {where['platform_machine']}"
    return HASHES_HEADER.format(platform=platform, python=where["python_version"]) + "".join(lines)


def _collect(requirement: Requirement, found: dict[str, str], done: set[tuple[str, str]]) -> None:
    """Pin a package, and whatever it requires here; with each of its extras that is asked for."""
    name = canonicalize_name(requirement.name)
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return
    found[name] = _pin(name, package.version, package.metadata.get("Requires-Python"))
    for extra in ("", *requirement.extras):
        if (name, extra) in done:
            continue
        done.add((name, extra))
        for text in package.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                _collect(needed, found, done)


def _pin(name: str, version: str, pythons: str | None) -> str:
    """`name==version`, for those Pythons only that this version supports: others take what the floors allow."""
    first = next(python for python in PYTHONS if python in SpecifierSet(pythons or ""))
    pin = f"{name}=={version.partition('+')[0]}"  # without the kind of build: +cpu
    return pin if first == PYTHONS[0] else f'{pin}; python_version >= "{first}"'


if __name__ == "__main__":
    main()
