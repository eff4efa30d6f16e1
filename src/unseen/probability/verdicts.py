"""The verdict: the node that a photo is known to show, at the level of detail that the sureness asked for allows.

    verdict = argmax over nodes v of  (information(v) + 1/2) * P(v)^k        k: how careful, from the sureness

It is the choice of somebody for whom an answer is worth what it tells, and only if it is right; the greater k, the more
they fear to be wrong. Where the winner says next to nothing, the verdict is "unknown".
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unseen.errors import UnseenError
from unseen.probability.sums import NodeSums

START = 0.5  # bits: what an answer that tells nothing is worth, so that it can win
FLOOR = 0.02  # a node below this probability is never a verdict
USEFUL_BITS = 2.0
"""A verdict on more than a quarter of all classes ("whole", "organism", "artifact") tells a person nothing; with few
classes, where a quarter is hardly more than one of them, a third of the bits of a single class is enough."""

LEVELS = (("sure", 0.9), ("likely", 0.7), ("guess", 0.0))
"""What a verdict is called, by its probability."""


@dataclass(frozen=True)
class Verdict:
    """The most informative node that a photo shows with the sureness asked for.

    Args:
        id: The node; None where nothing useful is known with that sureness.
        name: Its name.
        probability: How probable it is that the photo shows it.
        level: sure, likely, guess or unknown.
        classes: How many of the candidates are at or below it.
        path: Names from the top of the hierarchy down to it.

    >>> import unseen
    >>> verdict = unseen.Verdict("n02374451", "horse", 0.96, "sure", 31, ("entity", "equine", "horse"))
    >>> print(verdict)
    sure: horse (96 %)
    >>> print(unseen.Verdict.unknown(candidates=21842))
    don't know
    """

    id: str | None
    name: str | None
    probability: float
    level: str
    classes: int
    path: tuple[str, ...]

    @classmethod
    def unknown(cls, candidates: int) -> Verdict:
        return cls(None, None, 1.0, "unknown", candidates, ())

    def __str__(self) -> str:
        return (
            "don't know"
            if self.id is None
            else f"{self.level}: {self.name} ({self.probability:.0%})".replace("%", " %")
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_sureness(sure: float) -> float:
    if isinstance(sure, bool) or not isinstance(sure, (int, float)) or not 0 < sure < 1:
        raise UnseenError(
            f"sure must be a number between 0 and 1, such as 0.9 (right 9 times in 10), not {sure!r}", "sure"
        )
    return float(sure)


class Contest:
    """The nodes that may be the verdict on n photos: those that are probable at all. Nodes are places in `sums.nodes`.

    `masses` (n x V) are the nodes' probabilities.
    """

    def __init__(self, sums: NodeSums, masses: np.ndarray):
        self.sums, self.photos = sums, len(masses)
        self.photo, self.node = np.nonzero(masses >= FLOOR)
        self.probability = masses[self.photo, self.node]
        self._gain, self._log = np.log(sums.information[self.node] + START), np.log(self.probability)

    def winners(self, exponent: float) -> np.ndarray:
        """n: each photo's verdict, or -1 for "unknown"; the exponent says how careful to be."""
        value = self._gain + exponent * self._log
        best = np.full(self.photos, -np.inf)
        np.maximum.at(best, self.photo, value)
        winning = value == best[self.photo]
        chosen = np.full(self.photos, -1)
        chosen[self.photo[winning][::-1]] = self.node[winning][::-1]  # of equal ones the first
        won = chosen >= 0
        won[won] = self.sums.information[chosen[won]] >= least_information(self.sums)
        return np.where(won, chosen, -1)


def least_information(sums: NodeSums) -> float:
    """Bits below which an answer is none."""
    return min(USEFUL_BITS, math.log2(max(len(sums.candidates), 2)) / 3)


def level_of(probability: float) -> str:
    return next(word for word, least in LEVELS if probability >= least)
