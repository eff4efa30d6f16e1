"""Scores -> probabilities of classes, and of the nodes above them.

    p(c | x) =      g(x)  softmax over seen classes of  a * logit_c                                           c seen
             = (1 - g(x)) [(1 - h) softmax over unseen classes of  b * (score_c / spread(x) + common_c)
                           + h * climb_c(x)]                                                                  c unseen
    g(x)     = sigmoid(slope * (log sum_c exp(logit_c) - centre) + lean * odds(x) + offset)
    m(v | x) = sum of p(c | x) over the seen classes c at or below node v, or another one of its spoken name
             + the same over unseen classes * exp(-detail * bits(v)^2)
    P(v | x) = sigmoid(stated_slope * logit m(v | x) + stated_offset)

Logits are the network's own, scores the method's. The gate g is the probability that a photo shows a class that the
network was trained on. It reads how strongly the network responds at all, and `odds`: whether the method, which has
scores for seen classes too, finds a seen or an unseen class more like the photo. `spread` is the standard deviation of
the photo's unseen scores; without it photos with strong features would look far too certain. `common` is how common a
class's names are, centred and weighted (`answers.prior`), or 0 where the prior is uniform. `climb` lets the network's
own softmax climb to the unseen classes above each seen one, halved with each step: a photo of a "dog" looks like one of
some seen breed. `detail` knows that an unseen class may be one that nobody thought of: the more a node says, the more
of its probability belongs to others beside it. A calibration fits the numbers (`bundle.records.ProbabilityNumbers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unseen.answers.algebra import (
    Array,
    deviation,
    exp,
    log,
    log_sigmoid,
    log_softmax,
    logaddexp,
    logsumexp,
    total,
    with_columns,
)
from unseen.answers.words import with_article, words_of
from unseen.bundle.records import CONFIDENCES, ProbabilityNumbers
from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError

SHARPNESS = 1.9  # of scores, in units of their spread, where none was fitted
TINY = 1e-9
PLACES = [-math.log1p(-confidence) for confidence in CONFIDENCES]  # where exponents are kept: linear in log-doubt
UNCALIBRATED = ProbabilityNumbers(
    seen_sharpness=1.2,
    unseen_sharpness=SHARPNESS,
    climb=0.1,
    gate_slope=1.0,
    gate_centre=0.0,
    gate_lean=0.4,
    gate_offset=0.0,
    exponents=(0.6, 1.0, 1.7, 3.1, 7.7, 18.0, 55.0),
)
"""What is usual: a fit starts from it. For a bundle that nobody calibrated only the exponents are used, since the rest
depends on the scale of logits."""


# -- of classes ------------------------------------------------------------------------------------------------------


def log_probabilities(
    numbers: ProbabilityNumbers,
    logits: Array,
    seen_scores: Array,
    scores: Array,
    places: np.ndarray,
    climb: tuple[np.ndarray, np.ndarray],
    common: np.ndarray | None = None,
) -> tuple[Array, Array]:
    """log p of the seen candidates and of the unseen ones; arrays as `answers.algebra` takes them.

    `logits` (n x M) are over all seen classes, `places` are those of the seen candidates among them. The method's
    `seen_scores` (n x len(places)) and `scores` (n x U) are over the seen and over the unseen candidates. `climb`, from
    `ancestor_weights`: which of the latter have a seen candidate below (A), and the way up to those (len(places) x A).
    `common` (U), from `ColumnPrior`: which of the unseen candidates are common.
    """
    seen = log_softmax(numbers.seen_sharpness * logits[:, places])
    if not scores.shape[1]:
        return seen, scores
    units = scores * (numbers.unseen_sharpness / measure_spread(scores))
    unseen = log_softmax(units if common is None else units + numbers.unseen_sharpness * common)
    if not len(places):
        return seen, unseen
    if numbers.climb:
        above, way = climb
        climbed = exp(seen) @ way
        # What has nothing to climb to stays.
        unseen = unseen + log((1 - numbers.climb * total(climbed)).clip(TINY))
        arriving = log((numbers.climb * climbed).clip(TINY))
        unseen = with_columns(unseen, above, logaddexp(unseen[:, above], arriving))
    odds = gate(numbers, logsumexp(logits), method_odds(seen_scores, scores))
    return seen + log_sigmoid(odds), unseen + log_sigmoid(-odds)


def gate(numbers: ProbabilityNumbers, response: Array, odds: Array) -> Array:
    """The log-odds that a photo shows a seen class."""
    return numbers.gate_slope * (response - numbers.gate_centre) + numbers.gate_lean * odds + numbers.gate_offset


def measure_spread(scores: Array) -> Array:
    """n x 1: the standard deviation of each photo's scores."""
    return deviation(scores).clip(TINY)


