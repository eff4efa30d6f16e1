"""The data files that come with the package."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from unseen.errors import UnseenError

_DATA = Path(__file__).resolve().parents[1] / "data"


def data_file(name: str) -> Path:
    """The embedded file of that name."""
    path = _DATA / name
    if not path.exists():
        here = ", ".join(sorted(p.name for p in _DATA.iterdir())) if _DATA.is_dir() else "nothing"
        raise UnseenError(f"{path}: there is no such embedded file (here: {here}). Is the installation complete?")
    return path


@cache
def _manifest() -> str:
    return data_file("MANIFEST.json").read_text(encoding="utf-8")


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
