"""The few numbers that turn scores into probabilities.

    p(c | x) =      g(x)  softmax over the seen classes of    a * logit_c          c seen
             = (1 - g(x)) softmax over the unseen classes of  b * score_c          c unseen
    g(x)     = sigmoid(slope * (E(x) - centre) + offset),      E(x) = log sum_c exp(logit_c)

Logits are the network's own, scores the method's. The gate g is the probability that the photo shows a class that the
network was trained on; it reads how strongly the network responds at all. `probability.verdicts` reads `exponents`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from unseen.runtime.records import Record

SURE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""The surenesses at which exponents are kept; between them they are interpolated."""


@dataclass(frozen=True)
class ProbabilityNumbers(Record):
    """What `unseen calibrate` learns on hidden seen classes; see the formulas of `unseen.probability.numbers`.

    Args:
        seen_sharpness: a, the inverse temperature of the network's logits.
        unseen_sharpness: b, that of the method's scores.
        gate_slope: How fast the gate opens as the network's response grows.
        gate_centre: The response at which it is half open, but for the offset.
        gate_offset: The balance between seen and unseen classes, as log-odds.
        seen_exponents: For each sureness of SURE, how careful a verdict is where the gate says "seen".
        unseen_exponents: The same where it says "unseen".

    >>> import unseen
    >>> numbers = unseen.ProbabilityNumbers(1.0, 5.0, 1.0, 9.0, 0.0, [1.0] * 7, [2.0] * 7)
    >>> numbers.exponent(0.9, np.array([0.0, 1.0])).tolist()
    [2.0, 1.0]
    """

    seen_sharpness: float
    unseen_sharpness: float
    gate_slope: float
    gate_centre: float
    gate_offset: float
    seen_exponents: Sequence[float]
    unseen_exponents: Sequence[float]

    def log_probabilities_(self, scores: Tensor, logits: Tensor, own: Tensor) -> Tensor:
        """Scores (n x C, seen candidates first) -> log p, in place.

        `logits` (n x M) are over all seen classes, `own` are the places among them of the seen candidates.
        """
        border = len(own)
        seen, unseen = scores[:, :border], scores[:, border:]
        if border:
            torch.mul(logits[:, own], self.seen_sharpness, out=seen)
            seen -= seen.logsumexp(1, keepdim=True)
        if border < scores.shape[1]:
            unseen *= self.unseen_sharpness
            unseen -= unseen.logsumexp(1, keepdim=True)
            if border:
                odds = self.gate(logits)[:, None]
                seen += logsigmoid(odds)
                unseen += logsigmoid(-odds)
        return scores

    def gate(self, logits: Tensor) -> Tensor:
        """n: the log-odds that a photo shows a seen class."""
        return self.gate_slope * (logits.logsumexp(1) - self.gate_centre) + self.gate_offset

    def exponent(self, sure: float, gate: np.ndarray) -> np.ndarray:
        """n: how careful a verdict is, for photos that show a seen class with probability `gate`."""
        seen, unseen = (_between(sure, table) for table in (self.seen_exponents, self.unseen_exponents))
        return np.exp(gate * seen + (1 - gate) * unseen)


def _between(sure: float, exponents: Sequence[float]) -> float:
    """log k at a sureness; beyond the ends of SURE it goes on as between the last two."""
    places, values = [math.log1p(-s) for s in SURE], [math.log(k) for k in exponents]
    at = math.log1p(-sure)
    for i in range(len(SURE) - 2):
        if at >= places[i + 1]:
            break
    else:
        i = len(SURE) - 2
    return values[i] + (values[i + 1] - values[i]) * (at - places[i]) / (places[i + 1] - places[i])


UNCALIBRATED = ProbabilityNumbers(
    seen_sharpness=1.8,
    unseen_sharpness=1.8,
    gate_slope=0.0,
    gate_centre=0.0,
    gate_offset=0.0,
    seen_exponents=(0.35, 0.6, 1.1, 2.2, 5.0, 10.0, 25.0),
    unseen_exponents=(0.35, 0.6, 1.1, 2.2, 5.0, 10.0, 25.0),
)
"""For a bundle that nobody calibrated: sharpness per standard deviation of a photo's scores, and careful enough for
most networks. Answers made with it say so."""


def plain_probabilities(scores: np.ndarray) -> np.ndarray:
    """p (n x C) without a calibration: one softmax over all scores, whatever their scale, so that their order stays."""
    finite = np.isfinite(scores)
    spread = np.std(scores, axis=1, keepdims=True, where=finite)
    sharp = UNCALIBRATED.unseen_sharpness / np.maximum(spread, np.finfo(np.float32).tiny)
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(sharp * np.where(finite, scores - np.where(np.isfinite(top), top, 0), -np.inf))
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
