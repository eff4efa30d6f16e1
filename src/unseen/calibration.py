"""The two ways that the paper names for the trade between seen and unseen classes; both learn from seen photos only.

Calibrated stacking takes a shift off the seen classes' scores. It is chosen on hidden seen classes: the method is
fitted without a share of them, which then play the unseen ones; the shift with the best harmonic mean is kept.

A novelty detector tells whether a photo shows a seen class at all; then only seen or only unseen classes compete. It
thresholds the network's own confidence, and the threshold is chosen on the same hidden classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.classifier import ZeroShotClassifier
from unseen.evaluate import BATCH, evaluate, open_features
from unseen.metrics import harmonic_mean, ranking_area
from unseen.pipeline import train
from unseen.run import Run


def calibrate(
    bundle: Bundle,
    images: str | Path,
    holdout: float = 0.2,
    candidates: str = "hops:2",
    say: Callable[[str], None] = lambda message: None,
    **fit_options: Any,
) -> Bundle:
    """The bundle with a chosen seen-shift and novelty threshold in its details.

    `images` are photos of seen classes. The hidden classes compete with the unseen `candidates` as well as with the
    seen ones, as unseen classes will in use.
    """
    say(f"fitting {bundle.method} without {holdout:.0%} of the seen classes")
    network = bundle.load_backbone()
    helper = train(
        bundle.method,
        bundle.taxonomy,
        [_semantics(source) for source in bundle.vectors.provenance],
        network,
        holdout=holdout,
        run=fit_options.pop("run", None) or Run(seed=bundle.seed),
        **bundle.settings,
        **fit_options,
    )
    model = ZeroShotClassifier(helper, network)
    store = open_features(model, images, say=say)
    hidden = sorted(set(bundle.seen_ids) - set(helper.seen_ids))
    others = [bundle.ids[row] for row in ZeroShotClassifier(bundle, network).candidates(candidates)]
    result = evaluate(model, store, [*hidden, *others], with_seen=True, show_progress=False)
    figures = result.generalised["class"]
    detector = NoveltyDetector.choose(model, store, hidden)
    chosen = {
        "seen_shift": figures["best_shift_in_hindsight"],  # hindsight over hidden seen classes, not over unseen ones
        "harmonic_on_hidden": figures["best_harmonic_in_hindsight"],
        "harmonic_without": figures["harmonic"],
        "hidden_classes": len(hidden),
        "photos": result.images,
        "novelty_threshold": detector.threshold,
        "novelty_auroc": detector.auroc,
    }
    details = bundle.solution.details | {"calibration": chosen}
    return replace(bundle, solution=replace(bundle.solution, details=details), path=None)


def _semantics(source: dict):
    from unseen.semantics import semantics_from_provenance

    return semantics_from_provenance(source)


@dataclass(frozen=True)
class NoveltyDetector:
    """Says "seen" where the network's largest softmax probability over its own classes reaches the threshold."""

    threshold: float
    auroc: float | None = None  # on the photos it was chosen on

    @staticmethod
    def confidence(known: np.ndarray, features: np.ndarray) -> np.ndarray:
        """n: the largest probability under the known classifiers [weight, bias] (M x (D + 1))."""
        logits = features @ known[:, :-1].T + known[:, -1]
        return 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1)

    def is_seen(self, known: np.ndarray, features: np.ndarray) -> np.ndarray:
        return self.confidence(known, features) >= self.threshold

    @classmethod
    def choose(cls, model: ZeroShotClassifier, store, hidden: list[str]) -> NoveltyDetector:
        """The threshold with the best harmonic mean of "seen told as seen" and "hidden told as unseen"."""
        gone, seen, novel = set(hidden), [], []
        for features, ids, _ in store.batches(BATCH):
            confidence = cls.confidence(model.bundle.known, features)
            is_novel = np.array([i in gone for i in ids])
            is_known = np.array([i in model.bundle.taxonomy for i in ids]) & ~is_novel
            novel.append(confidence[is_novel])
            seen.append(confidence[is_known])
        seen, novel = np.sort(np.concatenate(seen)), np.sort(np.concatenate(novel))
        places = np.unique(np.concatenate([seen, novel]))
        kept = 1 - np.searchsorted(seen, places) / max(len(seen), 1)
        caught = np.searchsorted(novel, places) / max(len(novel), 1)
        balance = [harmonic_mean(a, b) for a, b in zip(kept, caught, strict=True)]
        return cls(float(places[int(np.argmax(balance))]), round(ranking_area(seen, novel), 4))
