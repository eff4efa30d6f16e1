"""Features of photos on disk: a `util.table` with a row for each photo. `unseen.networks.build` makes it.

    STORE/
      table.safetensors     the network (name, checksum, transform) and the precision of the features; once finished,
                            name and class of every photo, and why some could not be read
      000000.safetensors    features of up to 1,024 photos
      unreadable.jsonl      {"photo", "why"}, one file a line

A store that is being updated stays as it was for its readers until the update is finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.networks.features import FeatureBatch, SeenFeatures
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE
from unseen.util.table import MANIFEST, Table, read_table

if TYPE_CHECKING:
    from unseen.networks.run import PhotoNetwork

KIND = "features"  # of table
PRECISIONS = {"fp16": np.dtype(np.float16), "fp32": np.dtype(np.float32)}


class FeatureStore:
    """A finished store of the features of photos; `unseen.networks.build` makes it, `open` reads it.

    `network` has the name, checksum, number of features and transform of the network; `precision` is fp16 or fp32.
    """

    def __init__(self, path: Path, table: Table):
        self.path: str | Path = path
        self.network, self.precision = table.made_by["network"], table.made_by["precision"]
        self._table = table
        self._photos: dict[str, list[str]] = {folder: [] for folder in table.summary["classes"]}
        self._unreadable: dict[str, list[str]] = {folder: [] for folder in table.summary["classes"]}
        for (name, entry), folder in zip(table.entries.items(), table.records, strict=True):
            (self._unreadable if entry.why else self._photos)[folder].append(name)
        self._labels: dict[str, str] = {folder: folder for folder in self._photos}

    @staticmethod
    def is_store(path: str | Path) -> bool:
        return os.path.isfile(Path(path) / MANIFEST)

    @classmethod
    def open(cls, path: str | Path, network: PhotoNetwork | None = None) -> FeatureStore:
        """The store at `path`; with a network, only if its features are that network's."""
        path = Path(path)
        if not cls.is_store(path):
            why = "is not a feature store. `unseen features` makes one." if os.access(path, os.X_OK) else None
            raise UnseenError(f"{path}: {why or 'there is no such folder, or permission is denied.'}")
        try:
            table = read_table(path, KIND)
        except PermissionError:
            raise UnseenError(f"{path / MANIFEST}: permission denied.") from None
        except DAMAGE as error:
            raise UnseenError(f"{path / MANIFEST}: is damaged ({error}). Make the store again.") from None
        if network is not None:
            check_network(path, table.made_by, network)
        if table.summary is None:
            raise UnseenError(f"{path}: is not finished. Run the same `unseen features` again to finish it.")
        return cls(path, table)

    @property
    def num_features(self) -> int:
        return self.network["features"]

    def __len__(self) -> int:
        return sum(self.classes().values())

    def classes(self) -> dict[str, int]:
        counts = dict.fromkeys((self._labels[folder] for folder in self._photos), 0)
        for folder, names in self._photos.items():
            counts[self._labels[folder]] += len(names)
        return counts

    def relabel(self, ids: Mapping[str, str]) -> FeatureStore:
        store = copy(self)
        store._labels = {folder: ids.get(label, label) for folder, label in self._labels.items()}
        return store

    def only(self, classes: Collection[str]) -> FeatureStore:
        store = copy(self)
        store._photos = {folder: names for folder, names in self._photos.items() if self._labels[folder] in classes}
        store._unreadable = {folder: self._unreadable[folder] for folder in store._photos}
        return store

    def unreadable_count(self) -> int:
        return sum(map(len, self._unreadable.values()))

    def unreadable(self) -> Iterator[dict[str, str]]:
        """{"photo", "why"} of every file that could not be read."""
        for names in self._unreadable.values():
            for name in names:
                yield {"photo": name, "why": self._table.entries[name].why}

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        """All photos, or those of `classes`, class by class; `size` at a time but for the last batch."""
        photos = list(self._chosen(classes))
        for start in range(0, len(photos), size):
            some = photos[start : start + size]
            names = [name for _, name in some]
            yield FeatureBatch(self._read(names), [id for id, _ in some], names)

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        """All photos of the classes `ids`; labels are positions in `ids`."""
        position = {id: place for place, id in enumerate(ids)}
        photos = list(self._chosen(position))
        if not photos:
            raise UnseenError(f"{self.path}: has no photo of any of the {len(position)} classes asked for.")
        labels = np.array([position[id] for id, _ in photos], np.int64)
        return SeenFeatures(self._read([name for _, name in photos]), labels)

    def _chosen(self, classes: Collection[str] | None) -> Iterator[tuple[str, str]]:
        """Class id and name of the photos of `classes`, or of all."""
        for folder, names in self._photos.items():
            if classes is None or self._labels[folder] in classes:
                yield from ((self._labels[folder], name) for name in names)

    def _read(self, names: Sequence[str]) -> np.ndarray:
        return self._table.vectors([self._table.entries[name] for name in names]).astype(np.float32)


def describe_network(network: PhotoNetwork) -> dict[str, Any]:
    """What identifies features: the same weights and the same preparation of photos."""
    source = network.below or network  # every head over a network has the same features
    facts = {"name": source.name, "checksum": source.checksum, "features": source.num_features}
    return facts | {"transform": json.loads(json.dumps(network.transform.to_dict()))}  # as it will be read


def check_network(path: Path, made_by: Mapping[str, Any], network: PhotoNetwork) -> None:
    """Features of one network mean nothing to another."""
    stored, given = made_by["network"], describe_network(network)
    facts = {"checksum": "{name} with weights {checksum:.12}", "transform": "photos prepared as {transform}"}
    for fact, words in facts.items():
        if stored[fact] != given[fact]:
            made, now = words.format(**stored), words.format(**given)
            raise UnseenError(f"{path}: was made with {made}, not {now}. Make another store for this network.")
