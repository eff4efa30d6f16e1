"""Labelled photos to train on, each within reach by its number: image folders and tar shards alike.

    DIR/<class id or name>/<photo>  an image folder
    DIR/*.tar                       shards in webdataset's layout: KEY.jpg with KEY.cls beside it, which holds the class
                                    id, or its position in the network's class order

Only names and places are held, packed: 1.28 million photos take about 100 MB, and worker processes share them.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unseen.errors import UnseenError
from unseen.photos import list_classes, list_photos
from unseen.scoring.class_folders import match_folders
from unseen.taxonomy import Taxonomy

PHOTO_ENDINGS = {"jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm"}


@dataclass(frozen=True)
class PhotoSet:
    """Photo i is `sizes[i]` bytes from `offsets[i]` of its file; the whole file where the offset is 0, as no photo in a
    shard can begin there."""

    names: bytes  # file names, joined
    name_ends: np.ndarray  # n, int64: where each photo's file name ends in `names`
    offsets: np.ndarray  # n, int64
    sizes: np.ndarray  # n, int64
    labels: np.ndarray  # n, int32: position of its class among the seen ones
    root: str
    empty_classes: tuple[str, ...] = ()  # class folders without a photo
    skipped_classes: tuple[str, ...] = ()  # not seen classes of the bundle

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, i: int) -> str:
        start = self.name_ends[i - 1] if i else 0
        return os.fsdecode(self.names[start : self.name_ends[i]])

    def read(self, i: int) -> Path | bytes:
        """What a photo reader takes: a path, or the bytes within a shard."""
        path = Path(self.root) / self.name(i)
        if not self.offsets[i]:
            return path
        with open(path, "rb") as file:
            file.seek(self.offsets[i])
            return file.read(self.sizes[i])

    def where(self, i: int) -> str:
        name = str(Path(self.root) / self.name(i))
        return f"{name} at byte {self.offsets[i]}" if self.offsets[i] else name

    def subset(self, chosen: np.ndarray) -> PhotoSet:
        names = [os.fsencode(self.name(int(i))) for i in chosen]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        columns = {key: getattr(self, key)[chosen] for key in ("offsets", "sizes", "labels")}
        return replace(self, names=b"".join(names), name_ends=ends, **columns)

    def digest(self) -> str:
        """Tells lists of photos apart, wherever their folder lies: names, places and classes."""
        found = hashlib.sha256(self.names)
        for column in (self.name_ends, self.offsets, self.labels):
            found.update(column.tobytes())
        return found.hexdigest()[:12]

    @property
    def remarks(self) -> list[str]:
        """What a person should know of the folder."""
        told = []
        if self.empty_classes:
            told.append(f"{len(self.empty_classes)} class folders hold no photo: {_some(self.empty_classes)}")
        if self.skipped_classes:
            skipped = f"{len(self.skipped_classes)} classes are not seen ones and are left out"
            told.append(f"{skipped}: {_some(self.skipped_classes)}")
        return told


def open_photo_set(
    folder: str | Path,
    seen_ids: Sequence[str],
    skip_unknown: bool = False,
    order: Sequence[str] | None = None,
    taxonomy: Taxonomy | None = None,
) -> PhotoSet:
    """The photos of seen classes in a folder of class folders, or of tar shards.

    `order`: the classes that numbers in shards count, where it is not that of `seen_ids`. With the `taxonomy`, folders
    may bear names of classes in place of ids.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UnseenError(f"{folder}: there is no such folder of photos")
    labels = {id: label for label, id in enumerate(seen_ids)}
    shards = sorted(folder.glob("*.tar"))
    if shards:
        photos = _from_shards(folder, shards, labels, order or seen_ids)
    else:
        photos = _from_folder(folder, labels, taxonomy)
    unknown = photos.skipped_classes
    if unknown and not skip_unknown:
        raise UnseenError(
            f"{folder}: {len(unknown)} classes are not seen classes of this bundle: {_some(unknown)}. "
            "Photos are sorted by class id or name; leave such classes out with skip_unknown=True.",
            "skip_unknown=True",
        )
    if not len(photos):
        raise UnseenError(f"{folder}: holds no photo of a seen class" + "".join(f". {it}" for it in photos.remarks))
    return photos


def _from_folder(folder: Path, seen: Mapping[str, int], taxonomy: Taxonomy | None) -> PhotoSet:
    classes = list_classes(folder)
    ids = {} if taxonomy is None else match_folders(classes, taxonomy, seen)
    labels = {name: seen[ids.get(name, name)] for name in classes if ids.get(name, name) in seen}
    table, found = _Table(folder), set()
    for photo in list_photos(folder, labels):
        found.add(photo.class_id)
        table.add(f"{photo.class_id}/{photo.path.name}", 0, 0, labels[photo.class_id])
    empty = tuple(name for name in classes if name in labels and name not in found)
    return table.photo_set(empty, tuple(name for name in classes if name not in labels))


def _from_shards(folder: Path, shards: Sequence[Path], labels: Mapping[str, int], order: Sequence[str]) -> PhotoSet:
    table, unknown = _Table(folder), set()
    for shard in shards:
        photos, classes = _read_shard(shard)
        without = [key for key in photos if key not in classes]
        if without:
            raise UnseenError(f"{shard}: {len(without)} photos have no .cls file beside them, {without[0]!r} the first")
        for key, place in photos.items():
            told = classes[key]
            # A class id, or a position in the class order.
            id = order[int(told)] if told not in labels and told.isdecimal() and int(told) < len(order) else told
            if id in labels:
                table.add(shard.name, *place, labels[id])
            else:
                unknown.add(id)
    return table.photo_set(skipped=tuple(sorted(unknown)))


def _read_shard(shard: Path) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Where each photo lies (offset, size) and what its .cls file says, by the name that they share."""
    photos: dict[str, tuple[int, int]] = {}
    classes: dict[str, str] = {}
    try:
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                tar.members = []  # pyright: ignore[reportAttributeAccessIssue]  (it keeps all it has met otherwise)
                folder, slash, name = member.name.rpartition("/")
                key, _, ending = name.partition(".")
                key = folder + slash + key
                if member.isfile() and ending.lower() in PHOTO_ENDINGS:
                    photos[key] = (member.offset_data, member.size)
                elif member.isfile() and ending.lower() == "cls":
                    content = tar.extractfile(member)
                    classes[key] = content.read(256).decode("utf-8", "replace").strip() if content else ""
    except (tarfile.TarError, OSError) as error:
        raise UnseenError(f"{shard}: cannot be read as an uncompressed tar file: {error}") from None
    return photos, classes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


class _Table:
    """Grows a PhotoSet, packed all the while."""

    def __init__(self, root: Path):
        self.root, self.names = root, bytearray()
        self.ends, self.offsets, self.sizes, self.labels = array("q"), array("q"), array("q"), array("i")

    def add(self, name: str, offset: int, size: int, label: int) -> None:
        self.names += os.fsencode(name)
        self.ends.append(len(self.names))
        self.offsets.append(offset)
        self.sizes.append(size)
        self.labels.append(label)

    def photo_set(self, empty: tuple[str, ...] = (), skipped: tuple[str, ...] = ()) -> PhotoSet:
        ends, offsets, sizes, labels = map(np.array, (self.ends, self.offsets, self.sizes, self.labels))
        return PhotoSet(bytes(self.names), ends, offsets, sizes, labels, str(self.root), empty, skipped)
