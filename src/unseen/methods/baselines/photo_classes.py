"""What methods that learn from photos start from, and how they choose settings: on seen classes that are hidden.

Classes are hidden whole, as unseen ones are: a setting is good if photos of the hidden classes find their class among
those, by descriptions alone. No photo of an unseen class is ever looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unseen.errors import UnseenError
from unseen.methods.problem import Problem, has_vector, normalise_rows


@dataclass(frozen=True)
class PhotoClasses:
    """Photos of C seen classes, each of which has photos and a vector.

    Args:
        matrix: n x D, features.
        labels: n, positions in `vectors`.
        vectors: C x S, of length 1.
        seen: C, positions in the problem's seen classes.
    """

    matrix: np.ndarray
    labels: np.ndarray
    vectors: np.ndarray
    seen: np.ndarray

    @classmethod
    def of(cls, problem: Problem, method: str) -> PhotoClasses:
        """All photos that a problem has to learn from; an error without any."""
        store = problem.require_features(method)
        vectors = normalise_rows(problem.vectors.matrix[problem.seen])
        useful = has_vector(vectors)[store.labels]
        if not useful.any():
            raise UnseenError(
                f"{method}: no seen class with photos has a word vector, so there is nothing to learn from"
            )
        everything = bool(useful.all())
        seen, labels = np.unique(store.labels if everything else store.labels[useful], return_inverse=True)
        return cls(store.matrix if everything else store.matrix[useful], labels, vectors[seen], seen)

    def __len__(self) -> int:
        """Classes."""
        return len(self.vectors)

    def only(self, classes: np.ndarray) -> PhotoClasses:
        """With photos of these classes (sorted positions) alone."""
        own = np.isin(self.labels, classes)
        labels = np.searchsorted(classes, self.labels[own])
        return PhotoClasses(self.matrix[own], labels, self.vectors[classes], self.seen[classes])

    def folds(self, count: int, seed: int) -> Iterator[tuple[PhotoClasses, PhotoClasses]]:
        """(the rest, the hidden ones), each class hidden once; nothing where there are too few classes to hide any."""
        if len(self) < 4:
            return
        fold = np.random.default_rng(seed).permutation(len(self)) % min(count, len(self) // 2)
        for number in range(fold.max() + 1):
            yield self.only(np.flatnonzero(fold != number)), self.only(np.flatnonzero(fold == number))

    def hidden(self, share: float, seed: int) -> tuple[PhotoClasses, PhotoClasses] | None:
        """(the rest, a random share that is hidden); None where there are too few classes to hide any."""
        return next(self.folds(max(2, round(1 / share)), seed), None)

    def accuracy(self, scores: np.ndarray) -> float:
        """Class-averaged Hit@1 of scores (n x C), 0..1: photos of a class weigh as much as those of another."""
        hit = scores.argmax(axis=1) == self.labels
        return float(np.mean(self.class_means(hit[:, None].astype(np.float64))))

    def class_means(self, points: np.ndarray) -> np.ndarray:
        """C x E: the mean over each class's photos of what is given for photos, n x E."""
        return class_means(points, self.labels, len(self))


def class_means(points: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Means of rows by label, in double precision (classes x E)."""
    from scipy.sparse import csr_array

    count = np.bincount(labels, minlength=classes)
    members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(classes, len(labels)))
    return np.asarray(members @ points) / np.maximum(count, 1)[:, None]


def second_moment(points: np.ndarray, chunk: int = 8192) -> np.ndarray:
    """X'X in double precision (D x D), without a copy of X in it."""
    total = np.zeros((points.shape[1], points.shape[1]))
    for start in range(0, len(points), chunk):
        part = points[start : start + chunk].astype(np.float64)
        total += part.T @ part
    return total


def moments(most: int, count: int) -> list[int]:
    """At how many steps to look, from few to `most`: each time about twice as many as before."""
    return sorted({max(1, round(most / 2**i)) for i in range(count)})


def best(tried: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Of (accuracy, setting, ...) the most accurate; of equal ones the first, so list plainer settings first."""
    return max(tried, key=lambda trial: trial[0])
