"""How photos of a class change its classifier: a prediction in doubt and photos as evidence, weighed in closed form.

    w' = mu + shrink(a) ((1 - a) (w - mu) + a (q - mu)),    a = n doubt / (n doubt + NOISE)

w is the predicted classifier, a guess with variance `doubt`; kin knows it, 1 - trust^2. q is the classifier that n
photos give alone: the direction from an average photo c to their mean feature m, as long as seen classifiers are,

    q = mu + length * (m - c) / |m - c|

with mu the mean of the seen classifiers and `length` their usual distance from it. NOISE is the variance of what a
single photo says. A class that was taught must not shout down the others: the bias of w' is chosen so that the average
photo c scores as before, and the more it owes to photos the shorter it is made, since photos of its siblings are like
its own photos too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unseen.bundle.lessons import Lesson
from unseen.methods.projections import Append1, Projection, Unit

NOISE = 1.0
"""Of one photo, in units of the variance of a class of which nothing is known: with it, seen classes that were hidden
and then taught come nearest to the network's own classifiers (`benchmarks/teaching.py choose`, four networks)."""
DOUBT = 0.75
"""Of a prediction whose method cannot tell: the median of kin's on hidden seen classes."""
SEEN_DOUBT = 0.01
"""Of a classifier that the network learned from photos itself."""
SMALL = 1e-12


@dataclass(frozen=True)
class Reference:
    """What the seen classifiers of a matrix (M x E) have in common."""

    mean: np.ndarray  # E
    length: float  # the usual distance from it

    @classmethod
    def of(cls, rows: np.ndarray) -> Reference:
        rows = np.asarray(rows, np.float64)
        mean = rows.mean(axis=0)
        length = float(np.sqrt(((rows - mean) ** 2).sum(axis=1).mean()))
        # With a single seen class the distance says nothing, but its own length does.
        return cls(mean, length if length > SMALL else float(np.linalg.norm(mean)))

    @property
    def size(self) -> float:
        """How long the classifiers usually are."""
        return float(np.hypot(self.length, np.linalg.norm(self.mean)))


def weigh(photos: int, doubt: float, noise: float = NOISE) -> float:
    """a: how much photos count against the prediction, 0..1.

    >>> weigh(0, 0.75), round(weigh(1, 0.75), 2), round(weigh(10, 0.75), 2)
    (0.0, 0.43, 0.88)
    """
    return photos * doubt / (photos * doubt + noise)


def shrink(weight: float) -> float:
    """How much shorter a classifier is made that owes so much to photos.

    Longer ones take more photos from untaught siblings; shorter ones lose too many of their own.

    >>> shrink(0.2), round(shrink(0.7), 2), round(shrink(1.0), 2)
    (1.0, 0.76, 0.55)
    """
    return min(1.0, 1.25 - 0.7 * weight)


def remaining_doubt(photos: int, doubt: float) -> float:
    """The variance that is left when photos were weighed in."""
    return doubt * (1 - weigh(photos, doubt))


def combine(predicted: np.ndarray, point: np.ndarray, weight: float, like: Reference, has_bias: bool) -> np.ndarray:
    """w' (E, float32) of the predicted classifier and the photos' mean, `point`, where classes are scored (E).

    With `has_bias` the last number of each is a bias, and the 1 that it is multiplied by. Without, scores are like
    cosines, and only the direction of the point itself counts.
    """
    if not has_bias:
        length = max(float(np.linalg.norm(point)), SMALL)
        return ((1 - weight) * predicted + weight * like.size * point / length).astype(np.float32)
    prior, seen = predicted[:-1].astype(np.float64), point[:-1].astype(np.float64)
    centre = average_photo(seen)
    direction = seen - centre
    length = np.linalg.norm(direction)
    if length < SMALL:  # features that are all alike say nothing
        return predicted.astype(np.float32)
    mean = like.mean[:-1]
    weights = mean + shrink(weight) * ((1 - weight) * (prior - mean) + weight * like.length * direction / length)
    bias = float(predicted[-1]) + (prior - weights) @ centre
    return np.append(weights, bias).astype(np.float32)


def average_photo(features: np.ndarray) -> np.ndarray:
    """The features that an average photo would have, as far as this one tells: all alike.

    Pooled features are nearly that: the mean over photos of EfficientNet-Lite0's and of ResNet-50's has a cosine of
    0.94 and 0.95 with it.
    """
    return np.full_like(features, features.mean())


def scores_with_bias(projection: Projection) -> bool:
    """Whether the last number of a point is a 1, for the bias."""
    return isinstance(projection, (Append1, Unit))


def taught_head(known: np.ndarray, lessons: Mapping[int, Lesson]) -> np.ndarray:
    """The network's own classifiers (M x P) with those of taught classes, given by their rows, moved likewise."""
    head, like = np.array(known, np.float32), Reference.of(known)
    for row, lesson in lessons.items():
        point = np.append(lesson.mean, 1.0)
        head[row] = combine(known[row], point, weigh(lesson.photos, SEEN_DOUBT), like, has_bias=True)
    return head