def method_odds(seen_scores: Array, scores: Array) -> Array:
    """n x 1: how much more like seen than like unseen classes the method finds a photo, whatever their number."""
    scale = SHARPNESS / measure_spread(scores)
    seen = logsumexp(scale * seen_scores) - math.log(seen_scores.shape[1])
    return seen - (logsumexp(scale * scores) - math.log(scores.shape[1]))


def ancestor_weights(hierarchy: Hierarchy, seen: np.ndarray, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the unseen classes lie above seen ones (A places in `unseen`), and the way there (len(seen) x A).

    Each step up halves the weight; a row sums to 1, or to 0 where nothing unseen is above a class.

    >>> hierarchy = Hierarchy.from_edges([("poodle", "dog"), ("dog", "canine"), ("fox", "canine")])
    >>> seen, unseen = hierarchy.indices(["poodle"]), hierarchy.indices(["dog", "canine", "fox"])
    >>> above, way = ancestor_weights(hierarchy, seen, unseen)
    >>> above.tolist(), (3 * way).round().tolist()
    ([0, 1], [[2.0, 1.0]])
    """
    place, start = np.full((2, len(hierarchy)), -1)
    place[unseen], start[seen] = np.arange(len(unseen)), np.arange(len(seen))
    node, ancestor, steps = hierarchy.ancestor_pairs()
    kept = (start[node] >= 0) & (place[ancestor] >= 0)
    above, column = np.unique(place[ancestor[kept]], return_inverse=True)
    way = np.zeros((len(seen), len(above)), np.float32)
    np.maximum.at(way, (start[node[kept]], column), 0.5 ** steps[kept].astype(np.float32))
    return above, way / np.maximum(way.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)


def plain_probabilities(scores: np.ndarray) -> np.ndarray:
    """p (n x C) without a calibration, whatever the scale of the scores; their order stays."""
    finite = np.isfinite(scores)
    spread = np.std(scores, axis=1, keepdims=True, where=finite)
    sharp = SHARPNESS / np.maximum(spread, TINY)
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(sharp * np.where(finite, scores - np.where(np.isfinite(top), top, 0), -np.inf))
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)


def exponent(numbers: ProbabilityNumbers, confidence: float) -> float:
    """How careful a verdict is; beyond the ends of CONFIDENCES it goes on as between the last two.

    >>> round(exponent(UNCALIBRATED, 0.9), 4), round(exponent(UNCALIBRATED, 0.85), 1)
    (7.7, 4.5)
    """
    places, values = PLACES, list(map(math.log, numbers.exponents))
    at = -math.log1p(-confidence)
    i = min(max(int(np.searchsorted(places, at)) - 1, 0), len(CONFIDENCES) - 2)
    return math.exp(values[i] + (values[i + 1] - values[i]) * (at - places[i]) / (places[i + 1] - places[i]))


# -- of nodes --------------------------------------------------------------------------------------------------------


class NodeSums:
    """The nodes above some candidate classes, and how probable each is. The hierarchy is a directed acyclic graph: a
    class that reaches a node by several ways, or several nodes of one spoken name, counts once.

    `rows`: rows of the hierarchy for the classes that have a probability, of which the first `seen` are seen.
    `candidates`: rows of all C classes that a photo may be assigned to, where some of them never have one; they count
    in `sizes`. `nodes`: rows of the V nodes that have a class with a probability at or below them, ascending. Those of
    the same spoken name have the same probability and size, that of all that is at or below any of them.

    >>> hierarchy = Hierarchy.from_edges([("cat", "animal"), ("dog", "animal"), ("oak", "plant")])
    >>> sums = NodeSums(hierarchy, hierarchy.indices(["cat", "dog", "oak"]))
    >>> sums.ids.tolist()
    ['cat', 'animal', 'dog', 'oak', 'plant']
    >>> sums(np.array([[0.5, 0.25, 0.25]])).tolist()
    [[0.5, 0.75, 0.25, 0.25, 0.25]]
    >>> sums.sizes.tolist()
    [1, 2, 1, 1, 1]
    """

    def __init__(self, hierarchy: Hierarchy, rows: np.ndarray, seen: int = 0, candidates: np.ndarray | None = None):
        self.hierarchy, self.rows, self.seen = hierarchy, np.asarray(rows, np.int64), seen
        self.candidates = self.rows if candidates is None else np.asarray(candidates, np.int64)
        column = np.full(len(hierarchy), -1)
        column[self.rows] = np.arange(len(self.rows))
        is_node = np.zeros(len(hierarchy), bool)
        node, ancestor, _ = hierarchy.ancestor_pairs()  # each pair once, the node itself among its ancestors
        is_node[ancestor[column[node] >= 0]] = True
        self.nodes = np.flatnonzero(is_node)
        index = np.cumsum(is_node) - 1
        node, named = words_of(hierarchy).pairs
        kept = (column[node] >= 0) & is_node[named]
        self._class, self._node = column[node[kept]], index[named[kept]]  # pairs: a class, and a node at or above it
        is_candidate = np.zeros(len(hierarchy), bool)
        is_candidate[self.candidates] = True
        self.sizes = np.bincount(named[is_candidate[node]], minlength=len(hierarchy))[self.nodes]  # c(v), V
        self._below: dict[int, np.ndarray] = {}
        texts = (hierarchy.ids, hierarchy.names, words_of(hierarchy).says)
        self.ids, self.names, self.says = (np.array([text[row] for row in self.nodes], object) for text in texts)  # V

    @cached_property
    def can_be_said(self) -> np.ndarray:
        """V, bool: what may be a verdict, a sayable node that says something useful."""
        least = min(USEFUL_BITS, math.log2(max(len(self.candidates), 2)) / 3)
        return words_of(self.hierarchy).sayable[self.nodes] & (self.information >= least)

    @cached_property
    def _groups(self) -> np.ndarray:
        return words_of(self.hierarchy).groups[self.nodes]

    def most_probable(self, node: int, probabilities: np.ndarray) -> int:
        """Of the nodes that are called as `node` is (all are indices into `nodes`), the one with the most probability
        (C) at or below itself; of equal ones the one with the most classes."""
        same = np.flatnonzero(self._groups == self._groups[node])
        if len(same) == 1:
            return node
        below = [self._classes_below(int(one)) for one in same]
        return int(same[max(range(len(same)), key=lambda at: (probabilities[below[at]].sum(), len(below[at])))])

    def _classes_below(self, node: int) -> np.ndarray:
        """The columns of the classes at or below a node itself, whatever it is called."""
        if node not in self._below:
            lower, ancestor, _ = self.hierarchy.ancestor_pairs()
            self._below[node] = np.flatnonzero(np.isin(self.rows, lower[ancestor == self.nodes[node]]))
        return self._below[node]

    @cached_property
    def _by_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes ordered by class, and where each class's begin."""
        order = np.argsort(self._class, kind="stable")
        return self._node[order], np.searchsorted(self._class[order], np.arange(len(self.rows) + 1))

    def above(self, column: int) -> np.ndarray:
        """Indices into `nodes` of a class and all above it, in no order."""
        nodes, starts = self._by_class
        return nodes[starts[column] : starts[column + 1]]

    @cached_property
    def information(self) -> np.ndarray:
        """V: log2(C / c(v)), the bits that naming a node is worth; 0 for one that holds every candidate."""
        return np.log2(len(self.candidates) / self.sizes)

    @cached_property
    def _by_node(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """Of seen, then of unseen classes: their columns ordered by node, where each node's begin, and the nodes."""
        parts = []
        for of_part in (self._class < self.seen, self._class >= self.seen):
            order = np.flatnonzero(of_part)[np.argsort(self._node[of_part], kind="stable")]
            nodes, starts = np.unique(self._node[order], return_index=True)
            parts.append((self._class[order], starts, nodes))
        return tuple(parts)

    def parts(self, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of classes (n x C) -> of nodes (both n x V): the sums over seen classes, and over unseen ones."""
        sums = np.zeros((2, len(probabilities), len(self.nodes)), probabilities.dtype)
        for photo, of_classes in enumerate(probabilities):
            for part, (columns, starts, nodes) in zip(sums, self._by_node, strict=True):
                if len(nodes):
                    part[photo, nodes] = np.add.reduceat(of_classes[columns], starts)
        return sums[0], sums[1]

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Of classes (n x C) -> of nodes (n x V)."""
        seen, unseen = self.parts(probabilities)
        return seen + unseen


def node_probabilities(
    numbers: ProbabilityNumbers, sums: NodeSums, probabilities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P(v), and a cautious sum for the choice of a verdict (both n x V), from p (n x C)."""
    gate = probabilities[:, : sums.seen].sum(axis=1, keepdims=True)
    of_seen, of_unseen = sums.parts(probabilities)
    mass, cautious = weigh(numbers.detail, of_seen, of_unseen, np.minimum(gate, 1), sums.information)
    return state(numbers, mass), cautious


def weigh(detail: float, seen: np.ndarray, unseen: np.ndarray, gate: np.ndarray, bits: np.ndarray) -> tuple[Any, Any]:
    """m(v), and the least that it could be if the gate's log-odds were up to DOUBT higher or lower, from the sums over
    seen and over unseen classes. A verdict that holds only if the photo shows a seen class, or only if it does not, is
    no safe one."""
    unseen = unseen * np.exp(-detail * bits**2).astype(unseen.dtype)
    odds = np.exp(np.array([-DOUBT, DOUBT], unseen.dtype))
    low, high = ((factor * seen + unseen) / (factor * gate + 1 - gate) for factor in odds)
    return seen + unseen, np.minimum(low, high)


def state(numbers: ProbabilityNumbers, mass: np.ndarray) -> np.ndarray:
    """P(v), the probability that is stated, from m(v)."""
    if numbers.stated_slope == 1 and numbers.stated_offset == 0:
        return np.minimum(mass, 1)
    inside = np.clip(mass, TINY, 1 - 1e-6)
    odds = numbers.stated_slope * np.log(inside / (1 - inside)) + numbers.stated_offset
    return (1 / (1 + np.exp(-np.clip(odds, -40, 40)))).astype(mass.dtype)


class NodeProbabilities:
    """The probabilities of one photo's nodes, without those that are next to nothing. Pickled, the most probable."""

    LEAST, PICKLED = 1e-4, 400

    def __init__(self, sums: NodeSums, masses: np.ndarray):
        kept = np.flatnonzero(masses >= self.LEAST)
        self._kept = kept[np.argsort(-masses[kept], kind="stable")]
        self._sums, self.values = sums, masses[self._kept]

    @cached_property
    def ids(self) -> np.ndarray:
        return self._sums.ids[self._kept]

    @cached_property
    def names(self) -> np.ndarray:
        return self._sums.names[self._kept]

    @cached_property
    def says(self) -> np.ndarray:
        return self._sums.says[self._kept]

    def __getitem__(self, node: str) -> float:
        """Of a node by id, or by what it is called, or by a name that means one of those kept; 0 for any other."""
        places = np.flatnonzero(self.ids == node)
        for names in (self.says, self.names):
            if not len(places):
                wanted = node.strip().lower()
                places = np.array([place for place, name in enumerate(names) if name.lower() == wanted], int)
        if len(set(self.values[places])) > 1:
            raise UnseenError(f"{node!r} may be {' or '.join(self.ids[places])}: give the id")
        return float(self.values[places[0]]) if len(places) else 0.0

    def items(self) -> list[tuple[str, float]]:
        """(id, probability), most probable first."""
        return list(zip(self.ids.tolist(), self.values.tolist(), strict=True))

    def __getstate__(self) -> dict[str, Any]:
        parts = {"ids": self.ids, "names": self.names, "says": self.says, "values": self.values}
        return {name: part[: self.PICKLED].copy() for name, part in parts.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


# -- verdicts --------------------------------------------------------------------------------------------------------

CONFIDENCE = 0.9  # of a verdict if none is asked for
START = 0.1  # bits: what an answer that tells nothing is worth, so that it can win
DOUBT = 2.5  # log-odds by which the gate may be wrong
FLOOR = 0.02  # a node below this probability is never a verdict
USEFUL_BITS = 2.0
"""A verdict on more than a quarter of all classes ("whole", "organism", "artifact") says nothing useful; with few
classes, where a quarter is hardly more than one of them, a third of the bits of a single class is enough."""

SURE, LIKELY = 0.9, 0.7  # from which probability on a verdict is called so; below, it is a guess


@dataclass(frozen=True)
class Verdict:
    """The most informative node that a photo shows with the confidence asked for:

        verdict = argmax over nodes v of  (information(v) + 1/10) * m(v)^k       k: how careful, from the confidence

    over nodes that a person would say, as somebody would choose for whom an answer is worth what it says, and only if
    it is right; the greater k, the more they fear to be wrong. Where saying nothing (0 bits, always right) is worth
    more, the verdict is "unknown", and false. m(v) is the cautious sum of `weigh`.

    >>> print(Verdict("n02370806", "ungulate", "hoofed animal", 0.96, "sure", 345, ("animal", "hoofed animal")))
    sure: a hoofed animal (96 %)
    >>> nothing = Verdict.unknown(candidates=21842)
    >>> print(nothing, nothing.known, nothing.probability)
    don't know False None
    """

    id: str | None  # None where nothing useful is known with that confidence
    name: str | None  # its first name in the hierarchy
    say: str | None  # what a person calls it
    probability: float | None  # that the photo shows what is called so
    level: str  # sure, likely, guess or unknown
    classes: int  # how many of the candidates are at or below it, or another node of its spoken name
    path: tuple[str, ...]  # spoken names from the top of the hierarchy down to it

    @classmethod
    def unknown(cls, candidates: int) -> Verdict:
        return cls(None, None, None, None, "unknown", candidates, ())

    @property
    def known(self) -> bool:
        return self.id is not None

    def __bool__(self) -> bool:
        return self.known

    @property
    def text(self) -> str:
        """The spoken name with its article, "a hoofed animal"; "" where nothing is known."""
        return "" if self.say is None else with_article(self.say)

    def __str__(self) -> str:
        if self.probability is None:
            return "don't know"
        return f"{self.level}: {self.text} ({100 * self.probability:.0f} %)"

    to_dict = asdict


def check_confidence(confidence: float) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        what = "a number between 0 and 1, such as 0.9 (right 9 times in 10)"
        raise UnseenError(f"the confidence must be {what}, not {confidence!r}")
    return float(confidence)


def select_verdicts(sums: NodeSums, masses: np.ndarray, exponent: float | Sequence[float] | np.ndarray) -> np.ndarray:
    """n: each photo's verdict from `masses` (n x V): a place in `sums.nodes`, or -1 for "unknown"; several exponents:
    a row each."""
    photo, node = np.nonzero((masses >= FLOOR) & sums.can_be_said)
    chosen = choose(photo, sums.information[node], masses[photo, node], exponent, len(masses))
    return np.where(chosen < 0, -1, node[chosen] if len(node) else -1)


def choose(
    photo: np.ndarray, bits: np.ndarray, masses: np.ndarray, exponent: float | Sequence[float] | np.ndarray, photos: int
) -> np.ndarray:
    """Of nodes in any number, each of a photo: the place of each photo's best one, or -1 where none is good enough."""
    gain, log = np.log(bits + START), np.log(masses)
    chosen = np.full((np.size(exponent), photos), -1)
    for row, power in zip(chosen, np.ravel(exponent).tolist(), strict=True):
        value = gain + power * log
        best = np.full(photos, math.log(START))  # of saying nothing
        np.maximum.at(best, photo, value)
        winning = np.flatnonzero((value == best[photo]) & (value > math.log(START)))
        row[photo[winning][::-1]] = winning[::-1]  # of equal ones the first
    return chosen if np.ndim(exponent) else chosen[0]
