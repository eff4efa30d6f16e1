"""What methods that learn from photos start from, and how they choose settings: on seen classes that are hidden.

Classes are hidden whole, as unseen ones are: a setting is good if photos of the hidden classes find their class among
those, by descriptions alone. No photo of an unseen class is used.

There may be more photos than memory holds: they are read in chunks, as often as a method needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from unseen import Problem, Run, UnseenError
from unseen.methods import has_vector, normalise_rows

CHUNK = 4096  # photos in memory at a time
T = TypeVar("T")
Score = Callable[[np.ndarray], Iterable[np.ndarray]]
ScoreOf = Callable[["PhotoClasses", "PhotoClasses"], Score]


@dataclass(frozen=True)
class PhotoClasses:
    """Photos of C classes, each of which has photos and a vector."""

    source: Any  # features of these photos and perhaps of others, an array or rows on disk
    rows: np.ndarray  # n, which rows of `source` are meant
    labels: np.ndarray  # n, positions in `vectors`
    vectors: np.ndarray  # C x S, of length 1
    nodes: np.ndarray  # C, rows of the hierarchy
    unit: bool = False  # whether photos are scaled to length 1

    @classmethod
    def of(cls, problem: Problem, method: str) -> PhotoClasses:
        """All photos that a problem has to learn from; an error without any."""
        store = problem.require_features(method)
        nodes = problem.photo_nodes(store)
        vectors = normalise_rows(problem.vectors.matrix[nodes])
        useful = has_vector(vectors)[store.labels]
        if not useful.any():
            raise UnseenError(f"{method}: no seen class with photos has a word vector: there is nothing to learn from")
        rows = np.flatnonzero(useful)
        classes, labels = np.unique(store.labels[rows], return_inverse=True)
        return cls(store.matrix, rows, labels, vectors[classes], nodes[classes])

    def __len__(self) -> int:
        """Classes."""
        return len(self.vectors)

    @property
    def photos(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        """D, features of a photo."""
        return self.source.shape[1]

    def scaled(self) -> PhotoClasses:
        """With photos of length 1."""
        return replace(self, unit=True)

    def take(self, places: Any) -> np.ndarray:
        """Features (float32) of the photos at these places, a slice or numbers from 0 to n - 1."""
        photos = np.asarray(self.source[self.rows[places]], np.float32)
        return normalise_rows(photos) if self.unit else photos

    def chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """All photos in their order: places, and features."""
        for start in range(0, self.photos, CHUNK):
            part = slice(start, min(start + CHUNK, self.photos))
            yield part, self.take(part)

    def only(self, classes: np.ndarray) -> PhotoClasses:
        """With photos of these classes (sorted positions) alone."""
        kept = np.isin(self.labels, classes)
        labels = np.searchsorted(classes, self.labels[kept])
        of_classes = {"vectors": self.vectors[classes], "nodes": self.nodes[classes]}
        return replace(self, rows=self.rows[kept], labels=labels, **of_classes)

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

    def choose(self, settings: Sequence[T], folds: int, seed: int, score_of: ScoreOf) -> tuple[T, float] | None:
        """The setting with which photos of left-out classes best find theirs, and their accuracy, averaged over folds.

        `score_of` learns from (the rest, the hidden ones) with every setting; what it gives goes to `accuracies`. None
        where there is one setting only, or too few classes to leave any out.
        """
        trained = (out.accuracies(score_of(rest, out)) for rest, out in self.folds(folds, seed))
        accuracies = list(trained) if len(settings) > 1 else []
        if not accuracies:
            return None
        accuracy, place = best([(value, i) for i, value in enumerate(np.mean(accuracies, axis=0))])
        return settings[int(place)], float(accuracy)

    def accuracies(self, score: Score) -> list[float]:
        """Class-averaged Hit@1, 0..1, of each way to score photos: photos of a class weigh as much as of another.

        `score` takes some photos' features (k x D) and gives their scores (k x C), one matrix for each way.
        """
        hits: list[np.ndarray] = []
        for part, photos in self.chunks():
            labels = self.labels[part]
            for way, scores in enumerate(score(photos)):
                if way == len(hits):
                    hits.append(np.zeros(len(self), np.int64))
                hits[way] += np.bincount(labels[scores.argmax(axis=1) == labels], minlength=len(self))
        count = np.maximum(np.bincount(self.labels, minlength=len(self)), 1)
        return [float(np.mean(right / count)) for right in hits]

    def class_means(self, of: Callable[[slice, np.ndarray], np.ndarray] = lambda part, photos: photos) -> np.ndarray:
        """C x E: the mean over each class's photos of what `of` makes of them, k x E; by default, of the features."""
        from scipy.sparse import csr_array

        sums: Any = 0.0
        for part, photos in self.chunks():
            labels = self.labels[part]
            shape = (len(self), len(labels))
            members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=shape)
            sums = sums + np.asarray(members @ of(part, photos))
        return sums / np.maximum(np.bincount(self.labels, minlength=len(self)), 1)[:, None]

    def mean(self) -> np.ndarray:
        """D, of all photos, in double precision."""
        total = np.zeros(self.width)
        for _, photos in self.chunks():
            total += photos.sum(axis=0, dtype=np.float64)
        return total / max(self.photos, 1)

    def second_moment(self) -> np.ndarray:
        """X'X in double precision (D x D), without a copy of X in it."""
        total = np.zeros((self.width, self.width))
        for _, photos in self.chunks():
            part = photos.astype(np.float64)
            total += part.T @ part
        return total


def stops(model: Any, most: int, count: int, run: Run, title: str) -> Iterator[int]:
    """Train a model, and stop to look: the steps taken so far, each time about twice as many as before."""
    done = 0
    for steps in sorted({max(1, round(most / 2**i)) for i in range(count)}):
        model.train(steps - done, run, title)
        done = steps
        yield done


def take_step(optimiser: Any, loss: Any) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def best(tried: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Of (accuracy, setting, ...) the most accurate; of equal ones the first, so list plainer settings first."""
    return max(tried, key=lambda trial: trial[0])


def at_edge(chosen: Mapping[str, Any], grids: Mapping[str, Sequence[float]]) -> dict[str, list[str]]:
    """For a record: which settings were chosen from the edge of what was tried, so that others may be better."""
    names = [name for name, grid in grids.items() if len(grid) > 1 and chosen[name] in (min(grid), max(grid))]
    return {"at_edge_of_grid": names} if names else {}
