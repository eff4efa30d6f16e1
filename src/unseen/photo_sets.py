"""Labelled photos to train on, each within reach by its number: image folders and tar shards alike.

    DIR/<class id>/<photo>          an image folder
    DIR/*.tar                       shards in webdataset's layout: KEY.jpg with KEY.cls beside it, which holds the class
                                    id, or its position in the network's class order

Only names and places are held, packed: 1.28 million photos take about 100 MB, and worker processes share them.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.errors import UnseenError
from unseen.photos import list_classes, list_photos

PHOTO_ENDINGS = {"jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm"}


@dataclass(frozen=True)
class PhotoSet:
    """Photo i is `sizes[i]` bytes from `offsets[i]` of its file (the whole file where the size is 0)."""

    names: bytes  # file names, joined
    name_ends: np.ndarray  # n, int64: where each photo's file name ends in `names`
    offsets: np.ndarray  # n, int64
    sizes: np.ndarray  # n, int64
    labels: np.ndarray  # n, int32: position of its class among the seen ones
    root: str
    empty_classes: tuple[str, ...] = ()  # class folders without a photo

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, i: int) -> str:
        start = self.name_ends[i - 1] if i else 0
        return self.names[start : self.name_ends[i]].decode("utf-8", "surrogateescape")

    def read(self, i: int) -> Path | bytes:
        """What a photo reader takes: a path, or the bytes within a shard."""
        path = Path(self.root) / self.name(i)
        if not self.sizes[i]:
            return path
        with open(path, "rb") as file:
            file.seek(self.offsets[i])
            return file.read(self.sizes[i])

    def where(self, i: int) -> str:
        name = f"{self.root}/{self.name(i)}"
        return f"{name} at byte {self.offsets[i]}" if self.sizes[i] else name

    def subset(self, chosen: np.ndarray) -> PhotoSet:
        names = [self.name(int(i)).encode("utf-8", "surrogateescape") for i in chosen]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        arrays = (self.offsets[chosen], self.sizes[chosen], self.labels[chosen])
        return PhotoSet(b"".join(names), ends, *arrays, self.root, self.empty_classes)


def open_photo_set(folder: str | Path, seen_ids: Sequence[str], skip_unknown: bool = False) -> PhotoSet:
    """The photos of seen classes in a folder of class folders, or of tar shards."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UnseenError(f"{folder}: there is no such folder of photos")
    labels = {id: label for label, id in enumerate(seen_ids)}
    shards = sorted(folder.glob("*.tar"))
    photos = _from_shards(folder, shards, labels) if shards else _from_folder(folder, labels, skip_unknown)
    if not len(photos):
        raise UnseenError(f"{folder}: holds no photo of a seen class")
    return photos


def _from_folder(folder: Path, labels: Mapping[str, int], skip_unknown: bool) -> PhotoSet:
    classes = list_classes(folder)
    unknown = [name for name in classes if name not in labels]
    if unknown and (not skip_unknown or len(unknown) == len(classes)):
        some = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise UnseenError(
            f"{folder}: {len(unknown)} of {len(classes)} class folders are not seen classes of this bundle: {some}. "
            "Folders are named by class id; leave such folders out with --skip-unknown."
        )
    table = _Table(folder)
    found = set()
    for photo in list_photos(folder, [name for name in classes if name in labels]):
        found.add(photo.class_id)
        table.add(f"{photo.class_id}/{photo.path.name}", 0, 0, labels[photo.class_id])
    empty = tuple(name for name in classes if name in labels and name not in found)
    return table.photo_set(empty)


def _from_shards(folder: Path, shards: Sequence[Path], labels: Mapping[str, int]) -> PhotoSet:
    table = _Table(folder)
    for shard in shards:
        photos: dict[str, tuple[int, int]] = {}
        classes: dict[str, int] = {}
        try:
            with tarfile.open(shard, "r:") as tar:
                for member in tar:
                    key, _, ending = member.name.partition(".")
                    if not member.isfile():
                        continue
                    if ending.lower() in PHOTO_ENDINGS:
                        photos[key] = (member.offset_data, member.size)
                    elif ending in ("cls", "txt"):
                        text = tar.extractfile(member).read(256).decode("utf-8", "replace").strip()
                        classes[key] = _label(text, labels, f"{shard}:{member.name}")
        except (tarfile.TarError, OSError) as error:
            raise UnseenError(f"{shard}: cannot be read as an uncompressed tar file: {error}") from None
        without = [key for key in photos if key not in classes]
        if without:
            raise UnseenError(f"{shard}: {len(without)} photos have no .cls file beside them, {without[0]!r} the first")
        for key, (offset, size) in photos.items():
            table.add(shard.name, offset, size, classes[key])
    return table.photo_set()


def _label(text: str, labels: Mapping[str, int], where: str) -> int:
    if text in labels:
        return labels[text]
    if text.isdigit() and int(text) < len(labels):
        return int(text)
    raise UnseenError(
        f"{where}: {text!r} is neither a seen class id nor a position among the {len(labels)} seen classes"
    )


class _Table:
    """Grows a PhotoSet."""

    def __init__(self, root: Path):
        self.root, self.names, self.length = root, [], 0
        self.ends, self.offsets, self.sizes, self.labels = [], [], [], []

    def add(self, name: str, offset: int, size: int, label: int) -> None:
        encoded = os.fsencode(name)
        self.length += len(encoded)
        self.names.append(encoded)
        for column, value in zip((self.ends, self.offsets, self.sizes, self.labels),
                                 (self.length, offset, size, label), strict=True):  # fmt: skip
            column.append(value)

    def photo_set(self, empty: tuple[str, ...] = ()) -> PhotoSet:
        big = [np.array(column, np.int64) for column in (self.ends, self.offsets, self.sizes)]
        return PhotoSet(b"".join(self.names), *big, np.array(self.labels, np.int32), str(self.root), empty)
