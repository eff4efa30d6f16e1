"""The few numbers that turn scores into probabilities.

    p(c | x) =      g(x)  softmax over seen classes of  a * logit_c                                           c seen
             = (1 - g(x)) [(1 - h) softmax over unseen classes of  b * score_c / spread(x) + h * climb_c(x)]  c unseen
    g(x)     = sigmoid(slope * (log sum_c exp(logit_c) - centre) + lean * odds(x) + offset)

Logits are the network's own, scores the method's. The gate g is the probability that a photo shows a class that the
network was trained on. It reads how strongly the network responds at all, and `odds`: whether the method, which has
scores for seen classes too, finds a seen or an unseen class more like the photo. `spread` is the standard deviation of
the photo's unseen scores; without it photos with strong features would look far too sure. `climb` lets the network's
own softmax climb to the unseen classes above each seen one, halved with each step: a photo of a "dog" looks like one of
some seen breed. How careful verdicts are (`probability.verdicts`) is one more number for each sureness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unseen.runtime.records import Record

if TYPE_CHECKING:  # a bundle holds these numbers: torch is imported only where photos are scored
    from torch import Tensor

SURE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""The surenesses at which exponents are kept; between them they are interpolated."""
SHARPNESS = 1.9  # of scores, in units of their spread, where none was fitted
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
        gate_lean: How much the gate heeds the method's own odds.
        gate_offset: The balance between seen and unseen classes, as log-odds.
        exponents: For each sureness of SURE, how careful a verdict is.

    >>> import unseen
    >>> numbers = unseen.ProbabilityNumbers(1.0, 2.0, 0.1, 1.0, 9.0, 0.5, 0.0, (0.5, 1.0, 1.5, 3.0, 8.0, 20.0, 50.0))
    >>> round(numbers.exponent(0.9), 4), round(numbers.exponent(0.85), 1)
    (8.0, 4.5)
    """

    seen_sharpness: float
    unseen_sharpness: float
    climb: float
    gate_slope: float
    gate_centre: float
    gate_lean: float
    gate_offset: float
    exponents: Sequence[float]

    def log_probabilities(
        self, logits: Tensor, seen_scores: Tensor, scores: Tensor, own: Tensor, climb: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """log p of the seen candidates and of the unseen ones.

        `logits` (n x M) are over all seen classes, `own` are the places among them of the seen candidates. The method's
        `seen_scores` (n x len(own)) and `scores` (n x U) are over the seen and over the unseen candidates. `climb`:
        which of the latter have a seen candidate below (A), and the way up to those (len(own) x A, rows sum to 1 or 0).
        """
        import torch
        from torch.nn.functional import logsigmoid

        seen = torch.log_softmax(self.seen_sharpness * logits[:, own], dim=1)
        if not scores.shape[1]:
            return seen, scores
        spread = scores.std(dim=1, keepdim=True, correction=0).clamp_min(TINY)
        unseen = torch.log_softmax(scores * (self.unseen_sharpness / spread), dim=1)
        if not len(own):
            return seen, unseen
        if self.climb:
            above, way = climb
            climbed = seen.exp() @ way
            # What has nothing to climb to stays.
            stays = (1 - self.climb * climbed.sum(dim=1, keepdim=True)).clamp_min(TINY)
            unseen = unseen + stays.log()
            unseen = unseen.index_copy(
                1, above, torch.logaddexp(unseen[:, above], (self.climb * climbed).clamp_min(TINY).log())
            )
        gate = self.gate(logits.logsumexp(1), method_odds(seen_scores, scores))[:, None]
        return seen + logsigmoid(gate), unseen + logsigmoid(-gate)

    def gate(self, response: Tensor, odds: Tensor) -> Tensor:
        """n: the log-odds that a photo shows a seen class."""
        return self.gate_slope * (response - self.gate_centre) + self.gate_lean * odds + self.gate_offset

    def exponent(self, sure: float) -> float:
        """How careful a verdict is; beyond the ends of SURE it goes on as between the last two."""
        places, values = [-math.log1p(-s) for s in SURE], [math.log(k) for k in self.exponents]
        at = -math.log1p(-sure)
        i = min(max(int(np.searchsorted(places, at)) - 1, 0), len(SURE) - 2)
        return math.exp(values[i] + (values[i + 1] - values[i]) * (at - places[i]) / (places[i + 1] - places[i]))


def method_odds(seen_scores: Tensor, scores: Tensor) -> Tensor:
    """n: how much more like seen than like unseen classes the method finds a photo, whatever their number."""
    scale = SHARPNESS / scores.std(dim=1, keepdim=True, correction=0).clamp_min(TINY)
    seen, unseen = ((scale * part).logsumexp(1) - math.log(part.shape[1]) for part in (seen_scores, scores))
    return seen - unseen


UNCALIBRATED = ProbabilityNumbers(
    seen_sharpness=1.2,
    unseen_sharpness=SHARPNESS,
    climb=0.1,
    gate_slope=1.0,
    gate_centre=0.0,
    gate_lean=0.5,
    gate_offset=0.5,
    exponents=(0.6, 1.0, 1.7, 3.1, 7.7, 18.0, 55.0),
)
"""What is usual: a fit starts from it. For a bundle that nobody calibrated only the exponents are used, since the rest
depends on the scale of logits."""


def plain_probabilities(scores: np.ndarray) -> np.ndarray:
    """p (n x C) without a calibration, whatever the scale of the scores; their order stays."""
    finite = np.isfinite(scores)
    spread = np.std(scores, axis=1, keepdims=True, where=finite)
    sharp = SHARPNESS / np.maximum(spread, TINY)
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(sharp * np.where(finite, scores - np.where(np.isfinite(top), top, 0), -np.inf))
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)
