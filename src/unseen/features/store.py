"""Features of photos on disk: what a store holds, and how it is read. `unseen.features.construction` makes it.

    STORE/
      store.json          the network (name, checksum, transform), and the precision of the features
      features/<class id>/000000.safetensors, 000001...
                          up to 1,024 photos of a class each, sorted by name. The file holds their features (n x D) and,
                          in its header, what these were made from: name, size and time of every file; of the unreadable
                          ones, which have no row, also the reason. See `unseen.features.blocks`. A mark of the network
                          in it replaces a store.json that got damaged
      contents.json       photos and unreadable files of every class; written last: without it a store is unfinished
      unreadable.jsonl    {"photo", "why"}, one file a line
      aside/<class id>/   blocks of a class whose photos have changed, until their rows have been used again
      unknown/            features without such a mark, where store.json got damaged; nothing reads or removes them

A block is written whole or not at all, and depends on nothing but the photos and the network: however often the work
was interrupted, by however many processes it was done, in whatever order photos came: a finished store is the same.
Every file has a checksum; those of version 0.1 had none and are read as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unseen.errors import UnseenError
from unseen.features.blocks import REBUILD, Index, blocks_of, read_block, read_index
from unseen.features.rows import StoredRows
from unseen.runtime.seals import Damaged, read_sealed

if TYPE_CHECKING:
    from unseen.backbones import Backbone

FORMAT = 1
PRECISIONS = {"fp16": np.float16, "fp32": np.float32}
NETWORK = {"name", "checksum", "features", "transform"}  # what store.json tells of it
MEND = "Run the same `unseen features` again to mend it."
IN_MEMORY = 2**28  # bytes of features that methods get as an array; more stay on disk
ABOUT, CONTENTS = ("format", "network", "precision"), ("classes",)  # all that 0.1 wrote, without checksums


class FeatureBatch(NamedTuple):
    features: np.ndarray  # n x D, float32
    class_ids: list[str]
    paths: list[str]  # <class id>/<name>


@dataclass(frozen=True)
class SeenFeatures:
    """Features of photos of seen classes, for the methods that learn from photos.

    With `ids`, of these classes instead, seen by the network or not: AWA2's training classes are not all ImageNet's.
    Many are left on disk: ask for some rows at a time, `matrix[rows]`, and `matrix` may be of any size.
    """

    matrix: np.ndarray | StoredRows  # n x D, float32
    labels: np.ndarray  # n, int64: position of the photo's class in Problem.seen, or in `ids`
    ids: tuple[str, ...] | None = None

    def only(self, chosen: np.ndarray, labels: np.ndarray) -> SeenFeatures:
        """With the chosen rows (a mask) alone, under these labels."""
        rows = self.matrix.only(chosen) if isinstance(self.matrix, StoredRows) else self.matrix[chosen]
        return SeenFeatures(rows, labels, self.ids)


class FeatureStore:
    """A finished store of the features of photos; `unseen.build_store` makes one, `FeatureStore.open` reads it.

    Args:
        path: Its folder.
        about: What store.json tells: the network and the precision.
        contents: Class id -> [photos, unreadable files].

    >>> from pathlib import Path
    >>> import unseen
    >>> from PIL import Image
    >>> from torch import nn
    >>> for id in ("dog", "cat"):
    ...     Path("photos", id).mkdir(parents=True)
    ...     Image.new("RGB", (320, 240), "orange").save(f"photos/{id}/1.jpg")
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"])
    >>> built = unseen.build_store("photos", "features", backbone, workers=0)
    >>> store = unseen.FeatureStore.open("features")
    >>> len(store), store.num_features
    (2, 3)
    >>> for features, class_ids, paths in store.batches(1024):
    ...     print(features.shape, class_ids, paths)
    (2, 3) ['cat', 'dog'] ['cat/1.jpg', 'dog/1.jpg']
    """

    def __init__(self, path: Path, about: dict[str, Any], contents: dict[str, list[int]]):
        self.path, self.network, self.precision = path, about["network"], about["precision"]
        self._contents = contents

    @staticmethod
    def is_store(path: str | Path) -> bool:
        return os.path.isfile(Path(path) / "store.json")  # False where that cannot be found out

    @classmethod
    def open(cls, path: str | Path, backbone: Backbone | None = None) -> FeatureStore:
        """The store at `path`; with a backbone, only if its features are that network's."""
        path = Path(path)
        about = read_about(path)
        if backbone is not None:
            check_network(path, about, backbone)
        if not (path / "contents.json").is_file():
            raise UnseenError(f"{path}: is not finished. Run the same `unseen features` again to finish it.")
        contents = read_sealed(path / "contents.json", CONTENTS, REBUILD).get("classes")
        if not isinstance(contents, dict) or not all(_is_pair(counts) for counts in contents.values()):
            raise _damaged(path / "contents.json")
        return cls(path, about, contents)

    @property
    def num_features(self) -> int:
        return self.network["features"]

    def __len__(self) -> int:
        """Photos."""
        return sum(photos for photos, _ in self._contents.values())

    def classes(self) -> dict[str, int]:
        """Photos of each class, empty classes too."""
        return {id: photos for id, (photos, _) in self._contents.items()}

    def unreadable_count(self) -> int:
        return sum(unreadable for _, unreadable in self._contents.values())

    def unreadable(self) -> Iterator[dict[str, str]]:
        """{"photo", "why"} of every file that could not be read."""
        for id, (_, count) in self._contents.items():
            for block in blocks_of(self.path, id) if count else []:
                for source, why in read_index(block).unreadable:
                    yield {"photo": f"{id}/{source.name}", "why": why}

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        """All photos, or those of some classes, class by class; `size` at a time but for the last batch."""
        held, waiting = [], 0
        for id, _, index, features in self._blocks(classes):
            names = [f"{id}/{source.name}" for source in index.photos]
            held.append(FeatureBatch(features.astype(np.float32), [id] * len(names), names))
            waiting += len(names)
            while waiting >= size:
                batch, held = _take(held, size)
                waiting -= size
                yield batch
        if waiting:
            yield _take(held, size)[0]

    def _blocks(self, classes: Collection[str] | None) -> Iterator[tuple[str, Path, Index, np.ndarray]]:
        """Class id, file and contents of every block of some classes, or of all."""
        for id, photos in self.classes().items():
            if not photos or (classes is not None and id not in classes):
                continue
            found = 0
            for block in blocks_of(self.path, id):
                index, features = read_block(block)
                if features.shape[1] != self.num_features:
                    raise _damaged(block)
                found += len(features)
                yield id, block, index, features
            if found != photos:  # a copy that is not complete, say
                raise _damaged(self.path / "features" / id)

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        """All photos of the classes `ids`, for methods that learn from them; labels are positions in `ids`.

        More than IN_MEMORY bytes are read once, to see that they are whole, and stay on disk.
        """
        position = {id: place for place, id in enumerate(ids)}
        count = sum(photos for id, photos in self.classes().items() if id in position)
        if not count:
            raise UnseenError(f"{self.path}: has no photo of any of the {len(position)} classes asked for.")
        stays = 4 * count * self.num_features > IN_MEMORY
        blocks, labels, parts = [], [], []
        for id, block, _, features in self._blocks(position.keys()):
            blocks.append((block, len(features)))
            labels.append(np.full(len(features), position[id], np.int64))
            if not stays:
                parts.append(features.astype(np.float32))
        matrix = StoredRows(blocks, self.num_features) if stays else np.concatenate(parts)
        return SeenFeatures(matrix, np.concatenate(labels))


