"""A novelty detector: does a photo show a seen class at all? Then only seen, or only unseen, classes compete.

It thresholds the network's own confidence; the threshold is chosen on photos of seen classes, some of them hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unseen.errors import UnseenError
from unseen.evaluation.metrics import ranking_area
from unseen.scoring.scorer import MISSED


@dataclass(frozen=True)
class NoveltyDetector:
    """Says "seen" where the network's largest softmax probability over its own classes reaches the threshold."""

    threshold: float
    auroc: float | None = None  # on the photos it was chosen on

    def is_seen(self, known: np.ndarray, features: np.ndarray) -> np.ndarray:
        """n, bool; `known` are the network's classifiers [weight, bias] (M x (D + 1))."""
        return confidence(known, features) >= self.threshold

    @classmethod
    def choose(cls, seen: np.ndarray, novel: np.ndarray) -> NoveltyDetector:
        """The threshold with the best harmonic mean of "seen told as seen" and "novel told as novel".

        `seen` and `novel` are the confidences of photos of seen classes, and of classes that were hidden.
        """
        if not len(seen) or not len(novel):
            raise UnseenError("a novelty threshold needs photos both of seen and of hidden classes: there are too few")
        places = np.unique(np.concatenate([seen, novel]))
        kept = 1 - np.searchsorted(np.sort(seen), places) / len(seen)
        caught = np.searchsorted(np.sort(novel), places) / len(novel)
        balance = 2 * kept * caught / np.maximum(kept + caught, np.finfo(float).tiny)
        return cls(float(places[int(np.argmax(balance))]), round(ranking_area(seen, novel), 4))


def confidence(known: np.ndarray, features: np.ndarray) -> np.ndarray:
    """n: the largest probability, max_c softmax(W f + b)_c, under the known classifiers [W, b] (M x (D + 1))."""
    logits = features @ known[:, :-1].T + known[:, -1]
    return 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1)


def judged_ranks(
    is_seen: np.ndarray, told_seen: np.ndarray, own_greater: np.ndarray, own_equal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(greater, equal) where only the group that the detector named competes: missed if it is the wrong group."""
    right = np.asarray(is_seen, bool) == np.asarray(told_seen, bool)
    return np.where(right, own_greater, MISSED), np.where(right, own_equal, 0)
