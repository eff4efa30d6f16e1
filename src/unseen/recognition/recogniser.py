"""A bundle and its network at work: photos -> features -> scores -> labels, one call each.

The command line, Python and the page all go this way:

    found = model.look_at(photos)                # read, transform, features (`recognition.photo_features`)
    rows, scores = model.best(found.matrix, k)   # the k best candidates of each photo
    model.answer(rows[0], scores[0])             # an Answer, with its labels

`classify` is all of it in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np
import torch

from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.photos.reading import Source, UnreadablePhoto
from unseen.recognition.answers import Answer, Label, Unreadable
from unseen.recognition.photo_features import BATCH, PhotoFeatures, look_at
from unseen.runtime.devices import choose_device
from unseen.scoring.candidates import resolve_candidates
from unseen.scoring.scorer import Scorer

if TYPE_CHECKING:
    from unseen.backbones import Backbone

KEPT_SCORERS = 4  # candidate lists whose classifiers stay gathered


class Recogniser:
    """Photos in, labels out. `unseen.ZeroShotClassifier` adds what else one does with a bundle."""

    def __init__(self, bundle: Bundle, backbone: Backbone | None = None, device: str = "auto"):
        if backbone is not None:
            bundle.take_backbone(backbone)
        self.bundle = bundle
        self._backbone = backbone
        self.device = device
        self._candidates: dict[tuple, np.ndarray] = {}
        self._scorers: dict[tuple, Scorer] = {}

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
            ids = resolve_candidates(spec, bundle.taxonomy, bundle.seen_ids, self._class_ids, with_seen)
            self._candidates[key] = bundle.taxonomy.indices(ids)
        return self._candidates[key]

    @cached_property
    def _class_ids(self) -> list[str]:
        return [self.bundle.ids[row] for row in np.flatnonzero(self.bundle.is_class)]

    def scores(
        self, features: np.ndarray, candidates: str | Sequence[str] = "any", seen_shift: float = 0.0
    ) -> np.ndarray:
        """Scores (n x C) of features over the candidates, in the order of `self.candidates(...)`.

        `seen_shift` is taken off the seen classes' scores (calibrated stacking): more of it favours unseen ones.
        A class for which the method has no answer scores -inf.
        """
        scorer, rows = self.scorer(candidates, seen_shift), self.candidates(candidates)
        found = np.full((len(np.atleast_2d(features)), len(rows)), -np.inf, np.float32)
        found[:, np.searchsorted(rows, scorer.columns)] = scorer.scores(self.points(features))
        return found

    def points(self, features: np.ndarray) -> np.ndarray:
        """Features (n x D) where classes are scored (n x E)."""
        return self.bundle.solution.projection(np.atleast_2d(features))

    def scorer(
        self, candidates: str | Sequence[str] = "any", seen_shift: float = 0.0, with_seen: bool = False
    ) -> Scorer:
        """What ranks points over the candidates. The gathered classifiers of a few candidate lists are kept."""
        if not math.isfinite(seen_shift):  # every comparison with NaN fails: each photo would be a hit, or get no label
            raise UnseenError(f"seen_shift must be a finite number, not {seen_shift}", "seen_shift")
        key = (candidates if isinstance(candidates, str) else tuple(candidates), with_seen)
        if key not in self._scorers:
            while len(self._scorers) >= KEPT_SCORERS:
                self._scorers.pop(next(iter(self._scorers)))
            solution, rows = self.bundle.solution, self.candidates(candidates, with_seen)
            self._scorers[key] = Scorer(
                solution.classifiers,
                rows,
                seen=self.bundle.is_seen,
                answers=solution.answers,
                device=self._torch_device,
            )
        scorer = copy(self._scorers[key])  # shares the classifiers, but not the shift
        scorer.seen_shift = float(seen_shift)
        return scorer

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
        seen_shift: float = 0.0,
        *,
        show_progress: bool = False,
    ) -> list[Answer | Unreadable]: ...
    @overload
    def classify(
        self,
        photos: Source,
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float = 0.0,
        *,
        show_progress: bool = False,
    ) -> Answer: ...
    def classify(
        self,
        photos: Source | list[Source] | tuple[Source, ...],
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float = 0.0,
        *,
        show_progress: bool = False,
    ) -> Answer | list[Answer | Unreadable]:
        """The answer for a photo, with its k best labels; for a list of photos, a list with an entry for each.

        A single photo that cannot be read raises UnseenError; in a list, `Unreadable` stands in its place.
        """
        self.scorer(candidates, seen_shift)  # a wrong name or number is reported before the work begins
        if not isinstance(photos, (list, tuple)):
            return self.answers(self.features([photos]), k, candidates, seen_shift)[0]
        found = self.look_at(photos, show_progress=show_progress)
        return found.align(self.answers(found.matrix, k, candidates, seen_shift))

    def answers(
        self, features: np.ndarray, k: int = 5, candidates: str | Sequence[str] = "any", seen_shift: float = 0.0
    ) -> list[Answer]:
        """The answer for each row of features, with its k best labels."""
        return [self.answer(*pair) for pair in zip(*self.best(features, k, candidates, seen_shift), strict=True)]

    def best(
        self, features: np.ndarray, k: int = 5, candidates: str | Sequence[str] = "any", seen_shift: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows, scores), both n x k: the best candidates for each row of features; the rest is -1 and -inf."""
        return self.scorer(candidates, seen_shift).top_k(self.points(features), k)

    def answer(self, rows: np.ndarray, scores: np.ndarray) -> Answer:
        """The answer for one photo from its best classes; those without a score are left out."""
        best = zip(rows.tolist(), scores.tolist(), strict=True)
        return Answer(tuple(self.label(row, score) for row, score in best if math.isfinite(score)))

    def label(self, row: int, score: float) -> Label:
        taxonomy, trust = self.bundle.taxonomy, self.bundle.solution.trust
        id = taxonomy.ids[row]
        return Label(
            id=id,
            name=taxonomy.name(id),
            score=score,
            seen=bool(self.bundle.is_seen[row]),
            trust=None if trust is None else float(trust[row]),
            path=tuple(taxonomy.name(i) for i in reversed(taxonomy.path_to_root(id))),
        )

    def replace_bundle(self, bundle: Bundle) -> None:
        """Go on with a grown or shrunk bundle for the same network."""
        self.bundle = bundle
        self._candidates.clear()
        self._scorers.clear()
        self.__dict__.pop("_class_ids", None)
