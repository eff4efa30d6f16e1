"""Features of photos: THE loop photos -> features, what everybody asks of features, and features that come as arrays.

Whoever needs features of photos, be it to classify, to teach, to evaluate or to keep them, takes `photo_features`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from copy import copy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from unseen.networks.devices import is_cpu
from unseen.photos.inputs import Item
from unseen.photos.reading import Unreadable, UnreadablePhoto
from unseen.util.arrays import load_numpy
from unseen.util.devices import in_threads
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE
from unseen.util.run import progress

if TYPE_CHECKING:
    from unseen.networks.run import PhotoNetwork

BATCH = 128  # photos that run together on a GPU
P = TypeVar("P")
FEATURES, LABELS = ("features", "x", "X"), ("labels", "classes", "y")  # names of arrays in .npz
LARGEST = 1e15  # of a feature: scores, and the squares of features, must be finite in float32


def photo_features(
    network: PhotoNetwork, photos: Iterable[P], workers: int | None = None, batch: int | None = None
) -> Iterator[tuple[P, np.ndarray | Unreadable]]:
    """Each photo, in their order, with its features (D, float32) or why it could not be read.

    Photos are sources or items of an input, any number of them: only a few are under way. On a CPU each thread takes
    one photo after the other through the network, so that its features do not depend on the photos around it. On a
    GPU the threads only read, and `batch` photos (128) run together.
    """
    if is_cpu(network.device):
        if network.device is not None:  # torch spreads each operation over all CPUs by itself
            workers = 1
        yield from in_threads(lambda photo: _features_of(network, photo), photos, workers)
        return
    prepared = in_threads(lambda photo: _read(network, photo), photos, workers)
    while some := list(islice(prepared, batch or BATCH)):
        pixels = [result for _, result in some if not isinstance(result, Unreadable)]
        features = iter(network.features_of(np.stack(pixels)) if pixels else ())
        for photo, result in some:
            yield photo, result if isinstance(result, Unreadable) else _finite(photo, next(features))


def _features_of(network: PhotoNetwork, photo: Any) -> np.ndarray | Unreadable:
    pixels = _read(network, photo)
    return pixels if isinstance(pixels, Unreadable) else _finite(photo, network.features_of(pixels[None])[0])


def _read(network: PhotoNetwork, photo: Any) -> np.ndarray | Unreadable:
    """A photo's pixels as the network takes them."""
    name = photo.name if isinstance(photo, Item) else ""
    try:
        return network.transform.open_array(photo.source if isinstance(photo, Item) else photo)
    except UnreadablePhoto as error:
        return Unreadable(name or error.name, error.why)
    except Exception as error:  # one odd photo among millions must not end the work
        return Unreadable(name or "the photo", f"cannot be prepared ({type(error).__name__}: {error}).")


def _finite(photo: Any, features: np.ndarray) -> np.ndarray | Unreadable:
    if np.isfinite(features).all():
        return features
    name = photo.name if isinstance(photo, Item) else "the photo"
    return Unreadable(name, "the network's features of this photo are not finite")


@dataclass(frozen=True)
class PhotoFeatures:
    """The features of a list of photos, without those that could not be read."""

    matrix: np.ndarray  # n x D, float32: a row for each photo that could be read
    unreadable: dict[int, Unreadable]  # the others, by their place in the list

    def __len__(self) -> int:
        return len(self.matrix) + len(self.unreadable)


def read_features(network: PhotoNetwork, photos: Iterable[Any], show_progress: bool = False) -> PhotoFeatures:
    """The features of all photos at once."""
    rows, unreadable = [np.zeros((0, network.num_features), np.float32)], {}
    count = len(photos) if isinstance(photos, Sized) else None
    with progress("Looking at photos", count, enabled=show_progress) as bar:
        for place, (_, result) in enumerate(photo_features(network, photos)):
            if isinstance(result, Unreadable):
                unreadable[place] = result
            else:
                rows.append(result[None])
            bar.advance()
    return PhotoFeatures(np.concatenate(rows), unreadable)


class FeatureBatch(NamedTuple):
    features: np.ndarray  # n x D, float32
    class_ids: list[str]
    paths: list[str]  # <folder>/<name>, or "row 7" of an array


@dataclass(frozen=True)
class SeenFeatures:
    """Features of photos of seen classes, for the methods that learn from photos."""

    matrix: np.ndarray  # n x D, float32
    labels: np.ndarray  # n, int64: the position of each photo's class in Problem.seen, or in `ids`
    ids: tuple[str, ...] | None = None  # instead of Problem.seen: classes that the network need not know

    def only(self, chosen: np.ndarray, labels: np.ndarray) -> SeenFeatures:
        """The rows chosen by a mask, under new labels."""
        return SeenFeatures(self.matrix[chosen], labels, self.ids)


@runtime_checkable
class Features(Protocol):
    """Features of photos by class, read in batches."""

    path: str | Path

    # Photos of each class, in the order of `batches`, empty classes too; photos without features.
    def classes(self) -> dict[str, int]: ...
    def unreadable_count(self) -> int: ...

    # All photos, or those of `classes`, `size` at a time.
    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]: ...

    # All photos of the classes `ids`; labels are positions in `ids`.
    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures: ...

    # The same photos with new class ids (classes that `ids` does not name keep theirs), or those of some classes.
    def relabel(self, ids: Mapping[str, str]) -> Features: ...
    def only(self, classes: Collection[str]) -> Features: ...


