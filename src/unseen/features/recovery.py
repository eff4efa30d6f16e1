"""store.json, and what is done where it got damaged: the blocks tell which network made them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from unseen.backbones import Backbone
from unseen.errors import UnseenError
from unseen.features.blocks import DamagedBlock, read_block
from unseen.features.store import FORMAT, PRECISIONS, describe_network, mark_network
from unseen.runtime.files import write_atomically, writing
from unseen.runtime.seals import sealed

PARTS = ("aside", "features")  # where blocks are; in the order in which they are moved, so that the last one tells all


def write_about(out: Path, backbone: Backbone, precision: str) -> dict[str, Any]:
    """store.json."""
    about = sealed({"format": FORMAT, "network": describe_network(backbone), "precision": precision})
    write_atomically(out / "store.json", json.dumps(about, indent=1).encode())
    return about


def recover(out: Path, backbone: Backbone) -> tuple[dict[str, Any] | None, Path | None]:
    """A store whose store.json is damaged, for the network that is to fill it.

    Returns what a new store.json tells, if the features are this network's. Where no one knows whose they are, they are
    moved out of the way, to be made again: the second value is where they lie now.
    """
    marks, precisions = set(), set()
    for block in (path for part in PARTS for path in out.glob(f"{part}/*/[0-9]*.safetensors")):
        try:
            index, features = read_block(block)
        except DamagedBlock:
            continue
        marks.add(index.network)
        precisions |= {name for name, dtype in PRECISIONS.items() if features.dtype == dtype}
    marks.discard("")  # of a store that an earlier version began
    if marks - {mark_network(backbone)}:
        raise UnseenError(
            f"{out / 'store.json'}: is damaged, and the features were made with another network than {backbone.name}. "
            "Run `unseen features` with that one to mend it, or make another store."
        )
    if marks and len(precisions) == 1:
        return write_about(out, backbone, precisions.pop()), None
    return None, _set_aside(out)


def _set_aside(out: Path) -> Path | None:
    """Move all features; where there are none, nothing is done."""
    if not any(out.glob("features/*/*")):
        return None
    with writing(out):
        (out / "unknown").mkdir(exist_ok=True)
        place = out / "unknown" / str(len(os.listdir(out / "unknown")))
        place.mkdir()
        for part in PARTS:
            if (out / part).exists():
                os.rename(out / part, place / part)
    return place
