"""Calibration, fitted on photos of seen classes: how probable answers are, and the balance of seen and unseen classes.

The method is fitted again without a share of the seen classes, which stand in for unseen classes; repeated with others.
On their photos the numbers of `answers.probability` are fitted, and beside them the two ways that the paper names for
the balance: the shift of calibrated stacking, with the best harmonic mean, and the threshold of a novelty detector
(`evaluation.metrics`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unseen._util.run import Run
from unseen.answers import probability
from unseen.answers.candidates import resolve_candidates
from unseen.answers.prior import COMMON, UNIFORM, ColumnPrior
from unseen.answers.probability import (
    UNCALIBRATED,
    NodeSums,
    exponent,
    log_probabilities,
    method_odds,
    select_verdicts,
    way_up,
)
from unseen.answers.words import words_of
from unseen.bundle import Bundle
from unseen.bundle.records import CONFIDENCES, CalibrationRecord, ProbabilityNumbers
from unseen.errors import UnseenError
from unseen.evaluation.metrics import choose_threshold, network_confidence
from unseen.evaluation.protocol import evaluate
from unseen.features.base import Features
from unseen.features.folders import check_source, match_folders, open_features
from unseen.hierarchy.core import Hierarchy
from unseen.methods import get_method
from unseen.training.settings import CalibrateSettings, TrainSettings
from unseen.training.stage1 import Vectors, train
from unseen.vectors.class_vectors import vectors_from_provenance

if TYPE_CHECKING:
    from unseen.model import Model

logger = logging.getLogger(__name__)

LEAST_CLASSES, LEAST_PHOTOS = 3, 10
MOST = 20_000  # photos kept in memory; of more a random part
EACH = 700  # photos of kept classes, and of hidden ones, that a hiding is judged by
MANY_HIDDEN, HIDINGS = 100, (5, 2)  # how often classes are hidden: what fewer than 100 show is left to chance
BATCH = 1024
REPORTED = (0.8, 0.9, 0.95)  # confidences of the verdicts whose effect is measured

PRIOR = UNCALIBRATED
STRENGTH = 30.0  # photos that the prior is worth
ABOVE = 0.2  # the share of unseen photos that are of classes above seen ones
NEARER = 0.5  # how far the response to photos of hidden classes is moved to that of the others
FAVOURS = np.arange(0, 6.01, 0.1)  # log-odds given to seen classes so that they keep their accuracy


def calibrate(
    model: Model,
    photos: str | Path | Any,
    settings: CalibrateSettings | None = None,
    *,
    run: Run | None = None,
    vectors: Vectors | None = None,
) -> Bundle:
    """The bundle with a `calibration`: what makes its probabilities and verdicts hold.

    Args:
        model: Stays as it is.
        photos: Photos of seen classes, DIR/<id or name>/*, a feature store, or .npz with `features` and `labels`;
            photos of other classes play no part.
        settings: The share of classes to hide, and how much accuracy seen classes may lose.
        run: Seed, device and the like; by default with the bundle's seed.
        vectors: The sources of the class vectors, where the bundle cannot load them by name.
    """
    bundle, settings = model.bundle, settings or CalibrateSettings()
    store = _open(photos, bundle, model.network)
    run = run or Run(seed=bundle.seed)
    seen_photos, random = read_photos(store, run.seed), np.random.default_rng(run.seed)
    hidings = HIDINGS[round(settings.holdout * len(bundle.seen)) >= MANY_HIDDEN]
    samples, record = [], None
    for number in range(hidings):
        share, times = f"{settings.holdout:.0%}", f"{number + 1} of {hidings}"
        logger.info("fitting %s without %s of the seen classes, %s times", bundle.method, share, times)
        fitted = _fit_again(model, store, settings.holdout, vectors, replace(run, seed=run.seed + number))
        samples.append(sample_photos(fitted, *seen_photos, random))
        record = record or _choose_shift(bundle, fitted, store, settings.candidates)
    complete = sample_photos(model, *seen_photos, random, each=2 * EACH)
    logger.info("fitting the numbers that turn scores into probabilities")
    numbers = fit_numbers(samples, complete, settings.harm, run.seed)
    assert record is not None  # there is at least one hiding
    if not record.harmonic_on_hidden:  # no hidden class came first, whatever the shift: then by the group alone
        record = replace(record, seen_shift=best_group_shift(samples))
    effect = measure_effect(numbers, samples, complete)
    return bundle.change(calibration=replace(record, harm=settings.harm, probability=numbers, effect=effect))


def _fit_again(model: Model, store: Features, holdout: float, vectors: Vectors | None, run: Run) -> Model:
    """The bundle's method, fitted without a share of the seen classes: another seed hides others."""
    bundle = model.bundle
    # Some methods can do without photos, and the shift must be that of the model that the bundle holds.
    learned = (bundle.solution.record.chosen or {}).get("learn_from") == "features"
    needs_photos = learned or get_method(bundle.method).needs_features
    features = store.seen_matrix(bundle.seen_ids) if needs_photos else None
    fitted = train(
        bundle.hierarchy,
        model.network,
        bundle.method,
        vectors or [vectors_from_provenance(source) for source in bundle.vectors.provenance],
        TrainSettings(holdout=holdout, features=features, skip_missing=True),  # as when the bundle was made
        run=run,
        **bundle.settings,
    )
    # What was added to the bundle or left out of it counts here as it does there.
    return model.with_bundle(replace(fitted, added=bundle.added, connecting=bundle.connecting))


def _choose_shift(bundle: Bundle, model: Model, store: Features, candidates: str) -> CalibrationRecord:
    """Shift and novelty threshold, by the classes that were hidden from the model."""
    hidden = sorted(set(bundle.seen_ids) - set(model.bundle.seen_ids))
    others = [bundle.ids[row] for row in resolve_candidates(bundle, candidates) if not bundle.is_seen[row]]
    result = evaluate(model, store, [*hidden, *others], with_seen=True, photos_of="both", confidence=None)
    if result.generalised is None:
        raise UnseenError(
            f"there must be photos both of seen classes that are hidden ({len(hidden)} of {len(bundle.seen)}) and of "
            "others: give photos of more classes, or hide another share"
        )
    figures = result.generalised["class"]
    threshold, auroc = choose_detector(model, store, frozenset(hidden))
    return CalibrationRecord(
        seen_shift=figures["best_shift_in_hindsight"],  # hindsight over hidden seen classes, not over unseen ones
        harmonic_on_hidden=figures["best_harmonic_in_hindsight"],
        harmonic_without=figures["harmonic"],
        hidden_classes=len(hidden),
        photos=result.images,
        novelty_threshold=threshold,
        novelty_auroc=auroc,
    )


def _open(source: str | Path | Features, bundle: Bundle, network: Any) -> Features:
    """Features of photos of seen classes: calibration must not see any others, whatever is on disk."""
    seen = set(bundle.seen_ids)
    matched = check_source(source, bundle.hierarchy, seen, "the seen classes")
    features = open_features(source, lambda: network, bundle.network.num_features)
    if matched is None:
        matched = match_folders(list(features.classes()), bundle.hierarchy, seen)
    return features.relabel(matched).only(seen)


def choose_detector(model: Model, store: Features, hidden: frozenset[str]) -> tuple[float, float]:
    """Threshold and AUROC of the detector for a model that does not know the `hidden` classes of the photos."""
    confidences, novel = [], []
    for features, ids, _ in store.batches(BATCH):
        confidences.append(network_confidence(model.bundle.known, features))
        novel += [id in hidden for id in ids]
    confidence, is_novel = np.concatenate(confidences), np.array(novel)
    return choose_threshold(confidence[~is_novel], confidence[is_novel])


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
    model: Model, features: np.ndarray, ids: np.ndarray, random: np.random.Generator, each: int = EACH
) -> Sample:
    """Up to `each` photos of classes that the model knows as seen, and as many of others, with their scores."""
    bundle = model.bundle
    scorer = model.scorer("any", prior=UNIFORM)  # the method's own scores; `Sample.common` is added to them
    seen, unseen = (scorer.columns[group] for group in scorer.groups)
    truth = bundle.hierarchy.indices(ids)
    kept = np.isin(truth, seen)
    answered = kept | np.isin(truth, unseen)
    chosen = [random.permutation(np.flatnonzero(part & answered))[:each] for part in (kept, ~kept)]
    rows = np.sort(np.concatenate(chosen))
    features = features[rows]
    scores = scorer.scores(features, seen_shift=0.0)
    place = np.zeros(len(bundle), int)
    place[bundle.seen] = np.arange(len(bundle.seen))
    head = bundle.head[place[seen]]
    return Sample(
        hierarchy=bundle.hierarchy,
        seen=seen,
        unseen=unseen,
        logits=features @ head[:, :-1].T + head[:, -1],
        scores=scores[:, scorer.groups[1]],
        truth=truth[rows],
        seen_scores=scores[:, scorer.groups[0]],
        common=ColumnPrior(COMMON, bundle.hierarchy, seen, unseen).common,
    )


def measure_effect(numbers: ProbabilityNumbers, samples: Sequence[Sample], complete: Sample) -> dict[str, Any]:
    """Accuracy among all classes before and after, in per cent, and what verdicts are worth, for both kinds of photos.

    `complete` are photos of seen classes with nothing hidden, `samples` those with some classes hidden.
    """
    everyone = np.ones(len(complete.truth), bool)
    return {
        "seen": {
            "network_hit@1": count_hits(complete, complete.logits, everyone, 1),
            "before_hit@1": count_hits(complete, complete.all_scores, everyone, 1),
            "hit@1": count_hits(complete, complete.probabilities(numbers), everyone, 1),
        },
        "hidden": {
            "before_hit@5": _mean(count_hits(s, s.all_scores, ~s.is_kept, 5) for s in samples),
            "hit@5": _mean(count_hits(s, s.probabilities(numbers), ~s.is_kept, 5) for s in samples),
        },
        "verdicts": [_verdicts(numbers, samples, confidence) for confidence in REPORTED],
    }


def best_group_shift(samples: Sequence[Sample]) -> float:
    """The shift that best says which group a photo belongs to: the mean of both groups' accuracies."""
    margin = np.concatenate([s.seen_scores.max(axis=1) - s.scores.max(axis=1) for s in samples])
    kept = np.concatenate([s.is_kept for s in samples])
    if kept.all() or not kept.any():
        return 0.0
    places = np.unique(np.concatenate([margin, [0.0]]))
    seen = 1 - np.searchsorted(np.sort(margin[kept]), places, side="right") / kept.sum()
    unseen = np.searchsorted(np.sort(margin[~kept]), places) / (~kept).sum()
    return float(places[int(np.argmax(seen + unseen))])


def count_hits(sample: Sample, order: np.ndarray, photos: np.ndarray, k: int) -> float:
    """Per cent of photos (a mask) whose class is among the k best; `order` (n x C, or n x M) ranks the candidates."""
    if not photos.any():
        return float("nan")
    true_class = order[photos, sample.columns[sample.truth[photos]]]
    return round(float(100 * ((order[photos] > true_class[:, None]).sum(axis=1) < k).mean()), 2)


def _mean(values) -> float:
    return round(float(np.mean(list(values))), 2)


def _verdicts(numbers: ProbabilityNumbers, samples: Sequence[Sample], confidence: float) -> dict[str, Any]:
    """How often verdicts of a confidence are right, and their bits, for kept and for hidden classes."""
    effect: dict[str, Any] = {"sure": confidence}
    for name, wanted in (("seen", True), ("hidden", False)):
        right, bits = [], []
        for sample in samples:
            chosen = np.flatnonzero(sample.is_kept == wanted)
            masses = sample.sums(sample.probabilities(numbers, chosen))
            nodes = select_verdicts(sample.sums, masses, exponent(numbers, confidence))
            right.append(is_right(sample.sums, nodes, sample.columns[sample.truth[chosen]]))
            bits.append(np.where(nodes < 0, 0, sample.sums.information[nodes]))
        effect[name] = {"right": _mean(100 * np.concatenate(right)), "information": _mean(np.concatenate(bits))}
    return effect


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
    common: Tensor | None = None  # U: which unseen classes are common, as in the answers that a calibration is for

    @cached_property
    def sums(self) -> NodeSums:
        return NodeSums(self.hierarchy, np.concatenate([self.seen, self.unseen]))

    @cached_property
    def climb(self) -> tuple[Tensor, Tensor]:
        above, way = way_up(self.hierarchy, self.seen, self.unseen)
        return torch.from_numpy(above), torch.from_numpy(way)

    @cached_property
    def is_kept(self) -> np.ndarray:
        """n, bool: photos of classes that the method knew."""
        return np.isin(self.truth, self.seen)

    @cached_property
    def response(self) -> np.ndarray:
        """n: log sum exp of the logits; for hidden classes as it would be for classes that the network never met."""
        plain = np.logaddexp.reduce(self.logits.astype(np.float64), axis=1)
        kept = self.is_kept
        if kept.all() or not kept.any():
            return plain
        return plain + NEARER * ~kept * (plain[kept].mean() - plain[~kept].mean())

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
        return method_odds(torch.from_numpy(self.seen_scores), torch.from_numpy(self.scores)).numpy()

    def probabilities(self, numbers: ProbabilityNumbers, photos: np.ndarray | slice = slice(None)) -> np.ndarray:
        """n x (M + U) for some of the photos, with the gate read from `response`."""
        arrays = (self.logits, self.seen_scores, self.scores)
        logits, seen_scores, scores = (torch.from_numpy(array[photos]) for array in arrays)
        half = replace(numbers, gate_slope=0.0, gate_lean=0.0, gate_offset=0.0)  # each group sums to 1/2
        parts = log_probabilities(
            half, logits, seen_scores, scores, torch.arange(len(self.seen)), self.climb, self.common
        )
        seen, unseen = (2 * part.exp().numpy() for part in parts)
        gate = self.gate(numbers)[photos, None].astype(np.float32)
        return np.concatenate([gate * seen, (1 - gate) * unseen], axis=1)

    def gate(self, numbers: ProbabilityNumbers) -> np.ndarray:
        return sigmoid(probability.gate(numbers, torch.from_numpy(self.response), torch.from_numpy(self.odds)).numpy())


@dataclass(frozen=True)
class Drawn:
    """A sample with some photos moved to an ancestor class; each group weighs 1."""

    sample: Sample
    truth: np.ndarray  # rows
    is_seen: np.ndarray  # photos that count as those of seen classes
    weight: np.ndarray

    @classmethod
    def from_sample(cls, sample: Sample, random: np.random.Generator) -> Drawn:
        above, way = way_up_from_all(sample)
        kept, truth = sample.is_kept, sample.truth.copy()
        renamed = np.zeros(len(kept), bool)
        for photo in np.flatnonzero(random.random(len(kept)) < ABOVE):
            shares = way[sample.columns[truth[photo]]]
            if shares.any():
                truth[photo], renamed[photo] = sample.unseen[random.choice(above, p=shares / shares.sum())], True
        is_seen, weight = kept & ~renamed, np.zeros(len(kept))
        leaves, above_kept, above_hidden = ~kept & ~renamed, kept & renamed, ~kept & renamed
        shares = (1.0, 1 - ABOVE, ABOVE / 2, ABOVE / 2)
        for part, share in zip((is_seen, leaves, above_kept, above_hidden), shares, strict=True):
            weight[part] = share / max(part.sum(), 1)
        weight[~is_seen] /= max(weight[~is_seen].sum(), 1e-9)
        return cls(sample, truth, is_seen, weight)


def way_up_from_all(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """The ways from every candidate, seen or not, to the unseen ones above it."""
    rows = sample.sums.rows
    photographed = np.isin(rows, sample.truth)
    above, way = way_up(sample.hierarchy, rows[photographed], sample.unseen)
    full = np.zeros((len(rows), len(above)), np.float32)
    full[photographed] = way * (sample.unseen[above][None] != rows[photographed][:, None])  # not to itself
    return above, full


def fit_numbers(samples: Sequence[Sample], complete: Sample, harm: float, seed: int = 0) -> ProbabilityNumbers:
    """The numbers fitted on photos of seen classes, a different part of which is hidden each time.

    Photos of hidden classes stand in for those of unseen ones, but differ from them in two ways, which are made up for:

    - Hidden classes are leaves, while many unseen ones lie above seen classes. So some photos are renamed to an unseen
      class above their own.
    - The network was trained to tell hidden classes from the others, so that its response to their photos is weaker
      than to those of classes that it never met. So their response is moved half-way to that of the other photos.

    Every number has a prior that is worth STRENGTH photos: it decides where there are few. `complete` are the same
    photos with nothing hidden; on them seen classes lose at most `harm` points of accuracy.
    """
    random = np.random.default_rng(seed)
    drawn = [Drawn.from_sample(sample, random) for sample in samples]
    photos = max(len(sample.truth) for sample in samples)  # each counts once, however often it was scored
    numbers = replace(PRIOR, seen_sharpness=_seen_sharpness(samples))
    numbers = _fit_gate(numbers, drawn)
    numbers = _fit_unseen(numbers, drawn)
    numbers = replace(numbers, gate_offset=numbers.gate_offset + _favour(numbers, complete, harm))
    return _fit_exponents(numbers, drawn, photos)


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
    """Ridge logistic regression of "seen" on the response, both groups alike.

    The weight of the method's odds stays at its prior: hidden classes, which are all leaves, would make it too low.
    """
    response = np.concatenate([draw.sample.response for draw in drawn])
    known = PRIOR.gate_lean * np.concatenate([draw.sample.odds for draw in drawn])
    is_seen = np.concatenate([draw.is_seen for draw in drawn])
    weight = np.concatenate([draw.weight for draw in drawn])
    weight *= len(weight) / weight.sum()
    centre, spread = float(np.average(response, weights=weight)), float(max(response.std(), 1e-6))
    x = np.stack([(response - centre) / spread, np.ones(len(response))], axis=1)
    prior = np.array([PRIOR.gate_slope, PRIOR.gate_offset])
    fit = prior.copy()
    for _ in range(20):  # Newton's
        p = sigmoid(x @ fit + known)
        curvature = (x * (weight * p * (1 - p))[:, None]).T @ x + STRENGTH / 10 * np.eye(2)
        slope = x.T @ (weight * (p - is_seen)) + STRENGTH / 10 * (fit - prior)
        fit = fit - np.linalg.solve(curvature, slope)
    return replace(numbers, gate_slope=float(fit[0] / spread), gate_centre=centre, gate_offset=float(fit[1]))


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
        nodes = sums.membership[draw.sample.columns[draw.truth[photo]]].indices
        nodes = nodes[np.argsort(sums.information[nodes], kind="stable")]
        gain = np.diff(sums.information[nodes], prepend=0.0)
        paths.append((np.full(len(nodes), at), nodes, draw.weight[photo] * gain / max(gain.sum(), 1e-9)))
    photo, node, weight = (np.concatenate(part) for part in zip(*paths, strict=True))
    return photo, node, weight


def _favour(numbers: ProbabilityNumbers, complete: Sample, harm: float) -> float:
    """The least log-odds for seen classes with which they lose no more than `harm` points of accuracy."""
    p = complete.probabilities(numbers)
    border = len(complete.seen)
    lead = np.log(p[:, :border].max(axis=1) + 1e-30) - np.log(p[:, border:].max(axis=1, initial=0) + 1e-30)
    right = complete.seen[complete.logits.argmax(axis=1)] == complete.truth
    kept = [float(favour) for favour in FAVOURS if 100 * (right & (lead + favour <= 0)).mean() <= harm]
    return kept[0] if kept else float(FAVOURS[-1])


def _fit_exponents(numbers: ProbabilityNumbers, drawn: Sequence[Drawn], photos: int) -> ProbabilityNumbers:
    """For each confidence the exponent with which the mean of both groups' `right` is the confidence."""
    levels = np.geomspace(0.1, 200, 40)
    weight, is_seen = (np.concatenate(part) for part in zip(*((d.weight, d.is_seen) for d in drawn), strict=True))
    right = np.concatenate([_are_right(numbers, draw, levels) for draw in drawn], axis=1)
    rate = np.zeros((len(levels), 2))
    for at, row in enumerate(right):  # row by row: on a plateau the last digit of a sum decides which end is chosen
        right_weight = weight * row
        rate[at] = [right_weight[group].sum() / max(weight[group].sum(), 1e-9) for group in (is_seen, ~is_seen)]
    wanted = np.interp(CONFIDENCES, np.maximum.accumulate(rate.mean(axis=1)), np.log(levels))
    share = photos / (photos + STRENGTH)
    exponents = np.exp(share * wanted + (1 - share) * np.log(PRIOR.exponents))
    return replace(numbers, exponents=np.maximum.accumulate(exponents).round(4).tolist())


def _are_right(numbers: ProbabilityNumbers, draw: Drawn, exponents: np.ndarray) -> np.ndarray:
    """Exponents x n, bool: whether each photo's verdict is right."""
    sums, columns = draw.sample.sums, draw.sample.columns[draw.truth]
    nodes = select_verdicts(sums, sums(draw.sample.probabilities(numbers)), exponents)
    return np.stack([is_right(sums, row, columns) for row in nodes])


def is_right(sums: NodeSums, nodes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """n, bool: whether each photo's verdict is true of its class; "unknown" is right."""
    rows = np.where(nodes < 0, -1, sums.nodes[nodes])
    return (nodes < 0) | words_of(sums.hierarchy).are_true(rows, sums.rows[columns])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -40, 40)))
