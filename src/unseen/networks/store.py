"""Features of photos on disk: what a store holds, and how it is read. `unseen.networks.build` makes it.

    STORE/
      store.json          the network (name, checksum, transform), the precision of the features, and for every class
                          the photos, the unreadable files and the blocks; null while the store was never finished
      features/<folder>/000000-5d41402a.safetensors, 000001-...
                          blocks of up to 1,024 photos of a class folder, sorted by name: their features (n x D) and, in
                          the header, name, size and time of every file. Unreadable files have a reason, and no row
      unreadable.jsonl    {"photo", "why"}, one file a line

A block depends on nothing but the photos and the network, and so does its name: however often the work was interrupted
and however many processes shared it, a finished store is the same. An update writes its blocks beside those that are
there, and replaces store.json last: until then readers have the store as it was. Every file has a checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from unseen.networks.features import FeatureBatch, SeenFeatures
from unseen.photos.by_class import FileState
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE, write_atomically

if TYPE_CHECKING:
    from unseen.networks.base import Network

FORMAT = 2
BLOCK = 1024  # photos
PRECISIONS = {"fp16": np.dtype("<f2"), "fp32": np.dtype("<f4")}
LISTING = "listing"  # a digest of the photos, while a store in the cache is up to date
IN_MEMORY = 2**28  # bytes of features that methods get as an array; more stay on disk


class Damaged(UnseenError):
    """A file that is not what was written."""


class FeatureStore:
    """A finished store of the features of photos; `unseen.networks.build` makes it, `open` reads it.

    `network` has the name, checksum, number of features and transform of the network; `precision` is fp16 or fp32.
    """

    def __init__(self, path: Path, about: dict[str, Any]):
        self.path: str | Path = path
        self.network, self.precision = about["network"], about["precision"]
        self._counts: dict[str, list[int]] = about["classes"]  # folder -> photos, unreadable files
        self._names: dict[str, list[str]] = about.get("blocks") or {}  # folder -> names of its blocks
        self._labels: dict[str, str] = {folder: folder for folder in self._counts}

    @staticmethod
    def is_store(path: str | Path) -> bool:
        return os.path.isfile(Path(path) / "store.json")

    @classmethod
    def open(cls, path: str | Path, network: Network | None = None) -> FeatureStore:
        """The store at `path`; with a network, only if its features are that network's."""
        path = Path(path)
        about = read_about(path)
        if network is not None:
            check_network(path, about, network)
        if about["classes"] is None:
            raise UnseenError(f"{path}: is not finished. Run the same `unseen features` again to finish it.")
        return cls(path, about)

    @property
    def num_features(self) -> int:
        return self.network["features"]

    def __len__(self) -> int:
        return sum(self.classes().values())

    def classes(self) -> dict[str, int]:
        photos: Counter[str] = Counter()
        for folder, (readable, _) in self._counts.items():
            photos[self._labels[folder]] += readable
        return dict(photos)

    def relabel(self, ids: Mapping[str, str]) -> FeatureStore:
        store = copy(self)
        store._labels = {folder: ids.get(label, label) for folder, label in self._labels.items()}
        return store

    def only(self, classes: Collection[str]) -> FeatureStore:
        store = copy(self)
        store._counts = {folder: counts for folder, counts in self._counts.items() if self._labels[folder] in classes}
        return store

    def unreadable_count(self) -> int:
        return sum(unreadable for _, unreadable in self._counts.values())

    def unreadable(self) -> Iterator[dict[str, str]]:
        """{"photo", "why"} of every file that could not be read."""
        for folder, (_, count) in self._counts.items():
            for path in self._paths(folder) if count else []:
                for source, why in read_block(path).unreadable:
                    yield {"photo": f"{folder}/{source.name}", "why": why}

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        """All photos, or those of `classes`, folder by folder; `size` at a time but for the last batch."""
        parts, ids, paths = [], [], []
        for folder, _, block in self._blocks(classes):
            parts.append(block.features.astype(np.float32))
            ids += [self._labels[folder]] * len(block.photos)
            paths += [f"{folder}/{source.name}" for source in block.photos]
            while len(ids) >= size:
                rows = np.concatenate(parts)
                yield FeatureBatch(rows[:size], ids[:size], paths[:size])
                parts, ids, paths = [rows[size:]], ids[size:], paths[size:]
        if ids:
            yield FeatureBatch(np.concatenate(parts), ids, paths)

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        """All photos of the classes `ids`; labels are positions in `ids`. Beyond IN_MEMORY bytes rows stay on disk."""
        position = {id: place for place, id in enumerate(ids)}
        count = sum(photos for id, photos in self.classes().items() if id in position)
        if not count:
            raise UnseenError(f"{self.path}: has no photo of any of the {len(position)} classes asked for.")
        on_disk = 4 * count * self.num_features > IN_MEMORY
        files, labels, parts = [], [], []
        for folder, path, block in self._blocks(position):  # reading verifies the checksums
            files.append((path, len(block.photos)))
            labels += [position[self._labels[folder]]] * len(block.photos)
            parts += [] if on_disk else [block.features.astype(np.float32)]
        matrix = StoredRows(files, self.num_features) if on_disk else np.concatenate(parts)
        return SeenFeatures(matrix, np.array(labels, np.int64))

    def _blocks(self, classes: Collection[str] | None) -> Iterator[tuple[str, Path, Block]]:
        """Folder, file and contents of the blocks of `classes`, or of all."""
        for folder, (photos, _) in self._counts.items():
            if not photos or (classes is not None and self._labels[folder] not in classes):
                continue
            rows = 0
            for path in self._paths(folder):
                block = read_block(path)
                rows += len(block.photos)
                yield folder, path, block
            if rows != photos:  # an incomplete copy, say
                raise _damage(Path(self.path, "features", folder, "blocks"), "some of it is missing")

    def _paths(self, folder: str) -> list[Path]:
        if folder in self._names:
            return [Path(self.path, "features", folder, name) for name in self._names[folder]]
        return block_paths(self.path, folder)  # a store of an earlier version


