"""The two ways that the paper names for the trade between seen and unseen classes; both learn from seen photos only.

Calibrated stacking takes a shift off the seen classes' scores. It is chosen on hidden seen classes: the method is
fitted without a share of them, which then play the unseen ones; the shift with the best harmonic mean is kept.

A novelty detector (`evaluation.novelty`) tells whether a photo shows a seen class; its threshold is chosen on the same
hidden classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.bundle.records import CalibrationRecord
from unseen.errors import UnseenError
from unseen.evaluation.novelty import NoveltyDetector, confidence
from unseen.evaluation.protocol import BATCH, evaluate
from unseen.features.cache import open_features
from unseen.methods import get_method
from unseen.recognition import Recogniser
from unseen.runtime.run import Run
from unseen.semantics import semantics_from_provenance
from unseen.training.stage1 import train


def calibrate(
    bundle: Bundle,
    images: str | Path | Any,
    holdout: float = 0.2,
    candidates: str = "hops:2",
    say: Callable[[str], None] = lambda message: None,
    backbone: Any = None,
    run: Run | None = None,
    semantics: list | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> Bundle:
    """The bundle with a chosen seen-shift and novelty threshold, as its `calibration`.

        score of class u = projection(f) . classifiers[u] - seen_shift [u is seen]

    The method is fitted again without a share of the seen classes. These then compete with the unseen `candidates` as
    well as with the seen ones, as unseen classes will in use; the shift with the best harmonic mean is kept.

    Args:
        bundle: Stays as it is.
        images: Photos of seen classes, DIR/<id>/*, or a feature store; photos of other classes are never looked at.
        holdout: The share of seen classes to hide.
        candidates: The unseen classes that they compete with, by name; see `unseen.scoring.candidates`.
        say: Is told what a user should know.
        backbone: The network, where the bundle cannot load it by name.
        run: Seed, device and the like; by default with the bundle's seed.
        semantics: The sources of the class vectors, where the bundle cannot load them by name.
        out: Where to save the result.
        overwrite: Replace a bundle in `out`, if it is another one than this.

    >>> from pathlib import Path
    >>> import unseen
    >>> from PIL import Image
    >>> from torch import nn
    >>> edges = [("red", "colour"), ("green", "colour"), ("blue", "colour"), ("crimson", "red"), ("navy", "blue")]
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3, bias=False))
    >>> _ = nn.init.eye_(network[-1].weight)  # it sees how red, green and blue a photo is
    >>> backbone = unseen.from_module(network, ["red", "green", "blue"])
    >>> bundle = unseen.train("structural", unseen.Taxonomy.from_edges(edges), "glove", backbone)
    >>> for colour in ["red", "green", "blue"]:
    ...     Path("photos", colour).mkdir(parents=True)
    ...     Image.new("RGB", (8, 8), colour).save(f"photos/{colour}/plain.png")
    >>> calibrated = unseen.calibrate(bundle, "photos", holdout=0.34, backbone=backbone)
    >>> calibrated.calibration.hidden_classes, calibrated.calibration.photos
    (1, 3)
    """
    if out is not None:
        bundle.check_output(out, overwrite)
    network = bundle.load_backbone() if backbone is None else backbone
    whole = Recogniser(bundle, network)
    store: Any = SeenPhotos(_open(images, network, say), frozenset(bundle.seen_ids))
    features = store.seen_matrix(bundle.seen_ids) if _learned_from_photos(bundle) else None
    say(f"fitting {bundle.method} without {holdout:.0%} of the seen classes")
    helper = train(
        bundle.method,
        bundle.taxonomy,
        semantics or [semantics_from_provenance(source) for source in bundle.vectors.provenance],
        network,
        features=features,
        holdout=holdout,
        skip_missing=True,  # as when the bundle was made
        run=run or Run(seed=bundle.seed),
        **bundle.settings,
    )
    model = Recogniser(helper, network)
    hidden = sorted(set(bundle.seen_ids) - set(helper.seen_ids))
    others = [bundle.ids[row] for row in whole.candidates(candidates) if not bundle.is_seen[row]]
    result = evaluate(model, store, [*hidden, *others], with_seen=True, photos_of="both", show_progress=False)
    if result.generalised is None:
        raise UnseenError("there must be photos both of seen classes that are hidden and of others: these are too few")
    figures = result.generalised["class"]
    detector = choose_detector(model, store, frozenset(hidden))
    chosen = CalibrationRecord(
        seen_shift=figures["best_shift_in_hindsight"],  # hindsight over hidden seen classes, not over unseen ones
        harmonic_on_hidden=figures["best_harmonic_in_hindsight"],
        harmonic_without=figures["harmonic"],
        hidden_classes=len(hidden),
        photos=result.images,
        novelty_threshold=detector.threshold,
        novelty_auroc=detector.auroc,
    )
    calibrated = bundle.change(calibration=chosen)
    if out is not None:
        calibrated.save(out, overwrite=overwrite)
    return calibrated


def _open(images: Any, network: Any, say: Callable[[str], None]) -> Any:
    return images if hasattr(images, "batches") else open_features(images, network, say=say)


def _learned_from_photos(bundle: Bundle) -> bool:
    """Some methods can do without, and the shift must be that of the model that the bundle holds."""
    chosen = bundle.solution.record.chosen or {}
    return get_method(bundle.method).needs_features or chosen.get("learn_from") == "features"


def choose_detector(model: Recogniser, store, hidden: frozenset[str]) -> NoveltyDetector:
    """The detector for a model that does not know the `hidden` classes of the photos."""
    told: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for features, ids, _ in store.batches(BATCH):
        is_novel = np.array([i in hidden for i in ids])
        sure = confidence(model.bundle.known, features)
        for novel, parts in told.items():
            parts.append(sure[is_novel == novel])
    return NoveltyDetector.choose(np.concatenate(told[False]), np.concatenate(told[True]))


@dataclass(frozen=True)
class SeenPhotos:
    """The photos of some classes in a feature store: calibration must not see any others, whatever is on disk."""

    store: Any
    allowed: frozenset[str]

    def batches(self, size: int, classes: Collection[str] | None = None) -> Iterator[tuple[np.ndarray, list[str], Any]]:
        return self.store.batches(size, self.allowed if classes is None else self.allowed & set(classes))

    def classes(self) -> dict[str, int]:
        return {id: photos for id, photos in self.store.classes().items() if id in self.allowed}

    def seen_matrix(self, ids: list[str]):
        return self.store.seen_matrix(ids)

    def unreadable_count(self) -> int:
        return self.store.unreadable_count()
