"""Settings chosen on the seen classes alone: hide half of them, predict their classifiers, and see who is recognised.

A hidden class's own classifier stands in for its photos: what it scores highest is what its photos would be called. The
quality is the mean reciprocal rank of the right class among all hidden ones, over several random halvings. To predict
half of the classes from the other half is about as hard as the real task; to leave out one at a time is far easier, and
the squared error rewards what can be predicted of all classes alike, which tells no two apart: see
`benchmarks/kin_ablation.py criteria`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

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


def reciprocal_ranks(known: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """1 / rank of each class's own prediction when its known classifier scores the predictions for all (n).

    Predictions count by direction only. A tie counts half: predictions that are all alike are no better than chance.
    """
    lengths = np.linalg.norm(predicted, axis=1)
    scores = known @ (predicted / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None]).T
    own = np.diagonal(scores)[:, None]
    return 1 / (1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2)


def quality(kernel: np.ndarray, ridge: float, targets: np.ndarray, splits: Sequence[Halves]) -> np.ndarray:
    """How well each class is recognised when its half is hidden: mean reciprocal rank over the halvings (M).

    `kernel` is M x M between seen classes, `targets` M x d, centred.
    """
    kernel = kernel.astype(np.float64)
    found = np.zeros(len(kernel))
    for first, second in splits:
        for hidden, rest in ((first, second), (second, first)):
            system = kernel[np.ix_(rest, rest)] + ridge * np.eye(len(rest))
            dual = cho_solve(cho_factor(system, overwrite_a=True), targets[rest])
            found[hidden] += reciprocal_ranks(targets[hidden], kernel[np.ix_(hidden, rest)] @ dual)
    return found / len(splits)


def better(quality_of: Callable[[dict[str, Any]], np.ndarray], start: dict[str, Any], grid: Mapping[str, Sequence]):
    """From `start`, one setting after another: take the best value if it beats the present one by more than chance.

    Chance is two standard errors of the difference, class by class. Returns the settings and their quality.
    """
    chosen, present = dict(start), quality_of(start)
    for name, values in grid.items():
        best, gained = None, 0.0
        for value in values:
            found = quality_of(chosen | {name: value})
            difference = found - present
            gain = difference.mean() - 2 * difference.std() / np.sqrt(len(difference))
            if gain > gained:
                best, gained = (value, found), gain
        if best is not None:
            chosen[name], present = best
    return chosen, float(present.mean())
