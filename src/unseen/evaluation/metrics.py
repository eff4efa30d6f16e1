"""Hit@k, averaged over photos and over classes; the harmonic mean; the area under the seen-unseen curve. NumPy only.

A photo's rank is given by two counts over the candidates: how many score *greater* than the true class, and how many
others score *equal*. What a tie is worth is the tie mode's to say, and results name their mode:

    realistic      the expected value over a random order of the tied classes (default): a hit may be a fraction
    optimistic     ties are resolved for the model
    pessimistic    ties are resolved against the model, as in the code of the paper's authors (`>=`)

Counters take batches, and merge: what several processes count together is exactly what one would have counted.
Accuracies are per cent, areas within 0..1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unseen.errors import UnseenError

KS = (1, 2, 5, 10, 20)
TIES = ("realistic", "optimistic", "pessimistic")


# Hits are summed as whole multiples of 2^-32: such sums do not depend on their order, so that any number of processes
# gives exactly the same result. A class may have 2^31 photos.
UNIT = 2**32


def hits(greater: np.ndarray, equal: np.ndarray, k: int, ties: str = "realistic") -> np.ndarray:
    """What each photo adds to Hit@k: float64 (n), within 0..1.

    The true class ranks 1 + greater if it wins all ties and 1 + greater + equal if it loses them. Over a random order
    each of these equal + 1 ranks is as likely, so that it is among the first k with probability
    (k - greater) / (equal + 1), clipped to 0..1.
    """
    _check_ties(ties)
    greater, equal = np.asarray(greater, np.int64), np.asarray(equal, np.int64)
    if ties == "optimistic":
        return (greater < k).astype(np.float64)
    if ties == "pessimistic":
        return (greater + equal < k).astype(np.float64)
    return np.clip((k - greater) / (equal + 1), 0.0, 1.0)


def harmonic_mean(seen: float | None, unseen: float | None) -> float | None:
    """2 s u / (s + u); 0 if either is 0, None if either is missing."""
    if seen is None or unseen is None:
        return None
    return 2 * seen * unseen / (seen + unseen) if seen + unseen else 0.0


def ranking_area(
    high: np.ndarray, low: np.ndarray, high_weights: np.ndarray | None = None, low_weights: np.ndarray | None = None
) -> float:
    """The area under the curve of a moving threshold: sum of w_i v_j [high_i > low_j], equal pairs counting half.

    Without weights it is the share of pairs in the right order (AUROC). Exact, in O(n log n).
    """
    high, low = np.asarray(high), np.asarray(low)
    if high_weights is None:
        high_weights = np.full(len(high), 1 / max(len(high), 1))
    if low_weights is None:
        low_weights = np.full(len(low), 1 / max(len(low), 1))
    order = np.argsort(low, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(low_weights, np.float64)[order])])
    below = sums[np.searchsorted(low[order], high, side="left")]
    up_to = sums[np.searchsorted(low[order], high, side="right")]
    return float(np.sum(high_weights * (below + up_to) / 2))


class HitCounter:
    """Counts hits for each class over any number of batches.

    >>> counter = HitCounter(["cat", "dog", "emu"], ks=(1, 2))
    >>> counter.update(labels=[0, 1, 1, 1, 1], greater=[0, 1, 9, 9, 9], equal=[0, 1, 0, 0, 0])
    >>> counter.by_image()
    {'hit@1': 20.0, 'hit@2': 30.0}
    >>> counter.by_class()
    {'hit@1': 50.0, 'hit@2': 56.25}
    >>> counter.coverage
    (2, 3)
    """

    def __init__(self, classes: Sequence[str], ks: Sequence[int] = KS, ties: str = "realistic"):
        _check_ties(ties)
        if not ks or min(ks) < 1:
            raise UnseenError(f"Hit@k needs k of 1 or more, not {list(ks)}.")
        self.classes, self.ks, self.ties = list(classes), tuple(ks), ties
        self.photos = np.zeros(len(self.classes), np.int64)
        self._hits = np.zeros((len(self.classes), len(self.ks)), np.int64)

    def update(self, labels: np.ndarray, greater: np.ndarray, equal: np.ndarray) -> None:
        """Add photos; `labels` are positions in `classes`."""
        labels = np.asarray(labels, np.int64)
        self.photos += np.bincount(labels, minlength=len(self.photos))
        for column, k in enumerate(self.ks):
            units = np.rint(hits(greater, equal, k, self.ties) * UNIT).astype(np.int64)
            np.add.at(self._hits[:, column], labels, units)

    def state(self) -> dict[str, np.ndarray]:
        """What `merge` takes. Adding the arrays of several states merges them, too."""
        return {"photos": self.photos, "hits": self._hits}

    def merge(self, state: Mapping[str, np.ndarray]) -> None:
        """Add the photos of another counter over the same classes."""
        self.photos = self.photos + state["photos"]
        self._hits = self._hits + state["hits"]

    @property
    def coverage(self) -> tuple[int, int]:
        """(classes with photos, classes)."""
        return int((self.photos > 0).sum()), len(self.classes)

    def by_image(self) -> dict[str, float | None]:
        """Hit@k in per cent of the photos; None without photos."""
        total = int(self.photos.sum())
        return self._named(self._hits.sum(axis=0) / UNIT / total if total else None)

    def by_class(self) -> dict[str, float | None]:
        """Hit@k in per cent, the mean over the classes that have photos; None without photos."""
        present = self.photos > 0
        shares = self._hits[present] / UNIT / self.photos[present, None]
        return self._named(shares.mean(axis=0) if len(shares) else None)

    def table(self) -> list[dict[str, Any]]:
        """A row for each class that has photos, in the order of `classes`: {"id", "photos", "hit@1", ...}."""
        return [
            {"id": self.classes[c], "photos": int(self.photos[c])} | self._named(self._hits[c] / UNIT / self.photos[c])
            for c in np.flatnonzero(self.photos)
        ]

    def _named(self, shares: np.ndarray | None) -> dict[str, float | None]:
        return {f"hit@{k}": None if shares is None else 100 * float(shares[i]) for i, k in enumerate(self.ks)}


@dataclass(frozen=True)
class Balance:
    """Accuracy (Hit@1, per cent) on seen and on unseen classes, with `shift` taken off all seen classes' scores."""

    shift: float
    seen: float
    unseen: float

    @property
    def harmonic(self) -> float:
        return harmonic_mean(self.seen, self.unseen) or 0.0