def _take(parts: list[FeatureBatch], size: int) -> tuple[FeatureBatch, list[FeatureBatch]]:
    """The first `size` rows, and the rest."""
    features = parts[0].features if len(parts) == 1 else np.concatenate([part.features for part in parts])
    ids, paths = ([item for part in parts for item in part[column]] for column in (1, 2))
    rest = FeatureBatch(features[size:], ids[size:], paths[size:])
    return FeatureBatch(features[:size], ids[:size], paths[:size]), [rest]


# -- files -----------------------------------------------------------------------------------------------------------


def describe_network(backbone: Backbone) -> dict[str, Any]:
    """What identifies features: the same weights and the same preparation of photos."""
    return {
        "name": backbone.name,
        "checksum": backbone.checksum,
        "features": backbone.num_features,
        "transform": backbone.transform.to_dict(),
    }


def mark_network(backbone: Backbone) -> str:
    """The same in short, for every block: should store.json be lost, they tell whose features they are."""
    made_by = describe_network(backbone)
    del made_by["name"]
    return hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:16]


def read_about(path: Path) -> dict[str, Any]:
    """store.json."""
    if path.is_dir() and not os.access(path, os.X_OK):
        raise UnseenError(f"{path}: permission denied.")
    if not FeatureStore.is_store(path):
        raise UnseenError(f"{path}: is not a feature store. `unseen features` makes one.")
    about = read_sealed(path / "store.json", ABOUT, MEND)
    if about.get("format", FORMAT) != FORMAT:
        raise UnseenError(f"{path}: is a feature store of format {about['format']}, this version reads {FORMAT}.")
    network = about.get("network")
    if about.get("precision") not in PRECISIONS or not isinstance(network, dict) or not network.keys() >= NETWORK:
        raise Damaged(f"{path / 'store.json'}: is damaged. {MEND}")
    return about


def check_network(path: Path, about: dict[str, Any], backbone: Backbone) -> None:
    """Features of one network mean nothing to another."""
    own, wanted = about["network"], json.loads(json.dumps(describe_network(backbone)))
    if own["checksum"] != wanted["checksum"]:
        what = f"{own['name']} with weights {own['checksum'][:12]}", f"{wanted['name']} with {wanted['checksum'][:12]}"
    elif own["transform"] != wanted["transform"]:
        what = f"photos prepared as {own['transform']}", f"{wanted['transform']}"
    else:
        return
    raise UnseenError(f"{path}: was made with {what[0]}, not {what[1]}. Make another store for this network.")


def _is_pair(counts: Any) -> bool:
    return isinstance(counts, list) and len(counts) == 2 and all(isinstance(count, int) for count in counts)


def _damaged(path: Path) -> UnseenError:
    return Damaged(f"{path}: is damaged. {REBUILD}")
