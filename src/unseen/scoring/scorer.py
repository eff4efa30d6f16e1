"""Exact top-k and exact ranks over any number of classes, at about the price of the bare matrix product.

    score(photo, class) = point . classifier        point: the projected features of the photo

Photos go in blocks, so that a block's scores stay within a fixed budget of memory however many classes there are; the
class matrix may be float16 or memory-mapped and is converted piece by piece if it is large. Candidates are given by
their rows of the class matrix, and so are all answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from unseen.errors import UnseenError
from unseen.runtime.threads import separate_threads, thread_count
from unseen.scoring.shortlist import FEW_PHOTOS, MANY, Shortlist, can_scan

MISSED = 2**62
"""The count of greater scores that stands for "never a hit", where the model has no answer for the true class."""
SCORES_BUDGET = 2**28  # bytes of scores held at a time
MATRIX_BUDGET = 2**31  # bytes of a gathered class matrix; a larger one is gathered again for each block of photos
PHOTOS = 512  # photos a block, if the budget allows
WORTH_A_THREAD = 64  # photos: fewer are one block, whose products all threads share
CLASSES = 4096  # classes a product
FEW = 16  # photos a product at least: BLAS takes other paths, with other rounding, below
DEPTH = 320  # features a product: BLAS splits deeper ones by shape and by number of threads, and so rounds by them


@dataclass(frozen=True)
class Ranks:
    """Where the true class stands among the candidates, as `metrics.HitCounter` counts it; one entry a photo."""

    greater: np.ndarray  # int64: candidates that score higher; MISSED if the true class has no answer
    equal: np.ndarray  # int64: other candidates that score the same
    score: np.ndarray  # float32: the true class's score, before any shift; -inf if it has no answer


@dataclass(frozen=True)
class GeneralisedRanks(Ranks):
    """Ranks among all candidates, and what `metrics.SeenUnseenCurve` needs."""

    own_greater: np.ndarray  # as above, among the true class's own group only: the seen or the unseen candidates
    own_equal: np.ndarray
    margin: np.ndarray  # float32: best seen score - best unseen score, before any shift


class Scorer:
    """Scores photos over candidate classes.

    `classifiers`: C x E, NumPy (memory-mapped or not) or torch, float16 or float32. `rows`: the candidates, by default
    all classes. `seen` (bool, C) with `seen_shift`: taken off the scores of seen classes (calibrated stacking; more of
    it favours unseen ones). `answers` (bool, C): a class without an answer never scores.

    A photo's scores do not depend on the photos beside it: products have a fixed depth and at least FEW rows, which
    with MKL makes every score the same to the last bit, whatever the batch, the candidates or the number of threads.
    """

    def __init__(
        self,
        classifiers: np.ndarray | Tensor,
        rows: np.ndarray | None = None,
        *,
        seen: np.ndarray | None = None,
        seen_shift: float = 0.0,
        answers: np.ndarray | None = None,
        device: str | torch.device = "cpu",
        matrix_budget: int = MATRIX_BUDGET,
        scores_budget: int = SCORES_BUDGET,
    ):
        classes, self.width = classifiers.shape
        rows = np.arange(classes) if rows is None else np.unique(_check_rows(rows, classes))
        seen = np.zeros(classes, bool) if seen is None else np.asarray(seen, bool)
        answered = rows if answers is None else rows[np.asarray(answers, bool)[rows]]
        # Columns of the product: seen candidates, then unseen ones, each by ascending row.
        self.columns = np.concatenate([answered[seen[answered]], answered[~seen[answered]]])
        border = int(seen[answered].sum())
        self.groups = (slice(0, border), slice(border, len(answered)))
        self.seen, self.seen_shift = seen, float(seen_shift)
        self.device = torch.device(device)
        self._column = np.full(classes, _NO_CANDIDATE)
        self._column[rows] = _NO_ANSWER
        self._column[self.columns] = np.arange(len(self.columns))
        self._row = torch.from_numpy(self.columns).to(self.device)
        self._budget = scores_budget
        self._buffers: list[Tensor] = []
        self._source = _as_tensor(classifiers)
        fits = 4 * len(self.columns) * self.width <= matrix_budget
        self._matrix = self._piece(slice(None)) if fits else None
        # Made when it is first needed, once for all copies.
        self._shortlist = cache(lambda: Shortlist(len(self.columns), classifiers.shape[1], self._rows))

    def top_k(self, points: np.ndarray | Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows int64, scores float32), both n x k: the best candidates, best first; of equal ones, the lowest row.

        Where fewer than k classes have an answer, the rest is -1 and -inf.
        """
        if k < 1:
            raise UnseenError(f"k must be 1 or more, not {k}.")
        best_rows = np.full((len(points), k), -1, np.int64)
        best_scores = np.full((len(points), k), -np.inf, np.float32)
        n = min(k, len(self.columns))
        if n and self._takes_shortlist(len(points)):
            for place, point in enumerate(self._checked(points)):
                best_rows[place, :n], best_scores[place, :n] = self._best_of_shortlist(point[None], n)
            return best_rows, best_scores

        def find(block: slice, scores: Tensor) -> None:
            if self.seen_shift:
                scores[:, self.groups[0]] -= self.seen_shift
            values, columns = self.best_of(scores, n)
            best_scores[block, :n] = values.cpu().numpy()
            best_rows[block, :n] = self.columns[columns.cpu().numpy()]

        self._for_blocks(points if n else points[:0], find)
        return best_rows, best_scores

    def _takes_shortlist(self, photos: int) -> bool:
        return photos <= FEW_PHOTOS and len(self.columns) >= MANY and can_scan(self.device)

    def _best_of_shortlist(self, point: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
        """`top_k` of one photo among very many classes: the same rows and scores, without the scores of all."""
        shift = torch.zeros(len(self.columns))
        shift[self.groups[0]] = self.seen_shift
        photos = self._photos(point)
        columns = self._shortlist().find(photos[:1], k, shift)
        scores = torch.empty(len(photos), len(columns))
        for part in torch.arange(len(columns)).split(CLASSES):
            # At least FEW of them, for the same rounding; the first ones once more.
            some = torch.cat([columns[part], columns[:1].expand(max(0, FEW - len(part)))])
            found = torch.empty(len(photos), len(some))
            _product(photos, self._rows(some.numpy()), found)
            scores[:, part] = found[:, : len(part)]
        values, columns = self._sorted(scores[:1] - shift[columns], columns[None])
        return self.columns[columns[0, :k].numpy()], values[0, :k].numpy()

    def ranks(self, points: np.ndarray | Tensor, labels: np.ndarray) -> Ranks:
        """Where the true class, `labels` (n, rows of the class matrix), stands among the candidates."""
        full = self._ranks(points, labels, margins=False)
        return Ranks(full.greater, full.equal, full.score)

    def generalised_ranks(self, points: np.ndarray | Tensor, labels: np.ndarray) -> GeneralisedRanks:
        """`ranks`, the same within the true class's own group (seen or unseen), and the margin between the groups."""
        return self._ranks(points, labels, margins=True)

    def scores(self, points: np.ndarray | Tensor) -> np.ndarray:
        """All scores, float32 n x (candidates with an answer), in the order of `columns`, which holds their rows."""
        found = np.empty((len(points), len(self.columns)), np.float32)

        def copy(block: slice, scores: Tensor) -> None:
            scores[:, self.groups[0]] -= self.seen_shift
            found[block] = scores.cpu().numpy()

        self._for_blocks(points, copy)
        return found

    def _ranks(self, points: np.ndarray | Tensor, labels: np.ndarray, margins: bool) -> GeneralisedRanks:
        labels = _check_rows(labels, len(self._column))
        columns = self._column[labels]
        if (columns == _NO_CANDIDATE).any():
            wrong = np.unique(labels[columns == _NO_CANDIDATE])
            raise UnseenError(f"{len(wrong)} of the true classes are no candidates (rows {wrong[:5].tolist()} ...).")
        n = len(labels)
        greater, equal = np.zeros((2, n), np.int64), np.zeros((2, n), np.int64)  # among seen, among unseen
        score, best = np.full(n, -np.inf, np.float32), np.full((2, n), -np.inf, np.float32)

        def count(block: slice, scores: Tensor) -> None:
            own = torch.from_numpy(np.maximum(columns[block], 0)).to(self.device)[:, None]
            # The true class's score is read from the product, never computed again: else it would not equal itself.
            true = scores.gather(1, own) if len(self.columns) else scores.new_full((len(scores), 1), -np.inf)
            score[block] = true[:, 0].cpu().numpy()
            is_seen = torch.from_numpy(self.seen[labels[block]]).to(self.device)[:, None]
            for side, group in enumerate(self.groups):
                # Instead of shifting every score, the threshold moves the other way, and only for the other group.
                other = is_seen if side == 1 else ~is_seen
                threshold = true + other * (self.seen_shift if side == 0 else -self.seen_shift)
                greater[side, block], equal[side, block] = _count(scores[:, group], threshold)
                if margins and group.stop > group.start:
                    best[side, block] = scores[:, group].amax(1).cpu().numpy()

        self._for_blocks(points, count)
        side = np.where(self.seen[labels], 0, 1), np.arange(n)
        equal[side] -= 1  # a class is no tie of itself
        missed = columns == _NO_ANSWER
        score[missed] = -np.inf
        for array, value in ((greater, MISSED), (equal, 0)):
            array[:, missed] = value
        total = np.where(missed, MISSED, greater.sum(0))
        with np.errstate(invalid="ignore"):  # no answers at all: -inf - -inf
            margin = best[0] - best[1]
        return GeneralisedRanks(total, equal.sum(0), score, greater[side], equal[side], margin)

    def _for_blocks(self, points: np.ndarray | Tensor, work: Callable[[slice, Tensor], None]) -> None:
        """Call work(photos, their scores over all columns, without shift) for every block of photos.

        On a CPU each thread has blocks of its own, unless there are too few photos. Work may change the scores.
        """
        points = self._checked(points)
        threads = thread_count(self.device)
        most = min(PHOTOS, self._budget // (4 * max(len(self.columns), 1) * threads))
        size = max(FEW, min(most, max(WORTH_A_THREAD, -(-len(points) // threads))))
        blocks = [slice(start, min(start + size, len(points))) for start in range(0, len(points), size)]

        def do(block: slice) -> None:
            with self._buffer(size) as buffer:
                work(block, self._scores(points[block], buffer))

        if len(blocks) <= 1 or threads == 1:
            for block in blocks:
                do(block)
        else:
            with separate_threads(threads) as pool:
                for _ in pool.map(do, blocks):  # raises what went wrong
                    pass

    def _checked(self, points: np.ndarray | Tensor) -> Tensor:
        points = _as_tensor(points)
        if points.ndim != 2 or points.shape[1] != self.width:
            raise UnseenError(f"Points of shape {tuple(points.shape)}; the classifiers need (photos, {self.width}).")
        return points

    @contextmanager
    def _buffer(self, rows: int) -> Iterator[Tensor]:
        """Memory for scores, kept from block to block and call to call: the first touch of fresh memory is slow."""
        try:
            buffer = self._buffers.pop()
        except IndexError:
            buffer = torch.empty(0)
        if len(buffer) < rows:
            buffer = torch.empty(rows, len(self.columns), device=self.device)
        yield buffer
        self._buffers.append(buffer)

    def _scores(self, points: Tensor, buffer: Tensor) -> Tensor:
        photos = self._photos(points)
        scores = buffer[: len(photos)]
        for at in range(0, len(self.columns), CLASSES):
            # The last piece begins a little earlier than it might: a few columns alone would be rounded otherwise.
            piece = slice(max(0, min(at, len(self.columns) - FEW)), min(at + CLASSES, len(self.columns)))
            _product(photos, self._rows(piece), scores[:, piece])
        return scores[: len(points)]

    def _photos(self, points: Tensor) -> Tensor:
        """Points on the device, FEW or more: zeros follow where there are not so many."""
        photos = points.to(self.device, torch.float32)
        if not torch.isfinite(photos).all():
            raise UnseenError("Features hold NaN or infinity: check the network and its weights.")
        if len(photos) < FEW:
            photos = torch.cat([photos, photos.new_zeros(FEW - len(photos), photos.shape[1])])
        return photos

    def _rows(self, columns: slice | np.ndarray) -> Tensor:
        """Classifiers of some columns, float32 on the device."""
        return self._piece(columns) if self._matrix is None else self._matrix[columns]

    def _piece(self, columns: slice | np.ndarray) -> Tensor:
        """`_rows` of the matrix as it was given."""
        rows = self.columns[columns]
        consecutive = len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all()
        # A slice of the source is a view; picking rows copies them.
        picked = self._source[rows[0] : rows[-1] + 1] if consecutive else self._source[torch.from_numpy(rows)]
        matrix = picked.to(self.device, torch.float32)
        if not torch.isfinite(matrix.sum()):
            raise UnseenError("The class matrix holds NaN or infinity: train the bundle again.")
        return matrix

    def best_of(self, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Top k by (score descending, row ascending): values and columns, n x k."""
        values, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
        if values.shape[1] > k:  # torch picks any of those that tie for the last place
            tied = (values[:, k - 1] == values[:, k]).nonzero()[:, 0]
            values, columns = values[:, :k], columns[:, :k]
            if len(tied):
                values[tied], columns[tied] = (part[:, :k] for part in self._sorted(scores[tied]))
        # Those within the k are in any order, too.
        return self._sorted(values, columns)

    def _sorted(self, values: Tensor, columns: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """By row, then stably by score."""
        if columns is None:
            columns = torch.arange(len(self._row), device=self.device).expand_as(values)
        by_row = self._row[columns].argsort(dim=1)
        values, columns = values.gather(1, by_row), columns.gather(1, by_row)
        values, order = values.sort(dim=1, descending=True, stable=True)
        return values, columns.gather(1, order)


_NO_CANDIDATE, _NO_ANSWER = -2, -1  # instead of a column


def _as_tensor(matrix: np.ndarray | Tensor) -> Tensor:
    if isinstance(matrix, Tensor):
        return matrix
    with warnings.catch_warnings():  # a read-only array makes torch warn; nothing is ever written to it here
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(matrix)


def _product(photos: Tensor, matrix: Tensor, out: Tensor) -> None:
    """out = photos @ matrix.T, summed over pieces of DEPTH features in their order."""
    for start in range(0, photos.shape[1], DEPTH):
        a, b = photos[:, start : start + DEPTH], matrix[:, start : start + DEPTH].T
        if start:
            out.addmm_(a, b)
        else:
            torch.mm(a, b, out=out)


def _count(scores: Tensor, threshold: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """How many of each row's scores are greater than, and how many are equal to its threshold (int64, int64)."""
    greater = torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
    at_least = torch.zeros_like(greater)
    # Comparisons written as 0.0 and 1.0 into a piece that stays in the cache: several times faster than summing bools.
    flags = torch.empty(len(scores), min(CLASSES, scores.shape[1]), device=scores.device)
    for start in range(0, scores.shape[1], CLASSES):
        piece = scores[:, start : start + CLASSES]
        flag = flags[:, : piece.shape[1]]
        greater += torch.gt(piece, threshold, out=flag).sum(1).long()
        at_least += torch.ge(piece, threshold, out=flag).sum(1).long()
    return greater.cpu().numpy(), (at_least - greater).cpu().numpy()


def _check_rows(rows: np.ndarray, classes: int) -> np.ndarray:
    rows = np.asarray(rows, np.int64)
    if rows.ndim != 1 or (len(rows) and (rows.min() < 0 or rows.max() >= classes)):
        raise UnseenError(f"Classes are given by their rows of the class matrix, from 0 to {classes - 1}.")
    return rows
