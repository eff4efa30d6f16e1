"""The second half of a photo's way: features -> scores -> probabilities -> verdict. It knows classes, but no photos."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from unseen.probability.numbers import UNCALIBRATED, plain_probabilities
from unseen.probability.scorer import CalibratedScorer
from unseen.probability.sums import NodeProbabilities, NodeSums
from unseen.probability.verdicts import Contest, Verdict, level_of
from unseen.recognition.answers import Answer, Label
from unseen.recognition.guesses import fold
from unseen.scoring.scorer import Scorer

if TYPE_CHECKING:
    from unseen.bundle import Bundle

BLOCK = 256  # photos whose probabilities are held at a time
FOLDED = 4  # labels looked at for each line of guesses


@dataclass(frozen=True)
class Judgement:
    """What is known of a block of n photos, over C candidates (in the order of `Judge.scorer.columns`) and V nodes."""

    order: np.ndarray  # n x C: ranks the candidates as they are to be ranked: log-probabilities, or scores
    probabilities: np.ndarray  # n x C
    masses: np.ndarray  # n x V


class Judge:
    """Turns features into answers over one list of candidates.

    With the numbers of a calibration in `scorer`, classes are ranked by probability; without, by score, and a plain
    softmax stands in for their probabilities.
    """

    def __init__(self, bundle: Bundle, scorer: Scorer, rows: np.ndarray):
        self.bundle, self.scorer = bundle, scorer
        self.rows = rows  # all candidates: the scorer has those with an answer
        self._sums = cache(lambda: NodeSums(bundle.taxonomy, scorer.columns, rows))  # one for all copies
        self.calibrated = isinstance(scorer, CalibratedScorer)
        self.numbers = scorer.numbers if isinstance(scorer, CalibratedScorer) else UNCALIBRATED

    @property
    def sums(self) -> NodeSums:
        return self._sums()

    def points(self, features: np.ndarray) -> np.ndarray:
        """Features (n x D) where the scorer takes them."""
        points = self.bundle.solution.projection(np.atleast_2d(features))
        if not self.calibrated:
            return points
        return np.concatenate([points, np.atleast_2d(features), np.ones((len(points), 1), np.float32)], axis=1)

    def judge(self, features: np.ndarray) -> Iterator[tuple[slice, Judgement]]:
        """Block by block: which photos, and what is known of them."""
        features = np.atleast_2d(features)
        for start in range(0, len(features), BLOCK):
            block = slice(start, min(start + BLOCK, len(features)))
            order = self.scorer.scores(self.points(features[block]))
            probabilities = np.exp(order) if self.calibrated else plain_probabilities(order)
            yield block, Judgement(order, probabilities, self.sums(probabilities))

    def verdicts(self, found: Judgement, sure: float) -> np.ndarray:
        """n: places among `sums.nodes`, -1 for "unknown"."""
        return Contest(self.sums, found.masses).winners(self.numbers.exponent(sure))

    def answers(self, features: np.ndarray, k: int, sure: float) -> list[Answer]:
        """An answer for each row of features, with its k best labels."""
        features = np.atleast_2d(features)
        return [
            self._answer(found, photo, columns, features[block][photo], node, k)
            for block, found in self.judge(features)
            for photo, (columns, node) in enumerate(
                zip(self.best(found, FOLDED * k), self.verdicts(found, sure), strict=True)
            )
        ]

    def best(self, found: Judgement, k: int) -> np.ndarray:
        """The columns of the best candidates, n x k or fewer."""
        k = min(k, found.order.shape[1])
        return (
            self.scorer.best_of(torch.from_numpy(found.order), k)[1].numpy()
            if k
            else np.zeros((len(found.order), 0), int)
        )

    def _answer(
        self, found: Judgement, photo: int, columns: np.ndarray, features: np.ndarray, node: int, k: int
    ) -> Answer:
        taxonomy = self.bundle.taxonomy
        rows = self.scorer.columns[columns]
        scores = self._scores(features, rows) if self.calibrated else found.order[photo, columns]
        labels = [
            self.label(int(row), float(score), float(p))
            for row, score, p in zip(rows, scores, found.probabilities[photo, columns], strict=True)
        ]
        return Answer(
            labels=tuple(labels[:k]),
            verdict=self._verdict(found.masses[photo], int(node)),
            guesses=fold(taxonomy, labels, k),
            calibrated=self.calibrated,
            nodes=NodeProbabilities(taxonomy, self.sums, found.masses[photo]),
        )

    def _scores(self, features: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The method's scores of a few classes, for one photo."""
        solution = self.bundle.solution
        return np.asarray(solution.classifiers[rows], np.float32) @ solution.projection(features[None])[0]

    def label(self, row: int, score: float, probability: float) -> Label:
        taxonomy, trust = self.bundle.taxonomy, self.bundle.solution.trust
        id, seen = taxonomy.ids[row], bool(self.scorer.seen[row])
        return Label(
            id=id,
            name=taxonomy.name(id),
            score=score,
            seen=seen,
            trust=None if trust is None or seen else float(trust[row]),
            path=tuple(taxonomy.name(i) for i in reversed(taxonomy.path_to_root(id))),
            probability=probability,
        )

    def _verdict(self, masses: np.ndarray, node: int) -> Verdict:
        if node < 0:
            return Verdict.unknown(len(self.rows))
        taxonomy = self.bundle.taxonomy
        id = taxonomy.ids[self.sums.nodes[node]]
        probability = min(1.0, float(masses[node]))
        return Verdict(
            id=id,
            name=taxonomy.name(id),
            probability=probability,
            level=level_of(probability),
            classes=int(self.sums.sizes[node]),
            path=tuple(taxonomy.name(i) for i in reversed(taxonomy.path_to_root(id))),
        )
