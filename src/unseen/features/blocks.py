"""The blocks of a feature store: features of up to 1,024 photos, what these were made from, and checksums of both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from unseen.errors import UnseenError
from unseen.runtime.files import write_atomically
from unseen.runtime.seals import Damaged, is_sealed, sealed

BLOCK = 1024  # photos
REBUILD = "Run the same `unseen features` again to rebuild this part."
UNSEALED = ("photos", "unreadable")  # all that a block of version 0.1 tells, without checksums
_DAMAGE = (OSError, SafetensorError, LookupError, TypeError, AttributeError, ValueError, RecursionError, MemoryError)


class Source(NamedTuple):
    """A file as it was when its features were made; any difference means that it has changed."""

    name: str
    size: int  # bytes; -1 where not even that could be found out
    time: int  # of the last change, ns


@dataclass(frozen=True)
class Index:
    """What a block was made from."""

    photos: list[Source]  # one for each row of features
    unreadable: list[tuple[Source, str]]  # with the reason
    network: str = ""  # a mark of the network that made it; those of earlier versions have none

    def sources(self) -> list[Source]:
        """All files, sorted."""
        return sorted(self.photos + [source for source, _ in self.unreadable])


class DamagedBlock(Damaged):
    """A block that is not what was written."""


def block_path(store: Path, class_id: str, number: int) -> Path:
    return store / "features" / class_id / f"{number:06d}.safetensors"


def blocks_of(store: Path, class_id: str) -> list[Path]:
    return sorted((store / "features" / class_id).glob("[0-9]*.safetensors"))


def write_block(path: Path, index: Index, features: np.ndarray) -> None:
    """`features` has a row for each of index.photos."""
    features = np.ascontiguousarray(features)
    held = {"photos": index.photos, "unreadable": [[*source, why] for source, why in index.unreadable]}
    held = json.dumps(sealed(held | {"network": index.network, "sha256": _digest(features)}))
    write_atomically(path, save({"features": features}, metadata={"index": held}))  # in one: the order of two varies


def read_block(path: Path) -> tuple[Index, np.ndarray]:
    """What a block was made from, and its features n x D in the store's precision."""
    return _read(path, whole=True)


def read_index(path: Path) -> Index:
    """What a block was made from; its features are not looked at."""
    return _read(path, whole=False)[0]


def find_block(path: Path) -> Index | None:
    """What a block was made from, if it is there and whole."""
    try:
        return read_block(path)[0]
    except DamagedBlock:
        return None


def _read(path: Path, whole: bool) -> tuple[Index, np.ndarray]:
    try:
        with open(path, "rb"):  # safetensors would tell of other errors
            pass
        with safe_open(path, framework="np") as file:
            held = json.loads(file.metadata()["index"])
            if not is_sealed(held, UNSEALED):
                raise ValueError("its checksum differs")
            photos = [Source(*source) for source in held["photos"]]
            unreadable = [(Source(*source), why) for *source, why in held["unreadable"]]
            index = Index(photos, unreadable, held.get("network", ""))
            features = file.get_tensor("features") if whole else np.empty((0, 0))
        if whole and "sha256" in held and _digest(features) != held["sha256"]:
            raise ValueError("its checksum differs")
        if whole and (features.ndim != 2 or len(features) != len(photos)):
            raise ValueError("its rows are not those of its photos")
    except PermissionError:
        raise UnseenError(f"{path}: permission denied.") from None
    except _DAMAGE as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DamagedBlock(f"{path}: is damaged ({why}). {REBUILD}") from None
    return index, features


def _digest(features: np.ndarray) -> str:
    return hashlib.sha256(f"{features.dtype.str} {features.shape}".encode() + features.tobytes()).hexdigest()
