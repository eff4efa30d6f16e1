"""Features that come from elsewhere, as arrays: .npy, or .npz with `features` and perhaps `labels`.

What measures or learns takes them like a feature store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unseen.errors import UnseenError
from unseen.features.store import FeatureBatch, FeatureStore, SeenFeatures
from unseen.runtime.arrays import ARRAY_DAMAGE

FEATURES, LABELS = ("features", "x", "X"), ("labels", "classes", "y")


class FeatureArrays:
    """Rows of features (n x D) with the id of each row's class, and the interface of a `FeatureStore`."""

    def __init__(self, features: Any, labels: Sequence[Any] | None = None, where: str = "the features"):
        self.path = where
        self.matrix = check_matrix(features, where)
        self.labels = None if labels is None else np.asarray([str(label) for label in labels])
        if self.labels is not None and len(self.labels) != len(self.matrix):
            raise UnseenError(f"{where}: {len(self.matrix)} rows of features, but {len(self.labels)} labels.")

    def __len__(self) -> int:
        return len(self.matrix)

    def classes(self) -> dict[str, int]:
        return dict(Counter(self._labels().tolist()))

    def unreadable_count(self) -> int:
        return 0

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        """All rows, or those of some classes, in their order; `size` at a time."""
        labels = self._labels()
        ids, of_rows = self._classes
        wanted = np.array([classes is None or id in classes for id in ids.tolist()], bool)
        chosen = np.flatnonzero(wanted[of_rows])
        for start in range(0, len(chosen), size):
            rows = chosen[start : start + size]
            yield FeatureBatch(self.matrix[rows], labels[rows].tolist(), [f"row {row}" for row in rows])

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        """All rows of the classes `ids`; labels are positions in `ids`."""
        place = {id: number for number, id in enumerate(ids)}
        found = [(row, place[id]) for row, id in enumerate(self._labels().tolist()) if id in place]
        if not found:
            raise UnseenError(f"{self.path}: has no row of any of the {len(place)} classes asked for.")
        rows, labels = np.array(found, np.int64).T
        return SeenFeatures(self.matrix[rows], labels)

    @cached_property
    def _classes(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids, and each row's place among them."""
        return np.unique(self._labels(), return_inverse=True)

    def _labels(self) -> np.ndarray:
        if self.labels is None:
            raise UnseenError(
                f"{self.path}: does not say which class each row is of. "
                "Save both: np.savez(file, features=..., labels=...)."
            )
        return self.labels


def is_array_file(path: str | Path) -> bool:
    return Path(path).suffix in (".npy", ".npz")


def read_arrays(path: str | Path) -> FeatureArrays:
    """The features of a .npy or .npz file, with labels if it has them; no code in it is ever run."""
    path = Path(path)
    try:
        held = np.load(path, allow_pickle=False)
        arrays = {"features": held} if isinstance(held, np.ndarray) else {key: held[key] for key in held.files}
    except FileNotFoundError:
        raise UnseenError(f"{path}: there is no such file of features.") from None
    except ValueError as error:  # Python objects, or something else than an array
        raise UnseenError(
            f"{path}: is not a file of plain arrays ({error}). Save labels as text: np.array(labels, dtype=str)."
        ) from None
    except ARRAY_DAMAGE as error:
        raise UnseenError(f"{path}: is not a readable .npy or .npz file ({error}).") from None
    features, labels = (next((arrays[key] for key in keys if key in arrays), None) for keys in (FEATURES, LABELS))
    if features is None:
        raise UnseenError(f"{path}: has no array `features`, but {', '.join(sorted(arrays)) or 'nothing'}.")
    return FeatureArrays(features, None if labels is None else labels.tolist(), str(path))


def read_named_rows(path: str | Path, checksum: str) -> tuple[list[str], np.ndarray]:
    """What to call each row, and the rows (n x D), of a file or of a store; one of another network is refused."""
    if is_array_file(path):
        matrix = read_arrays(path).matrix
        return [f"row {row}" for row in range(len(matrix))], matrix
    store = FeatureStore.open(path)
    if store.network["checksum"] != checksum:
        raise UnseenError(f"{path}: holds features of another network ({store.network['name']}).")
    names, parts = [], [np.zeros((0, store.num_features), np.float32)]
    for features, _, paths in store.batches():
        names += paths
        parts.append(features)
    return names, np.concatenate(parts)


def check_matrix(features: Any, where: str = "the features", width: int | None = None) -> np.ndarray:
    """n x D float32, finite; a single row may come without its first axis."""
    try:
        found = np.atleast_2d(np.asarray(features.toarray() if hasattr(features, "toarray") else features, np.float32))
    except (TypeError, ValueError):
        raise UnseenError(f"{where}: must be rows of numbers, not {type(features).__name__}.") from None
    if found.ndim != 2 or not found.size:
        raise UnseenError(f"{where}: must be a matrix with a row for each item; the shape is {found.shape}.")
    if width is not None and found.shape[1] != width:
        raise UnseenError(f"{where}: rows of {found.shape[1]} features, but the bundle is for {width}.")
    if not np.isfinite(found).all():
        raise UnseenError(f"{where}: row {int(np.argmin(np.isfinite(found).all(1)))} holds NaN or infinity.")
    return found
