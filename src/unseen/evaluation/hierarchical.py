"""How far from right: figures that know the hierarchy, for labels and for verdicts.

precision@k   of the first k labels, the share among the k candidates nearest to the true class in the hierarchy, ties
              at the last distance included (hierarchical precision; Frome et al. 2013)
severity      where the first label is wrong: the height of the lowest node above both it and the true class, mean
              over such photos (mistake severity; Bertinetto et al. 2020)
f1            of the nodes that a verdict claims (itself and all above it) and those that are true of the photo (its
              class and all above it), summed over photos; nodes that hold every candidate say nothing and do not count
right         verdicts that are the photo's class or above it, and those that claim nothing
information   log2(C / c(v)) of the verdicts, mean; 0 where nothing is claimed
area          under the curve of right over information / log2(C), as the sureness asked for goes from little to almost
              1 (Deng et al. 2012, Goren et al. 2024); more specific than any verdict counts as never right
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from unseen.evaluation.metrics import UNIT
from unseen.probability.sums import NodeSums
from unseen.probability.verdicts import Contest
from unseen.recognition.judging import Judge, Judgement
from unseen.taxonomy import Taxonomy

FIRST = 5  # labels
SWEEP = (
    0.01,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.75,
    0.8,
    0.85,
    0.9,
    0.93,
    0.95,
    0.97,
    0.98,
    0.99,
    0.995,
    0.999,
)
"""The surenesses of the curve."""
BINS = 10  # of the reliability diagram


class Relations:
    """What the hierarchical figures ask of a hierarchy, over some candidate classes (rows of the taxonomy)."""

    def __init__(self, taxonomy: Taxonomy, candidates: np.ndarray):
        node, ancestor, _ = taxonomy.ancestor_pairs()
        order = np.argsort(node, kind="stable")
        self._ancestors, self._pointer = ancestor[order], np.searchsorted(node[order], np.arange(len(taxonomy) + 1))
        self.heights = heights(taxonomy)
        self.is_candidate = np.zeros(len(taxonomy), bool)
        self.is_candidate[candidates] = True
        below = np.bincount(ancestor[self.is_candidate[node]], minlength=len(taxonomy))
        self.says_something = below < len(candidates)
        child, parent = taxonomy.edges()
        ends, starts = np.concatenate([child, parent]), np.concatenate([parent, child])
        order = np.argsort(starts, kind="stable")
        self._near, self._edge = ends[order], np.searchsorted(starts[order], np.arange(len(taxonomy) + 1))
        self._nearest: dict[tuple[int, int], frozenset[int]] = {}

    def ancestors(self, row: int) -> np.ndarray:
        """Rows of the node itself and all above it, in no order."""
        return self._ancestors[self._pointer[row] : self._pointer[row + 1]]

    def severity(self, label: int, truth: int) -> int | None:
        """The height of the lowest node above both; None where there is no such node."""
        common = np.intersect1d(self.ancestors(label), self.ancestors(truth), assume_unique=True)
        return int(self.heights[common].min()) if len(common) else None

    def nearest(self, truth: int, k: int) -> frozenset[int]:
        """The k candidates nearest to a class over edges either way, itself first; and all that tie for the last."""
        if (truth, k) not in self._nearest:
            reached, frontier, found = {truth}, [truth], []
            while frontier and len(found) < k:
                found += [row for row in frontier if self.is_candidate[row]]
                around = {int(near) for row in frontier for near in self._near[self._edge[row] : self._edge[row + 1]]}
                frontier = list(around - reached)
                reached |= around
            self._nearest[truth, k] = frozenset(found)
        return self._nearest[truth, k]

    def is_above(self, node: int, truth: int) -> bool:
        """Whether `node` is `truth` or above it."""
        return bool((self.ancestors(truth) == node).any())

    def claims(self, row: int) -> np.ndarray:
        """What naming a node claims: itself and all above it, without what holds for every candidate."""
        rows = self.ancestors(row)
        return rows[self.says_something[rows]]


def heights(taxonomy: Taxonomy) -> np.ndarray:
    """N: the longest way down from each node to a leaf."""
    child, parent = taxonomy.edges()
    height = np.zeros(len(taxonomy), np.int64)
    while True:
        higher = height.copy()
        np.maximum.at(higher, parent, height[child] + 1)
        if np.array_equal(higher, height):
            return height
        height = higher


class VerdictCounter:
    """Adds up right and information of verdicts."""

    def __init__(self) -> None:
        self.photos = self.right = self.unknown = 0
        self._bits = 0  # in whole units, as hits are summed

    def update(self, relations: Relations, sums: NodeSums, nodes: np.ndarray, truth: np.ndarray) -> None:
        """`nodes`: places among `sums.nodes`, -1 for "unknown"; `truth`: rows of the photos' classes."""
        for node, true in zip(nodes.tolist(), truth.tolist(), strict=True):
            self.right += node < 0 or relations.is_above(int(sums.nodes[node]), true)
        self.photos += len(nodes)
        self.unknown += int((nodes < 0).sum())
        self._bits += int(np.rint(sums.information[nodes[nodes >= 0]] * UNIT).astype(np.int64).sum())

    def state(self) -> tuple[int, int, int, int]:
        return self.photos, self.right, self.unknown, self._bits

    def merge(self, state: tuple[int, int, int, int]) -> None:
        photos, right, unknown, bits = state
        self.photos, self.right, self.unknown = self.photos + photos, self.right + right, self.unknown + unknown
        self._bits += bits

    @property
    def information(self) -> float:
        """In bits, over all photos."""
        return self._bits / UNIT

    def figures(self) -> dict[str, float]:
        """Per cent right and unknown, and the mean information in bits."""
        n = max(self.photos, 1)
        return {
            "right": round(100 * self.right / n, 2),
            "information": round(self.information / n, 3),
            "unknown": round(100 * self.unknown / n, 2),
        }


