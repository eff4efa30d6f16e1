"""Write constraints.txt: the version of every package that this environment has for `unseen[dev]`, directly or not.

    .venv/bin/python tools/write_constraints.py

Run it after an upgrade, once all tests have passed with it.
"""

from __future__ import annotations

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


def main() -> None:
    found: dict[str, str] = {}
    _collect(Requirement("unseen[dev]"), found, set())
    del found["unseen"]
    FILE.write_text(HEADER + "".join(f"{line}\n" for _, line in sorted(found.items())), encoding="utf-8")
    print(f"{FILE.name}: {len(found)} packages")


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
