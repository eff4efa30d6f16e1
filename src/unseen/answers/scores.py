"""Scores of photos over one list of candidate classes.

    score(photo, class) = projection(features) . classifier

With the numbers of a calibration the scores are log-probabilities (`answers.probability`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.answers.algebra import Array, concatenate
from unseen.answers.prior import UNIFORM, ColumnPrior, Prior
from unseen.answers.probability import (
    UNCALIBRATED,
    NodeSums,
    ancestor_weights,
    exponent,
    log_probabilities,
    node_probabilities,
    plain_probabilities,
    select_verdicts,
)
from unseen.util.errors import UnseenError

if TYPE_CHECKING:
    from unseen.bundle import Bundle

MISSED = 2**62
"""The count of greater scores that stands for "never a hit", where the model has no answer for the true class."""
ROWS = 8
"""Photos a product. BLAS rounds by the number of rows, so that products of one fixed size make a photo's scores
independent of the photos beside it, to the last bit. One photo alone costs half as much with 4 rows, and many cost
half as much again as with 16, which some libraries split unevenly."""
MATRIX_BUDGET = 2**31  # bytes of float32 classifiers that are kept; more are converted again for each block of photos
CLASSES = 4096  # classifiers that are converted together then
EVEN = 64  # classifiers a product: at the edge of a matrix BLAS rounds otherwise, so that equal ones would not tie
SCORES_BUDGET = 2**26  # bytes of scores held at a time
TIE = 1e-6  # of a score: what rounding may change, on another machine too


@dataclass(frozen=True)
class Ranks:
    """Where the true class stands among the candidates; one entry a photo."""

    greater: np.ndarray  # int64: candidates that score higher; MISSED if the true class has no answer
    equal: np.ndarray  # int64: other candidates that score the same
    own_greater: np.ndarray  # as above, among the true class's own group only: the seen or the unseen candidates
    own_equal: np.ndarray
    margin: np.ndarray  # float32: best seen score - best unseen score


class Scorer:
    """Scores features over one list of candidates; it never changes.

    `rows` are the candidates, rows of the hierarchy, ascending, and `given` the same in the order of the caller.
    `columns` are those for which the method has an answer: seen classes first, then unseen ones (`groups`: the two
    slices), each ascending. All scores are in the order of `columns`; `in_given_order` changes that. A class that the
    `prior` excludes has no answer. `seen_share`: of photos, how many are expected to show a class that the network was
    trained on. `calibrated` says whether the bundle has the numbers of a calibration.
    """

    def __init__(self, bundle: Bundle, rows: np.ndarray, prior: Prior = UNIFORM, seen_share: float = 0.5):
        solution, self.hierarchy = bundle.solution, bundle.hierarchy
        self.given = np.asarray(rows, np.int64)
        self.rows, self.seen = np.sort(self.given), bundle.is_seen
        self.projection, self._classifiers = solution.projection, solution.classifiers
        weights = prior.class_weights(self.hierarchy, self.rows)
        self._excluded = np.zeros(len(self.rows), bool) if weights is None else weights == 0
        answered = self.rows[~self._excluded]
        if not len(answered) and len(self.rows):
            raise UnseenError("the prior excludes every candidate: give one of them a weight above 0")
        answered = answered if solution.answers is None else answered[np.asarray(solution.answers, bool)[answered]]
        seen, unseen = answered[self.seen[answered]], answered[~self.seen[answered]]
        self.columns = np.concatenate([seen, unseen])
        self.groups = (slice(0, len(seen)), slice(len(seen), len(answered)))
        self.prior = ColumnPrior(prior, self.hierarchy, seen, unseen)
        self.numbers = None if bundle.calibration is None else bundle.calibration.probability
        self.calibrated = self.numbers is not None
        if self.numbers is not None:
            odds = math.log(seen_share / (1 - seen_share))
            self.numbers = replace(self.numbers, gate_offset=self.numbers.gate_offset + odds)
            self.head = np.ascontiguousarray(bundle.head, np.float32)
            output = np.full(len(self.seen), -1)
            output[bundle.seen] = np.arange(len(bundle.seen))
            self._outputs = output[seen]  # of the network, for each seen candidate
            self._climb = ancestor_weights(self.hierarchy, seen, unseen)

    @classmethod
    def of_matrix(
        cls, classifiers: np.ndarray, rows: np.ndarray | None = None, *, seen: Any = None, answers: Any = None
    ) -> Scorer:
        """Without a bundle: a class matrix (C x E), for points (n x E) as features."""
        classes = len(classifiers)
        is_seen = np.zeros(classes, bool) if seen is None else np.asarray(seen, bool)
        solution = SimpleNamespace(classifiers=classifiers, answers=answers, projection=lambda points: points)
        bundle: Any = SimpleNamespace(solution=solution, hierarchy=None, is_seen=is_seen, calibration=None)
        return cls(bundle, np.arange(classes) if rows is None else np.unique(rows))

    @cached_property
    def sums(self) -> NodeSums:
        """Sums probabilities up the hierarchy."""
        return NodeSums(self.hierarchy, self.columns, self.groups[0].stop, self.rows[~self._excluded])

    def in_given_order(self, values: np.ndarray, missing: float) -> np.ndarray:
        """n x C, in the order of `columns` -> of `given`; `missing` where the method has no answer."""
        column = np.full(len(self.seen), len(self.columns))
        column[self.columns] = np.arange(len(self.columns))
        with_missing = np.concatenate([values, np.full((len(values), 1), missing, values.dtype)], axis=1)
        return with_missing[:, column[self.given]]

    # -- scores, probabilities, verdicts ---------------------------------------------------------------------------

    def scores(self, features: np.ndarray) -> np.ndarray:
        """n x C, float32: log-probabilities, or without a calibration the method's scores with the prior."""
        features, logits = np.asarray(features, np.float32), None
        if self.numbers is not None:
            logits = multiply(np.pad(features, ((0, 0), (0, 1)), constant_values=1), self.head)
        points = self._points(features)
        return self.weigh(points, self._product(points), logits)

    def weigh(self, points: Array, scores: Array, logits: Array | None) -> Array:
        """`scores(features)`, from points, the method's scores of them and, with a calibration, the network's logits:
        in NumPy, or as an exported file computes it."""
        if self.numbers is None or logits is None:
            return self.prior.shift(scores, self.groups[0].stop)
        seen, unseen = scores[:, self.groups[0]], scores[:, self.groups[1]]
        logs = log_probabilities(self.numbers, logits, seen, unseen, self._outputs, self._climb, self.prior.common)
        return self.prior.weigh(concatenate([part for part in logs if part.shape[1]]))

    def method_scores(self, features: np.ndarray) -> np.ndarray:
        """n x C, float32: the method's own scores, without calibration and prior."""
        return self._product(self._points(np.asarray(features, np.float32)))

    def _points(self, features: np.ndarray) -> np.ndarray:
        points = self.projection(features)
        if not np.isfinite(points).all():
            raise UnseenError("Features hold NaN or infinity: check the network and its weights.")
        return points

    def _product(self, points: np.ndarray) -> np.ndarray:
        scores = np.empty((len(points), len(self.columns)), np.float32)
        for columns, classifiers in self._pieces():
            scores[:, columns] = multiply(points, classifiers)[:, : columns.stop - columns.start]
        return scores

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """n x C."""
        return self.to_probabilities(self.scores(features))

    def to_probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Scores -> probabilities, both n x C; without a calibration, by a plain softmax."""
        return np.exp(scores) if self.calibrated else plain_probabilities(scores)

    def to_nodes(self, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities of the nodes `sums.nodes`, and the cautious ones that verdicts are chosen by; n x V."""
        if self.numbers is None:
            seen, unseen = self.sums.parts(probabilities)
            return seen + unseen, seen + unseen
        return node_probabilities(self.numbers, self.sums, probabilities)

    def verdicts(self, cautious: np.ndarray, confidence: float | Sequence[float]) -> np.ndarray:
        """n: indices into `sums.nodes`, -1 for "unknown"; for several confidences a row each."""
        powers = [exponent(self.numbers or UNCALIBRATED, one) for one in np.ravel(confidence).tolist()]
        return select_verdicts(self.sums, cautious, powers if np.ndim(confidence) else powers[0])

    def best(self, scores: np.ndarray, k: int) -> np.ndarray:
        """n x k or fewer: the columns of the best candidates, best first; of equal ones the lowest row first."""
        k = min(k, scores.shape[1])
        best = np.zeros((len(scores), k), np.int64)
        for photo, row in enumerate(scores):
            least = np.partition(row, -k)[-k] if k else 0.0
            among = np.flatnonzero(row >= least)
            best[photo] = among[np.lexsort((self.columns[among], -row[among]))][:k]
        return best

    def ranks(self, features: np.ndarray, truth: np.ndarray) -> Ranks:
        """Where the true classes, `truth` (n, rows of the hierarchy), stand among the candidates."""
        truth = np.asarray(truth, np.int64)
        strangers = np.setdiff1d(truth, self.rows)
        if len(strangers):
            raise UnseenError(f"{len(strangers)} of the true classes are no candidates (rows {strangers[:5].tolist()})")
        column_of = np.full(len(self.seen), -1)
        column_of[self.columns] = np.arange(len(self.columns))
        columns, n = column_of[truth], len(truth)
        greater, equal = np.zeros((2, n), np.int64), np.zeros((2, n), np.int64)  # among seen, among unseen
        best = np.full((2, n), -np.inf, np.float32)
        for block in self.blocks(n) if len(self.columns) else ():
            scores = self.scores(features[block])
            # The true class's score is read from the product, never computed again: else it would not equal itself.
            true = np.take_along_axis(scores, np.maximum(columns[block], 0)[:, None], axis=1)
            usual = np.mean(np.abs(scores), axis=1, keepdims=True)  # a small score is rounded as coarsely as the others
            tolerance = TIE * np.maximum(np.abs(true), usual)
            for side, group in enumerate(self.groups):
                part = scores[:, group]
                greater[side, block] = (part > true + tolerance).sum(axis=1)
                equal[side, block] = (part >= true - tolerance).sum(axis=1) - greater[side, block]
                best[side, block] = part.max(axis=1, initial=-np.inf)
        own = np.where(self.seen[truth], 0, 1), np.arange(n)
        equal[own] -= 1  # a class is no tie of itself
        missed = columns < 0
        greater[:, missed], equal[:, missed] = MISSED, 0
        with np.errstate(invalid="ignore"):  # no answers at all: -inf - -inf
            margin = best[0] - best[1]
        total = np.where(missed, MISSED, greater.sum(0))
        return Ranks(total, equal.sum(0), greater[own], equal[own], margin)

    def blocks(self, photos: int) -> Iterator[slice]:
        """Slices of the photos whose scores fit the budget of memory."""
        size = max(SCORES_BUDGET // (4 * ROWS * max(len(self.columns), 1)), 1) * ROWS
        return (slice(start, min(start + size, photos)) for start in range(0, photos, size))

    def _pieces(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The classifiers in float32, in pieces where they are too many to be kept."""
        if 4 * len(self.columns) * self._classifiers.shape[1] <= MATRIX_BUDGET:
            yield slice(0, len(self.columns)), self._matrix
            return
        for start in range(0, len(self.columns), CLASSES):
            piece = slice(start, min(start + CLASSES, len(self.columns)))
            yield piece, pad(self.classifiers(self.columns[piece]), EVEN)

    @cached_property
    def _matrix(self) -> np.ndarray:
        return pad(self.classifiers(self.columns), EVEN)

    def classifiers(self, rows: np.ndarray) -> np.ndarray:
        """The classifiers of these rows of the hierarchy, float32."""
        consecutive = len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all()
        # A slice of the source is a view; picking rows copies them.
        picked = self._classifiers[rows[0] : rows[-1] + 1] if consecutive else self._classifiers[rows]
        picked = picked.astype(np.float32, copy=False)
        if not math.isfinite(picked.sum()):
            raise UnseenError("The class matrix holds NaN or infinity: train the bundle again.")
        return picked


def multiply(points: np.ndarray, classifiers: np.ndarray) -> np.ndarray:
    """points (n x E) . classifiers (C x E) -> n x C: a row never depends on the other rows."""
    padded = pad(points, ROWS)
    products = np.empty((len(padded), len(classifiers)), np.float32)
    for start in range(0, len(padded), ROWS):
        np.matmul(padded[start : start + ROWS], classifiers.T, out=products[start : start + ROWS])
    return products[: len(points)]


def pad(matrix: np.ndarray, rows: int) -> np.ndarray:
    """The matrix with zeros below, up to a multiple of `rows`."""
    missing = -len(matrix) % rows
    return np.pad(matrix, ((0, missing), (0, 0))) if missing else matrix
