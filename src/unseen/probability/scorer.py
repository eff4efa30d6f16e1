"""A scorer whose scores are log-probabilities: top-k, ranks and margins then count calibrated probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unseen.probability.numbers import ProbabilityNumbers
from unseen.scoring.scorer import Scorer


class CalibratedScorer(Scorer):
    """`Scorer` with log p(class | photo) in place of scores.

    Points are [projected features | features, 1], the second part for the network's own classifiers `known` (M x P) of
    the classes in rows `seen_rows`.
    """

    def __init__(
        self,
        numbers: ProbabilityNumbers,
        known: np.ndarray,
        seen_rows: np.ndarray,
        classifiers: np.ndarray,
        rows: np.ndarray,
        **options: Any,
    ):
        super().__init__(classifiers, rows, **options)
        self.numbers = numbers
        self._split = self.width
        self.width += known.shape[1]
        self._known = torch.from_numpy(np.ascontiguousarray(known, np.float32)).to(self.device)
        place = np.full(len(classifiers), -1)
        place[seen_rows] = np.arange(len(seen_rows))
        self._own = torch.from_numpy(place[self.columns[self.groups[0]]]).to(self.device)

    def _scores(self, points: Tensor, buffer: Tensor) -> Tensor:
        scores = super()._scores(points[:, : self._split], buffer)
        logits = points[:, self._split :].to(self.device, torch.float32) @ self._known.T
        return self.numbers.log_probabilities_(scores, logits, self._own)