class FeatureArrays:
    """Rows of features (n x D) with the class id of each row."""

    def __init__(self, features: Any, labels: Sequence[Any] | None = None, where: str = "the features"):
        self.path: str | Path = where
        self.matrix = check_matrix(features, where)
        self.labels = None if labels is None else [str(label) for label in labels]
        self.names = [f"row {row}" for row in range(len(self.matrix))]
        if self.labels is not None and len(self.labels) != len(self.matrix):
            raise UnseenError(f"{where}: {len(self.matrix)} rows of features, but {len(self.labels)} labels.")

    def __len__(self) -> int:
        return len(self.matrix)

    def classes(self) -> dict[str, int]:
        if self.labels is None:
            raise UnseenError(
                f"{self.path}: does not say which class each row is of. "
                "Save both: np.savez(file, features=..., labels=...)."
            )
        return dict(Counter(self.labels))

    def unreadable_count(self) -> int:
        return 0

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        """All rows, or those of `classes`, in their order; the class id of an unlabelled row is ""."""
        labels = self.labels or [""] * len(self)
        chosen = [row for row, label in enumerate(labels) if classes is None or label in classes]
        for start in range(0, len(chosen), size):
            rows = chosen[start : start + size]
            yield FeatureBatch(self.matrix[rows], [labels[row] for row in rows], [self.names[row] for row in rows])

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        """All rows of the classes `ids`; labels are positions in `ids`."""
        position = {id: place for place, id in enumerate(ids)}
        if position.keys().isdisjoint(self.classes()):
            raise UnseenError(f"{self.path}: has no row of any of the {len(position)} classes asked for.")
        labels = np.array([position.get(id, -1) for id in self.labels or []], np.int64)
        return SeenFeatures(self.matrix[labels >= 0], labels[labels >= 0])

    def relabel(self, ids: Mapping[str, str]) -> FeatureArrays:
        arrays = copy(self)
        arrays.labels = [ids.get(label, label) for label in self.labels or []]
        return arrays

    def only(self, classes: Collection[str]) -> FeatureArrays:
        rows = [row for row, label in enumerate(self.labels or []) if label in classes]
        arrays = copy(self)
        arrays.matrix, arrays.labels = self.matrix[rows], [(self.labels or [])[row] for row in rows]
        arrays.names = [self.names[row] for row in rows]
        return arrays


def is_array_file(path: str | Path) -> bool:
    return Path(path).suffix in (".npy", ".npz")


def read_arrays(path: str | Path, width: int | None = None) -> FeatureArrays:
    """The features of a .npy or .npz file, with labels if it has them; no code in it is ever run."""
    path = Path(path)
    try:
        loaded = load_numpy(path)
        arrays = {"features": loaded} if isinstance(loaded, np.ndarray) else loaded
    except FileNotFoundError:
        raise UnseenError(f"{path}: there is no such file of features.") from None
    except ValueError as error:  # Python objects, or something else than an array
        raise UnseenError(
            f"{path}: is not a file of plain arrays ({error}). Save labels as text: np.array(labels, dtype=str)."
        ) from None
    except DAMAGE as error:
        raise UnseenError(f"{path}: is not a readable .npy or .npz file ({error}).") from None
    features, labels = (next((arrays[key] for key in keys if key in arrays), None) for keys in (FEATURES, LABELS))
    if features is None:
        raise UnseenError(f"{path}: has no array `features`, but {', '.join(sorted(arrays)) or 'nothing'}.")
    if width is not None:
        check_matrix(features[:1], str(path), width)
    return FeatureArrays(features, None if labels is None else labels.tolist(), str(path))


def check_matrix(features: Any, where: str = "the features", width: int | None = None) -> np.ndarray:
    """n x D float32, finite; a single row may come without its first axis."""
    try:
        features = features.toarray() if hasattr(features, "toarray") else features
        features = features.detach().cpu() if hasattr(features, "detach") else features
        matrix = np.atleast_2d(np.asarray(features, np.float32))
    except (TypeError, ValueError, AttributeError):
        raise UnseenError(f"{where}: must be rows of numbers, not {type(features).__name__}.") from None
    if matrix.ndim != 2 or not matrix.size:
        raise UnseenError(f"{where}: must be a matrix with a row for each item; the shape is {matrix.shape}.")
    if width is not None and matrix.shape[1] != width:
        raise UnseenError(f"{where}: rows of {matrix.shape[1]} features, but the bundle is for {width}.")
    if not np.isfinite(matrix).all():
        raise UnseenError(f"{where}: row {int(np.argmin(np.isfinite(matrix).all(1)))} holds NaN or infinity.")
    if max(matrix.max(), -matrix.min()) > LARGEST:
        raise UnseenError(f"{where}: a number is beyond {LARGEST:g}, too large to compute with in 32 bits: scale them.")
    return matrix