def write_about(
    store: Path,
    network: Network,
    precision: str,
    classes: dict[str, list[int]] | None,
    blocks: dict[str, list[str]] | None,
) -> None:
    about = {"format": FORMAT, "network": describe_network(network), "precision": precision, "classes": classes}
    about["blocks"] = blocks
    content = json.dumps(about | {"checksum": digest(about)}, indent=0 if classes else 1)
    write_atomically(store / "store.json", content.encode())


def read_about(store: Path) -> dict[str, Any]:
    path = store / "store.json"
    if not FeatureStore.is_store(store):
        why = "is not a feature store. `unseen features` makes one." if os.access(store, os.X_OK) else None
        raise UnseenError(f"{store}: {why or 'there is no such folder, or permission is denied.'}")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        is_whole = isinstance(about, dict) and about.pop("checksum") == digest(about)
    except PermissionError:
        raise UnseenError(f"{path}: permission denied.") from None
    except DAMAGE:
        about, is_whole = {}, False
    if not is_whole:
        (store / LISTING).unlink(missing_ok=True)
        raise Damaged(f"{path}: is damaged. Run the same command again to mend it.")
    if about["format"] != FORMAT:
        raise UnseenError(f"{store}: is a feature store of format {about['format']}, this version reads {FORMAT}.")
    return about


def describe_network(network: Network) -> dict[str, Any]:
    """What identifies features: the same weights and the same preparation of photos."""
    source = network.below or network  # every head over a network has the same features
    facts = {"name": source.name, "checksum": source.checksum, "features": source.num_features}
    return facts | {"transform": json.loads(json.dumps(network.transform.to_dict()))}  # as it will be read


def mark_network(network: Network) -> str:
    """A digest of the same for every block: if store.json is lost, the blocks still identify their network."""
    return digest({key: value for key, value in describe_network(network).items() if key != "name"})[:16]


def check_network(path: Path, about: dict[str, Any], network: Network) -> None:
    """Features of one network mean nothing to another."""
    stored, given = about["network"], describe_network(network)
    facts = {"checksum": "{name} with weights {checksum:.12}", "transform": "photos prepared as {transform}"}
    for fact, words in facts.items():
        if stored[fact] != given[fact]:
            made, now = words.format(**stored), words.format(**given)
            raise UnseenError(f"{path}: was made with {made}, not {now}. Make another store for this network.")


def digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Block:
    """Features of up to 1,024 photos, and the files they were made from."""

    features: np.ndarray  # n x D, in the store's precision
    photos: list[FileState]  # n
    unreadable: list[tuple[FileState, str]]  # with the reason
    network: str  # see `mark_network`

    def sources(self) -> list[FileState]:
        return sorted(self.photos + [source for source, _ in self.unreadable])


def block_paths(store: str | Path, folder: str) -> list[Path]:
    return sorted((Path(store) / "features" / folder).glob("[0-9]*.safetensors"))


def write_block(folder: Path, number: int, block: Block) -> Path:
    """Write the block of a class that has this number; returns its file."""
    unreadable = [[*source, why] for source, why in block.unreadable]
    index = json.dumps({"photos": block.photos, "unreadable": unreadable, "network": block.network})
    features = np.ascontiguousarray(block.features)
    checksum = _block_digest(index, features)
    path = folder / f"{number:06d}-{checksum[:8]}.safetensors"
    # Checksum and index in one: safetensors writes several facts in a random order.
    write_atomically(path, save({"features": features}, metadata={"index": f"{checksum} {index}"}))
    return path


def read_block(path: Path) -> Block:
    """Raises `Damaged` where the file is not what was written."""
    try:
        with open(path, "rb"):  # safetensors would report a missing permission in other words
            pass
        with safe_open(path, framework="np") as file:
            features, facts = file.get_tensor("features"), (file.metadata() or {})["index"]
        checksum, _, index = facts.partition(" ")
        if checksum != _block_digest(index, features):
            raise ValueError("its checksum differs")
    except PermissionError:
        raise UnseenError(f"{path}: permission denied.") from None
    except DAMAGE as error:
        raise _damage(path, getattr(error, "strerror", None) or str(error)) from None
    index = json.loads(index)
    unreadable = [(FileState(*source), why) for *source, why in index["unreadable"]]
    return Block(features, [FileState(*source) for source in index["photos"]], unreadable, index["network"])


def find_block(path: Path) -> Block | None:
    """A block, if it exists and is undamaged."""
    try:
        return read_block(path)
    except Damaged:
        return None


def _damage(path: Path, why: str) -> Damaged:
    """Of a block; a store in the cache is no longer taken for up to date."""
    (path.parents[2] / LISTING).unlink(missing_ok=True)
    return Damaged(f"{path}: is damaged ({why}). Run the same command again to rebuild this part.")


def _block_digest(index: str, features: np.ndarray) -> str:
    return hashlib.sha256(f"{index} {features.dtype.str} {features.shape}".encode() + features.tobytes()).hexdigest()


class StoredRows:
    """The rows of some blocks, files with their numbers of rows (n x D, float32); only those asked for are read."""

    dtype, ndim = np.dtype(np.float32), 2

    def __init__(self, blocks: Sequence[tuple[Path, int]], width: int):
        self._files, self._width = [path for path, _ in blocks], width
        self._first = np.concatenate([[0], np.cumsum([rows for _, rows in blocks], dtype=np.int64)])
        self._rows = np.arange(self._first[-1])

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._rows), self._width

    def only(self, chosen: Any) -> StoredRows:
        """A part of the rows; nothing is read yet."""
        part = copy(self)
        part._rows = self._rows[chosen]
        return part

    def __getitem__(self, chosen: Any) -> np.ndarray:
        """The rows of a slice, of a list of numbers, or where a mask is set."""
        rows = self._rows[chosen]
        result = np.empty((len(rows), self._width), np.float32)
        block = np.searchsorted(self._first, rows, side="right") - 1
        order = np.argsort(block, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(block[order])) + 1) if len(order) else ():
            number = block[places[0]]
            result[places] = self._map(self._files[number])[rows[places] - self._first[number]]
        return result

    def __array__(self, dtype: Any = None, **_: Any) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def _map(self, path: Path) -> np.ndarray:
        with open(path, "rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            about = json.loads(file.read(start - 8))["features"]
        kind = {"F16": np.dtype("<f2"), "F32": np.dtype("<f4")}[about["dtype"]]
        return np.memmap(path, kind, "r", start + about["data_offsets"][0], tuple(about["shape"]))
