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
from unseen.taxonomy import Taxonomy

TEST = {
    "sheep": "n02411705", "dolphin": "n02068974", "bat": "n02139199", "seal": "n02076196", "blue+whale": "n02064816",
    "rat": "n02331046", "horse": "n02374451", "walrus": "n02081571", "giraffe": "n02439033", "bobcat": "n02127482",
}  # fmt: skip
TRAIN = {
    "killer+whale": "n02071294", "beaver": "n02363005", "dalmatian": "n02110341", "persian+cat": "n02123394",
    "german+shepherd": "n02106662", "siamese+cat": "n02123597", "skunk": "n02445715", "mole": "n01889520",
    "tiger": "n02129604", "hippopotamus": "n02398521", "leopard": "n02128385", "spider+monkey": "n02493793",
    "elephant": "n02503517", "gorilla": "n02480855", "ox": "n02403003", "chimpanzee": "n02481823",
    "hamster": "n02342885", "fox": "n02118333", "squirrel": "n02355227", "rabbit": "n02324045", "wolf": "n02114100",
    "chihuahua": "n02085620", "weasel": "n02441942", "otter": "n02444819", "buffalo": "n02410702",
    "zebra": "n02391049", "giant+panda": "n02510455", "pig": "n02395406", "lion": "n02129165",
    "polar+bear": "n02134084", "collie": "n02106030", "cow": "n02403454", "deer": "n02430045", "mouse": "n02330245",
    "humpback+whale": "n02065726", "antelope": "n02419796", "grizzly+bear": "n02132580", "rhinoceros": "n02391994",
    "raccoon": "n02508021", "moose": "n02432983",
}  # fmt: skip
CLASSES = TEST | TRAIN
ATTRIBUTES = "predicate-matrix-continuous.txt"


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
    ids = {name: CLASSES[name] for name in store.classes().keys() & CLASSES.keys() if name not in taxonomy}
    ids = {name: id for name, id in ids.items() if id in taxonomy}
    return AWA2Store(store, ids) if ids else store


class AWA2Store:
    """Reads like the feature store that it is made of, with ids for AWA2's names."""

    def __init__(self, store: Any, ids: dict[str, str]):
        self.store: Any = store
        self.ids: dict[str, str] = ids
        self.path = getattr(store, "path", None)

    def classes(self) -> dict[str, int]:
        return {self._id(name): photos for name, photos in self.store.classes().items()}

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
