"""A scorer whose scores are log-probabilities: top-k, ranks and margins then count calibrated probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from unseen.probability.climbing import way_up
from unseen.probability.numbers import ProbabilityNumbers
from unseen.scoring.scorer import Scorer
from unseen.taxonomy import Taxonomy


class CalibratedScorer(Scorer):
    """`Scorer` with log p(class | photo) in place of scores.

    Points are [projected features | features, 1], the second part for the network's own classifiers `head` (M x P) of
    the classes in rows `seen_rows` of the taxonomy.
    """

    def __init__(
        self,
        numbers: ProbabilityNumbers,
        taxonomy: Taxonomy,
        head: np.ndarray,
        seen_rows: np.ndarray,
        classifiers: np.ndarray,
        rows: np.ndarray,
        **options: Any,
    ):
        super().__init__(classifiers, rows, **options)
        self.numbers = numbers
        self._split = self.width
        self.width += head.shape[1]
        self._head = torch.from_numpy(np.ascontiguousarray(head, np.float32)).to(self.device)
        place = np.full(len(classifiers), -1)
        place[seen_rows] = np.arange(len(seen_rows))
        seen, unseen = (self.columns[group] for group in self.groups)
        self.own = torch.from_numpy(place[seen]).to(self.device)
        above, way = way_up(taxonomy, seen, unseen)
        self.climb = torch.from_numpy(above).to(self.device), torch.from_numpy(way).to(self.device)

    def _takes_shortlist(self, photos: int) -> bool:
        return False  # a probability depends on the scores of all classes

    def _scores(self, points: Tensor, buffer: Tensor) -> Tensor:
        scores = super()._scores(points[:, : self._split], buffer)
        logits = points[:, self._split :].to(self.device, torch.float32) @ self._head.T
        seen, unseen = scores[:, self.groups[0]], scores[:, self.groups[1]]
        found = self.numbers.log_probabilities(logits, seen, unseen, self.own, self.climb)
        scores[:, self.groups[0]], scores[:, self.groups[1]] = found
        return scores
