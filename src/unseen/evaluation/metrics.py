"""Hit@k, averaged over photos and over classes; the harmonic mean; the area under the seen-unseen curve. NumPy only.

A photo's rank is given by two counts over the candidates: how many score *greater* than the true class, and how many
others score *equal*. What a tie is worth is the tie mode's to say, and results name their mode:

    realistic      the expected value over a random order of the tied classes (default): a hit may be a fraction
    optimistic     ties are resolved for the model
    pessimistic    ties are resolved against the model, as in the code of the paper's authors (`>=`)

Accuracies are per cent, areas within 0..1.

How far from right: figures that know the hierarchy, for labels and for verdicts. All are functions of a table.

precision@k   of the first k labels, the share among the k candidates nearest to the true class in the hierarchy, ties
              at the last distance included (hierarchical precision; Frome et al. 2013)
severity      where the first label is wrong: the height of the lowest node above both it and the true class, mean
              over such photos (mistake severity; Bertinetto et al. 2020)
f1            of the nodes that a verdict claims (itself and all above it) and those that are true of the photo (its
              class and all above it), summed over photos; nodes that hold every candidate say nothing and do not count
told          photos with a verdict
right         of these verdicts, those whose spoken name is true of the photo's class: a node that is called so is that
              class or above it
stated        the mean of the probabilities that these verdicts state
information   log2(C / c(v)) of the verdicts, mean; 0 where nothing is claimed
area          under the curve of photos without a wrong verdict over information / log2(C), as the confidence asked for
              goes from little to almost 1 (Deng et al. 2012, Goren et al. 2024); more specific than any verdict counts
              as never right
relation      Hit@k by how unseen classes relate to the seen ones: above, below, sibling or further
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unseen.answers.words import words_of
from unseen.evaluation.table import BINS, FIRST, SWEEP, RanksTable
from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError

KS = (1, 2, 5, 10, 20)
DIGITS = 4  # of a per cent: figures are rounded once, where they are shown
TIES = ("realistic", "optimistic", "pessimistic")


def hits(greater: np.ndarray, equal: np.ndarray, k: int, ties: str = "realistic") -> np.ndarray:
    """What each photo adds to Hit@k: float64 (n), within 0..1.

    The true class ranks 1 + greater if it wins all ties and 1 + greater + equal if it loses them. Over a random order
    each of these equal + 1 ranks is as likely, so that it is among the first k with probability
    (k - greater) / (equal + 1), clipped to 0..1.
    """
    greater, equal = np.asarray(greater, np.int64), np.asarray(equal, np.int64)
    if ties == "realistic":
        return np.clip((k - greater) / (equal + 1), 0.0, 1.0)
    if ties not in TIES:
        raise UnseenError(f"Ties are counted {', '.join(TIES)}; there is no mode {ties!r}.")
    return (greater + (equal if ties == "pessimistic" else 0) < k).astype(np.float64)


def harmonic_mean(seen: float | None, unseen: float | None) -> float | None:
    """2 s u / (s + u); 0 if either is 0, None if either is missing."""
    if seen is None or unseen is None:
        return None
    return 2 * seen * unseen / (seen + unseen) if seen + unseen else 0.0


def ranking_area(
    high: np.ndarray, low: np.ndarray, high_weights: np.ndarray | None = None, low_weights: np.ndarray | None = None
) -> float:
    """The area under the curve of a moving threshold: sum of w_i v_j [high_i > low_j], equal pairs counting half.

    Without weights it is the share of pairs in the right order (AUROC). Exact, in O(n log n).
    """
    high, low = np.asarray(high), np.asarray(low)
    high_weights = np.full(len(high), 1 / max(len(high), 1)) if high_weights is None else high_weights
    low_weights = np.full(len(low), 1 / max(len(low), 1)) if low_weights is None else low_weights
    order = np.argsort(low, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(low_weights, np.float64)[order])])
    below, up_to = (sums[np.searchsorted(low[order], high, side)] for side in ("left", "right"))
    return float(np.sum(high_weights * (below + up_to) / 2))


def network_confidence(known: np.ndarray, features: np.ndarray) -> np.ndarray:
    """n: the largest probability, max_c softmax(W f + b)_c, under the known classifiers [W, b] (M x (D + 1))."""
    logits = features @ known[:, :-1].T + known[:, -1]
    return 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1)


def class_hits(
    classes: np.ndarray, greater: np.ndarray, equal: np.ndarray, ks: Sequence[int] = KS, ties: str = "realistic"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of photos (n): the C classes that they show, how many photos each has (C), and its hits (C x K, sums).

    >>> labels, photos, sums = class_hits([0, 1, 1, 1, 1], [0, 1, 9, 9, 9], [0, 1, 0, 0, 0], ks=(1, 2))
    >>> photos.tolist(), sums.tolist()
    ([1, 4], [[1.0, 1.0], [0.0, 0.5]])
    """
    if not ks or min(ks) < 1:
        raise UnseenError(f"Hit@k needs k of 1 or more, not {list(ks)}.")
    labels, place, photos = np.unique(classes, return_inverse=True, return_counts=True)
    sums = [np.bincount(place, hits(greater, equal, k, ties), len(labels)) for k in ks]
    return labels, photos, np.stack(sums, axis=1)


