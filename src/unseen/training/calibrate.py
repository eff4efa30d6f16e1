"""Calibration, fitted on photos of seen classes: how probable answers are, and the balance of seen and unseen classes.

The method is fitted again without a share of the seen classes, which stand in for unseen classes; repeated with others.
On their photos the numbers of `answers.probability` are fitted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.answers.ask import Ask, make_scorer
from unseen.answers.prior import COMMON, UNIFORM, ColumnPrior
from unseen.answers.probability import (
    FLOOR,
    UNCALIBRATED,
    NodeSums,
    ancestor_weights,
    choose,
    exponent,
    log_probabilities,
    method_odds,
    node_probabilities,
    select_verdicts,
    weigh,
)
from unseen.answers.words import words_of
from unseen.bundle import Bundle
from unseen.bundle.records import CONFIDENCES, CalibrationRecord, ProbabilityNumbers
from unseen.evaluation.metrics import network_confidence, ranking_area, relations_to_seen
from unseen.hierarchy.core import Hierarchy
from unseen.methods import get_method
from unseen.networks.features import Features
from unseen.networks.folders import check_source, match_folders, open_features
from unseen.training.settings import CalibrateSettings, TrainSettings
from unseen.training.stage1 import Vectors, train
from unseen.util.errors import UnseenError
from unseen.util.run import Run
from unseen.vectors.class_vectors import vectors_from_provenance

if TYPE_CHECKING:
    from unseen.networks.base import Network
    from unseen.networks.run import OnnxNetwork

logger = logging.getLogger(__name__)

LEAST_CLASSES, LEAST_PHOTOS = 3, 10
MOST = 20_000  # photos kept in memory; of more a random part
EACH = 700  # photos of kept classes, and of hidden ones, that a hiding is judged by
MANY_HIDDEN, HIDINGS = 100, (5, 2)  # how often classes are hidden: what fewer than 100 show is left to chance
BATCH = 1024
REPORTED = (0.8, 0.9, 0.95)  # confidences of the verdicts whose effect is measured

PRIOR = replace(UNCALIBRATED, exponents=(0.8, 1.0, 1.4, 2.2, 4.2, 8.5, 30.0))
STRENGTH = 30.0  # photos that the prior is worth; of verdicts, classes
SHARES = {"above": 0.2, "sibling": 0.35, "further": 0.45}  # how unseen photos relate to seen classes
NEARER = 0.5  # how far the response to photos of hidden classes is moved to that of the others
GATE_SLOPE = 0.6  # log-odds for a standard deviation of the response
HARDER = 1.1, 4, 1000
"""Log-odds by which verdicts on photos of hidden classes are less often right than on unseen ones, with 1,000 seen
classes; none with 4, in between by their logarithm."""
DETAILS = (0.0, 0.2, 0.4, 0.8, 1.2, 1.6, 2.0, 3.0)  # for a single class; fewer bits by their square
POWERS = np.geomspace(1, 80, 14)  # exponents that are tried
FAVOURS = np.arange(-6, 6.01, 0.25)  # log-odds given to seen classes
MEMORISED = 99.0, 0.99  # accuracy in per cent and AUROC that only photos the network has learned by heart have
ENOUGH = 100  # photos


def calibrate(
    bundle: Bundle,
    network: Network | OnnxNetwork,
    photos: str | Path | Any,
    settings: CalibrateSettings | None = None,
    *,
    run: Run | None = None,
    vectors: Vectors | None = None,
) -> Bundle:
    """The bundle with a `calibration`: what makes its probabilities and verdicts hold.

    Args:
        bundle: Stays as it is.
        network: The bundle's.
        photos: Photos of seen classes, DIR/<id or name>/*, a feature store, or .npz with `features` and `labels`;
            photos of other classes play no part.
        settings: The share of classes to hide, and how much accuracy seen classes may lose.
        run: Seed, device and the like; by default with the bundle's seed.
        vectors: The sources of the class vectors, where the bundle cannot load them by name.
    """
    settings = settings or CalibrateSettings()
    store = _open(photos, bundle, network)
    run = run or Run(seed=bundle.seed)
    seen_photos, random = read_photos(store, run.seed), np.random.default_rng(run.seed)
    hidings = HIDINGS[round(settings.holdout * len(bundle.seen)) >= MANY_HIDDEN]
    samples, record = [], None
    for number in range(hidings):
        share, times = f"{settings.holdout:.0%}", f"{number + 1} of {hidings}"
        logger.info("fitting %s without %s of the seen classes, %s times", bundle.method, share, times)
        fitted = _fit_again(bundle, network, store, settings.holdout, vectors, replace(run, seed=run.seed + number))
        samples.append(sample_photos(fitted, *seen_photos, random))
        record = record or _describe(bundle, fitted, seen_photos[1])
        if not number and not settings.fresh:
            refuse_memorised(bundle, fitted, *seen_photos)
    assert record is not None  # there is at least one hiding
    complete = sample_photos(bundle, *seen_photos, random, each=2 * EACH)
    if record.photos and record.photos < ENOUGH:
        logger.warning("%d photos are few to calibrate on: take some hundreds, of 20 classes or more", record.photos)
    logger.info("fitting the numbers that turn scores into probabilities")
    numbers, curve = fit_numbers(samples, complete, settings, run.seed)
    effect = measure_effect(numbers, samples, complete) | {"balance": curve}
    return bundle.change(calibration=replace(record, harm=settings.harm, probability=numbers, effect=effect))


def _describe(bundle: Bundle, fitted: Bundle, ids: np.ndarray) -> CalibrationRecord:
    """How many classes were hidden from `fitted`, and how many photos there are (`ids` are their classes)."""
    hidden = set(bundle.seen_ids) - set(fitted.seen_ids)
    of_hidden = np.isin(ids, sorted(hidden))
    if of_hidden.all() or not of_hidden.any():
        raise UnseenError(
            f"there must be photos both of seen classes that are hidden ({len(hidden)} of {len(bundle.seen)}) and of "
            "others: give photos of more classes, or hide another share"
        )
    return CalibrationRecord(hidden_classes=len(hidden), photos=len(ids))


def refuse_memorised(bundle: Bundle, fitted: Bundle, features: np.ndarray, ids: np.ndarray) -> None:
    """On photos that the network was trained on, it is right and certain as it never is on others: what is fitted on
    them promises far too much. `fitted` knows fewer classes: how sure the network is tells the others from these."""
    if len(ids) < ENOUGH:
        return
    head = bundle.known
    named = np.array(bundle.seen_ids)[(features @ head[:, :-1].T + head[:, -1]).argmax(axis=1)]
    accuracy = 100 * float((named == ids).mean())
    confidence, is_kept = network_confidence(fitted.known, features), np.isin(ids, fitted.seen_ids)
    auroc = ranking_area(confidence[is_kept], confidence[~is_kept])
    if accuracy >= MEMORISED[0] and auroc >= MEMORISED[1]:
        raise UnseenError(
            f"the network seems to have been trained on these photos: it names {accuracy:.1f} % of them and knows them "
            f"from hidden classes with an AUROC of {auroc:.3f}. Probabilities fitted on them would be far too high. "
            "Give photos that it was not trained on, a few hundred of 20 classes or more; or train it without a fifth "
            "of its photos, and give these. If they are new to it and just easy, add --fresh (fresh=True)."
        )


def _fit_again(
    bundle: Bundle, network: Network | OnnxNetwork, store: Features, holdout: float, vectors: Vectors | None, run: Run
) -> Bundle:
    """The bundle's method, fitted without a share of the seen classes: another seed hides others."""
    # Some methods can do without photos, and the fit must be that of the bundle.
    learned = (bundle.solution.record.chosen or {}).get("learn_from") == "features"
    needs_photos = learned or get_method(bundle.method).needs_features
    features = store.seen_matrix(bundle.seen_ids) if needs_photos else None
    fitted = train(
        bundle.hierarchy,
        network,
        bundle.method,
        vectors or [vectors_from_provenance(source) for source in bundle.vectors.provenance],
        TrainSettings(holdout=holdout, features=features, skip_missing=True),  # as when the bundle was made
        run=run,
        **bundle.settings,
    )
    # What was added to the bundle or left out of it counts here as it does there.
    return replace(fitted, added=bundle.added, connecting=bundle.connecting)


def _open(source: str | Path | Features, bundle: Bundle, network: Network | OnnxNetwork) -> Features:
    """Features of photos of seen classes: calibration must not see any others, whatever is on disk."""
    seen = set(bundle.seen_ids)
    matched = check_source(source, bundle.hierarchy, seen, "the seen classes")
    features = open_features(source, lambda: network, bundle.network.num_features)
    if matched is None:
        matched = match_folders(list(features.classes()), bundle.hierarchy, seen)
    return features.relabel(matched).only(seen)


def read_photos(store: Features, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (n x D) and class ids (n) of all photos of a store, or of a random part of very many."""
    classes = {id: photos for id, photos in store.classes().items() if photos}
    total = sum(classes.values())
    if len(classes) < LEAST_CLASSES or total < LEAST_PHOTOS:
        raise UnseenError(
            f"a calibration needs at least {LEAST_PHOTOS} photos of at least {LEAST_CLASSES} seen classes; here "
            f"are {total} photos of {len(classes)}. Folders are named by class: DIR/<class id>/<photo>"
        )
    random, share = np.random.default_rng(seed), min(1.0, MOST / total)
    features, ids = [], []
    for batch, names, _ in store.batches(BATCH):
        chosen = random.random(len(names)) < share
        features.append(np.asarray(batch, np.float32)[chosen])
        ids += [name for name, kept in zip(names, chosen, strict=True) if kept]
    return np.concatenate(features), np.array(ids)


def sample_photos(
    bundle: Bundle, features: np.ndarray, ids: np.ndarray, random: np.random.Generator, each: int = EACH
) -> Sample:
    """Up to `each` photos of classes that the bundle knows as seen, and as many of others, with their scores."""
    scorer = make_scorer(bundle, Ask(prior=UNIFORM))
    seen, unseen = (scorer.columns[group] for group in scorer.groups)
    truth = bundle.hierarchy.indices(ids)
    kept = np.isin(truth, seen)
    answered = kept | np.isin(truth, unseen)
    chosen = [random.permutation(np.flatnonzero(part & answered))[:each] for part in (kept, ~kept)]
    rows = np.sort(np.concatenate(chosen))
    features = features[rows]
    scores = scorer.method_scores(features)  # `Sample.common` is added to them
    place = np.zeros(len(bundle), int)
    place[bundle.seen] = np.arange(len(bundle.seen))
    head = bundle.head[place[seen]]
    logits = features @ head[:, :-1].T + head[:, -1]
    return Sample(
        hierarchy=bundle.hierarchy,
        seen=seen,
        unseen=unseen,
        logits=bring_nearer(logits, kept[rows]),
        scores=scores[:, scorer.groups[1]],
        truth=truth[rows],
        seen_scores=scores[:, scorer.groups[0]],
        common=ColumnPrior(COMMON, bundle.hierarchy, seen, unseen).common,
    )


def bring_nearer(logits: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Logits (n x M) with those of hidden classes' photos made larger, each around its mean, so that their response,
    log sum exp, comes NEARER to that of the `kept` ones."""
    if kept.all() or not kept.any():
        return logits
    hidden = logits[~kept].astype(np.float64)
    mean = hidden.mean(axis=1, keepdims=True)
    responses = np.logaddexp.reduce(logits[kept].astype(np.float64), axis=1), np.logaddexp.reduce(hidden, axis=1)
    wanted = NEARER * responses[0].mean() + (1 - NEARER) * responses[1].mean()
    low, high = 1.0, 4.0
    for _ in range(20):
        middle = (low + high) / 2
        reached = np.logaddexp.reduce(mean + middle * (hidden - mean), axis=1).mean() >= wanted
        low, high = (low, middle) if reached else (middle, high)
    scaled = logits.copy()
    scaled[~kept] = mean + low * (hidden - mean)
    return scaled


def measure_effect(numbers: ProbabilityNumbers, samples: Sequence[Sample], complete: Sample) -> dict[str, Any]:
    """Accuracy among all classes before and after, in per cent, and what verdicts are worth, for both kinds of photos.

    `complete` are photos of seen classes with nothing hidden, `samples` those with some classes hidden.
    """
    everyone = np.ones(len(complete.truth), bool)
    first = complete.sums.rows[complete.probabilities(numbers).argmax(axis=1)]
    said = 100 * words_of(complete.hierarchy).are_true(first, complete.truth)
    return {
        "seen": {
            "network_hit@1": count_hits(complete, complete.logits, everyone, 1),
            "before_hit@1": count_hits(complete, complete.all_scores, everyone, 1),
            "hit@1": count_hits(complete, complete.probabilities(numbers), everyone, 1),
            "said@1": _mean(said),  # a class above the right one, "horse" for a sorrel, is no mistake
        },
        "hidden": {
            "before_hit@5": _mean(count_hits(s, s.all_scores, ~s.is_kept, 5) for s in samples),
            "hit@5": _mean(count_hits(s, s.probabilities(numbers), ~s.is_kept, 5) for s in samples),
        },
        "verdicts": _verdicts(numbers, samples),
    }


def count_hits(sample: Sample, order: np.ndarray, photos: np.ndarray, k: int) -> float:
    """Per cent of photos (a mask) whose class is among the k best; `order` (n x C, or n x M) ranks the candidates."""
    if not photos.any():
        return float("nan")
    true_class = order[photos, sample.columns[sample.truth[photos]]]
    return round(float(100 * ((order[photos] > true_class[:, None]).sum(axis=1) < k).mean()), 2)


def _mean(values) -> float:
    return round(float(np.mean(list(values))), 2)


def _verdicts(numbers: ProbabilityNumbers, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Verdicts of each confidence, in per cent: how many photos have one, how many of these are right, and the mean of
    their probabilities; and their bits; for kept and for hidden classes."""
    kept, figures = np.concatenate([sample.is_kept for sample in samples]), []
    for sample in samples:
        sums, photo = sample.sums, np.arange(len(sample.truth))
        stated, cautious = node_probabilities(numbers, sums, sample.probabilities(numbers))
        nodes = select_verdicts(sums, cautious, [exponent(numbers, confidence) for confidence in REPORTED])
        rows = np.where(nodes < 0, -1, sums.nodes[nodes])
        right = np.stack([words_of(sample.hierarchy).are_true(row, sample.truth) for row in rows])
        bits = np.where(nodes < 0, 0, sums.information[nodes])
        figures.append(np.stack([nodes >= 0, right, stated[photo, nodes], bits]))
    effects = []
    for confidence, of_photos in zip(REPORTED, np.concatenate(figures, axis=2).swapaxes(0, 1), strict=True):
        effect: dict[str, Any] = {"confidence": confidence}
        for name, group in (("seen", kept), ("hidden", ~kept)):
            known, right, stated, bits = of_photos[:, group]
            told = known > 0
            effect[name] = {
                "told": _mean(100 * known),
                "right": _mean(100 * right[told]) if told.any() else None,
                "stated": _mean(100 * stated[told]) if told.any() else None,
                "information": _mean(bits),
            }
        effects.append(effect)
    return effects


# -- the numbers of `answers.probability` ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Photos of seen classes, scored by a method fitted without some of these classes."""

    hierarchy: Hierarchy
    seen: np.ndarray  # rows of the M classes that were kept
    unseen: np.ndarray  # rows of the U other candidates, hidden ones among them
    logits: np.ndarray  # n x M, the network's
    scores: np.ndarray  # n x U, the method's
    truth: np.ndarray  # rows of the n photos' classes
    seen_scores: np.ndarray  # n x M, the method's of the kept classes
    common: np.ndarray | None = None  # U: which unseen classes are common, as in the answers that a calibration is for

    @cached_property
    def sums(self) -> NodeSums:
        return NodeSums(self.hierarchy, np.concatenate([self.seen, self.unseen]), len(self.seen))

    @cached_property
    def climb(self) -> tuple[np.ndarray, np.ndarray]:
        return ancestor_weights(self.hierarchy, self.seen, self.unseen)

    @cached_property
    def is_kept(self) -> np.ndarray:
        """n, bool: photos of classes that the method knew."""
        return np.isin(self.truth, self.seen)

    @cached_property
    def response(self) -> np.ndarray:
        """n: log sum exp of the logits."""
        return np.logaddexp.reduce(self.logits.astype(np.float64), axis=1)

    @cached_property
    def columns(self) -> np.ndarray:
        """For each row of the hierarchy its column among seen, then unseen candidates; -1 for others."""
        columns = np.full(len(self.hierarchy), -1)
        columns[self.sums.rows] = np.arange(len(self.sums.rows))
        return columns

    @property
    def all_scores(self) -> np.ndarray:
        return np.concatenate([self.seen_scores, self.scores], axis=1)

    @cached_property
    def odds(self) -> np.ndarray:
        """n: as `answers.probability.method_odds` has it."""
        return method_odds(self.seen_scores, self.scores)[:, 0]

    def probabilities(self, numbers: ProbabilityNumbers, photos: np.ndarray | slice = slice(None)) -> np.ndarray:
        """n x (M + U) for some of the photos."""
        logits, seen_scores, scores = (array[photos] for array in (self.logits, self.seen_scores, self.scores))
        outputs = np.arange(len(self.seen))
        parts = log_probabilities(numbers, logits, seen_scores, scores, outputs, self.climb, self.common)
        return np.exp(np.concatenate(parts, axis=1))


@dataclass(frozen=True)
class Drawn:
    """A sample with some photos moved to an ancestor class; each group weighs 1."""

    sample: Sample
    truth: np.ndarray  # rows
    is_seen: np.ndarray  # photos that count as those of seen classes
    weight: np.ndarray

    @classmethod
    def from_sample(cls, sample: Sample, random: np.random.Generator) -> Drawn:
        above, way = weights_from_all(sample)
        kept, truth = sample.is_kept, sample.truth.copy()
        renamed = np.zeros(len(kept), bool)
        for photo in np.flatnonzero(random.random(len(kept)) < SHARES["above"]):
            shares = way[sample.columns[truth[photo]]]
            if shares.any():
                truth[photo], renamed[photo] = sample.unseen[random.choice(above, p=shares / shares.sum())], True
        has_sibling = relations_to_seen(sample.hierarchy, sample.seen)[sample.truth] == "sibling"
        is_seen, hidden, weight = kept & ~renamed, ~kept & ~renamed, np.zeros(len(kept))
        parts = [
            (is_seen, 1.0),
            (kept & renamed, SHARES["above"] / 2),
            (~kept & renamed, SHARES["above"] / 2),
            (hidden & has_sibling, SHARES["sibling"]),
            (hidden & ~has_sibling, SHARES["further"]),
        ]
        for part, share in parts:
            weight[part] = share / max(part.sum(), 1)
        weight[~is_seen] /= max(weight[~is_seen].sum(), 1e-9)
        return cls(sample, truth, is_seen, weight)


def weights_from_all(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """The ways from every candidate, seen or not, to the unseen ones above it."""
    rows = sample.sums.rows
    photographed = np.isin(rows, sample.truth)
    above, way = ancestor_weights(sample.hierarchy, rows[photographed], sample.unseen)
    full = np.zeros((len(rows), len(above)), np.float32)
    full[photographed] = way * (sample.unseen[above][None] != rows[photographed][:, None])  # not to itself
    return above, full


def fit_numbers(
    samples: Sequence[Sample], complete: Sample, settings: CalibrateSettings, seed: int = 0
) -> tuple[ProbabilityNumbers, list[dict[str, float]]]:
    """The numbers fitted on photos of seen classes, a different part of which is hidden each time; and the balance of
    seen and unseen classes as a curve.

    Photos of hidden classes stand in for those of unseen ones, but differ from them in three ways, which are made up
    for with constants that development photos of half of the unseen classes gave, the same for every network:

    - They relate to the seen classes in other SHARES. So each relation has its weight, and some photos are renamed to
      an unseen class above their own.
    - The network was trained to tell hidden classes from the others, so that its response to their photos is weaker
      than to those of classes that it never met: see `bring_nearer`.
    - The seen classes are near to each other (120 breeds of dogs), so that verdicts on hidden ones are less often
      right: HARDER.

    Every number has a prior that is worth STRENGTH photos: it decides where there are few. `complete` are the same
    photos with nothing hidden, for the bound on what seen classes may lose.
    """
    random = np.random.default_rng(seed)
    drawn = [Drawn.from_sample(sample, random) for sample in samples]
    numbers = replace(PRIOR, seen_sharpness=_seen_sharpness(samples))
    numbers = _fit_gate(numbers, drawn)
    numbers = _fit_unseen(numbers, drawn)
    curve = balance_curve(numbers, complete, samples)
    favour = choose_favour(curve, settings.harm, settings.reach)
    numbers = replace(numbers, gate_offset=numbers.gate_offset + favour)
    return _fit_verdicts(numbers, drawn), [point | {"chosen": point["favour"] == favour} for point in curve]


def _seen_sharpness(samples: Sequence[Sample]) -> float:
    """The network's own temperature: log-loss of the photos of kept classes."""
    spread = float(np.mean([sample.logits.std(axis=1).mean() for sample in samples]))
    grid = PRIOR.seen_sharpness * np.exp(np.linspace(-0.7, 0.7, 29)) / (1.0 if spread > 0.5 else max(spread, 1e-6))
    middle = grid[len(grid) // 2]
    loss = 2 * STRENGTH * np.log(grid / middle) ** 2
    for sample in samples:
        kept = sample.is_kept
        logits = sample.logits[kept].astype(np.float64)
        true_class = logits[np.arange(len(logits)), sample.columns[sample.truth[kept]]]
        loss += [(np.logaddexp.reduce(a * logits, axis=1) - a * true_class).sum() / len(samples) for a in grid]
    return float(grid[loss.argmin()])


def _fit_gate(numbers: ProbabilityNumbers, drawn: Sequence[Drawn]) -> ProbabilityNumbers:
    """The offset, with both groups alike. How much response and odds weigh is the same for every network: hidden
    classes, which are all leaves, would give another balance of the two."""
    response, odds, is_seen, weight = (
        np.concatenate(part)
        for part in zip(*((d.sample.response, d.sample.odds, d.is_seen, d.weight) for d in drawn), strict=True)
    )
    centre, spread = float(np.average(response, weights=weight)), float(max(response.std(), 1e-6))
    known = GATE_SLOPE * (response - centre) / spread + PRIOR.gate_lean * odds
    weight, offset = weight * len(weight) / weight.sum(), PRIOR.gate_offset
    for _ in range(20):  # Newton's
        p = sigmoid(known + offset)
        slope = (weight * (p - is_seen)).sum() + STRENGTH / 10 * (offset - PRIOR.gate_offset)
        offset -= slope / ((weight * p * (1 - p)).sum() + STRENGTH / 10)
    return replace(numbers, gate_slope=GATE_SLOPE / spread, gate_centre=centre, gate_offset=float(offset))


def _fit_unseen(numbers: ProbabilityNumbers, drawn: Sequence[Drawn]) -> ProbabilityNumbers:
    """Sharpness and climb: log-loss along the path to the true class, each node weighted by the bits that it adds."""
    sharpness = PRIOR.unseen_sharpness * np.exp(np.linspace(-0.6, 0.6, 7))
    climbs = np.array([0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4])
    loss = np.zeros((len(sharpness), len(climbs)))
    closed = replace(numbers, gate_slope=0.0, gate_lean=0.0, gate_offset=-99.0)
    for draw in drawn:
        sample, photos = draw.sample, np.flatnonzero(~draw.is_seen)
        photo, node, weight = _paths(draw, photos)
        climbing = replace(closed, climb=1.0)
        climbed = sample.sums(sample.probabilities(climbing, photos))[photo, node]
        for i, sharp in enumerate(sharpness):
            flat = replace(closed, unseen_sharpness=float(sharp), climb=0.0)
            mass = sample.sums(sample.probabilities(flat, photos))[photo, node]
            for j, climb in enumerate(climbs):
                mixed = np.maximum((1 - climb) * mass + climb * climbed, 0.01)
                loss[i, j] -= (weight * np.log(mixed)).sum() / len(drawn)
    count = max(max(int((~draw.is_seen).sum()) for draw in drawn), 1)
    away = np.log(sharpness / PRIOR.unseen_sharpness)[:, None] ** 2 + 10 * (climbs - PRIOR.climb)[None] ** 2
    i, j = np.unravel_index((loss + STRENGTH / count * away).argmin(), loss.shape)
    return replace(numbers, unseen_sharpness=float(sharpness[i]), climb=float(climbs[j]))


def _paths(draw: Drawn, photos: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(photo, node, weight) of all nodes above the photos' classes; a photo's weights add up to its own."""
    sums, paths = draw.sample.sums, []
    for at, photo in enumerate(photos):
        nodes = sums.above(int(draw.sample.columns[draw.truth[photo]]))
        nodes = nodes[np.argsort(sums.information[nodes], kind="stable")]
        gain = np.diff(sums.information[nodes], prepend=0.0)
        paths.append((np.full(len(nodes), at), nodes, draw.weight[photo] * gain / max(gain.sum(), 1e-9)))
    photo, node, weight = (np.concatenate(part) for part in zip(*paths, strict=True))
    return photo, node, weight


def balance_curve(numbers: ProbabilityNumbers, complete: Sample, samples: Sequence[Sample]) -> list[dict[str, float]]:
    """For log-odds given to seen classes: `harm`, the per cent of seen photos that the network alone names rightly and
    whose first label is then neither their class nor one above it; and `reach`, the per cent of photos of hidden
    classes whose first label is their class, among all classes."""
    lead, first = _leads(numbers, complete)
    lost = (complete.seen[complete.logits.argmax(axis=1)] == complete.truth) & ~words_of(complete.hierarchy).are_true(
        first, complete.truth
    )
    hidden = [
        (lead[~s.is_kept], (first == s.truth)[~s.is_kept]) for s in samples for lead, first in [_leads(numbers, s)]
    ]
    leads, reached = (np.concatenate(part) for part in zip(*hidden, strict=True))
    return [
        {
            "favour": float(favour),
            "harm": _mean(100 * (lost & (lead + favour <= 0))),
            "reach": _mean(100 * (reached & (leads + favour <= 0))) if len(leads) else 0.0,
        }
        for favour in FAVOURS
    ]


def _leads(numbers: ProbabilityNumbers, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """n: by how many log-odds the best seen class leads the best unseen one, and the row of the latter."""
    p, border = sample.probabilities(numbers), len(sample.seen)
    if border == p.shape[1]:
        return np.full(len(p), np.inf), np.full(len(p), -1)
    best = p[:, border:].argmax(axis=1)
    lead = np.log(p[:, :border].max(axis=1) + 1e-30) - np.log(p[np.arange(len(p)), border + best] + 1e-30)
    return lead, sample.unseen[best]


def choose_favour(curve: Sequence[dict[str, float]], harm: float, reach: float | None) -> float:
    """What costs seen classes no more than `harm`, where they need anything; with `reach`, the most that leaves hidden
    classes so much.

    >>> curve = [{"favour": -1.0, "harm": 9.0, "reach": 8.0}, {"favour": 0.0, "harm": 6.0, "reach": 5.0},
    ...          {"favour": 1.0, "harm": 4.0, "reach": 2.0}]
    >>> choose_favour(curve, 5, None), choose_favour(curve, 5, 4), choose_favour(curve, 5, 50)
    (1.0, 0.0, -1.0)
    """
    if reach is not None:
        return max((point["favour"] for point in curve if point["reach"] >= reach), default=curve[0]["favour"])
    kept = [point["favour"] for point in curve if point["favour"] >= 0 and point["harm"] <= harm]
    return min(kept, default=curve[-1]["favour"])


@dataclass(frozen=True)
class Sayable:
    """The nodes that verdicts on drawn photos may be, one after the other, and the photos' own figures."""

    photo: np.ndarray
    bits: np.ndarray
    parts: tuple[np.ndarray, np.ndarray]  # sums over seen and over unseen classes
    gate: np.ndarray
    is_true: np.ndarray
    weight: np.ndarray  # n, of photos
    is_seen: np.ndarray  # n

    @classmethod
    def from_drawn(cls, numbers: ProbabilityNumbers, draw: Drawn) -> Sayable:
        sample, sums = draw.sample, draw.sample.sums
        p, border = sample.probabilities(numbers), len(sample.seen)
        of_seen, of_unseen = sums.parts(p)
        gate = np.clip(p[:, :border].sum(axis=1), 1e-6, 1 - 1e-6)
        possible = (of_seen / gate[:, None] >= FLOOR) | (of_unseen / (1 - gate[:, None]) >= FLOOR)
        photo, node = np.nonzero(possible & sums.can_be_said)
        is_true = words_of(sample.hierarchy).are_true(sums.nodes[node], draw.truth[photo])
        parts = of_seen[photo, node], of_unseen[photo, node]
        return cls(photo, sums.information[node], parts, gate[photo], is_true, draw.weight, draw.is_seen)

    def verdicts(self, detail: float) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each of POWERS: the photos that have a verdict, its m(v), and whether it is right."""
        mass, cautious = weigh(detail, *self.parts, self.gate, self.bits)
        rows = choose(self.photo, self.bits, np.maximum(cautious, 1e-9), POWERS, len(self.weight))
        known = [np.flatnonzero(row >= 0) for row in rows]
        return [(at, mass[row[at]], self.is_true[row[at]]) for row, at in zip(rows, known, strict=True)]


def _fit_verdicts(numbers: ProbabilityNumbers, drawn: Sequence[Drawn]) -> ProbabilityNumbers:
    """What verdicts state, and how careful they are, by verdicts of many exponents.

    Of each cost of detail, the statement is fitted by logistic regression on the log-odds of m(v), with HARDER taken
    off where a photo shows no seen class; the cost with which right and stated differ least is kept, for seen and for
    unseen photos. The exponent of a confidence is the one with which it is reached midway between the
    mean of both and the worse one.
    """
    sayable = [Sayable.from_drawn(numbers, draw) for draw in drawn]
    most_harder, few, many = HARDER
    classes = len(drawn[0].sample.seen)
    harder = most_harder * float(np.clip(np.log(classes / few) / np.log(many / few), 0, 1))
    most = float(max(nodes.bits.max(initial=1.0) for nodes in sayable))
    best, rates = None, np.zeros((len(POWERS), 2))
    for detail in DETAILS:
        told = [nodes.verdicts(detail / most**2) for nodes in sayable]
        weight = [[nodes.weight[at] for at, _, _ in row] for nodes, row in zip(sayable, told, strict=True)]
        seen = [[nodes.is_seen[at] for at, _, _ in row] for nodes, row in zip(sayable, told, strict=True)]
        power = np.concatenate([np.full(len(w), k) for row in weight for k, w in enumerate(row)])
        weights, is_seen = (np.concatenate([part for row in rows for part in row]) for rows in (weight, seen))
        mass, right = (np.concatenate([one[at] for row in told for one in row]) for at in (1, 2))
        fit = _fit_statement(mass, right, np.where(is_seen, 0.0, harder), classes / 10 * weights)
        odds = _logit(mass) * fit[0] + fit[1]
        gaps, rate = [], np.full((len(POWERS), 2), np.nan)
        for k in range(len(POWERS)):
            for group, shift in ((True, 0.0), (False, harder)):
                of = (power == k) & (is_seen == group)
                if weights[of].sum() > 0:
                    share = float(np.average(right[of], weights=weights[of]))
                    gaps.append(share - np.average(sigmoid(odds[of] - shift), weights=weights[of]))
                    rate[k, int(group)] = sigmoid(_logit(np.array(share)) + shift)
        cost = float(np.mean(np.square(gaps))) if gaps else 0.0
        if best is None or cost < best[0]:
            best, rates = (cost, detail / most**2, fit), rate
    assert best is not None
    rates = np.where(np.isnan(rates), rates[:, ::-1], rates)  # where one kind has no verdict, the other decides
    reached = np.nan_to_num((rates.mean(axis=1) + rates.min(axis=1)) / 2, nan=1.0)
    wanted = np.interp(CONFIDENCES, np.maximum.accumulate(reached), np.log(POWERS))
    share = classes / (classes + STRENGTH)
    exponents = np.exp(share * wanted + (1 - share) * np.log(PRIOR.exponents))
    return replace(
        numbers,
        detail=float(best[1]),
        stated_slope=float(best[2][0]),
        stated_offset=float(best[2][1]),
        exponents=np.maximum.accumulate(exponents).round(4).tolist(),
    )


def _fit_statement(mass: np.ndarray, right: np.ndarray, harder: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(slope, offset) of P(right) = sigmoid(slope * logit(mass) + offset - harder), near to (1, 0) unless much speaks
    against it."""
    x, prior = np.stack([_logit(mass), np.ones(len(mass))], axis=1), np.array([1.0, 0.0])
    fit, strength = prior.copy(), np.array([5.0, 1.0])
    for _ in range(25):  # Newton's
        p = sigmoid(x @ fit - harder)
        curvature = (x * (weight * p * (1 - p))[:, None]).T @ x + np.diag(strength)
        fit = fit - np.linalg.solve(curvature, x.T @ (weight * (p - right)) + strength * (fit - prior))
    return fit


def _logit(p: np.ndarray) -> np.ndarray:
    inside = np.clip(p, 1e-4, 1 - 1e-4)
    return np.log(inside / (1 - inside))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -40, 40)))
