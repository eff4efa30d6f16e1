"""The few numbers that turn scores into probabilities.

    p(c | x) =      g(x)  softmax over seen classes of  a * logit_c                                           c seen
             = (1 - g(x)) [(1 - h) softmax over unseen classes of  b * score_c / spread(x) + h * climb_c(x)]  c unseen
    g(x)     = sigmoid(slope * (log sum_c exp(logit_c) - centre) + offset)

Logits are the network's own, scores the method's. The gate g is the probability that a photo shows a class that the
network was trained on: it reads how strongly the network responds at all. `spread` is the standard deviation of the
photo's unseen scores; without it photos with strong features would look far too sure. `climb` lets the network's own
softmax climb to the unseen classes above each seen one, halved with each step: a photo of a "dog" looks like one of
some seen breed. How careful verdicts are (`probability.verdicts`) is one more pair of numbers for each sureness.
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
TINY = 1e-9


@dataclass(frozen=True)
class ProbabilityNumbers(Record):
    """What `unseen calibrate` learns on hidden seen classes; see the formulas of `unseen.probability.numbers`.

    Args:
        seen_sharpness: a, the inverse temperature of the network's logits.
        unseen_sharpness: b, that of the method's scores in units of their spread.
        climb: h, the share of unseen probability that climbs up from seen classes.
        gate_slope: How fast the gate opens as the network's response grows.
        gate_centre: The response at which it is half open, but for the offset.
        gate_offset: The balance between seen and unseen classes, as log-odds.
        seen_exponents: For each sureness of SURE, how careful a verdict is where the gate says "seen".
        unseen_exponents: The same where it says "unseen".

    >>> import numpy as np
    >>> import unseen
    >>> numbers = unseen.ProbabilityNumbers(1.0, 2.0, 0.1, 1.0, 9.0, 0.0, [1.0] * 7, [2.0] * 7)
    >>> numbers.exponent(0.9, np.array([0.0, 1.0])).tolist()
    [2.0, 1.0]
    """

    seen_sharpness: float
    unseen_sharpness: float
    climb: float
    gate_slope: float
    gate_centre: float
    gate_offset: float
    seen_exponents: Sequence[float]
    unseen_exponents: Sequence[float]

    def log_probabilities(
        self, logits: Tensor, scores: Tensor, own: Tensor, climb: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """log p of the seen candidates and of the unseen ones.

        `logits` (n x M) are over all seen classes, `own` are the places among them of the seen candidates; `scores`
        (n x U) are over the unseen candidates. `climb`: of which of them there is a seen candidate below (A), and the
        way up to those (len(own) x A, rows sum to 1 or are 0).
        """
        seen = torch.log_softmax(self.seen_sharpness * logits[:, own], dim=1)
        spread = scores.std(dim=1, keepdim=True, correction=0).clamp_min(TINY)
        unseen = torch.log_softmax(scores * (self.unseen_sharpness / spread), dim=1)
        if not len(own) or not scores.shape[1]:
            return seen, unseen
        if climb is not None and self.climb:
            above, way = climb
            climbed = seen.exp() @ way
            stays = 1 - self.climb * climbed.sum(dim=1, keepdim=True)  # what has nothing to climb to stays
            unseen = unseen + stays.log()
            unseen = unseen.index_copy(
                1, above, torch.logaddexp(unseen[:, above], (self.climb * climbed).clamp_min(TINY).log())
            )
        odds = self.gate(logits)[:, None]
        return seen + logsigmoid(odds), unseen + logsigmoid(-odds)

    def gate(self, logits: Tensor) -> Tensor:
        """n: the log-odds that a photo shows a seen class."""
        return self.gate_slope * (logits.logsumexp(1) - self.gate_centre) + self.gate_offset

    def exponent(self, sure: float, gate: np.ndarray) -> np.ndarray:
        """n: how careful a verdict is, for photos that show a seen class with probability `gate`."""
        seen, unseen = (_between(sure, table) for table in (self.seen_exponents, self.unseen_exponents))
        return np.exp(gate * seen + (1 - gate) * unseen)


def _between(sure: float, exponents: Sequence[float]) -> float:
    """log k at a sureness; beyond the ends of SURE it goes on as between the last two."""
    places, values = [-math.log1p(-s) for s in SURE], [math.log(k) for k in exponents]
    at = -math.log1p(-sure)
    i = min(max(int(np.searchsorted(places, at)) - 1, 0), len(SURE) - 2)
    return values[i] + (values[i + 1] - values[i]) * (at - places[i]) / (places[i + 1] - places[i])


UNCALIBRATED = ProbabilityNumbers(
    seen_sharpness=1.9,
    unseen_sharpness=1.9,
    climb=0.0,
    gate_slope=0.0,
    gate_centre=0.0,
    gate_offset=0.0,
    seen_exponents=(0.35, 0.6, 1.1, 2.2, 5.0, 10.0, 25.0),
    unseen_exponents=(0.35, 0.6, 1.1, 2.2, 5.0, 10.0, 25.0),
)
"""For a bundle that nobody calibrated: one softmax over all scores, as sharp as suits most networks, and verdicts as
careful. Answers made with it say so."""


def plain_probabilities(scores: np.ndarray) -> np.ndarray:
    """p (n x C) without a calibration, whatever the scale of the scores; their order stays."""
    finite = np.isfinite(scores)
    spread = np.std(scores, axis=1, keepdims=True, where=finite)
    sharp = UNCALIBRATED.unseen_sharpness / np.maximum(spread, TINY)
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(sharp * np.where(finite, scores - np.where(np.isfinite(top), top, 0), -np.inf))
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)
