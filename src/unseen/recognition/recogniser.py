"""A bundle and its network at work: photos -> features -> scores -> labels, one call each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.recognition.labels import Label
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

    def features(self, photos: Sequence[Any], batch: int = 32) -> np.ndarray:
        """Features (n x D) of photos: paths, bytes, PIL images, arrays or tensors."""
        import torch

        found = []
        for start in range(0, len(photos), batch):
            pixels = [self.backbone.transform.open(photo) for photo in photos[start : start + batch]]
            found.append(self.backbone.features(torch.stack(pixels)).float().cpu().numpy())
        return np.concatenate(found) if found else np.zeros((0, self.bundle.backbone.num_features), np.float32)

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
            raise UnseenError(f"seen_shift must be a finite number, not {seen_shift}")
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
    def _torch_device(self):
        return choose_device(self.device)

    def classify(
        self,
        photos: Any,
        k: int = 5,
        candidates: str | Sequence[str] = "any",
        seen_shift: float = 0.0,
    ) -> list[Label] | list[list[Label]]:
        """The k best labels of a photo, best first; for a list of photos, a list for each."""
        several = isinstance(photos, (list, tuple))
        found = self.labels(self.features(photos if several else [photos]), k, candidates, seen_shift)
        return found if several else found[0]

    def labels(
        self, features: np.ndarray, k: int = 5, candidates: str | Sequence[str] = "any", seen_shift: float = 0.0
    ) -> list[list[Label]]:
        """The k best labels of each row of features."""
        if k < 1:
            raise UnseenError(f"k, the number of labels, must be 1 or more; not {k}")
        best, scores = self.scorer(candidates, seen_shift).top_k(self.points(features), k)
        return [
            [self.label(int(row), float(score)) for row, score in zip(*pair, strict=True) if np.isfinite(score)]
            for pair in zip(best, scores, strict=True)
        ]

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
