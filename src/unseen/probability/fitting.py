"""Fits the numbers of `probability.numbers` on photos of seen classes, some of which were hidden from the method.

Photos of hidden classes play those of unseen ones. They differ from them in two ways that are known beforehand, and
both are made up for:

- Hidden classes are leaves, while many unseen ones lie above seen classes. So some photos are renamed to an unseen
  class above their own.
- The network was trained to tell hidden classes from the others, so that its response to their photos is weaker than
  to those of classes that it never met. So their response is moved half-way to that of the other photos.

Every number has a prior that is worth a few photos: it decides where there are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from unseen.probability.climbing import way_up
from unseen.probability.numbers import SURE, UNCALIBRATED, ProbabilityNumbers, method_odds
from unseen.probability.sums import NodeSums
from unseen.probability.verdicts import Contest
from unseen.taxonomy import Taxonomy

PRIOR = UNCALIBRATED
STRENGTH = 30.0  # photos that the prior is worth
ABOVE = 0.2  # the share of unseen photos that are of classes above seen ones
NEARER = 0.5  # how far the response to photos of hidden classes is moved to that of the others
FAVOURS = np.arange(0, 6.01, 0.1)  # log-odds given to seen classes so that they keep their accuracy


@dataclass(frozen=True)
class Sample:
    """Photos of seen classes, scored by a method that some of these classes were hidden from."""

    taxonomy: Taxonomy
    seen: np.ndarray  # rows of the M classes that were kept
    unseen: np.ndarray  # rows of the U other candidates, hidden ones among them
    logits: np.ndarray  # n x M, the network's
    scores: np.ndarray  # n x U, the method's
    truth: np.ndarray  # rows of the n photos' classes
    seen_scores: np.ndarray  # n x M, the method's of the kept classes

    @cached_property
    def sums(self) -> NodeSums:
        return NodeSums(self.taxonomy, np.concatenate([self.seen, self.unseen]))

    @cached_property
    def climb(self) -> tuple[Tensor, Tensor]:
        above, way = way_up(self.taxonomy, self.seen, self.unseen)
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
        """For each row of the taxonomy its column among seen, then unseen candidates; -1 for others."""
        found = np.full(len(self.taxonomy), -1)
        found[self.sums.rows] = np.arange(len(self.sums.rows))
        return found

    @cached_property
    def odds(self) -> np.ndarray:
        """n: as `numbers.method_odds` has it."""
        return method_odds(torch.from_numpy(self.seen_scores), torch.from_numpy(self.scores)).numpy()

    def probabilities(self, numbers: ProbabilityNumbers, photos: np.ndarray | slice = slice(None)) -> np.ndarray:
        """n x (M + U) for some of the photos, with the gate read from `response`."""
        arrays = (self.logits, self.seen_scores, self.scores)
        logits, seen_scores, scores = (torch.from_numpy(array[photos]) for array in arrays)
        half = replace(numbers, gate_slope=0.0, gate_lean=0.0, gate_offset=0.0)  # each group sums to 1/2
        parts = half.log_probabilities(logits, seen_scores, scores, torch.arange(len(self.seen)), self.climb)
        seen, unseen = (2 * part.exp().numpy() for part in parts)
        gate = self.gate(numbers)[photos, None].astype(np.float32)
        return np.concatenate([gate * seen, (1 - gate) * unseen], axis=1)

    def gate(self, numbers: ProbabilityNumbers) -> np.ndarray:
        return sigmoid(numbers.gate(torch.from_numpy(self.response), torch.from_numpy(self.odds)).numpy())


@dataclass(frozen=True)
class Drawn:
    """A sample with some photos renamed to a class above: groups weigh 1 each."""

    sample: Sample
    truth: np.ndarray  # rows
    is_seen: np.ndarray  # photos that count as those of seen classes
    weight: np.ndarray

    @classmethod
    def from_sample(cls, sample: Sample, random: np.random.Generator) -> Drawn:
        above, way = (part.numpy() for part in way_up_from_all(sample))
        kept, truth = sample.is_kept, sample.truth.copy()
        renamed = np.zeros(len(kept), bool)
        place = {row: at for at, row in enumerate(np.concatenate([sample.seen, sample.unseen]).tolist())}
        for photo in np.flatnonzero(random.random(len(kept)) < ABOVE):
            shares = way[place[int(truth[photo])]]
            if shares.any():
                truth[photo], renamed[photo] = sample.unseen[random.choice(above, p=shares / shares.sum())], True
        is_seen, weight = kept & ~renamed, np.zeros(len(kept))
        parts = (
            (is_seen, 1.0),
            (~kept & ~renamed, 1 - ABOVE),
            (kept & renamed, ABOVE / 2),
            (~kept & renamed, ABOVE / 2),
        )
        for part, share in parts:
            weight[part] = share / max(part.sum(), 1)
        weight[~is_seen] /= max(weight[~is_seen].sum(), 1e-9)
        return cls(sample, truth, is_seen, weight)


def way_up_from_all(sample: Sample) -> tuple[Tensor, Tensor]:
    """The ways from every candidate, seen or not, to the unseen ones above it."""
    rows = np.concatenate([sample.seen, sample.unseen])
    photographed = np.isin(rows, sample.truth)
    above, way = way_up(sample.taxonomy, rows[photographed], sample.unseen)
    full = np.zeros((len(rows), len(above)), np.float32)
    full[photographed] = way * (sample.unseen[above][None] != rows[photographed][:, None])  # not to itself
    return torch.from_numpy(above), torch.from_numpy(full)


def fit_numbers(samples: Sequence[Sample], whole: Sample, harm: float, seed: int = 0) -> ProbabilityNumbers:
    """The numbers for photos of classes of which some were hidden, each time others.

    `whole`: the same photos with nothing hidden; on them seen classes lose at most `harm` points of accuracy.
    """
    random = np.random.default_rng(seed)
    drawn = [Drawn.from_sample(sample, random) for sample in samples]
    photos = max(len(sample.truth) for sample in samples)  # each counts once, however often it was scored
    numbers = replace(PRIOR, seen_sharpness=_seen_sharpness(samples))
    numbers = _fit_gate(numbers, drawn)
    numbers = _fit_unseen(numbers, drawn)
    numbers = replace(numbers, gate_offset=numbers.gate_offset + _favour(numbers, whole, harm))
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
        own = logits[np.arange(len(logits)), sample.columns[sample.truth[kept]]]
        loss += [(np.logaddexp.reduce(a * logits, axis=1) - a * own).sum() / len(samples) for a in grid]
    return float(grid[loss.argmin()])


def _fit_gate(numbers: ProbabilityNumbers, drawn: Sequence[Drawn]) -> ProbabilityNumbers:
    """Ridge logistic regression of "seen" on the response, both groups alike.

    How much it heeds the method's odds stays at its prior: hidden classes, which are all leaves, would have it too low.
    """
    response = np.concatenate([draw.sample.response for draw in drawn])
    known = PRIOR.gate_lean * np.concatenate([draw.sample.odds for draw in drawn])
    is_seen = np.concatenate([draw.is_seen for draw in drawn])
    weight = np.concatenate([draw.weight for draw in drawn])
    weight *= len(weight) / weight.sum()
    centre, spread = float(np.average(response, weights=weight)), float(max(response.std(), 1e-6))
    x = np.stack([(response - centre) / spread, np.ones(len(response))], axis=1)
    prior = np.array([PRIOR.gate_slope, PRIOR.gate_offset])
    found = prior.copy()
    for _ in range(20):  # Newton's
        p = sigmoid(x @ found + known)
        curvature = (x * (weight * p * (1 - p))[:, None]).T @ x + STRENGTH / 10 * np.eye(2)
        slope = x.T @ (weight * (p - is_seen)) + STRENGTH / 10 * (found - prior)
        found = found - np.linalg.solve(curvature, slope)
    return replace(numbers, gate_slope=float(found[0] / spread), gate_centre=centre, gate_offset=float(found[1]))


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
    sums, found = draw.sample.sums, []
    for at, photo in enumerate(photos):
        nodes = sums.membership[draw.sample.columns[draw.truth[photo]]].indices
        nodes = nodes[np.argsort(sums.information[nodes], kind="stable")]
        gain = np.diff(sums.information[nodes], prepend=0.0)
        found.append((np.full(len(nodes), at), nodes, draw.weight[photo] * gain / max(gain.sum(), 1e-9)))
    photo, node, weight = (np.concatenate(part) for part in zip(*found, strict=True))
    return photo, node, weight


def _favour(numbers: ProbabilityNumbers, whole: Sample, harm: float) -> float:
    """The least log-odds for seen classes with which they lose no more than `harm` points of accuracy."""
    p = whole.probabilities(numbers)
    border = len(whole.seen)
    lead = np.log(p[:, :border].max(axis=1) + 1e-30) - np.log(p[:, border:].max(axis=1, initial=0) + 1e-30)
    right = whole.seen[whole.logits.argmax(axis=1)] == whole.truth
    for favour in FAVOURS:
        if 100 * (right & (lead + favour <= 0)).mean() <= harm:
            return float(favour)
    return float(FAVOURS[-1])


def _fit_exponents(numbers: ProbabilityNumbers, drawn: Sequence[Drawn], photos: int) -> ProbabilityNumbers:
    """For each sureness the exponent with which the mean of both groups' `right` is the sureness."""
    levels = np.geomspace(0.1, 200, 40)
    rate = np.zeros((len(levels), 2))
    weight, is_seen = (np.concatenate(part) for part in zip(*((d.weight, d.is_seen) for d in drawn), strict=True))
    judges = [_judge(numbers, draw) for draw in drawn]
    for at, level in enumerate(levels):
        right = weight * np.concatenate([judge(level) for judge in judges])
        rate[at] = [right[group].sum() / max(weight[group].sum(), 1e-9) for group in (is_seen, ~is_seen)]
    found = np.interp(SURE, np.maximum.accumulate(rate.mean(axis=1)), np.log(levels))
    share = photos / (photos + STRENGTH)
    exponents = np.exp(share * found + (1 - share) * np.log(PRIOR.exponents))
    return replace(numbers, exponents=np.maximum.accumulate(exponents).round(4).tolist())


def _judge(numbers: ProbabilityNumbers, draw: Drawn) -> Callable[[float], np.ndarray]:
    """Exponent -> whether each photo's verdict is right."""
    sums, columns = draw.sample.sums, draw.sample.columns[draw.truth]
    contest = Contest(sums, sums(draw.sample.probabilities(numbers)))
    return lambda exponent: is_right(sums, contest.winners(exponent), columns)


def is_right(sums: NodeSums, nodes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """n, bool: whether each photo's verdict is its class or above it; "unknown" is right."""
    return (nodes < 0) | (np.asarray(sums.membership[columns, np.maximum(nodes, 0)]).ravel() > 0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -40, 40)))
