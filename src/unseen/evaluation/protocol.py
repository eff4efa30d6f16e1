"""The paper's protocol: Hit@k of a bundle on photos by class, over chosen candidates, with or without the seen classes.

Photos count if their class is in the list. Seen classes that are added to it ("+1K") only compete: the paper's second
table is about photos of unseen classes, as the first, although the ImageNet-21K folder holds those of seen ones too. A
folder that shows nothing but seen classes is its seen-class test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.evaluation.awa2 import CLASSES, by_id, photos_folder
from unseen.evaluation.hierarchical import HierarchicalCounter
from unseen.evaluation.metrics import KS, HitCounter, SeenUnseenCurve, harmonic_mean, hits
from unseen.evaluation.novelty import NoveltyDetector, judged_ranks
from unseen.features import FeatureStore
from unseen.probability.verdicts import check_sureness
from unseen.recognition.judging import Judge
from unseen.recognition.recogniser import Recogniser
from unseen.scoring.class_folders import check_source, open_source, renamed

BATCH = 1024  # photos
PHOTOS_OF = ("auto", "unseen", "seen", "both")


@dataclass(frozen=True)
class Evaluation:
    """What `unseen.evaluate` finds; figures are in per cent.

        image  hit@k = 100 / photos * sum over photos of [true class among the k best]
        class  hit@k = mean of that over the classes that have photos
        generalised, harmonic = 2 s u / (s + u)  for seen and unseen accuracy s, u

    Args:
        candidates: Which classes competed, by the name of the list.
        candidate_classes: How many.
        listed_classes: How many without the seen classes that were added to the list.
        classes: How many of them have photos.
        images: How many photos were counted.
        unreadable: How many photos could not be read.
        skipped_classes: Folders that the bundle does not know, or that are not among the candidates.
        ties: What a tie is worth: realistic, optimistic or pessimistic.
        seen_shift: What was taken off the scores of seen classes.
        image: Hit@k by k, averaged over photos.
        class_: The same averaged over classes; "class" in `as_dict`.
        generalised: Seen and unseen accuracy, where photos of both are among those evaluated.
        novelty: The same with a novelty detector, where one is asked for.
        per_class: Number of photos and Hit@k of each class.
        curve: Unseen over seen accuracy for every shift, where both kinds compete.
        calibrated: Whether classes were ranked by calibrated probabilities.
        verdict: How often verdicts of the sureness asked for are right, and what they tell, in bits.
        hierarchical: Figures that know the hierarchy; see `unseen.evaluation.hierarchical`.
        verdict_curve: The same as `verdict` over many surenesses.
        reliability: How often nodes of a probability are true.

    >>> import unseen
    >>> hits = {"hit@1": 50.0, "hit@5": 100.0}
    >>> result = unseen.Evaluation(
    ...     candidates="unseen", candidate_classes=9, listed_classes=9, classes=1, images=2, unreadable=0,
    ...     skipped_classes=0, ties="realistic", seen_shift=0.0, image=hits, class_=hits, generalised=None,
    ...     novelty=None, per_class=[{"id": "fox", "photos": 2, **hits}],
    ... )
    >>> result.as_dict()["class"]["hit@5"]
    100.0
    """

    candidates: str
    candidate_classes: int
    listed_classes: int
    classes: int
    images: int
    unreadable: int
    skipped_classes: int
    ties: str
    seen_shift: float
    image: dict[str, float | None]
    class_: dict[str, float | None]
    generalised: dict[str, Any] | None
    novelty: dict[str, Any] | None
    per_class: list[dict[str, Any]]
    curve: SeenUnseenCurve | None = None
    calibrated: bool = False
    verdict: dict[str, Any] | None = None
    hierarchical: dict[str, Any] | None = None
    verdict_curve: list[dict[str, float]] | None = None
    reliability: list[dict[str, Any]] | None = None

    def as_dict(self, per_class: bool = False) -> dict[str, Any]:
        left_out = {"curve"} if per_class else {"curve", "per_class"}
        names = [item.name for item in fields(self) if item.name not in left_out]
        return {("class" if name == "class_" else name): getattr(self, name) for name in names}


def evaluate(
    model: Recogniser,
    images: str | Path | FeatureStore | Sequence[str | Path | FeatureStore],
    candidates: str | Sequence[str] = "unseen",
    with_seen: bool = False,
    seen_shift: float | str | None = None,
    ties: str = "realistic",
    ks: Sequence[int] = KS,
    novelty: float | str | None = None,
    workers: int = 2,
    show_progress: bool = True,
    say: Callable[[str], None] = lambda message: None,
    photos_of: str = "auto",
    sure: float | None = 0.9,
) -> Evaluation:
    """Rank the true class of every photo in one or more folders (or feature stores) among the candidates.

    Args:
        model: From `unseen.load`.
        images: Photos by class id, DIR/<id>/*, or feature stores; only those of candidates count. AWA2 may be given as
            it is distributed, with folders such as blue+whale.
        candidates: Ids, or the name of a list such as unseen, seen or hops:2; see `unseen.scoring.candidates`.
        with_seen: Let the seen classes compete too.
        seen_shift: Taken off the scores of seen classes; "auto": what `unseen.calibrate` chose for the bundle. Without
            it classes are ranked by probability if the bundle is calibrated, and by score if not.
        ties: What a tie is worth: realistic, optimistic or pessimistic; see `unseen.evaluation.metrics`.
        ks: The k of Hit@k.
        novelty: A threshold of the network's confidence, or "auto": figures with it are reported beside the others.
            Photos that reach it compete among seen classes only, the rest among unseen ones.
        workers: Processes that read photos.
        show_progress: Show a progress bar.
        say: Is told what a user should know.
        photos_of: Which photos count where seen classes were added to the list: `unseen`, `seen`, `both`; `auto`: in
            each folder those of the list, and those of seen classes only where it has no others.
        sure: The sureness of the verdicts that are judged; None: no verdicts, which is faster.

    >>> from pathlib import Path
    >>> import unseen
    >>> from PIL import Image
    >>> from torch import nn
    >>> edges = [("red", "colour"), ("green", "colour"), ("blue", "colour"), ("crimson", "red"), ("navy", "blue")]
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3, bias=False))
    >>> _ = nn.init.eye_(network[-1].weight)  # it sees how red, green and blue a photo is
    >>> backbone = unseen.from_module(network, ["red", "green", "blue"])
    >>> bundle = unseen.train("structural", unseen.Taxonomy.from_edges(edges), "glove", backbone)
    >>> for colour in ["crimson", "navy"]:
    ...     Path("photos", colour).mkdir(parents=True)
    ...     Image.new("RGB", (8, 8), colour).save(f"photos/{colour}/plain.png")
    >>> model = unseen.load(bundle, backbone)
    >>> unseen.evaluate(model, "photos", "unseen", ks=[1, 2], workers=0, show_progress=False).image
    {'hit@1': 100.0, 'hit@2': 100.0}
    """
    shift = None if seen_shift is None else _chosen("seen_shift", seen_shift, model.bundle, "seen_shift")
    novelty = None if novelty is None else _chosen("novelty", novelty, model.bundle, "novelty_threshold")
    sources: list[Any] = list(images) if isinstance(images, (list, tuple)) else [images]
    _refuse_twice(sources)
    bundle = model.bundle
    rows = model.candidates(candidates, with_seen)
    own_list = {bundle.ids[row] for row in model.candidates(_plain(candidates))}
    ids_of_candidates = [bundle.ids[row] for row in rows]
    position = {id: place for place, id in enumerate(ids_of_candidates)}
    is_seen = bundle.is_seen[rows]
    counter = HitCounter(ids_of_candidates, ks, ties)
    first = HitCounter(ids_of_candidates, (1,), ties)  # ties between the groups count as all ties do
    curve = SeenUnseenCurve(is_seen) if is_seen.any() and not is_seen.all() else None
    judge = model.judge(candidates, shift, with_seen)
    verdicts = None if sure is None else HierarchicalCounter(judge, check_sureness(sure))
    detective = None
    if novelty is not None:
        if curve is None:
            raise UnseenError(
                "a novelty detector needs seen and unseen candidates: add the seen ones with with_seen=True",
                "with_seen=True",
            )
        detective = _Detective(NoveltyDetector(novelty), HitCounter(ids_of_candidates, sorted({1, *ks}), ties), is_seen)
    scorer = judge.scorer
    skipped, empty, unreadable = set(), set(), 0
    for source in sources:
        _check_source(model, source, position, candidates)  # all of them before the first photo is read
    for store in [_open(model, source, position, workers, show_progress, say) for source in sources]:
        unreadable += store.unreadable_count()
        shown = {id for id, photos in store.classes().items() if photos}
        counted = _counted(shown & position.keys(), own_list, set(bundle.seen_ids), photos_of, say)
        empty |= store.classes().keys() - shown
        skipped |= shown - counted
        for features, ids, _ in store.batches(BATCH, counted):  # of other classes nothing is read
            points, own = judge.points(features), np.array([position[id] for id in ids])
            if curve is None:
                found = scorer.ranks(points, rows[own])
            else:
                found = scorer.generalised_ranks(points, rows[own])
                curve.update(own, found.margin, hits(found.own_greater, found.own_equal, 1, ties))
                first.update(own, found.greater, found.equal)
                if detective is not None:
                    detective.update(bundle.head, features, own, found)
            counter.update(own, found.greater, found.equal)
            if verdicts is not None:
                _judge_photos(judge, verdicts, features, rows[own])
    if not counter.photos.any():
        raise UnseenError(_nothing_found(candidates, skipped, empty))
    covered = counter.photos > 0
    return Evaluation(
        candidates=(candidates if isinstance(candidates, str) else "own list") + ("+seen" if with_seen else ""),
        candidate_classes=len(rows),
        listed_classes=len(own_list),
        classes=int(covered.sum()),
        images=int(counter.photos.sum()),
        unreadable=unreadable,
        skipped_classes=len(skipped),
        ties=ties,
        seen_shift=shift or 0.0,
        image=_rounded(counter.by_image()),
        class_=_rounded(counter.by_class()),
        generalised=_generalised(curve, first),
        novelty=None if detective is None else detective.figures(),
        per_class=counter.table(),
        curve=curve,
        calibrated=judge.calibrated,
        verdict=None if verdicts is None else verdicts.verdict(),
        hierarchical=None if verdicts is None else verdicts.hierarchical(),
        verdict_curve=None if verdicts is None else verdicts.points(),
        reliability=None if verdicts is None else verdicts.reliability(),
    )


def _judge_photos(judge: Judge, counter: HierarchicalCounter, features: np.ndarray, truth: np.ndarray) -> None:
    for block, found in judge.judge(features):
        counter.update(found, judge.scorer.columns[judge.best(found, counter.k)], truth[block])


def _chosen(argument: str, value: float | str, bundle: Bundle, key: str) -> float:
    """A number as it was given; for "auto" the one that a calibration left in the bundle."""
    if value == "auto":
        if bundle.calibration is None:
            raise UnseenError(
                f"{argument} cannot be auto: this bundle is not calibrated. Calibrate it on photos of seen classes, "
                "with `unseen calibrate`.",
                argument,
            )
        return float(getattr(bundle.calibration, key))
    if isinstance(value, str) or not math.isfinite(value):
        raise UnseenError(f"{argument} must be a finite number or auto, not {value!r}", argument)
    return float(value)


def _counted(
    shown: set[str], own_list: set[str], seen: set[str], photos_of: str, say: Callable[[str], None]
) -> set[str]:
    """Which of the candidates that a folder shows count."""
    if photos_of not in PHOTOS_OF:
        raise UnseenError(f"photos_of must be {', '.join(PHOTOS_OF[:-1])} or {PHOTOS_OF[-1]}, not {photos_of!r}")
    if photos_of == "auto":
        of_list, added = shown & own_list, shown - own_list
        if of_list and added:
            say(f"photos of {len(added)} seen classes do not count: to count them as well, set photos_of to both")
        return of_list or added
    return {"unseen": shown - seen, "seen": shown & seen, "both": shown}[photos_of]


def _check_source(model: Recogniser, source: Any, wanted: Collection[str], candidates: str | Sequence[str]) -> None:
    named = f"the candidates {candidates!r}" if isinstance(candidates, str) else "the candidates given"
    check_source(_place_of(source), model.bundle.taxonomy, wanted, named, CLASSES)


def _open(model: Recogniser, source, wanted: Collection[str], workers: int, show_progress: bool, say) -> FeatureStore:
    """A store, or what reads like one, by class id."""
    taxonomy, width = model.bundle.taxonomy, model.bundle.backbone.num_features
    store = open_source(_place_of(source), lambda: model.backbone, width, workers, show_progress, say)
    return renamed(by_id(store, taxonomy), taxonomy, wanted)


def _place_of(source: Any) -> Any:
    """Where the class folders lie, if it is a folder."""
    return source if hasattr(source, "batches") else photos_folder(source)


def _refuse_twice(sources: Sequence[str | Path | FeatureStore]) -> None:
    """The same photos counted twice would look like more evidence than there is."""
    places = set()
    for source in sources:
        path = getattr(source, "path", source)
        place = Path(path).resolve() if isinstance(path, (str, Path)) else id(source)
        if place in places:
            raise UnseenError(f"{path} is given twice: name each folder of photos once")
        places.add(place)


def _nothing_found(candidates: str | Sequence[str], skipped: set[str], empty: set[str]) -> str:
    named = repr(candidates) if isinstance(candidates, str) else "given"
    told = [f"{len(skipped)} of other classes ({_some(skipped)})"] if skipped else []
    told += [f"{len(empty)} without a readable photo ({_some(empty)})"] if empty else []
    return (
        f"no photo shows a class among the candidates {named}. Photos are expected as DIR/<class id>/<photo>; "
        f"the folders there: {' and '.join(told) or 'none'}"
    )


def _some(names: set[str], most: int = 3) -> str:
    return ", ".join(sorted(names)[:most]) + (", ..." if len(names) > most else "")


class _Detective:
    """Counts hits where a novelty detector decides which group of classes competes for a photo."""

    def __init__(self, detector: NoveltyDetector, counter: HitCounter, is_seen: np.ndarray):
        self.detector, self.counter, self.is_seen = detector, counter, is_seen
        self.told = np.zeros((2, 2), np.int64)  # unseen or seen x told rightly or not

    def update(self, known: np.ndarray, features: np.ndarray, labels: np.ndarray, found) -> None:
        told_seen, is_seen = self.detector.is_seen(known, features), self.is_seen[labels]
        np.add.at(self.told, (is_seen.astype(int), (told_seen == is_seen).astype(int)), 1)
        self.counter.update(labels, *judged_ranks(is_seen, told_seen, found.own_greater, found.own_equal))

    def figures(self) -> dict[str, Any]:
        """Hit@k as without a detector; Hit@1 of seen and unseen classes; how often the detector was right."""
        result: dict[str, Any] = {
            "threshold": self.detector.threshold,
            "image": _rounded(self.counter.by_image()),
            "class": _rounded(self.counter.by_class()),
        }
        of_classes = {row["id"]: row["hit@1"] for row in self.counter.table()}
        for group, wanted in (("unseen", False), ("seen", True)):
            own = [of_classes[id] for id, seen in zip(self.counter.classes, self.is_seen, strict=True)
                   if seen == wanted and id in of_classes]  # fmt: skip
            result[group] = round(float(np.mean(own)), 2) if own else None
            photos = self.told[int(wanted)].sum()
            result[f"{group}_told_rightly"] = round(100 * self.told[int(wanted), 1] / photos, 2) if photos else None
        harmonic = harmonic_mean(result["seen"], result["unseen"])
        return result | {"harmonic": None if harmonic is None else round(harmonic, 2)}


def _generalised(curve: SeenUnseenCurve | None, first: HitCounter) -> dict[str, Any] | None:
    """Seen and unseen accuracy, their harmonic mean and the area under the curve over all shifts, both averages.

    The accuracies are Hit@1 as `image` and `class` have it, of each group: a photo for which seen and unseen classes
    tie counts as it does there. On the curve, where only margins are known, it counts half.
    """
    if curve is None or curve.area() is None:
        return None
    seen = {id for id, is_seen in zip(first.classes, curve.is_seen, strict=True) if is_seen}
    result = {}
    for average in ("image", "class"):
        shares = {}
        for group, wanted in (("seen", True), ("unseen", False)):
            rows = [row for row in first.table() if (row["id"] in seen) == wanted]
            weights = [row["photos"] if average == "image" else 1 for row in rows]
            shares[group] = float(np.average([row["hit@1"] for row in rows], weights=weights))
        best = curve.best(average)
        harmonic = harmonic_mean(shares["seen"], shares["unseen"]) or 0.0
        result[average] = {
            **{group: round(share, 2) for group, share in shares.items()},
            "harmonic": round(harmonic, 2),
            "ausuc": round(curve.area(average) or 0.0, 4),
            "best_shift_in_hindsight": best.shift,  # scores have no fixed scale: not rounded
            "best_harmonic_in_hindsight": round(best.harmonic, 2),
        }
    return result


def _plain(candidates: str | Sequence[str]) -> str | Sequence[str]:
    """The list itself, without the seen classes that a trailing +1K adds."""
    if isinstance(candidates, str) and candidates.lower().endswith("+1k"):
        return candidates[:-3]
    return candidates


def _rounded(figures: dict[str, float | None]) -> dict[str, float | None]:
    return {key: None if value is None else round(value, 2) for key, value in figures.items()}
