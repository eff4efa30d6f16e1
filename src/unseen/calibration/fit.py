"""What is learned on photos of seen classes: how probable answers are, and the balance of seen and unseen classes.

The method is fitted again without a share of the seen classes, which then play the unseen ones, as often as it takes.
On their photos the numbers of `probability.numbers` are fitted, and beside them the two ways that the paper names for
the balance: the shift of calibrated stacking, with the best harmonic mean, and the threshold of a novelty detector
(`evaluation.novelty`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.bundle.records import CalibrationRecord
from unseen.calibration.effect import best_group_shift, measure_effect
from unseen.calibration.hiding import EACH, Photos, count_hidings, sample_photos
from unseen.errors import UnseenError
from unseen.evaluation.novelty import NoveltyDetector, confidence
from unseen.evaluation.protocol import BATCH, evaluate
from unseen.methods import get_method
from unseen.probability.fitting import fit_numbers
from unseen.recognition import Recogniser
from unseen.runtime.run import Run
from unseen.scoring.class_folders import check_source, open_source, renamed
from unseen.semantics import semantics_from_provenance
from unseen.training.stage1 import train

HARM = 5.0  # points


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
    harm: float = HARM,
) -> Bundle:
    """The bundle with a `calibration`: what makes its probabilities and verdicts hold.

    The method is fitted again without a share of the seen classes. These then compete with the unseen classes as well
    as with the seen ones, as unseen classes will in use; `unseen.probability.numbers` has the formulas.

    Args:
        bundle: Stays as it is.
        images: Photos of seen classes, DIR/<id or name>/*, a feature store, or .npz with `features` and `labels`;
            photos of other classes are never looked at.
        holdout: The share of seen classes to hide.
        candidates: The unseen classes that they compete with while the shift is chosen, by name; see
            `unseen.scoring.candidates`.
        say: Is told what a user should know.
        backbone: The network, where the bundle cannot load it by name.
        run: Seed, device and the like; by default with the bundle's seed.
        semantics: The sources of the class vectors, where the bundle cannot load them by name.
        out: Where to save the result.
        overwrite: Replace a bundle in `out`, if it is another one than this.
        harm: Points of accuracy that photos of seen classes may lose, against the network alone, when unseen classes
            compete with them.

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
    ...     for size in range(8, 12):
    ...         Image.new("RGB", (size, size), colour).save(f"photos/{colour}/{size}.png")
    >>> calibrated = unseen.calibrate(bundle, "photos", holdout=0.34, backbone=backbone)
    >>> calibrated.calibration.hidden_classes, calibrated.calibration.photos
    (1, 12)
    """
    if out is not None:
        bundle.check_output(out, overwrite)
    check_harm(harm)
    network = bundle.load_backbone() if backbone is None else backbone
    store: Any = SeenPhotos(_open(images, bundle, network, say), frozenset(bundle.seen_ids))
    run = run or Run(seed=bundle.seed)
    photos, random = Photos.read(store, run.seed), np.random.default_rng(run.seed)
    hide = _Hiding(bundle, network, store, holdout, semantics, run)
    hidings = count_hidings(round(holdout * len(bundle.seen)))
    samples, record = [], None
    for number in range(hidings):
        say(f"fitting {bundle.method} without {holdout:.0%} of the seen classes, {number + 1} of {hidings} times")
        model = hide(number)
        samples.append(sample_photos(model, photos, "any", random))
        record = record or _choose_shift(bundle, model, store, candidates)
    whole = sample_photos(Recogniser(bundle, network), photos, "any", random, each=2 * EACH)
    say("fitting the numbers that turn scores into probabilities")
    numbers = fit_numbers(samples, whole, harm, run.seed)
    assert record is not None  # there is at least one hiding
    if not record.harmonic_on_hidden:  # no hidden class came first, whatever the shift: then by the group alone
        record = replace(record, seen_shift=best_group_shift(samples))
    chosen = replace(record, harm=harm, probability=numbers, effect=measure_effect(numbers, samples, whole))
    calibrated = bundle.change(calibration=chosen)
    if out is not None:
        calibrated.save(out, overwrite=overwrite)
    return calibrated


def check_harm(harm: float) -> None:
    if not 0 <= harm <= 100:
        raise UnseenError(f"harm is in points of accuracy, from 0 to 100; not {harm}", "harm")


@dataclass(frozen=True)
class _Hiding:
    """Fits the bundle's method again without some of the seen classes."""

    bundle: Bundle
    network: Any
    store: Any
    share: float
    semantics: list | None
    run: Run

    def __call__(self, number: int) -> Recogniser:
        """Each number hides other classes."""
        bundle = self.bundle
        helper = train(
            bundle.method,
            bundle.taxonomy,
            self.semantics or [semantics_from_provenance(source) for source in bundle.vectors.provenance],
            self.network,
            features=self.store.seen_matrix(bundle.seen_ids) if _learned_from_photos(bundle) else None,
            holdout=self.share,
            skip_missing=True,  # as when the bundle was made
            run=replace(self.run, seed=self.run.seed + number),
            **bundle.settings,
        )
        # What was added to the bundle or left out of it counts here as it does there.
        return Recogniser(replace(helper, added=bundle.added, connecting=bundle.connecting), self.network)


def _choose_shift(bundle: Bundle, model: Recogniser, store: Any, candidates: str) -> CalibrationRecord:
    """Shift and novelty threshold, by the classes that were hidden from the model."""
    hidden = sorted(set(bundle.seen_ids) - set(model.bundle.seen_ids))
    others = [bundle.ids[row] for row in Recogniser(bundle).candidates(candidates) if not bundle.is_seen[row]]
    result = evaluate(
        model, store, [*hidden, *others], with_seen=True, photos_of="both", show_progress=False, sure=None
    )
    if result.generalised is None:
        raise UnseenError(
            f"there must be photos both of seen classes that are hidden ({len(hidden)} of {len(bundle.seen)}) and of "
            "others: give photos of more classes, or hide another share",
        )
    figures = result.generalised["class"]
    detector = choose_detector(model, store, frozenset(hidden))
    return CalibrationRecord(
        seen_shift=figures["best_shift_in_hindsight"],  # hindsight over hidden seen classes, not over unseen ones
        harmonic_on_hidden=figures["best_harmonic_in_hindsight"],
        harmonic_without=figures["harmonic"],
        hidden_classes=len(hidden),
        photos=result.images,
        novelty_threshold=detector.threshold,
        novelty_auroc=detector.auroc,
    )


def _open(images: Any, bundle: Bundle, network: Any, say: Callable[[str], None]) -> Any:
    check_source(images, bundle.taxonomy, set(bundle.seen_ids), "the seen classes")
    store = open_source(images, lambda: network, bundle.backbone.num_features, say=say)
    return renamed(store, bundle.taxonomy, set(bundle.seen_ids))


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