def average_hits(photos: np.ndarray, sums: np.ndarray, ks: Sequence[int]) -> dict[str, dict[str, float]]:
    """Hit@k in per cent, rounded, averaged over photos ("image") and over the classes that have photos ("class")."""
    shares = {"image": sums.sum(axis=0) / photos.sum(), "class": (sums / photos[:, None]).mean(axis=0)}
    return {
        name: {f"hit@{k}": _percent(hit) for k, hit in zip(ks, share, strict=True)} for name, share in shares.items()
    }


def _percent(share: float) -> float:
    return round(100 * float(share), DIGITS)


@dataclass(frozen=True)
class Balance:
    """Accuracy (Hit@1, per cent) on seen and on unseen classes, with `shift` taken off all seen classes' scores."""

    shift: float
    seen: float
    unseen: float

    @property
    def harmonic(self) -> float:
        return harmonic_mean(self.seen, self.unseen) or 0.0


class SeenUnseenCurve:
    r"""Accuracy on seen against accuracy on unseen classes, over every possible shift g of the seen classes' scores.

    A photo's margin is m = (best seen score) - (best unseen score). With a shift of g, a photo of a seen class is right
    when it is right among the seen classes and m > g; one of an unseen class when it is right among the unseen ones
    and m < g. So the curve's area follows from the margins alone, without a grid of shifts:

    .. math::  AUSUC = \sum_{i \in seen} \sum_{j \in unseen} w_i w_j ([m_i > m_j] + [m_i = m_j] / 2),

    w being the photo's share in its group's accuracy (`average` "image": 1 / photos; "class": 1 / (classes x photos of
    the class)) times the probability that it is right within its own group.

    Args: `is_seen` (C) of each class; for each of n photos its class (`labels`), margin, and how probably it is `right`
    within its own group.
    """

    def __init__(self, is_seen: np.ndarray, labels: np.ndarray, margins: np.ndarray, right: np.ndarray):
        self.is_seen, labels, right = np.asarray(is_seen, bool), np.asarray(labels, np.int64), np.asarray(right)
        self.photos = np.bincount(labels, minlength=len(self.is_seen))
        chance = right > 0
        labels, margins, right = labels[chance], np.asarray(margins, np.float32)[chance], right[chance]
        order = np.lexsort((right, labels, margins))  # sums do not depend on the order in which photos came
        self._kept = labels[order], margins[order], right[order]

    def area(self, average: str = "class") -> float | None:
        """AUSUC, within 0..1; None if there are no seen or no unseen photos."""
        if not (self.photos[self.is_seen].any() and self.photos[~self.is_seen].any()):
            return None
        seen, margins, weights = self._weighted(average)
        return ranking_area(margins[seen], margins[~seen], weights[seen], weights[~seen])

    def at(self, shift: float, average: str = "class") -> Balance:
        """The point of the curve at one shift; a photo whose margin is just the shift counts half."""
        seen, margins, weights = self._weighted(average)
        beyond = (margins > shift) + (margins == shift) / 2
        right = 100 * weights * np.where(seen, beyond, 1 - beyond)
        return Balance(shift, float(right[seen].sum()), float(right[~seen].sum()))

    def curve(self, average: str = "class") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(shifts, seen, unseen accuracies in per cent), a point for every step, shifts ascending."""
        seen, margins, weights = self._weighted(average)
        finite = np.isfinite(margins)  # a margin is infinite where a group has no answer: no shift changes that
        steps, step = np.unique(margins[finite], return_inverse=True)
        between = (steps[1:] + steps[:-1]) / 2
        shifts = np.concatenate([[steps[0] - 1], between, [steps[-1] + 1]]) if len(steps) else np.zeros(1)
        lost, won = (np.bincount(step, (weights * group)[finite], len(steps)) for group in (seen, ~seen))
        always_seen, always_unseen = (weights[~finite & group].sum() for group in (seen, ~seen))
        seen_share = always_seen + np.concatenate([np.cumsum(lost[::-1])[::-1], [0.0]])
        unseen_share = always_unseen + np.concatenate([[0.0], np.cumsum(won)])
        return shifts, 100 * seen_share, 100 * unseen_share

    def best(self, average: str = "class") -> Balance:
        """The shift with the greatest harmonic mean of both accuracies; of equal ones that nearest to 0."""
        shifts, seen, unseen = self.curve(average)
        harmonic = 2 * seen * unseen / np.maximum(seen + unseen, np.finfo(float).tiny)
        best = np.flatnonzero(harmonic == harmonic.max())
        at = best[np.argmin(np.abs(shifts[best]))]
        none = self.at(0.0, average)
        if none.harmonic >= harmonic[at] - 1e-9:  # the same sums, in another order
            return none
        return Balance(float(shifts[at]), float(seen[at]), float(unseen[at]))

    def _weighted(self, average: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(of a seen class?, margin, weight) of every photo that is kept."""
        if average not in ("image", "class"):
            raise UnseenError(f"An average is over each 'image' or each 'class', not {average!r}.")
        labels, margins, right = self._kept
        share = np.zeros(len(self.photos))
        for group in (self.is_seen, ~self.is_seen):
            photos = self.photos[group]
            by_class = 1 / np.maximum(photos, 1) / max((photos > 0).sum(), 1)
            share[group] = by_class if average == "class" else 1 / max(photos.sum(), 1)
        return self.is_seen[labels], margins.astype(np.float64), right * share[labels]


