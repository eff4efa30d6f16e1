"""Scores of photos over one list of candidate classes.

    score(photo, class) = projection(features) . classifier

With the numbers of a calibration the scores are log-probabilities (`answers.probability`). Photos go in blocks, whose
scores stay within a fixed budget of memory; a large class matrix, float16 or memory-mapped, is converted in pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.answers.prior import UNIFORM, ColumnPrior, Prior
from unseen.answers.probability import (
    UNCALIBRATED,
    NodeSums,
    exponent,
    log_probabilities,
    node_probabilities,
    plain_probabilities,
    select_verdicts,
    way_up,
)
from unseen.util.devices import separate_threads, thread_count
from unseen.util.errors import UnseenError
from unseen.util.tensors import Array, as_numpy, find_device, on_device

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from unseen.bundle import Bundle

MISSED = 2**62
"""The count of greater scores that stands for "never a hit", where the model has no answer for the true class."""
SCORES_BUDGET = 2**28  # bytes of scores held at a time
MATRIX_BUDGET = 2**31  # bytes of a gathered class matrix; a larger one is gathered again for each block of photos
PHOTOS = 512  # photos a block, if the budget allows
WORTH_A_THREAD = 64  # photos: fewer are one block, whose products all threads share
CLASSES = 4096  # classes a product
LEAST = 16  # photos or classes a product: BLAS takes other paths, with other rounding, below
DEPTH = 320  # features a product: BLAS splits deeper ones by shape and by number of threads, and so rounds by them
TIE = 1e-6  # of a score: what rounding may change, on another machine too


@dataclass(frozen=True)
class Ranks:
    """Where the true class stands among the candidates; one entry a photo."""

    greater: np.ndarray  # int64: candidates that score higher; MISSED if the true class has no answer
    equal: np.ndarray  # int64: other candidates that score the same
    own_greater: np.ndarray  # as above, among the true class's own group only: the seen or the unseen candidates
    own_equal: np.ndarray
    margin: np.ndarray  # float32: best seen score - best unseen score, before any shift


class Scorer:
    """Scores features over one list of candidates; it never changes.

    `rows` are the candidates, rows of the hierarchy, ascending, and `given` the same in the order of the caller.
    `columns` are those for which the method has an answer: seen classes first, then unseen ones (`groups`: the two
    slices), each ascending. All scores are in the order of `columns`; `in_given_order` changes that.
    `calibrated` says whether the bundle has the numbers of a calibration.

    Every method takes a `seen_shift`. None: the calibration balances seen and unseen classes, and scores are
    log-probabilities, if there is one. A number: the method's scores, with that number taken off the scores of seen
    classes (calibrated stacking; more of it favours unseen ones). Either is moved by the `prior`; for a class that it
    excludes there is no answer.

    A photo's scores do not depend on the photos beside it: products have a fixed depth and at least LEAST rows, which
    with MKL makes every score the same to the last bit, whatever the batch, the candidates or the number of threads.
    Where the device is None, NumPy computes all of it, for a few photos that torch is not worth importing for.
    """

    def __init__(
        self, bundle: Bundle, rows: np.ndarray, device: str | torch.device | None = "cpu", prior: Prior = UNIFORM
    ):
        solution, self.hierarchy = bundle.solution, bundle.hierarchy
        self.given = np.asarray(rows, np.int64)
        self.rows, self.seen, self.device = np.sort(self.given), bundle.is_seen, find_device(device)
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
        self.prior = ColumnPrior(prior, self.hierarchy, seen, unseen, self.device)
        self.numbers = None if bundle.calibration is None else bundle.calibration.probability
        if self.numbers is not None:
            self._head = on_device(np.ascontiguousarray(bundle.head, np.float32), self.device)
            place = np.full(len(self.seen), -1)
            place[bundle.seen] = np.arange(len(bundle.seen))
            self._seen_places = on_device(place[seen], self.device)
            above, way = way_up(self.hierarchy, seen, unseen)
            self._climb = on_device(above, self.device), on_device(way, self.device)

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

    @property
    def calibrated(self) -> bool:
        return self.numbers is not None

    @cached_property
    def sums(self) -> NodeSums:
        """Sums probabilities up the hierarchy."""
        return NodeSums(self.hierarchy, self.columns, self.rows[~self._excluded])

    @cached_property
    def _matrix(self) -> Array | None:
        """C x E, the candidates' classifiers; None where they are too many to be held."""
        fits = 4 * len(self.columns) * self._classifiers.shape[1] <= MATRIX_BUDGET
        return self._gather(slice(None)) if fits else None

    def in_given_order(self, values: np.ndarray, missing: float) -> np.ndarray:
        """n x C, in the order of `columns` -> of `given`; `missing` where the method has no answer."""
        place = np.full(len(self.seen), len(self.columns))
        place[self.columns] = np.arange(len(self.columns))
        with_missing = np.concatenate([values, np.full((len(values), 1), missing, values.dtype)], axis=1)
        return with_missing[:, place[self.given]]

    # -- scores, probabilities, verdicts ---------------------------------------------------------------------------

    def scores(self, features: np.ndarray, seen_shift: float | None = None) -> np.ndarray:
        """n x C, float32: log-probabilities, or the method's scores."""
        scores = np.empty((len(features), len(self.columns)), np.float32)

        def keep(block: slice, part: Array) -> None:
            if seen_shift:
                part[:, self.groups[0]] -= seen_shift
            scores[block] = as_numpy(part)

        self._for_blocks(features, seen_shift, keep)
        return scores

    def probabilities(self, features: np.ndarray, seen_shift: float | None = None) -> np.ndarray:
        """n x C."""
        return self.to_probabilities(self.scores(features, seen_shift), seen_shift)

    def to_probabilities(self, scores: np.ndarray, seen_shift: float | None = None) -> np.ndarray:
        """Scores -> probabilities, both n x C; without a calibration, by a plain softmax."""
        calibrated = self.calibrated and seen_shift is None
        return np.exp(scores) if calibrated else plain_probabilities(scores)

    def to_nodes(self, probabilities: np.ndarray, seen_shift: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities of the nodes `sums.nodes`, and the cautious ones that verdicts are chosen by; n x V."""
        if self.numbers is None or seen_shift is not None:
            masses = self.sums(probabilities)
            return masses, masses
        return node_probabilities(self.numbers, self.sums, probabilities, self.groups[0].stop)

    def verdicts(
        self, cautious: np.ndarray, confidence: float | Sequence[float], seen_shift: float | None = None
    ) -> np.ndarray:
        """n: places among `sums.nodes`, -1 for "unknown"; for several confidences a row each."""
        numbers = self.numbers if self.numbers is not None and seen_shift is None else UNCALIBRATED
        powers = [exponent(numbers, one) for one in np.ravel(confidence).tolist()]
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

    def ranks(self, features: np.ndarray, truth: np.ndarray, seen_shift: float | None = None) -> Ranks:
        """Where the true classes, `truth` (n, rows of the hierarchy), stand among the candidates."""
        truth, shift = np.asarray(truth, np.int64), seen_shift or 0.0
        strangers = np.setdiff1d(truth, self.rows)
        if len(strangers):
            raise UnseenError(f"{len(strangers)} of the true classes are no candidates (rows {strangers[:5].tolist()})")
        place = np.full(len(self.seen), -1)
        place[self.columns] = np.arange(len(self.columns))
        column, n = place[truth], len(truth)
        greater, equal = np.zeros((2, n), np.int64), np.zeros((2, n), np.int64)  # among seen, among unseen
        best = np.full((2, n), -np.inf, np.float32)

        def count(block: slice, scores: Tensor) -> None:
            if not len(self.columns):
                return
            true_column = on_device(np.maximum(column[block], 0), self.device)[:, None]
            # The true class's score is read from the product, never computed again: else it would not equal itself.
            true = scores.gather(1, true_column)
            is_seen = on_device(self.seen[truth[block]], self.device)[:, None]
            for side, group in enumerate(self.groups):
                # Instead of shifting every score, the threshold moves the other way, and only for the other group.
                other = is_seen if side == 1 else ~is_seen
                threshold = true + other * (shift if side == 0 else -shift)
                greater[side, block], equal[side, block] = _count(scores[:, group], threshold)
                if group.stop > group.start:
                    best[side, block] = scores[:, group].amax(1).cpu().numpy()

        self._for_blocks(features, seen_shift, count)
        side = np.where(self.seen[truth], 0, 1), np.arange(n)
        equal[side] -= 1  # a class is no tie of itself
        missed = column < 0
        greater[:, missed], equal[:, missed] = MISSED, 0
        with np.errstate(invalid="ignore"):  # no answers at all: -inf - -inf
            margin = best[0] - best[1]
        total = np.where(missed, MISSED, greater.sum(0))
        return Ranks(total, equal.sum(0), greater[side], equal[side], margin)

    # -- the product -----------------------------------------------------------------------------------------------

    def _for_blocks(self, features: np.ndarray, seen_shift: float | None, work: Callable[[slice, Array], None]) -> None:
        """Call work(photos, their scores over all columns, without shift) for every block of photos.

        On a CPU each thread has blocks of its own, unless there are too few photos. Work may change the scores.
        """
        check_shift(seen_shift)
        features = np.asarray(features, np.float32)
        points = self.projection(features)
        if not np.isfinite(points).all():
            raise UnseenError("Features hold NaN or infinity: check the network and its weights.")
        log = self.calibrated and seen_shift is None
        if len(points) <= LEAST or self.device is None:
            work(slice(0, len(points)), self._scores(points, features if log else None))
            return
        threads = thread_count(self.device)
        most = min(PHOTOS, SCORES_BUDGET // (4 * max(len(self.columns), 1) * threads))
        size = max(LEAST, min(most, max(WORTH_A_THREAD, -(-len(points) // threads))))
        blocks = [slice(start, min(start + size, len(points))) for start in range(0, len(points), size)]
        _ = self._matrix  # gathered once, and not by each thread

        def do(block: slice) -> None:
            work(block, self._scores(points[block], features[block] if log else None))

        if len(blocks) <= 1 or threads == 1:
            for block in blocks:
                do(block)
        else:
            with separate_threads(threads) as pool:
                for _ in pool.map(do, blocks):  # raises what went wrong
                    pass

    def _product(self, points: np.ndarray) -> Array:
        """n x C: points . classifiers, summed over pieces of DEPTH features in their order."""
        if self.device is None:
            starts = range(0, max(len(self.columns), 1), CLASSES)  # a piece at a time stays in the cache
            return np.concatenate([points @ self._gather(slice(at, at + CLASSES)).T for at in starts], axis=1)
        import torch

        photos = on_device(points, self.device)
        if len(photos) < LEAST:  # zeros follow
            photos = torch.cat([photos, photos.new_zeros(LEAST - len(photos), photos.shape[1])])
        classes = len(self.columns)
        scores = torch.empty(len(photos), max(classes, LEAST), device=self.device)
        for at in range(0, classes, CLASSES):
            # The last piece begins a little earlier than it might: a few columns alone would be rounded otherwise.
            piece = slice(max(0, min(at, classes - LEAST)), min(at + CLASSES, classes))
            matrix, out = self._gather(piece) if self._matrix is None else self._matrix[piece], scores[:, piece]
            if classes < LEAST:  # zeros follow here too
                zeros = matrix.new_zeros(LEAST - piece.stop, matrix.shape[1])
                matrix, out = torch.cat([matrix, zeros]), scores[:, piece.start :]
            for start in range(0, photos.shape[1], DEPTH):
                a, b = photos[:, start : start + DEPTH], matrix[:, start : start + DEPTH].T
                if start:
                    out.addmm_(a, b)
                else:
                    torch.mm(a, b, out=out)
        return scores[: len(points), :classes]

    def _scores(self, points: np.ndarray, features: np.ndarray | None) -> Array:
        """n x C: the method's scores with the prior; with `features`, log-probabilities."""
        scores = self._product(points)
        if features is not None and self.numbers is not None:
            with_one = np.ones((max(len(features), LEAST), features.shape[1] + 1), np.float32)
            with_one[: len(features), :-1] = features
            logits = (on_device(with_one, self.device) @ self._head.T)[: len(features)]
            seen, unseen = scores[:, self.groups[0]], scores[:, self.groups[1]]
            logs = log_probabilities(
                self.numbers, logits, seen, unseen, self._seen_places, self._climb, self.prior.common
            )
            seen[:], unseen[:] = logs
            return self.prior.weigh(scores)
        return self.prior.shift(scores, self.groups[0].stop)

    def _gather(self, columns: slice) -> Array:
        """Classifiers of these columns, float32 on the device."""
        matrix = self._gather_rows(self.columns[columns])
        if not math.isfinite(matrix.sum()):
            raise UnseenError("The class matrix holds NaN or infinity: train the bundle again.")
        return matrix

    def _gather_rows(self, rows: np.ndarray) -> Array:
        consecutive = len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all()
        # A slice of the source is a view; picking rows copies them.
        picked = self._classifiers[rows[0] : rows[-1] + 1] if consecutive else self._classifiers[rows]
        if self.device is None:
            return picked.astype(np.float32, copy=False)
        return on_device(picked, self.device).float()


def check_shift(seen_shift: float | None) -> None:
    if seen_shift is not None and not math.isfinite(seen_shift):
        # Every comparison with NaN fails: each photo would be a hit, or get no label.
        raise UnseenError(f"the seen shift must be a finite number, not {seen_shift}")


def _count(scores: Tensor, threshold: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """How many of each row's scores are greater than, and how many are equal to its threshold (int64, int64): scores
    that differ by rounding alone are equal."""
    import torch

    tolerance = TIE * threshold.abs().nan_to_num(posinf=0.0)  # a class without an answer scores -inf
    above, below = threshold + tolerance, threshold - tolerance
    greater = torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
    at_least = torch.zeros_like(greater)
    # Comparisons written as 0.0 and 1.0 into a piece that stays in the cache: several times faster than summing bools.
    flags = torch.empty(len(scores), min(CLASSES, scores.shape[1]), device=scores.device)
    for start in range(0, scores.shape[1], CLASSES):
        piece = scores[:, start : start + CLASSES]
        flag = flags[:, : piece.shape[1]]
        greater += torch.gt(piece, above, out=flag).sum(1).long()
        at_least += torch.ge(piece, below, out=flag).sum(1).long()
    return greater.cpu().numpy(), (at_least - greater).cpu().numpy()