class SeenUnseenCurve:
    r"""Accuracy on seen against accuracy on unseen classes, over every possible shift g of the seen classes' scores.

    A photo's margin is m = (best seen score) - (best unseen score). With a shift of g, a photo of a seen class is right
    when it is right among the seen classes and m > g; one of an unseen class when it is right among the unseen ones
    and m < g. So the curve's area follows from the margins alone, without a grid of shifts:

    .. math::  AUSUC = \sum_{i \in seen} \sum_{j \in unseen} w_i w_j ([m_i > m_j] + [m_i = m_j] / 2),

    w being the photo's share in its group's accuracy (`average` "image": 1 / photos; "class": 1 / (classes x photos of
    the class)) times the probability that it is right within its own group. Photos without a chance are only counted;
    the others take 16 bytes each.
    """

    def __init__(self, is_seen: np.ndarray):
        self.is_seen = np.asarray(is_seen, bool)  # for each class
        self.photos = np.zeros(len(self.is_seen), np.int64)
        self._kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def update(self, labels: np.ndarray, margins: np.ndarray, right: np.ndarray) -> None:
        """Add photos: positions of their classes, margins, and how probably each is right within its own group."""
        labels, margins, right = np.asarray(labels, np.int64), np.asarray(margins), np.asarray(right)
        self.photos += np.bincount(labels, minlength=len(self.photos))
        chance = right > 0
        self._keep(labels[chance], margins[chance], right[chance])

    def state(self) -> dict[str, np.ndarray]:
        """What `merge` takes. Of several states, `photos` may be added up and the other arrays joined."""
        labels, margins, right = self._all()
        return {"photos": self.photos, "labels": labels, "margins": margins, "right": right}

    def merge(self, state: Mapping[str, np.ndarray]) -> None:
        self.photos = self.photos + state["photos"]
        self._keep(state["labels"], state["margins"], state["right"])

    def area(self, average: str = "class") -> float | None:
        """AUSUC, within 0..1; None if there are no seen or no unseen photos."""
        if not (self.photos[self.is_seen].any() and self.photos[~self.is_seen].any()):
            return None
        seen, margins, weights = self._weighted(average)
        return ranking_area(margins[seen], margins[~seen], weights[seen], weights[~seen])

    def at(self, shift: float, average: str = "class") -> Balance:
        """The point of the curve at one shift; a photo whose margin is just the shift counts half."""
        seen, margins, weights = self._weighted(average)
        beyond = (margins > shift) + (margins == shift) / 2
        seen_share = float(np.sum((weights * beyond)[seen]))
        unseen_share = float(np.sum((weights * (1 - beyond))[~seen]))
        return Balance(shift, 100 * seen_share, 100 * unseen_share)

    def curve(self, average: str = "class") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(shifts, seen, unseen accuracies in per cent), a point for every step, shifts ascending."""
        seen, margins, weights = self._weighted(average)
        finite = np.isfinite(margins)  # a margin is infinite where a group has no answer: no shift changes that
        steps, step = np.unique(margins[finite], return_inverse=True)
        between = (steps[1:] + steps[:-1]) / 2
        shifts = np.concatenate([[steps[0] - 1], between, [steps[-1] + 1]]) if len(steps) else np.zeros(1)
        lost = np.bincount(step, np.where(seen, weights, 0)[finite], len(steps))
        won = np.bincount(step, np.where(seen, 0, weights)[finite], len(steps))
        always_seen, always_unseen = weights[~finite & seen].sum(), weights[~finite & ~seen].sum()
        seen_share = always_seen + np.concatenate([np.cumsum(lost[::-1])[::-1], [0.0]])
        unseen_share = always_unseen + np.concatenate([[0.0], np.cumsum(won)])
        return shifts, 100 * seen_share, 100 * unseen_share

    def best(self, average: str = "class") -> Balance:
        """The shift with the greatest harmonic mean of both accuracies; 0 where none is better, and of several equal
        ones the one nearest to 0."""
        shifts, seen, unseen = self.curve(average)
        harmonic = 2 * seen * unseen / np.maximum(seen + unseen, np.finfo(float).tiny)
        best = np.flatnonzero(harmonic == harmonic.max())
        at = best[np.argmin(np.abs(shifts[best]))]
        none = self.at(0.0, average)
        if none.harmonic >= harmonic[at] - 1e-9:  # the same sums, in another order
            return none
        return Balance(float(shifts[at]), float(seen[at]), float(unseen[at]))

    def _keep(self, labels: np.ndarray, margins: np.ndarray, right: np.ndarray) -> None:
        self._kept.append((labels.astype(np.int32), margins.astype(np.float32), right.astype(np.float64)))

    def _all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All that is kept, sorted, so that sums over it do not depend on the order in which photos came."""
        empty = (np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float64))
        labels, margins, right = (np.concatenate(parts) for parts in zip(empty, *self._kept, strict=True))
        order = np.lexsort((right, labels, margins))
        self._kept = [(labels[order], margins[order], right[order])]
        return self._kept[0]

    def _weighted(self, average: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(of a seen class?, margin, weight) of every photo that is kept."""
        if average not in ("image", "class"):
            raise UnseenError(f"An average is over each 'image' or each 'class', not {average!r}.")
        labels, margins, right = self._all()
        share = np.zeros(len(self.photos))
        for group in (self.is_seen, ~self.is_seen):
            photos = self.photos[group]
            if average == "image":
                share[group] = 1 / max(photos.sum(), 1)
            else:
                share[group] = 1 / np.maximum(photos, 1) / max((photos > 0).sum(), 1)
        return self.is_seen[labels], margins.astype(np.float64), right * share[labels]


def _check_ties(ties: str) -> None:
    if ties not in TIES:
        raise UnseenError(f"Ties are counted {', '.join(TIES)}; there is no mode {ties!r}.")
