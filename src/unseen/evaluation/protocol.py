"""The paper's protocol: Hit@k of a model on photos by class, over chosen candidates, with or without the seen classes.

Photos count if their class is in the list. Seen classes that are added to it ("+1K") only compete: the paper's second
table is about photos of unseen classes, as the first. A folder that shows nothing but seen classes is its seen-class
test. Features are read once, however many lists are asked for, and become a table for each list (`evaluation.table`).
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import numpy as np

from unseen.answers.ask import Ask, make_scorer
from unseen.answers.prior import Prior
from unseen.answers.probability import CONFIDENCE, FLOOR
from unseen.evaluation import metrics
from unseen.evaluation.metrics import KS, SeenUnseenCurve
from unseen.evaluation.table import FIRST, NEVER, RANKS, SWEEP, VERDICTS, RanksTable
from unseen.naming.candidates import parse_candidates, resolve_candidates
from unseen.networks.features import FeatureArrays, FeatureBatch, Features, check_matrix, read_features
from unseen.networks.folders import check_source, match_folders, open_features
from unseen.photos.reading import UnreadablePhoto
from unseen.util.errors import UnseenError
from unseen.util.names import list_some
from unseen.util.settings import AT_LEAST_1, SHARE, check_settings

if TYPE_CHECKING:
    from unseen.bundle import Bundle
    from unseen.networks.processes import Processes
    from unseen.networks.run import PhotoNetwork

BATCH = 1024  # photos
TAKEN = 4 * BATCH  # photos that a process takes at a time
BLOCK = 256  # photos whose probabilities are held at a time
logger = logging.getLogger(__name__)
Photos: TypeAlias = str | Path | Features
Labelled: TypeAlias = tuple[Any, Sequence[Any]]  # features or photos, and their classes


@dataclass(frozen=True)
class EvaluateSettings:
    """How `evaluate` ranks and counts: by probability if the bundle is calibrated, else by score.

    Args:
        with_seen: Let the seen classes compete too (+1K).
        photos_of: Which photos count where seen classes were added to the list: unseen, seen, both; auto: in each
            folder those of the list, and those of seen classes only where it has no others.
        ties: realistic, optimistic or pessimistic (the authors' way); see `unseen.evaluation.metrics`.
        ks: The k of Hit@k.
        confidence: How often a verdict must be right: 0.9 is 9 times in 10. None: no verdicts, which is faster.
        prior: common (unseen classes with common names are more probable), uniform, or a file of weights:
            name,weight.
    """

    with_seen: bool = False
    photos_of: Literal["auto", "unseen", "seen", "both"] = "auto"
    ties: Literal["realistic", "optimistic", "pessimistic"] = "realistic"
    ks: Annotated[list[int], AT_LEAST_1] = field(default_factory=lambda: list(KS))
    confidence: Annotated[float | None, SHARE] = CONFIDENCE
    prior: Any = "uniform"

    def __post_init__(self) -> None:
        check_settings("evaluation", self)


@dataclass(frozen=True)
class Evaluation:
    """What `Model.evaluate` measures; figures are in per cent.

    image  hit@k = 100 / photos * sum over photos of [true class among the k best]
    class  hit@k = mean of that over the classes that have photos
    """

    candidates: str  # which classes competed, by the name of the list
    candidate_classes: int
    listed_classes: int  # without the seen classes that were added to the list
    classes: int  # those that have photos
    images: int  # photos that were counted
    unreadable: int
    skipped_classes: int  # folders that the bundle does not know, or that are not among the candidates
    ties: str
    image: dict[str, float]  # Hit@k by k, averaged over photos
    class_: dict[str, float]  # the same averaged over classes; "class" in `to_dict`
    generalised: dict[str, Any] | None  # seen and unseen accuracy, where photos of both were counted
    per_class: list[dict[str, Any]]  # number of photos and Hit@k of each class
    curve: SeenUnseenCurve | None  # unseen over seen accuracy for every shift, where both kinds compete
    calibrated: bool  # whether classes were ranked by calibrated probabilities
    prior: str  # uniform, common, or with how many weights
    relation: dict[str, dict[str, float]]  # classes and Hit@k by how unseen classes relate to seen ones
    table: RanksTable = field(repr=False)  # a row for each photo, of which all figures are functions
    verdict: dict[str, Any] | None = None  # how many photos have one, how often it is right, and what it is worth
    hierarchical: dict[str, Any] | None = None  # see `unseen.evaluation.metrics`
    verdict_curve: list[dict[str, float | None]] | None = None  # `verdict` over many confidences
    reliability: list[dict[str, Any]] | None = None  # how often nodes of a probability are true

    def hits(self, ks: Sequence[int] = KS, ties: str = "realistic") -> dict[str, dict[str, float]]:
        """Hit@k of other k or with another worth of ties, over photos ("image") and over classes ("class")."""
        figures = metrics.hit_figures(self.table, ks, ties)
        return {"image": figures["image"], "class": figures["class"]}

    def to_dict(self, per_class: bool = False) -> dict[str, Any]:
        left_out = {"curve", "table"} if per_class else {"curve", "table", "per_class"}
        names = [item.name for item in fields(self) if item.name not in left_out]
        return {("class" if name == "class_" else name): getattr(self, name) for name in names}


def evaluate(
    bundle: Bundle,
    photos: Photos | Sequence[Photos] | Labelled,
    candidates: str | Sequence[str] = "unseen",
    **options: Any,
) -> Evaluation:
    """Rank the true class of every photo in one or more folders (or feature stores) among the candidates.

    Args:
        bundle: Of `unseen.load(...)` or `unseen.train(...)`; `Model.evaluate` passes it.
        photos: Photos by class id, DIR/<id>/*, or features, or (x, y): rows of features or a list of photos, and the
            class of each by id or name. Only those of candidates count.
        candidates: Ids, or the name of a list such as unseen, seen or hops:2; see `unseen.naming.candidates`.
        **options: Those of `evaluate_lists` and of `EvaluateSettings`.

    >>> from pathlib import Path
    >>> from unseen.examples import fruits, photo
    >>> for fruit, colour in {"raspberry": "crimson", "lime": "lime"}.items():
    ...     Path("photos", fruit).mkdir(parents=True)
    ...     photo(colour).save(f"photos/{fruit}/plain.png")
    >>> result = fruits().evaluate("photos", ["raspberry", "lime"], workers=0, ks=[1, 2])
    >>> result.image, result.table["greater"].tolist()
    ({'hit@1': 100.0, 'hit@2': 100.0}, [0, 0])
    """
    return evaluate_lists(bundle, photos, [candidates], **options)[0]


def evaluate_lists(
    bundle: Bundle,
    photos: Photos | Sequence[Photos] | Labelled,
    lists: Sequence[str | Sequence[str]],
    settings: EvaluateSettings | None = None,
    *,
    network: Callable[[], PhotoNetwork] | None = None,
    workers: int = 2,
    processes: Processes | None = None,
    photo_names: bool = True,
    **options: Any,
) -> list[Evaluation]:
    """`evaluate` over several lists of candidates, for which the features are read once.

    Args:
        bundle, photos: As for `evaluate`.
        lists: Candidates, several times.
        settings: How to rank and count; or its fields as `options`.
        network: Returns the bundle's network, if photos must be read; by default the bundle loads it.
        workers: Processes that read photos.
        processes: Those of torchrun, to share the photos among them; all return the same.
        photo_names: Keep them in the table.
    """
    chosen, network = settings or EvaluateSettings(**options), cache(network or bundle.load_network)
    if isinstance(photos, tuple) and len(photos) == 2 and not isinstance(photos[0], (str, Path, Features)):
        x, y = cast(Labelled, photos)
        photos = FeatureArrays(_as_features(x, bundle, network), y)
    sources: list[Any] = list(photos) if isinstance(photos, (list, tuple)) else [photos]
    if not all(isinstance(source, (str, Path, Features)) for source in sources):
        raise UnseenError("photos are a folder, a list, a feature store and the like, several of these, or (x, y)")
    _refuse_twice(sources)
    with_folder = [_name_folder(bundle, network, candidates, sources, workers) for candidates in lists]
    rankings = [
        _Ranking(bundle, candidates, chosen, name, photo_names)
        for candidates, name in zip(with_folder, lists, strict=True)
    ]
    stores = _open(bundle, network, sources, rankings, workers)
    for number, store in enumerate(stores):
        counted = [ranking.choose(store.classes()) for ranking in rankings]
        for share, batch in _read(store, set().union(*counted), processes):
            for ranking, classes in zip(rankings, counted, strict=True):
                ranking.add((number, share), batch, classes)
    if processes is not None:
        for ranking in rankings:
            parts = [part for parts in processes.gather(ranking.parts) for part in parts]
            ranking.parts = sorted(parts, key=lambda part: part[0])
    unreadable = sum(store.unreadable_count() for store in stores)
    return [ranking.result(unreadable) for ranking in rankings]


class _Ranking:
    """The ranks of photos over one list of candidates."""

    def __init__(
        self, bundle: Bundle, candidates: str | Sequence[str], settings: EvaluateSettings, name: str | Sequence[str],
        photo_names: bool,
    ):  # fmt: skip
        self.bundle, self.candidates, self.settings, self.photo_names = bundle, name, settings, photo_names
        self.prior = Prior.read(settings.prior, bundle.hierarchy)
        self.scorer = make_scorer(bundle, Ask(candidates=candidates, prior=self.prior), settings.with_seen)
        rows = self.scorer.rows
        self.row = {bundle.ids[row]: int(row) for row in rows}  # class id -> row
        plain = _plain(candidates)
        same = plain == candidates and not settings.with_seen
        self.listed = {bundle.ids[row] for row in (rows if same else resolve_candidates(bundle, plain))}
        self.skipped: set[str] = set()  # folders of classes that do not count
        self.empty: set[str] = set()  # folders without a readable photo
        self.parts: list[tuple[tuple[int, int], np.ndarray, list[str]]] = []
        verdicts = settings.confidence is not None
        self.fields = RANKS + (VERDICTS if verdicts else [])
        self.relations = metrics.Relations(bundle.hierarchy, rows) if verdicts else None

    def choose(self, photos: dict[str, int]) -> set[str]:
        """The classes of a store whose photos count."""
        shown = {id for id, count in photos.items() if count}
        known, seen = shown & self.row.keys(), set(self.bundle.seen_ids)
        listed, added = known & self.listed, known - self.listed
        of = self.settings.photos_of
        if of == "auto" and listed and added:
            logger.info("photos of %d seen classes do not count: to count them too, set photos_of to both", len(added))
        counted = {"auto": listed or added, "unseen": known - seen, "seen": known & seen, "both": known}[of]
        self.skipped |= shown - counted
        self.empty |= photos.keys() - shown
        return counted

    def add(self, place: tuple[int, int], batch: FeatureBatch, classes: set[str]) -> None:
        """Rank the photos of these classes."""
        kept = [i for i, id in enumerate(batch.class_ids) if id in classes]
        if not kept:
            return
        features = batch.features if len(kept) == len(batch.class_ids) else batch.features[kept]
        truth = np.array([self.row[batch.class_ids[i]] for i in kept])
        rows = np.zeros(len(kept), self.fields)
        ranks = self.scorer.ranks(features, truth)
        rows["class"], rows["margin"] = truth, ranks.margin
        for name in ("greater", "equal", "own_greater", "own_equal"):
            rows[name] = np.minimum(getattr(ranks, name), NEVER)
        if self.relations is not None:
            for start in range(0, len(rows), BLOCK):
                block = slice(start, start + BLOCK)
                self._add_verdicts(self.relations, rows[block], features[block])
        self.parts.append((place, rows, [batch.paths[i] for i in kept] if self.photo_names else []))

    def _add_verdicts(self, relations: metrics.Relations, rows: np.ndarray, features: np.ndarray) -> None:
        scorer, confidence = self.scorer, self.settings.confidence
        assert confidence is not None  # or there were no relations
        scores = scorer.scores(features)
        probabilities = scorer.to_probabilities(scores)
        masses, cautious = scorer.to_nodes(probabilities)
        verdict, *curve = scorer.verdicts(cautious, [confidence, *SWEEP])
        for photo in np.flatnonzero(verdict >= 0):
            verdict[photo] = scorer.sums.most_probable(verdict[photo], probabilities[photo])
        nodes = np.append(scorer.sums.nodes, -1)  # the last one for "unknown"
        stated = np.append(np.minimum(masses, 1), np.full((len(rows), 1), np.nan, masses.dtype), axis=1)
        photo, places = np.arange(len(rows)), np.array(curve).T
        rows["verdict"], rows["curve"] = nodes[verdict], nodes[places]
        rows["probability"], rows["stated"] = stated[photo, verdict], stated[photo[:, None], places]
        rows["best"] = -1
        best = scorer.columns[scorer.best(scores, FIRST)]
        rows["best"][:, : best.shape[1]] = best
        bins = metrics.reliability_bins(relations, scorer.sums.nodes, masses, rows["class"], FLOOR)
        for name, values in bins.items():
            rows[name] = values

    def result(self, unreadable: int) -> Evaluation:
        if not self.parts:
            raise UnseenError(self._nothing_found())
        settings, bundle = self.settings, self.bundle
        rows = np.concatenate([rows for _, rows, _ in self.parts])
        names = [name for _, _, names in self.parts for name in names]
        table = RanksTable(rows, names, bundle.hierarchy, self.scorer.rows, bundle.is_seen)
        hits, verdicts = metrics.hit_figures(table, settings.ks, settings.ties), {}
        if self.relations is not None:
            figures = metrics.verdict_figures(self.relations, table, table["verdict"], table["probability"])
            verdicts = {
                "verdict": {"confidence": settings.confidence, **figures, "images": len(table)},
                "hierarchical": metrics.hierarchical_figures(self.relations, table),
                "verdict_curve": metrics.curve_figures(self.relations, table),
                "reliability": metrics.reliability_figures(table),
            }
        curve = metrics.balance_curve(table, settings.ties)
        name = self.candidates if isinstance(self.candidates, str) else "own list"
        return Evaluation(
            candidates=name + ("+seen" if settings.with_seen else ""),
            candidate_classes=len(self.scorer.rows),
            listed_classes=len(self.listed),
            classes=len(hits["per_class"]),
            images=len(table),
            unreadable=unreadable,
            skipped_classes=len(self.skipped),
            ties=settings.ties,
            image=hits["image"],
            class_=hits["class"],
            generalised=metrics.generalised_figures(table, curve, settings.ties),
            per_class=hits["per_class"],
            curve=curve,
            calibrated=self.scorer.calibrated,
            prior=str(self.prior),
            relation=metrics.relation_figures(table, settings.ties),
            table=table,
            **verdicts,
        )

    def _nothing_found(self) -> str:
        named = repr(self.candidates) if isinstance(self.candidates, str) else "given"
        kinds = {"of other classes": sorted(self.skipped), "without a readable photo": sorted(self.empty)}
        folders = [f"{len(names)} {kind} ({list_some(names, 3)})" for kind, names in kinds.items() if names]
        return (
            f"no photo shows a class among the candidates {named}. Photos are expected as DIR/<class id>/<photo>; "
            f"the folders there: {' and '.join(folders) or 'none'}"
        )


def _name_folder(
    bundle: Bundle,
    network: Callable[[], PhotoNetwork],
    candidates: str | Sequence[str],
    sources: list[Photos],
    workers: int,
) -> str | Sequence[str]:
    """The candidates; where `folder` is one of their sets, as ids."""
    parts: list[str] = []
    if isinstance(candidates, str):
        parts = [part for _, part in parse_candidates(bundle, candidates)]
    if "folder" not in parts:
        return candidates
    classes, shown = {bundle.ids[row] for row in np.flatnonzero(bundle.is_class)}, set()
    for source in sources:
        matched = check_source(source, bundle.hierarchy, classes, "the classes of the bundle")
        if matched is None:
            store = open_features(source, network, bundle.network.num_features, workers)
            matched = match_folders(list(store.classes()), bundle.hierarchy, classes)
        shown |= set(matched.values())
    return [bundle.ids[row] for row in resolve_candidates(bundle, candidates, folder=sorted(shown))]


def _as_features(x: Any, bundle: Bundle, network: Callable[[], PhotoNetwork]) -> np.ndarray:
    """n x D: rows of features as they are (an array, a table, lists of numbers), or the features of photos."""
    kind = getattr(getattr(x, "dtype", None), "kind", "f")  # a table and a tensor have none
    is_lists = isinstance(x, (list, tuple)) and bool(x) and isinstance(x[0], (list, tuple))
    if is_lists or (getattr(x, "ndim", 0) == 2 and kind in "fiu"):
        return check_matrix(x, width=bundle.network.num_features)
    read = read_features(network(), list(x))
    for first in read.unreadable.values():
        raise UnreadablePhoto(first.photo, first.why)
    return read.matrix


def _open(
    bundle: Bundle, network: Callable[[], PhotoNetwork], sources: list[Photos], rankings: list[_Ranking], workers: int
) -> list[Features]:
    """Features by class id; folders are matched with classes once, and all of them before the first photo is read."""
    hierarchy, wanted = bundle.hierarchy, {id for ranking in rankings for id in ranking.row}
    names = [f"the candidates {ranking.candidates!r}" for ranking in rankings if isinstance(ranking.candidates, str)]
    what = " or ".join(names) or "the candidates given"
    matched, stores = [check_source(source, hierarchy, wanted, what) for source in sources], []
    for source, ids in zip(sources, matched, strict=True):
        store = open_features(source, network, bundle.network.num_features, workers)
        stores.append(store.relabel(match_folders(list(store.classes()), hierarchy, wanted) if ids is None else ids))
    return stores


def _read(store: Features, wanted: Collection[str], processes: Processes | None) -> Iterator[tuple[int, FeatureBatch]]:
    """Batches of this process's share of the classes `wanted`, with the number of the share."""
    rank, world = (0, 1) if processes is None else (processes.rank, processes.world)
    for number, share in enumerate(_shares(store.classes(), wanted)):
        if number % world == rank:
            for batch in store.batches(BATCH, share):
                yield number, batch


def _shares(photos: dict[str, int], wanted: Collection[str]) -> list[set[str]]:
    """Classes in their order, about TAKEN photos at a time: the same batches for any number of processes."""
    shares, total = defaultdict(set), 0
    for id in [id for id, count in photos.items() if count and id in wanted]:
        shares[total // TAKEN].add(id)
        total += photos[id]
    return list(shares.values())


def _refuse_twice(sources: Sequence[Photos]) -> None:
    """The same photos counted twice would look like more evidence than there is."""
    paths = [source.path if isinstance(source, Features) else source for source in sources]
    places = [Path(p).resolve() if os.path.exists(p) else id(s) for p, s in zip(paths, sources, strict=True)]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise UnseenError(f"{path} is given twice: name each folder of photos once")


def _plain(candidates: str | Sequence[str]) -> str | Sequence[str]:
    """The list itself, without the seen classes that a trailing +1K or +seen adds."""
    if isinstance(candidates, str) and candidates.rpartition("+")[2].strip().lower() in ("1k", "seen"):
        return candidates.rpartition("+")[0] or candidates
    return candidates
