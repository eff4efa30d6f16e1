"""What a calibration changes, told by the photos that it was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unseen.probability.fitting import Sample, is_right
from unseen.probability.numbers import ProbabilityNumbers
from unseen.probability.verdicts import Contest

TOLD = (0.8, 0.9, 0.95)  # surenesses


def measure_effect(numbers: ProbabilityNumbers, samples: Sequence[Sample], whole: Sample) -> dict[str, Any]:
    """Accuracy among all classes before and after, in per cent, and what verdicts are worth, for both kinds of photos.

    `whole` are photos of seen classes with nothing hidden, `samples` those with some classes hidden.
    """
    everyone = np.arange(len(whole.truth))
    return {
        "seen": {
            "network_hit@1": count_hits(whole, whole.logits, everyone, 1),
            "before_hit@1": count_hits(whole, _by_score(whole), everyone, 1),
            "hit@1": count_hits(whole, whole.probabilities(numbers), everyone, 1),
        },
        "hidden": {
            "before_hit@5": _mean(count_hits(s, _by_score(s), _hidden(s), 5) for s in samples),
            "hit@5": _mean(count_hits(s, s.probabilities(numbers), _hidden(s), 5) for s in samples),
        },
        "verdicts": [_judge(numbers, samples, sure) for sure in TOLD],
    }


def best_group_shift(samples: Sequence[Sample]) -> float:
    """The shift that tells best which group a photo belongs to: the mean of both groups' accuracies."""
    margin = np.concatenate([s.seen_scores.max(axis=1) - s.scores.max(axis=1) for s in samples])
    kept = np.concatenate([s.is_kept for s in samples])
    if kept.all() or not kept.any():
        return 0.0
    places = np.unique(np.concatenate([margin, [0.0]]))
    seen = 1 - np.searchsorted(np.sort(margin[kept]), places, side="right") / kept.sum()
    unseen = np.searchsorted(np.sort(margin[~kept]), places) / (~kept).sum()
    return float(places[int(np.argmax(seen + unseen))])


def count_hits(sample: Sample, order: np.ndarray, photos: np.ndarray, k: int) -> float:
    """Per cent of some photos whose class is among the k best; `order` (n x C, or n x M) ranks the candidates."""
    if not len(photos):
        return float("nan")
    own = order[photos, sample.columns[sample.truth[photos]]]
    return round(float(100 * ((order[photos] > own[:, None]).sum(axis=1) < k).mean()), 2)


def _by_score(sample: Sample) -> np.ndarray:
    return np.concatenate([sample.seen_scores, sample.scores], axis=1)


def _hidden(sample: Sample) -> np.ndarray:
    return np.flatnonzero(~sample.is_kept)


def _mean(values) -> float:
    return round(float(np.mean(list(values))), 2)


def _judge(numbers: ProbabilityNumbers, samples: Sequence[Sample], sure: float) -> dict[str, Any]:
    """How often verdicts of a sureness are right, and their bits, for kept and for hidden classes."""
    told: dict[str, Any] = {"sure": sure}
    for name, wanted in (("seen", True), ("hidden", False)):
        right, bits = [], []
        for sample in samples:
            chosen = np.flatnonzero(sample.is_kept == wanted)
            masses = sample.sums(sample.probabilities(numbers, chosen))
            nodes = Contest(sample.sums, masses).winners(numbers.exponent(sure))
            right.append(is_right(sample.sums, nodes, sample.columns[sample.truth[chosen]]))
            bits.append(np.where(nodes < 0, 0, sample.sums.information[nodes]))
        told[name] = {
            "right": round(100 * float(np.concatenate(right).mean()), 2),
            "information": _mean(np.concatenate(bits)),
        }
    return told