def hit_figures(table: RanksTable, ks: Sequence[int] = KS, ties: str = "realistic") -> dict[str, Any]:
    """Hit@k over photos ("image") and over classes ("class"), rounded; and the row of each class."""
    labels, photos, sums = class_hits(table["class"], table["greater"], table["equal"], ks, ties)
    rows = [
        {"id": table.hierarchy.ids[label], "photos": int(count)}
        | {f"hit@{k}": 100 * float(hit / count) for k, hit in zip(ks, class_sums, strict=True)}
        for label, count, class_sums in zip(labels, photos, sums, strict=True)
    ]
    return average_hits(photos, sums, ks) | {"per_class": rows}


def balance_curve(table: RanksTable, ties: str = "realistic") -> SeenUnseenCurve | None:
    """The curve over every shift, where seen and unseen classes compete."""
    competing = table.is_seen[table.candidates]
    if not competing.any() or competing.all():
        return None
    right = hits(table["own_greater"], table["own_equal"], 1, ties)
    return SeenUnseenCurve(table.is_seen, table["class"], table["margin"], right)


def generalised_figures(
    table: RanksTable, curve: SeenUnseenCurve | None, ties: str = "realistic"
) -> dict[str, Any] | None:
    """Seen and unseen accuracy, their harmonic mean and the area under the curve over all shifts, both averages.

    The accuracies are Hit@1 of each group: a photo for which seen and unseen classes tie counts as it does in Hit@k. On
    the curve, where only margins are known, it counts half.
    """
    if curve is None or curve.area() is None:
        return None
    labels, photos, sums = class_hits(table["class"], table["greater"], table["equal"], (1,), ties)
    shares, seen = 100 * (sums[:, 0] / photos), table.is_seen[labels]
    result = {}
    for average, weights in (("image", photos), ("class", np.ones(len(photos)))):
        on_seen, on_unseen = (float(np.average(shares[of], weights=weights[of])) for of in (seen, ~seen))
        best = curve.best(average)
        result[average] = {
            "seen": round(on_seen, DIGITS),
            "unseen": round(on_unseen, DIGITS),
            "harmonic": round(harmonic_mean(on_seen, on_unseen) or 0.0, DIGITS),
            "ausuc": round(curve.area(average) or 0.0, 4),
            "best_shift_in_hindsight": best.shift,  # scores have no fixed scale: not rounded
            "best_harmonic_in_hindsight": round(best.harmonic, DIGITS),
        }
    return result


