"""AWA2, Animals with Attributes 2 (Xian et al.), as it is distributed: folders by English name, attributes by class.

    Animals_with_Attributes2/
      JPEGImages/blue+whale/blue+whale_10001.jpg ...     50 classes
      classes.txt                                        "5 blue+whale": number and name
      predicate-matrix-continuous.txt                    50 rows of 85 numbers, in the order of classes.txt

Ids are those that the authors of the paper give the classes, and the split is the proposed one: none of its ten test
classes is among ImageNet's 1,000.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unseen.errors import UnseenError
from unseen.features.store import FeatureBatch, SeenFeatures
from unseen.runtime.files import sha256
from unseen.scoring.awa2_classes import CLASSES, TEST
from unseen.taxonomy import Taxonomy

ATTRIBUTES = "predicate-matrix-continuous.txt"
FEW = 5  # folders with names of AWA2, and no others, are some of AWA2


def photos_folder(folder: str | Path) -> Path:
    """Where the class folders lie: JPEGImages below AWA2's own folder; any other folder is what it is."""
    inside = Path(folder) / "JPEGImages"
    return inside if inside.is_dir() else Path(folder)


def find_awa2(folder: str | Path) -> Path:
    """The folder of AWA2's photos in what a user names, or an error."""
    photos = photos_folder(folder)
    if not any((photos / name).is_dir() for name in TEST):
        raise UnseenError(
            f"{folder}: is not AWA2 as it is distributed: there is no folder of a test class, such as "
            "JPEGImages/blue+whale",
            "awa2",
        )
    return photos


def by_id(store: Any, taxonomy: Taxonomy) -> Any:
    """A feature store whose folders have AWA2's names, with ids in their place; any other store as it is."""
    if not _is_awa2(store.classes().keys()):
        return store
    ids = {name: CLASSES[name] for name in store.classes().keys() & CLASSES.keys() if name not in taxonomy}
    ids = {name: id for name, id in ids.items() if id in taxonomy}
    return AWA2Store(store, ids) if ids else store


def _is_awa2(folders: Collection[str]) -> bool:
    """Whether these are AWA2's folders. One or two of its names prove nothing: a mouse may belong to a computer."""
    known = CLASSES.keys() & set(folders)
    return any("+" in name for name in known) or (len(known) >= FEW and len(known) == len(folders))


class AWA2Store:
    """Reads like the feature store that it is made of, with ids for AWA2's names."""

    def __init__(self, store: Any, ids: dict[str, str]):
        self.store: Any = store
        self.ids: dict[str, str] = ids
        self.path = getattr(store, "path", None)

    def classes(self) -> dict[str, int]:
        photos: dict[str, int] = {}
        for name, own in self.store.classes().items():  # a class may have a folder by its name and one by its id
            photos[self._id(name)] = photos.get(self._id(name), 0) + own
        return photos

    def _id(self, name: str) -> str:
        return self.ids.get(name, name)

    def unreadable_count(self) -> int:
        return self.store.unreadable_count()

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        names = None
        if classes is not None:
            names = {name for name in self.store.classes() if self._id(name) in classes}
        for features, found, paths in self.store.batches(size, names):
            yield FeatureBatch(features, [self._id(name) for name in found], paths)

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        """All photos of the classes `ids`; labels are positions in it."""
        position = {id: place for place, id in enumerate(ids)}
        parts = [(features, [position[id] for id in found]) for features, found, _ in self.batches(1024, set(position))]
        if not parts:
            raise UnseenError(f"{self.path}: has no photo of any of the {len(position)} classes asked for.")
        matrix = np.concatenate([features for features, _ in parts]).astype(np.float32, copy=False)
        return SeenFeatures(matrix, np.array([label for _, labels in parts for label in labels], np.int64))


class Attributes:
    """AWA2's 85 attributes as class vectors: of its 50 classes, the rest know nothing.

    Args:
        folder: AWA2's own, with classes.txt and predicate-matrix-continuous.txt.
    """

    name = "attributes"

    def __init__(self, folder: str | Path):
        folder = Path(folder)
        try:
            lines = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
            matrix = np.loadtxt(folder / ATTRIBUTES, dtype=np.float32, ndmin=2)
        except (OSError, ValueError) as error:
            raise UnseenError(f"{folder}: AWA2's attributes cannot be read ({error})") from None
        names = [line.split()[-1] for line in lines if line.strip()]
        if len(names) != len(matrix) or not set(names) <= CLASSES.keys():
            raise UnseenError(
                f"{folder}: classes.txt names {len(names)} classes, {ATTRIBUTES} has {len(matrix)} rows: "
                "one row is expected for each of AWA2's classes"
            )
        unknown = matrix < 0  # AWA2 writes -1 where nobody was asked
        self._vectors = {CLASSES[name]: row for name, row in zip(names, np.where(unknown, 0, matrix), strict=True)}
        self.dim = matrix.shape[1]
        self.provenance = {
            "kind": "attributes", "name": self.name, "source": ATTRIBUTES, "sha256": sha256(folder / ATTRIBUTES),
            "mode": "by id", "dim": self.dim,
        }  # fmt: skip

    def encode(self, taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        chosen = taxonomy.ids if rows is None else [taxonomy.ids[int(row)] for row in rows]
        nothing = np.zeros(self.dim, np.float32)
        return np.stack([self._vectors.get(id, nothing) for id in chosen])
