"""Settings chosen on the seen classes alone: hide half of them, predict their classifiers, and see who is recognised.

A hidden class's own classifier stands in for its photos: what it scores highest is what its photos would be called. The
quality is the mean reciprocal rank of the right class among all hidden ones, over several random halvings. To predict
half of the classes from the other half is about as hard as the real task; to leave out one at a time is far easier, and
the squared error rewards what can be predicted of all classes alike, which tells no two apart (docs/methods.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unseen.ridge import Ridges, leave_groups_out

DIRECTIONS = 200  # principal directions of the seen classifiers that are compared: the rest is mostly chance
Halves = list[np.ndarray]


def halvings(classes: int, times: int, seed: int = 0) -> list[Halves]:
    """Random halvings of the classes: each a pair of arrays of positions."""
    random = np.random.default_rng(seed)
    return [np.array_split(random.permutation(classes), 2) for _ in range(times)]


def principal_part(centred: np.ndarray, directions: int = DIRECTIONS) -> np.ndarray:
    """The centred targets (M x P) in coordinates along their strongest directions (M x at most `directions`)."""
    values, vectors = np.linalg.eigh(centred @ centred.T)
    strongest = np.argsort(-values)[:directions]
    return vectors[:, strongest] * np.sqrt(np.maximum(values[strongest], 0))


def reciprocal_rank(known: np.ndarray, predicted: np.ndarray) -> float:
    """Mean over classes of 1 / rank of the own prediction when each known classifier scores all of them.

    A tie counts half, so that predictions which are all alike are no better than chance.
    """
    scores = known @ predicted.T
    own = np.diagonal(scores)[:, None]
    rank = 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
    return float((1 / rank).mean())


def quality(inverse: np.ndarray, targets: np.ndarray, splits: Sequence[Halves], floor: float) -> float:
    """How well hidden halves are recognised under (K + ridge I)^-1 = `inverse`; `targets` are centred (M x d)."""
    found = []
    for halves in splits:
        predicted = leave_groups_out(inverse, targets, halves)
        predicted /= np.linalg.norm(predicted, axis=1, keepdims=True) + max(floor, np.finfo(np.float64).tiny)
        found += [reciprocal_rank(targets[half], predicted[half]) for half in halves]
    return float(np.mean(found))


def best_of(
    kernel_of: Callable[[float], np.ndarray],
    widths: Sequence[float],
    ridges: Sequence[float],
    targets: np.ndarray,
    splits: Sequence[Halves],
    floor: float,
) -> tuple[float, float, float]:
    """(quality, width, ridge) of the best pair. `kernel_of(width)` is the kernel between seen classes (M x M)."""
    tried = []
    for width in widths:
        system = Ridges(kernel_of(width))
        tried += [(quality(system.inverse(ridge), targets, splits, floor), width, ridge) for ridge in ridges]
    return max(tried)