class Relations:
    """What the hierarchical figures ask of a hierarchy, over C candidate classes. Nodes are rows of the hierarchy."""

    def __init__(self, hierarchy: Hierarchy, candidates: np.ndarray):
        self.hierarchy, self._size = hierarchy, len(hierarchy)
        node, ancestor, _ = hierarchy.ancestor_pairs()  # each node is among its ancestors
        self._pairs = np.sort(node.astype(np.int64) * self._size + ancestor)
        self.is_candidate = np.zeros(self._size, bool)
        self.is_candidate[candidates] = True
        self.words = words_of(hierarchy)
        node, named = self.words.pairs
        below = np.bincount(named[self.is_candidate[node]], minlength=self._size)  # c(v)
        self.says_something = below < len(candidates)
        self.information = np.log2(len(candidates) / np.maximum(below, 1))

    def ancestors(self, row: int) -> np.ndarray:
        """Rows of the node itself and all above it, ascending."""
        first, last = np.searchsorted(self._pairs, [row * self._size, (row + 1) * self._size])
        return self._pairs[first:last] - row * self._size

    def claims(self, row: int) -> np.ndarray:
        """What naming a node claims: itself and all above it, without what holds for every candidate."""
        rows = self.ancestors(row)
        return rows[self.says_something[rows]]

    @cached_property
    def heights(self) -> np.ndarray:
        """N: the longest way down from each node to a leaf."""
        child, parent = self.hierarchy.edges()
        height, higher = np.full(self._size, -1), np.zeros(self._size, np.int64)
        while not np.array_equal(higher, height):
            height = higher.copy()
            np.maximum.at(higher, parent, height[child] + 1)
        return height

    def severity(self, label: int, truth: int) -> int | None:
        """The height of the lowest node above both; None where there is no such node."""
        common = np.intersect1d(self.ancestors(label), self.ancestors(truth), assume_unique=True)
        return min(self.heights[common].tolist(), default=None)

    @cached_property
    def _neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        child, parent = self.hierarchy.edges()
        ends, starts = np.concatenate([child, parent]), np.concatenate([parent, child])
        order = np.argsort(starts, kind="stable")
        return ends[order], np.searchsorted(starts[order], np.arange(self._size + 1))

    def nearest(self, truth: int, k: int) -> set[int]:
        """The k candidates nearest to a class over edges either way, itself first; and all that tie for the last."""
        ends, first = self._neighbours
        reached, frontier, nearest = {truth}, [truth], set()
        while frontier and len(nearest) < k:
            nearest |= {row for row in frontier if self.is_candidate[row]}
            around = {int(near) for row in frontier for near in ends[first[row] : first[row + 1]]}
            frontier = list(around - reached)
            reached |= around
        return nearest


def reliability_bins(
    relations: Relations, nodes: np.ndarray, masses: np.ndarray, truth: np.ndarray, floor: float
) -> dict[str, np.ndarray]:
    """Of nodes (V) with probabilities `masses` (n x V) for photos of `truth` (n): how many nodes that say something
    are in each bin of probability, how many of these are true, and their probabilities' sum; n x BINS each."""
    photo, column = np.nonzero((masses >= floor) & relations.says_something[nodes])
    probability = masses[photo, column]
    place = photo * BINS + np.minimum((probability * BINS).astype(int), BINS - 1)
    true = relations.words.are_true(nodes[column], truth[photo])
    weights = {"nodes": np.ones(len(place)), "true": true, "mass": probability.astype(np.float64)}
    return {name: np.bincount(place, values, len(masses) * BINS).reshape(-1, BINS) for name, values in weights.items()}


def verdict_figures(
    relations: Relations, table: RanksTable, nodes: np.ndarray, probabilities: np.ndarray
) -> dict[str, float | None]:
    """Of verdicts (n nodes, -1 for "unknown") and what they state: told, right and stated in per cent, and the mean
    information in bits; None where there is no verdict."""
    known = nodes >= 0
    right = relations.words.are_true(nodes, table["class"])[known]
    return {
        "told": _percent(float(np.mean(known))),
        "right": _percent(float(np.mean(right))) if known.any() else None,
        "stated": _percent(float(np.mean(probabilities[known].astype(np.float64)))) if known.any() else None,
        "information": round(float(relations.information[nodes[known]].sum()) / len(nodes), 3),
    }


def curve_figures(relations: Relations, table: RanksTable) -> list[dict[str, float | None]]:
    """What verdicts of each confidence of SWEEP are worth."""
    return [
        {"confidence": c, **verdict_figures(relations, table, table["curve"][:, i], table["stated"][:, i])}
        for i, c in enumerate(SWEEP)
    ]


RELATIONS = ("above", "below", "sibling", "further")


