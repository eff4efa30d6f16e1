"""Settings chosen on the seen classes alone, without a photo. Their own classifiers stand in for their photos: what a
classifier scores highest is what photos of its class would be called. Two questions are asked:

- *hidden halves*: half of the seen classes is hidden and predicted; which place has the right one among all hidden?
  This tells how well siblings are kept apart.
- *upward*: nothing is hidden; which place has a parent of a seen class among all unseen classes nearby? Unseen classes
  that are recognised at all lie above seen ones, mostly, and their photos look like those of a seen class.

Over many variants of kin and four networks the first alone foretells photos of unseen classes poorly; the second, or
both together, well: `benchmarks/criterion.py` has the figures. Neither depends on chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unseen.methods.ridge import leave_groups_out

LOSS = 0.005  # of hidden halves at most, for any gain upward: to gain on the one at the cost of the other is no gain
DIRECTIONS = 200  # principal directions of the seen classifiers that are compared: the rest is mostly chance
Halves = list[np.ndarray]
Answers = tuple[np.ndarray, np.ndarray]


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
    inverse = np.linalg.inv(kernel.astype(np.float64) + ridge * np.eye(len(kernel)))
    found = np.zeros(len(kernel))
    for halves in splits:
        predicted = leave_groups_out(inverse, targets, halves)
        for hidden in halves:
            found[hidden] += reciprocal_ranks(targets[hidden], predicted[hidden])
    return found / len(splits)


def upward_ranks(known: np.ndarray, predicted: np.ndarray, parents: Sequence[np.ndarray]) -> np.ndarray:
    """1 / rank of the best of a class's parents when its known classifier scores the predictions (M); nan without one.

    `known` is M x d, `predicted` U x d; `parents` are places among the U for each of the M. Predictions count with
    their length. A tie counts half.
    """
    scores = known @ predicted.T
    found = np.full(len(known), np.nan)
    for place, own in enumerate(parents):
        if len(own):
            best, row = scores[place, own].max(), scores[place]
            found[place] = 1 / (1 + (row > best).sum() + ((row == best).sum() - 1) / 2)
    return found


def together(halves: np.ndarray, upward: np.ndarray) -> np.ndarray:
    """One quality for each class (M): twice the upward one and once that of hidden halves; these alone without it."""
    return np.where(np.isnan(upward), halves, (2 * np.nan_to_num(upward) + halves) / 3)


def better(answers_of: Callable[[dict[str, Any]], Answers], start: dict[str, Any], grid: Mapping[str, Sequence]):
    """From `start`, one setting after another: take the best value if it beats the present one by more than chance, and
    hidden halves lose no more than LOSS by it.

    Chance is two standard errors of the difference, class by class. `answers_of` settings are those to the two
    questions, hidden halves and upward (M each). Returns the settings and their answers.
    """
    chosen, present = dict(start), answers_of(start)
    for name, values in grid.items():
        best, gained = None, 0.0
        for value in values:
            found = answers_of(chosen | {name: value})
            difference = together(*found) - together(*present)
            gain = difference.mean() - 2 * difference.std() / np.sqrt(len(difference))
            if gain > gained and found[0].mean() >= present[0].mean() - LOSS:
                best, gained = (value, found), gain
        if best is not None:
            chosen[name], present = best
    return chosen, present
