"""The versions that are installed for tests are pinned, above the floors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = {
    canonicalize_name(pin.name): pin
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
    for pin in [Requirement(line)]
}
EXTRAS = ("lite", "web", "onnx", "text", "report", "docs", "dev")  # what `make test` installs
NEEDED = [
    needed
    for text in [*PROJECT["dependencies"], *(text for e in EXTRAS for text in PROJECT["optional-dependencies"][e])]
    for needed in [Requirement(text)]
    if needed.name not in ("unseen", "tomli")
]


def version_of(name: str) -> Version:
    (only,) = PINS[canonicalize_name(name)].specifier
    assert only.operator == "=="
    return Version(only.version)


def test_hashes_are_of_the_same_versions():
    lines = (ROOT / "hashes.txt").read_text().splitlines()
    parts = [re.fullmatch(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines if line[0] != "#"]
    hashed = {part[1]: Version(part[2]) for part in parts}
    assert hashed == {name: version_of(name) for name in hashed}
    python = re.search(r"Python (\S+);", lines[0])[1]
    applies = {name for name, pin in PINS.items() if not pin.marker or pin.marker.evaluate({"python_version": python})}
    assert hashed and set(hashed) <= applies


@pytest.mark.parametrize("needed", NEEDED, ids=str)
def test_what_tests_need_is_pinned_within_what_the_package_allows(needed):
    assert version_of(needed.name) in needed.specifier


def test_torch_is_one_whose_weights_cannot_run_code():
    torch = next(Requirement(text) for text in PROJECT["dependencies"] if Requirement(text).name == "torch")
    assert Version("2.9.1") not in torch.specifier and Version("2.10") in torch.specifier
    (installed,) = re.findall(r"^TORCH \?= torch==(\S+)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert Version(installed) == version_of("torch")
