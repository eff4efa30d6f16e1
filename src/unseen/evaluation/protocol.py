"""The paper's protocol: Hit@k of a bundle on photos by class, over chosen candidates, with or without the seen classes.

Photos count if their class is in the list. Seen classes that are added to it ("+1K") only compete: the paper's second
table is about photos of unseen classes, as the first, although the ImageNet-21K folder holds those of seen ones too. A
folder that shows nothing but seen classes is its seen-class test.

Features are read once, however many lists are asked for, and several processes share the reading: each takes some of
the class folders, and what they count is merged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.evaluation.awa2 import by_id, photos_folder
from unseen.evaluation.metrics import KS, SeenUnseenCurve
from unseen.evaluation.tally import Tally
from unseen.features import FeatureStore
from unseen.recognition.recogniser import Recogniser
from unseen.scoring.awa2_classes import CLASSES
from unseen.scoring.class_folders import check_source, match_folders, open_source

if TYPE_CHECKING:
    from unseen.runtime.processes import Processes

BATCH = 1024  # photos
SHARE = 4 * BATCH  # photos that a process takes at a time
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
    processes: Processes | None = None,
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
        processes: Those of torchrun, to share the photos among them; all return the same.

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
    found = evaluate_lists(
        model, images, [candidates], with_seen, seen_shift, ties, ks, novelty, workers, show_progress, say, photos_of,
        sure, processes,
    )  # fmt: skip
    return found[0]


def evaluate_lists(
    model: Recogniser,
    images: str | Path | FeatureStore | Sequence[str | Path | FeatureStore],
    lists: Sequence[str | Sequence[str]],
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
    processes: Processes | None = None,
) -> list[Evaluation]:
    """`evaluate` over several lists of candidates, for which the features are read once.

    With `processes`, each reads its share of the classes, and all return what one process alone would, exactly.
    """
    shift = None if seen_shift is None else _chosen("seen_shift", seen_shift, model.bundle, "seen_shift")
    novelty = None if novelty is None else _chosen("novelty", novelty, model.bundle, "novelty_threshold")
    sources: list[Any] = list(images) if isinstance(images, (list, tuple)) else [images]
    _refuse_twice(sources)
    tallies = [Tally(model, candidates, with_seen, shift, ties, ks, novelty, sure) for candidates in lists]
    for source in sources:  # all of them before the first photo is read
        _check_source(model, source, tallies)
    stores = [_open(model, source, workers, show_progress, say) for source in sources]
    plans = [[_plan(store, tally, photos_of, say) for tally in tallies] for store in stores]
    for store, of_lists in zip(stores, plans, strict=True):
        for features, folders in _read(store, {folder for plan in of_lists for folder in plan}, processes):
            points = tallies[0].judge.points(features)  # the lists differ in their classes alone
            for tally, plan in zip(tallies, of_lists, strict=True):
                tally.add(features, points, [plan.get(folder, -1) for folder in folders])
    if processes is not None and processes.world > 1:
        for rank, states in enumerate(processes.gather([tally.state() for tally in tallies])):
            for tally, state in zip(tallies, states, strict=True):
                if rank != processes.rank:
                    tally.merge(state)
    unreadable = sum(store.unreadable_count() for store in stores)
    return [_result(tally, unreadable, with_seen, ties, shift) for tally in tallies]


def _result(tally: Tally, unreadable: int, with_seen: bool, ties: str, shift: float | None) -> Evaluation:
    if not tally.counter.photos.any():
        raise UnseenError(_nothing_found(tally))
    candidates = tally.candidates if isinstance(tally.candidates, str) else "own list"
    return Evaluation(
        candidates=candidates + ("+seen" if with_seen else ""),
        candidate_classes=len(tally.rows),
        listed_classes=len(tally.own_list),
        classes=tally.counter.coverage[0],
        images=int(tally.counter.photos.sum()),
        unreadable=unreadable,
        skipped_classes=len(tally.skipped),
        ties=ties,
        seen_shift=shift or 0.0,
        **tally.figures(),
    )


def _plan(store: Any, tally: Tally, photos_of: str, say: Callable[[str], None]) -> dict[str, int]:
    """Folder -> place of its class among the candidates, for the folders whose photos count."""
    bundle, folders = tally.bundle, dict[str, int](store.classes())
    meant = match_folders(list(folders), bundle.taxonomy, tally.position)
    shown = {meant.get(folder, folder) for folder, photos in folders.items() if photos}
    counted = _counted(shown & tally.position.keys(), tally.own_list, set(bundle.seen_ids), photos_of, say)
    tally.expect(counted)
    tally.skipped |= shown - counted
    tally.empty |= {meant.get(folder, folder) for folder in folders} - shown
    return {folder: tally.position[id] for folder, id in meant.items() if id in counted}


def _read(store: Any, wanted: Collection[str], processes: Processes | None) -> Iterator[tuple[Any, list[str]]]:
    """Features and folders of this process's share of the folders `wanted`; of others nothing is read."""
    rank, world = (0, 1) if processes is None else (processes.rank, processes.world)
    for number, share in enumerate(_shares(store.classes(), wanted)):
        if number % world == rank:
            for features, folders, _ in store.batches(BATCH, share):
                yield features, folders


def _shares(photos: dict[str, int], wanted: Collection[str]) -> Iterator[set[str]]:
    """Classes in their order, some SHARE photos at a time: the same batches, however many processes read them."""
    share, count = set(), 0
    for id, own in photos.items():
        if own and id in wanted:
            share.add(id)
            count += own
        if count >= SHARE:
            yield share
            share, count = set(), 0
    if share:
        yield share


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


def _check_source(model: Recogniser, source: Any, tallies: Sequence[Tally]) -> None:
    named = [f"the candidates {tally.candidates!r}" for tally in tallies if isinstance(tally.candidates, str)]
    wanted = {id for tally in tallies for id in tally.position}
    told = " or ".join(named) or "the candidates given"
    check_source(_place_of(source), model.bundle.taxonomy, wanted, told, CLASSES)


def _open(model: Recogniser, source: Any, workers: int, show_progress: bool, say: Callable[[str], None]) -> Any:
    """A store, or what reads like one, by class id or by the names of its folders."""
    width = model.bundle.backbone.num_features
    store = open_source(_place_of(source), lambda: model.backbone, width, workers, show_progress, say)
    return by_id(store, model.bundle.taxonomy)


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


def _nothing_found(tally: Tally) -> str:
    named = repr(tally.candidates) if isinstance(tally.candidates, str) else "given"
    told = [f"{len(tally.skipped)} of other classes ({_some(tally.skipped)})"] if tally.skipped else []
    told += [f"{len(tally.empty)} without a readable photo ({_some(tally.empty)})"] if tally.empty else []
    return (
        f"no photo shows a class among the candidates {named}. Photos are expected as DIR/<class id>/<photo>; "
        f"the folders there: {' and '.join(told) or 'none'}"
    )


def _some(names: set[str], most: int = 3) -> str:
    return ", ".join(sorted(names)[:most]) + (", ..." if len(names) > most else "")