class HierarchicalCounter:
    """All figures of this module over any number of photos, for verdicts of one sureness."""

    def __init__(self, judge: Judge, sure: float, k: int = FIRST):
        self.relations, self.sums = Relations(judge.bundle.taxonomy, judge.rows), judge.sums
        self.numbers = judge.numbers
        self.sure, self.k = sure, k
        self.verdicts, self.curve = VerdictCounter(), [VerdictCounter() for _ in SWEEP]
        self.photos = self.mistakes = 0
        self._near = self._severity = 0
        self._both = self._claimed = self._true = 0
        self._reliability = np.zeros((3, BINS), np.int64)  # nodes, their probabilities in units, how many are true

    def update(self, found: Judgement, labels: np.ndarray, truth: np.ndarray) -> None:
        """Photos with their first k labels (rows, n x k) and classes (rows, n)."""
        contest = Contest(self.sums, found.masses)
        nodes = contest.winners(self.numbers.exponent(self.sure))
        self.verdicts.update(self.relations, self.sums, nodes, truth)
        for sure, counter in zip(SWEEP, self.curve, strict=True):
            chosen = contest.winners(self.numbers.exponent(sure))
            counter.update(self.relations, self.sums, chosen, truth)
        for first, node, true in zip(labels.tolist(), nodes.tolist(), truth.tolist(), strict=True):
            self._add_labels(true, first)
            self._add_claims(true, node)
        self._add_probabilities(contest, truth)

    def _add_labels(self, truth: int, labels: Sequence[int]) -> None:
        near = self.relations.nearest(truth, self.k)
        self.photos += 1
        self._near += sum(label in near for label in labels[: self.k])
        if len(labels) and labels[0] != truth:
            severity = self.relations.severity(labels[0], truth)
            if severity is not None:
                self.mistakes += 1
                self._severity += severity

    def _add_claims(self, truth: int, node: int) -> None:
        true = self.relations.claims(truth)
        self._true += len(true)
        if node >= 0:
            claimed = self.relations.claims(int(self.sums.nodes[node]))
            self._claimed += len(claimed)
            self._both += len(np.intersect1d(claimed, true, assume_unique=True))

    def _add_probabilities(self, contest: Contest, truth: np.ndarray) -> None:
        """Of the nodes that say something, how often those of a probability are true."""
        kept = self.relations.says_something[self.sums.nodes[contest.node]]
        photo, node, probability = contest.photo[kept], contest.node[kept], contest.probability[kept]
        bins = np.minimum((probability * BINS).astype(int), BINS - 1)
        above = [set(self.relations.ancestors(int(row)).tolist()) for row in truth]
        true = np.array([int(self.sums.nodes[v]) in above[i] for i, v in zip(photo, node, strict=True)], float)
        units = np.rint(probability.astype(np.float64) * UNIT)  # whole numbers: their sums are exact
        for sums, values in zip(self._reliability, (np.ones(len(bins)), units, true), strict=True):
            sums += np.bincount(bins, values, BINS).astype(np.int64)

    def state(self) -> dict[str, Any]:
        """What `merge` takes: whole numbers, whose sums depend on no order."""
        counts = self.photos, self.mistakes, self._near, self._severity, self._both, self._claimed, self._true
        verdicts = [counter.state() for counter in (self.verdicts, *self.curve)]
        return {"counts": np.array(counts, np.int64), "verdicts": verdicts, "reliability": self._reliability}

    def merge(self, state: dict[str, Any]) -> None:
        """Add the photos of another counter over the same candidates."""
        photos, mistakes, near, severity, both, claimed, true = state["counts"].tolist()
        self.photos, self.mistakes = self.photos + photos, self.mistakes + mistakes
        self._near, self._severity = self._near + near, self._severity + severity
        self._both, self._claimed, self._true = self._both + both, self._claimed + claimed, self._true + true
        self._reliability = self._reliability + state["reliability"]
        for counter, own in zip((self.verdicts, *self.curve), state["verdicts"], strict=True):
            counter.merge(own)

    def hierarchical(self) -> dict[str, float | None]:
        """precision@k and f1 in per cent, severity in steps, area within 0..1; None where there is nothing to count."""
        claimed = self._claimed + self._true
        return {
            f"precision@{self.k}": round(100 * self._near / self.k / self.photos, 2) if self.photos else None,
            "f1": round(200 * self._both / claimed, 2) if claimed else None,
            "severity": round(self._severity / self.mistakes, 3) if self.mistakes else None,
            "area": round(self.area(), 4),
        }

    def verdict(self) -> dict[str, float]:
        return {"sure": self.sure, **self.verdicts.figures(), "images": self.verdicts.photos}

    def points(self) -> list[dict[str, float]]:
        """The curve: what verdicts of each sureness of SWEEP are worth."""
        return [{"sure": sure, **counter.figures()} for sure, counter in zip(SWEEP, self.curve, strict=True)]

    def area(self) -> float:
        """Each step of the curve by its mean; from nothing claimed, which is always right."""
        most = math.log2(max(len(self.sums.candidates), 2))
        places = sorted({(0.0, 1.0), *((p["information"] / most, p["right"] / 100) for p in self.points())})
        specific, right = np.array(places).T
        return float(np.sum(np.diff(specific) * (right[1:] + right[:-1]) / 2))

    def reliability(self) -> list[dict[str, Any]]:
        """Nodes by probability: how probable they are on average, and how often true."""
        nodes, probability, true = self._reliability / np.array([[1], [UNIT], [1]])
        return [
            {
                "from": i / BINS,
                "to": (i + 1) / BINS,
                "nodes": int(nodes[i]),
                "probability": round(float(probability[i] / nodes[i]), 4),
                "true": round(float(true[i] / nodes[i]), 4),
            }
            for i in range(BINS)
            if nodes[i]
        ]
