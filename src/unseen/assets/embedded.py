"""The data files that come with the package."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from unseen.errors import UnseenError
from unseen.runtime.files import sha256

MANIFEST = "MANIFEST.json"  # what the others must be
_REINSTALL = "Install unseen again."
_DATA = Path(__file__).resolve().parents[1] / "data"


def data_file(name: str, verify: bool = True) -> Path:
    """The embedded file of that name, if it is what was released; `verify=False` only looks whether it is there."""
    path = _DATA / name
    if not path.exists():
        here = ", ".join(sorted(p.name for p in _DATA.iterdir())) if _DATA.is_dir() else "nothing"
        raise UnseenError(f"{path}: there is no such embedded file (here: {here}). Is the installation complete?")
    if verify and name != MANIFEST:
        state = path.stat()
        _verify(path, state.st_size, state.st_mtime_ns)
    return path


@cache
def _verify(path: Path, size: int, modified: int) -> None:
    """Compare with the manifest, once a process for an unchanged file."""
    expected = {entry["file"]: entry["sha256"] for entry in manifest()}.get(path.name)
    try:
        intact = sha256(path) == expected
    except OSError as error:
        raise UnseenError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not intact:
        raise UnseenError(f"{path}: is damaged (its checksum differs from the manifest's). {_REINSTALL}")


@cache
def _manifest() -> str:
    """Checked once, kept as text: the answer may be changed by whoever gets it."""
    path = data_file(MANIFEST)
    try:
        text = path.read_text(encoding="utf-8")
        whole = all(isinstance(entry[key], str) for entry in json.loads(text) for key in ("file", "sha256"))
    except OSError as error:
        raise UnseenError(f"{path}: cannot be read ({error.strerror or error}).") from None
    except (ValueError, LookupError, TypeError):
        whole, text = False, ""
    if not whole:
        raise UnseenError(f"{path}: is damaged. {_REINSTALL}")
    return text


def manifest() -> list[dict]:
    """One entry an embedded file: file, what, source, version, source_sha256, licence, sha256, bytes, made_by."""
    return json.loads(_manifest())


@cache
def imagenet_1k() -> tuple[str, ...]:
    """The wnids of the 1,000 classes of the ImageNet challenge, sorted: the order of every published network."""
    return tuple(data_file("imagenet-1k.txt").read_text(encoding="ascii").split())


@cache
def imagenet_21k() -> tuple[str, ...]:
    """The wnids of the 21,842 classes of the full ImageNet, sorted; the 1,000 are among them."""
    return tuple(data_file("imagenet-21k.txt").read_text(encoding="ascii").split())
