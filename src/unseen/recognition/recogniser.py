"""A bundle and its network at work: photos -> features -> scores -> probabilities -> verdict.

The command line, Python and the page all go this way:

    found = model.look_at(photos)            # read, transform, features (`recognition.photo_features`)
    answers = model.answers(found.matrix)    # scores, probabilities, verdicts (`recognition.judging`)
    found.align(answers)                     # an entry for each photo, also for those that could not be read

`classify` is all of it in one call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.features.arrays import check_matrix
from unseen.photos.reading import Source, UnreadablePhoto
from unseen.probability.numbers import ProbabilityNumbers
from unseen.probability.scorer import CalibratedScorer
from unseen.probability.verdicts import check_sureness
from unseen.recognition.answers import Answer, Unreadable
from unseen.recognition.judging import Judge
from unseen.recognition.photo_features import BATCH, PhotoFeatures, look_at, read_batch, work_through
from unseen.runtime.devices import choose_device
from unseen.runtime.progress import progress
from unseen.scoring.candidates import resolve_candidates
from unseen.scoring.scorer import Scorer

if TYPE_CHECKING:
    from unseen.backbones import Backbone

KEPT_LISTS = 4  # candidate lists whose classifiers and sums stay gathered
SURE = 0.9  # the sureness of a verdict if none is asked for


class Recogniser:
    """Photos in, labels out. `unseen.ZeroShotClassifier` adds what else one does with a bundle."""

    def __init__(self, bundle: Bundle, backbone: Backbone | None = None, device: str = "auto"):
        if backbone is not None:
            bundle.take_backbone(backbone)
        self.bundle = bundle
        self._backbone = backbone
        self.device = device
        self._candidates: dict[tuple, np.ndarray] = {}
        self._judges: dict[tuple, Judge] = {}

    # -- photos to features to scores ------------------------------------------------------------------------------

    @cached_property
    def backbone(self) -> Backbone:
        """The network, loaded on first use."""
        backbone = self._backbone or self.bundle.load_backbone()
        return backbone.to(self._torch_device)

    def look_at(self, photos: Sequence[Source], batch: int = BATCH, show_progress: bool = False) -> PhotoFeatures:
        """Features of photos: paths, bytes, PIL images, arrays or tensors; what cannot be read is listed apart."""
        return look_at(self.backbone, photos, batch, show_progress)

    def features(self, photos: Sequence[Source], batch: int = BATCH) -> np.ndarray:
        """Features (n x D) of photos, all of which must be readable."""
        found = self.look_at(photos, batch)
        if found.unreadable:
            first = next(iter(found.unreadable.values()))
            raise UnreadablePhoto(first.photo, first.why)
        return found.matrix

    def candidates(self, spec: str | Sequence[str] = "any", with_seen: bool = False) -> np.ndarray:
        """Rows of the classes that a photo may be assigned to; see `unseen.scoring.candidates` for the names."""
        key = (spec if isinstance(spec, str) else tuple(spec), with_seen)
        if key not in self._candidates:
            bundle = self.bundle
            ids = resolve_candidates(spec, bundle.taxonomy, bundle.seen_ids, self._class_ids, with_seen, bundle.added)
            self._candidates[key] = bundle.taxonomy.indices(ids)
        return self._candidates[key]

    @cached_property
    def _class_ids(self) -> list[str]:
        return [self.bundle.ids[row] for row in np.flatnonzero(self.bundle.is_class)]

    def scores(
        self, features: np.ndarray, candidates: str | Sequence[str] = "any", seen_shift: float = 0.0
    ) -> np.ndarray:
        """The method's scores (n x C) of features over the candidates, in the order of `self.candidates(...)`.

        `seen_shift` is taken off the seen classes' scores (calibrated stacking): more of it favours unseen ones.
        A class for which the method has no answer scores -inf.
        """
        judge, rows = self.judge(candidates, seen_shift), self.candidates(candidates)
        found = np.full((len(np.atleast_2d(features)), len(rows)), -np.inf, np.float32)
        found[:, np.searchsorted(rows, judge.scorer.columns)] = judge.scorer.scores(judge.points(features))
        return found

    def points(self, features: np.ndarray) -> np.ndarray:
        """Features (n x D) where classes are scored (n x E)."""
        return self.bundle.solution.projection(np.atleast_2d(features))

    def scorer(
        self, candidates: str | Sequence[str] = "any", seen_shift: float = 0.0, with_seen: bool = False
    ) -> Scorer:
        """What ranks points over the candidates by the method's scores."""
        return self.judge(candidates, seen_shift, with_seen).scorer

    def judge(
        self, candidates: str | Sequence[str] = "any", seen_shift: float | None = None, with_seen: bool = False
    ) -> Judge:
        """What turns features into answers over the candidates; what it gathers for a few lists is kept.

        Without a `seen_shift` the bundle's calibration balances seen and unseen classes, if it has one.
        """
        if seen_shift is not None and not math.isfinite(seen_shift):
            # Every comparison with NaN fails: each photo would be a hit, or get no label.
            raise UnseenError(f"seen_shift must be a finite number, not {seen_shift}", "seen_shift")
        numbers = self.numbers if seen_shift is None else None
        key = (candidates if isinstance(candidates, str) else tuple(candidates), with_seen, numbers is not None)
        if key not in self._judges:
            while len(self._judges) >= KEPT_LISTS:
                self._judges.pop(next(iter(self._judges)))
            rows = self.candidates(candidates, with_seen)
            self._judges[key] = Judge(self.bundle, self._make_scorer(numbers, rows), rows)
        judge = copy(self._judges[key])  # shares classifiers and sums, but not the shift
        judge.scorer = copy(judge.scorer)
        judge.scorer.seen_shift = float(seen_shift or 0.0)
        return judge

    def _make_scorer(self, numbers: ProbabilityNumbers | None, rows: np.ndarray) -> Scorer:
        bundle, solution = self.bundle, self.bundle.solution
        options = {"seen": bundle.is_seen, "answers": solution.answers, "device": self._torch_device}
        if numbers is None:
            return Scorer(solution.classifiers, rows, **options)
        return CalibratedScorer(
            numbers, bundle.taxonomy, bundle.head, bundle.seen, solution.classifiers, rows, **options
        )

    @property
    def numbers(self) -> ProbabilityNumbers | None:
        """What a calibration left in the bundle, if it was calibrated."""
        return None if self.bundle.calibration is None else self.bundle.calibration.probability

    @cached_property
    def _torch_device(self) -> torch.device:
        return choose_device(self.device)

    # -- answers ---------------------------------------------------------------------------------------------------

    @overload
    def classify(
        self,
        photos: list[Source] | tuple[Source, ...],
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float | None = None,
        sure: float = SURE,
        *,
        show_progress: bool = False,
    ) -> list[Answer | Unreadable]: ...
    @overload
    def classify(
        self,
        photos: Source,
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float | None = None,
        sure: float = SURE,
        *,
        show_progress: bool = False,
    ) -> Answer: ...
    def classify(
        self,
        photos: Source | list[Source] | tuple[Source, ...],
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float | None = None,
        sure: float = SURE,
        *,
        show_progress: bool = False,
    ) -> Answer | list[Answer | Unreadable]:
        """The answer for a photo: verdict and k best labels; for a list of photos, a list with an entry for each.

        A verdict is right with probability `sure`. A single photo that cannot be read raises UnseenError; in a list,
        `Unreadable` stands in its place.
        """
        if not isinstance(photos, (list, tuple)):
            judge = self._check(k, candidates, seen_shift, sure)
            return judge.answers(self.features([photos]), k, sure)[0]
        return list(self.stream(photos, k, candidates, seen_shift, sure, show_progress=show_progress))

    def stream(
        self,
        photos: Sequence[Source],
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float | None = None,
        sure: float = SURE,
        *,
        show_progress: bool = False,
    ) -> Iterator[Answer | Unreadable]:
        """What `classify` returns for a list, one by one as photos are done: any number of them."""
        judge, backbone = self._check(k, candidates, seen_shift, sure), self.backbone
        _ = judge.sums  # gathered once, and not by each thread

        def work(some: Sequence[Source]) -> list[Answer | Unreadable]:
            found = read_batch(backbone, some)
            return found.align(judge.answers(found.matrix, k, sure))

        return self._shown(work_through(photos, work, backbone.device), len(photos), show_progress)

    @staticmethod
    def _shown(
        batches: Iterator[list[Answer | Unreadable]], photos: int, show_progress: bool
    ) -> Iterator[Answer | Unreadable]:
        done, started = 0, time.monotonic()
        with progress("Looking at photos", photos, enabled=show_progress and photos > BATCH) as bar:
            for batch in batches:
                done += len(batch)
                bar.advance(len(batch), rate=f"{done / (time.monotonic() - started):.0f}/s")
                yield from batch

    def classify_features(
        self,
        features: Any,
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float | None = None,
        sure: float = SURE,
    ) -> list[Answer]:
        """An answer for each row of features (n x D) that come from elsewhere: no photo and no network is needed."""
        matrix = check_matrix(features, width=self.bundle.backbone.num_features)
        return self.answers(matrix, k, candidates, seen_shift, sure)

    def answers(
        self,
        features: np.ndarray,
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float | None = None,
        sure: float = SURE,
    ) -> list[Answer]:
        """The answer for each row of features, with its k best labels."""
        return self._check(k, candidates, seen_shift, sure).answers(features, k, sure)

    def _check(self, k: int, candidates: str | Sequence[str], seen_shift: float | None, sure: float) -> Judge:
        """What gives the answers; a wrong name or number is reported before the work begins."""
        if k < 1:
            raise UnseenError(f"k must be 1 or more, not {k}.")
        check_sureness(sure)
        return self.judge(candidates, seen_shift)

    def replace_bundle(self, bundle: Bundle) -> None:
        """Go on with a grown or shrunk bundle for the same network."""
        self.bundle = bundle
        self._candidates.clear()
        self._judges.clear()
        self.__dict__.pop("_class_ids", None)