def relations_to_seen(hierarchy: Hierarchy, seen: np.ndarray) -> np.ndarray:
    """N, text: how each node relates to the seen classes (rows): the first of "seen", "above" one, "below" one,
    "sibling" of one (a parent in common) and "further" that is true.

    >>> hierarchy = Hierarchy.from_edges([("cat", "pet"), ("dog", "pet"), ("pug", "dog"), ("oak", "tree")])
    >>> dict(zip(hierarchy.ids, relations_to_seen(hierarchy, hierarchy.indices(["dog"])).tolist()))
    {'cat': 'sibling', 'pet': 'above', 'dog': 'seen', 'pug': 'below', 'oak': 'further', 'tree': 'further'}
    """
    is_seen, parent_of_seen = np.zeros((2, len(hierarchy)), bool)
    is_seen[seen] = True
    node, ancestor, _ = hierarchy.ancestor_pairs()
    child, parent = hierarchy.edges()
    parent_of_seen[parent[is_seen[child]]] = True
    relation = np.full(len(hierarchy), "further", "<U7")
    relation[child[parent_of_seen[parent]]] = "sibling"
    relation[node[is_seen[ancestor]]] = "below"
    relation[ancestor[is_seen[node]]] = "above"
    relation[seen] = "seen"
    return relation


def relation_figures(table: RanksTable, ties: str = "realistic") -> dict[str, dict[str, float]]:
    """Hit@1 and Hit@5 in per cent over photos of unseen classes, by relation; relations without a class left out."""
    relation = relations_to_seen(table.hierarchy, np.flatnonzero(table.is_seen))[table["class"]]
    figures = {}
    for name in RELATIONS:
        of = relation == name
        if of.any():
            labels, photos, sums = class_hits(
                table["class"][of], table["greater"][of], table["equal"][of], (1, 5), ties
            )
            figures[name] = {"classes": len(labels), **average_hits(photos, sums, (1, 5))["image"]}
    return figures


def hierarchical_figures(relations: Relations, table: RanksTable) -> dict[str, float | None]:
    """precision@k and f1 in per cent, severity in steps, area within 0..1; None where there is nothing to count."""
    truth, best, k = table["class"], table["best"], FIRST
    near, order = 0, np.argsort(truth, kind="stable")
    for photos in np.split(order, np.flatnonzero(np.diff(truth[order])) + 1):  # class by class
        near += int(np.isin(best[photos], list(relations.nearest(int(truth[photos[0]]), k))).sum())
    wrong = (best[:, 0] >= 0) & (best[:, 0] != truth)
    pairs = [(relations.severity(label, true), count) for label, true, count in _pairs(best[wrong, 0], truth[wrong])]
    severities = [(severity, count) for severity, count in pairs if severity is not None]
    mistakes = sum(count for _, count in severities)
    both = claimed = 0
    for node, true, count in _pairs(table["verdict"], truth):
        claims, known = relations.claims(node) if node >= 0 else np.zeros(0, int), relations.claims(true)
        claimed += count * (len(claims) + len(known))
        both += count * len(np.intersect1d(claims, known, assume_unique=True))
    return {
        f"precision@{k}": round(100 * near / k / len(table), 2),
        "f1": round(200 * both / claimed, 2) if claimed else None,
        "severity": round(sum(s * count for s, count in severities) / mistakes, 3) if mistakes else None,
        "area": round(curve_area(curve_figures(relations, table), len(table.candidates)), 4),
    }


def curve_area(points: Sequence[Mapping[str, Any]], candidates: int) -> float:
    """Each step of the curve by its mean; from nothing claimed, which is always right."""
    most = math.log2(max(candidates, 2))
    places = sorted({(0.0, 1.0), *((p["information"] / most, not_wrong(p) / 100) for p in points)})
    specific, right = np.array(places).T
    return float(np.sum(np.diff(specific) * (right[1:] + right[:-1]) / 2))


def not_wrong(figures: Mapping[str, Any]) -> float:
    """Per cent of photos whose verdict is right or "unknown"."""
    return 100 - figures["told"] * (100 - (figures["right"] or 0)) / 100


def reliability_figures(table: RanksTable) -> list[dict[str, Any]]:
    """Nodes by probability: how probable they are on average, and how often true."""
    rows = []
    sums = zip(*(table[name].sum(axis=0) for name in ("nodes", "true", "mass")), strict=True)
    for i, (nodes, true, mass) in enumerate(sums):
        if nodes:
            means = {"probability": round(float(mass / nodes), 4), "true": round(float(true / nodes), 4)}
            rows.append({"from": i / BINS, "to": (i + 1) / BINS, "nodes": int(nodes), **means})
    return rows


def _pairs(nodes: np.ndarray, truth: np.ndarray) -> list[list[int]]:
    """Different pairs of (node, true class), and how many photos have each."""
    pairs, counts = np.unique(np.stack([nodes, truth], axis=1), axis=0, return_counts=True)
    return np.column_stack([pairs, counts]).tolist()
