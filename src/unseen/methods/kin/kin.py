"""Equals `reference.kin`, with sparse products in chunks of classes; and it chooses its settings itself.

It chooses them on the seen classes alone, without a photo. A third of the seen classes is hidden, whole branches of the
hierarchy at a time, and predicted from the rest. A hidden class's known classifier then stands in for its photos: at
which rank does it score its own prediction among those of all hidden classes? The answer predicts how well photos of
new classes are recognised: see `benchmarks/criterion.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import FitRecord, Method, Problem, Solution, State, has_vector, normalise_rows
from unseen.methods.graph.adjacency import Adjacency, hop_groups
from unseen.methods.projections import Append1
from unseen.util.errors import UnseenError
from unseen.util.run import Run
from unseen.util.settings import DECAY, NOT_NEGATIVE, POSITIVE

if TYPE_CHECKING:
    # a bundle that only labels photos asks for the method's settings, and never for a product
    from scipy import sparse

CHUNK = 4096  # classes of one product: the kernel against the seen classes is CHUNK x M
SPLITS = 4  # of the seen classes into thirds
MIN_SEEN = 20  # seen classes: fewer are not enough to choose settings on
LARGEST_BRANCH = 10  # seen classes of a branch that is hidden as a whole
START = {"width": 1.0, "ridge": 0.1}
GRID = {"width": (0.5, 2.0), "ridge": (0.03, 0.3)}
WEIGHTS = {"glove": 0.5, "looks": 4.0}  # of sources of vectors, before the choice; other sources have 1


@dataclass(frozen=True)
class KinSettings:
    """Settings of kin. None: `fit` chooses on the seen classes. The other defaults were chosen on seen classes too, for
    four networks together (`benchmarks/criterion.py study`).

    Args:
        sources: w_s, one for each source of vectors. Chosen: the usual weights, or one of them halved or doubled.
        width: Multiplies both widths below.
        ridge: Of the regression.
        word_width: g_x, in units of 1 / (1 - mean cosine) of the vectors at hand.
        propagated_width: g_z, likewise.
        word_weight: w_x.
        propagated_weight: w_z.
        ancestor_weight: w_a.
        decay: How an ancestor's part falls with each step of its distance.
        descendants: Hop weights of the first phase of z: the class itself, 1 hop, and so on; the last one covers the
            rest.
        ancestors: Hop weights of the second phase, likewise.
        caution: 0 gives all rows the same length; with 1, short rows stay short.
    """

    sources: Annotated[list[float] | None, NOT_NEGATIVE] = None
    width: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float | None, POSITIVE] = None
    word_width: Annotated[float, POSITIVE] = 5.0
    propagated_width: Annotated[float, POSITIVE] = 2.5
    word_weight: Annotated[float, NOT_NEGATIVE] = 0.1
    propagated_weight: Annotated[float, NOT_NEGATIVE] = 1.0
    ancestor_weight: Annotated[float, NOT_NEGATIVE] = 0.8
    decay: Annotated[float, DECAY] = 0.4
    descendants: list[float] = field(default_factory=lambda: [0.25, 0.32, 0.2, 0.22, 0.01])
    ancestors: list[float] = field(default_factory=lambda: [0.8, 0.06, 0.05, 0.04, 0.05])
    caution: Annotated[float, NOT_NEGATIVE] = 0.7


class Kin(Method):
    """Kernel ridge regression from what is known of a class to its classifier, in closed form:

        d(u) = K(u, S) (K(S, S) + ridge I)^-1 (W(S) - mu),      W~(u) = mu + d(u) / sqrt(|d(u)|^2 + caution^2 chance^2)

    with S the seen classes, W their classifiers scaled to length 1 and mu the mean of W; `Kernel` has K's formula.
    `chance` is the length that d would have if the seen classes had each other's classifiers at random: the median over
    classes of |K(u, S) (K(S, S) + ridge I)^-1|. The d of a class that resembles no seen class is no longer than that,
    and is not scaled up to a confident answer. A seen class follows the same formula with d(s) = W(s) - mu.

    The state is the solved system and the seen classes' inputs at training time: a class that is added later needs only
    its own inputs on the grown hierarchy.

    Shapes: W is M x P, K(u, S) M long, K(S, S) M x M, d and W~ are N x P.
    """

    name = "kin"
    Settings = KinSettings

    def __init__(self, settings: KinSettings | None = None):
        super().__init__(settings)
        _check(self.settings)

    def fit(self, problem: Problem, run: Run) -> Solution:
        seen = self._gather(problem, problem.seen)
        targets = problem.targets().astype(np.float64)
        mean = targets.mean(axis=0)
        chosen, qualities = self._choose(problem, seen, targets - mean)
        kernel = self._kernel(seen, chosen)
        system = Ridges(kernel(seen, seen))
        state = {
            "dual": system.solve(targets - mean, chosen["ridge"]).astype(np.float32),
            "inverse": system.inverse(chosen["ridge"]).astype(np.float32),
            "mean": mean.astype(np.float32),
            "widths": np.array([kernel.words, kernel.propagated], np.float32),
            "sources": np.array(kernel.sources, np.float32),
            **_saved(seen, problem),
        }
        everything = np.arange(len(problem.hierarchy))
        chunks = list(self._likeness(problem, state, everything))
        chance, trust = np.empty(len(everything), np.float32), np.empty(len(everything), np.float32)
        for part, likeness in chunks:
            shares = likeness @ state["inverse"]
            chance[part] = np.linalg.norm(shares, axis=1)
            trust[part] = _trust(likeness, shares)
        trust[problem.seen] = 1.0
        state["chance"] = np.array([np.median(chance)], np.float32)
        state["own"] = (targets - mean).astype(np.float32)
        self._scale(state["own"], state["chance"])
        classifiers, position = np.empty((len(everything), targets.shape[1]), np.float32), _positions(problem)
        for part, likeness in chunks:
            classifiers[part] = self._finish(likeness @ state["dual"], state, position[part])
        record = FitRecord(weights=int(state["dual"].size), chosen=chosen, extra=qualities)
        return Solution(classifiers, Append1(), state, record, trust=trust)

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        rows = problem.rows_or_all(rows)
        predicted, position = np.empty((len(rows), state["dual"].shape[1]), np.float32), _positions(problem)[rows]
        for part, likeness in self._likeness(problem, state, rows):
            predicted[part] = self._finish(likeness @ state["dual"], state, position[part])
        return predicted

    def _finish(self, deviations: np.ndarray, state: State, position: np.ndarray) -> np.ndarray:
        """d -> W~, in place; `position` is each row's among the seen classes, or -1."""
        self._scale(deviations, state["chance"])
        deviations[position >= 0] = state["own"][position[position >= 0]]
        deviations += state["mean"]
        return deviations

    def trust(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        """How well the seen classes determine each class, 0 to 1: sqrt(K(u, S) (K(S, S) + ridge I)^-1 K(S, u)).

        It is the correlation that the model expects between the predicted classifier and one learned from photos. A
        seen class has 1.
        """
        rows = problem.rows_or_all(rows)
        trust = np.empty(len(rows), np.float32)
        for part, likeness in self._likeness(problem, state, rows):
            trust[part] = _trust(likeness, likeness @ state["inverse"])
        trust[_positions(problem)[rows] >= 0] = 1.0
        return trust

    def shares(self, problem: Problem, state: State, row: int) -> np.ndarray:
        """M: the factor of each seen class's W - mu in d(u); some are negative."""
        (_, likeness), *_ = self._likeness(problem, state, np.array([row]))
        return (likeness @ state["inverse"])[0]

    def _scale(self, deviations: np.ndarray, chance: np.ndarray) -> None:
        """d / sqrt(|d|^2 + caution^2 chance^2), in place."""
        squares = np.einsum("np,np->n", deviations, deviations)  # no second matrix of that size
        doubt = (self.settings.caution * float(chance[0])) ** 2
        deviations /= np.maximum(np.sqrt(squares + doubt), np.finfo(np.float32).tiny)[:, None]

    def _gather(self, problem: Problem, rows: np.ndarray) -> Inputs:
        return gather(problem, self.settings.descendants, self.settings.ancestors, self.settings.decay, rows)

    def _kernel(self, seen: Inputs, chosen: dict[str, Any]) -> Kernel:
        """The kernel with its widths in the natural units of the seen classes' vectors."""
        s, width = self.settings, chosen["width"]
        words = tuple(width * s.word_width / natural_width(part) for part in seen.words)
        propagated = tuple(width * s.propagated_width / natural_width(part) for part in seen.propagated)
        weights = (s.word_weight, s.propagated_weight, s.ancestor_weight)
        return Kernel(words, propagated, tuple(chosen["sources"]), *weights)

    def _choose(self, problem: Problem, seen: Inputs, centred: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings, those left open chosen as the module describes; and how well hidden classes are recognised."""
        count = len(seen.words)
        usual = [WEIGHTS.get(name, 1.0) for name in problem.vectors.names]
        given = {key: getattr(self.settings, key) for key in ("sources", "width", "ridge")}
        given = {key: value for key, value in given.items() if value is not None}
        if len(given.get("sources", seen.words)) != count:
            weights = len(given["sources"])
            raise UnseenError(f"kin: {weights} weights of sources, but there are {count} sources of vectors")
        start = {"sources": usual, **START, **given}
        if len(centred) < MIN_SEEN:
            return start, {}
        changes = [(source, factor) for factor in (0.5, 2.0) for source in range(count)]
        others = [[w * factor if i == source else w for i, w in enumerate(usual)] for source, factor in changes]
        grid = {key: values for key, values in {"sources": others, **GRID}.items() if key not in given}
        targets, splits = principal_part(centred), hidden_branches(seen.ancestors, SPLITS)

        def answers(chosen: dict[str, Any]) -> np.ndarray:
            return quality(self._kernel(seen, chosen)(seen, seen), chosen["ridge"], targets, splits)

        chosen, found = better(answers, start, grid)
        return chosen, {"hidden_branches": {"mean_reciprocal_rank": round(float(found.mean()), 4)}}

    def _likeness(self, problem: Problem, state: State, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """K(u, S) for chunks of rows, each with its slice of `rows`."""
        inputs, seen = self._gather(problem, rows), _restored(state, problem)
        s = self.settings
        words, propagated = state["widths"].tolist()
        weights = (s.word_weight, s.propagated_weight, s.ancestor_weight)
        kernel = Kernel(tuple(words), tuple(propagated), tuple(state["sources"].tolist()), *weights)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            yield part, kernel(inputs[part], seen)


def _trust(likeness: np.ndarray, shares: np.ndarray) -> np.ndarray:
    return np.sqrt(np.clip((likeness * shares).sum(axis=1), 0, 1))


def _positions(problem: Problem) -> np.ndarray:
    """For each row of the hierarchy its position among the seen classes, or -1."""
    position = np.full(len(problem.hierarchy), -1)
    position[problem.seen] = np.arange(len(problem.seen))
    return position


def _saved(seen: Inputs, problem: Problem) -> dict[str, np.ndarray]:
    """The seen classes' inputs as arrays. Ancestors are kept by id: rows of a hierarchy move when it changes."""
    ancestors = seen.ancestors.tocoo()
    columns, column = np.unique(ancestors.col, return_inverse=True)
    ids = "\n".join(problem.hierarchy.ids[row] for row in columns)
    state = {
        "ancestor_row": ancestors.row.astype(np.int32),
        "ancestor_column": column.astype(np.int32),
        "ancestor_value": ancestors.data.astype(np.float32),
        "ancestor_ids": np.frombuffer(ids.encode(), np.uint8),
    }
    for i, (word, propagated) in enumerate(zip(seen.words, seen.propagated, strict=True)):
        state |= {f"words_{i}": word, f"propagated_{i}": propagated}
    return state


def _restored(state: State, problem: Problem) -> Inputs:
    from scipy import sparse

    ids = state["ancestor_ids"].tobytes().decode().split("\n")
    here = np.array([id in problem.hierarchy for id in ids], bool)  # some may have been removed since
    rows = np.full(len(ids), -1)
    rows[here] = problem.hierarchy.indices([id for id, kept in zip(ids, here, strict=True) if kept])
    kept = here[state["ancestor_column"]]
    entries = state["ancestor_row"][kept], rows[state["ancestor_column"][kept]]
    shape = (len(state["dual"]), len(problem.hierarchy))
    sources = range(len(state["sources"]))
    return Inputs(
        tuple(state[f"words_{i}"] for i in sources),
        tuple(state[f"propagated_{i}"] for i in sources),
        sparse.csr_matrix((state["ancestor_value"][kept], entries), shape=shape),
    )


def _check(settings: KinSettings) -> None:
    """Checks that involve several settings."""
    of_sources = (settings.word_weight + settings.propagated_weight) * sum(settings.sources or [1.0])
    if not of_sources + settings.ancestor_weight > 0:
        raise UnseenError("kin: the kernel's weights (sources, word, propagated and ancestor weight) must not all be 0")
    for name in ("descendants", "ancestors"):
        if len(getattr(settings, name)) < 2:
            raise UnseenError(f"kin: {name} needs at least two hop weights, the class itself and the rest")


DIRECTIONS = 200  # principal directions of the seen classifiers that are compared: the rest is mostly chance
Groups = list[np.ndarray]


def hidden_branches(ancestors: sparse.csr_matrix, times: int, parts: int = 3) -> list[Groups]:
    """Splits of the M seen classes into `parts` arrays of positions that keep branches of the hierarchy together.

    A class's branch lies at or below its highest ancestor with at most LARGEST_BRANCH seen classes, or a tenth of all,
    at or below it. `ancestors` is M x N, not zero where a column is a class's ancestor.
    """
    (rows, columns), (count, nodes) = ancestors.nonzero(), ancestors.get_shape()
    size = np.bincount(columns, minlength=nodes)
    branch = nodes + np.arange(count)  # alone, if even the class itself has too many below it
    small = size[columns] <= max(min(LARGEST_BRANCH, count // 10), 1)
    by_size = np.flatnonzero(small)[np.lexsort((-columns[small], size[columns[small]]))]
    branch[rows[by_size]] = columns[by_size]  # the largest is written last
    members = np.unique(branch, return_inverse=True)[1]
    random = np.random.default_rng(0)
    splits = []
    for _ in range(times):
        part = np.arange(members.max() + 1) % parts
        part = random.permutation(part)[members]
        splits.append([np.flatnonzero(part == number) for number in range(parts)])
    return splits


def principal_part(centred: np.ndarray, directions: int = DIRECTIONS) -> np.ndarray:
    """The centred targets (M x P) in coordinates along their strongest directions (M x at most `directions`)."""
    values, vectors = np.linalg.eigh(centred @ centred.T)
    strongest = np.argsort(-values)[:directions]
    return vectors[:, strongest] * np.sqrt(np.maximum(values[strongest], 0))


def reciprocal_ranks(known: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """1 / rank of each class's own prediction when its known classifier scores the predictions for all (n).

    Only the directions of predictions count. A tie counts half: equal predictions are no better than chance.
    """
    lengths = np.linalg.norm(predicted, axis=1)
    scores = known @ (predicted / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None]).T
    right = np.diagonal(scores)[:, None]
    return 1 / (1 + (scores > right).sum(axis=1) + ((scores == right).sum(axis=1) - 1) / 2)


def quality(kernel: np.ndarray, ridge: float, targets: np.ndarray, splits: Sequence[Groups]) -> np.ndarray:
    """How well each class is recognised when its group is hidden: mean reciprocal rank over the splits (M).

    `kernel` is M x M between seen classes, `targets` M x d, centred.
    """
    inverse = np.linalg.inv(kernel.astype(np.float64) + ridge * np.eye(len(kernel)))
    total = np.zeros(len(kernel))
    for groups in splits:
        predicted = leave_groups_out(inverse, targets, groups)
        for hidden in groups:
            total[hidden] += reciprocal_ranks(targets[hidden], predicted[hidden])
    return total / len(splits)


def better(answers_of: Callable[[dict[str, Any]], np.ndarray], start: dict[str, Any], grid: Mapping[str, Sequence]):
    """From `start`, one setting after another: take the best value if it beats the present one by more than chance.

    Chance is two standard errors of the difference between classes. `answers_of` gives settings a quality for each
    class (M). Returns the settings and their answers.
    """
    chosen, present = dict(start), answers_of(start)
    for name, values in grid.items():
        best, gained = None, 0.0
        for value in values:
            answers = answers_of(chosen | {name: value})
            difference = answers - present
            gain = difference.mean() - 2 * difference.std() / np.sqrt(len(difference))
            if gain > gained:
                best, gained = (value, answers), gain
        if best is not None:
            chosen[name], present = best
    return chosen, present


@dataclass(frozen=True)
class Inputs:
    """What is known of n classes."""

    words: tuple[np.ndarray, ...]  # x for each source of vectors: n x S, rows of length 1 or 0
    propagated: tuple[np.ndarray, ...]  # z, x propagated over the hierarchy as DGP does: n x S, rows likewise
    ancestors: sparse.csr_matrix  # a, n x N, rows of length 1

    def __getitem__(self, rows) -> Inputs:
        return Inputs(
            tuple(part[rows] for part in self.words),
            tuple(part[rows] for part in self.propagated),
            self.ancestors[rows],
        )


@dataclass(frozen=True)
class Kernel:
    """k(u, v) = sum over sources of  w_s (w_x exp(g_x (<x, x'> - 1)) + w_z exp(g_z (<z, z'> - 1))),  plus  w_a <a, a'>,

    divided by sqrt(W(u) W(v)), with W(u) the sum of the weights of what is known of u, so that k(u, u) = 1. A source
    has no part in the likeness of a class without a vector.
    """

    words: tuple[float, ...]  # g_x of each source
    propagated: tuple[float, ...]  # g_z
    sources: tuple[float, ...]  # w_s
    word_weight: float  # w_x
    propagated_weight: float  # w_z
    ancestor_weight: float  # w_a

    def __call__(self, left: Inputs, right: Inputs) -> np.ndarray:
        """k(u, v) of n classes with m others: n x m, float32."""
        total = self.ancestor_weight * np.asarray((left.ancestors @ right.ancestors.T).todense(), np.float32)
        known = [np.full(len(side.ancestors.indptr) - 1, self.ancestor_weight, np.float32) for side in (left, right)]
        for weight, width, x, y in self._parts(left, right):
            if weight:
                total += weight * _exponential(x, y, width)
                known[0] += weight * has_vector(x)
                known[1] += weight * has_vector(y)
        tiny = np.finfo(np.float32).tiny
        total /= np.sqrt(np.maximum(known[0], tiny))[:, None]
        total /= np.sqrt(np.maximum(known[1], tiny))[None, :]
        return total

    def _parts(self, left: Inputs, right: Inputs) -> Iterator[tuple[float, float, np.ndarray, np.ndarray]]:
        for source, width, x, y in zip(self.sources, self.words, left.words, right.words, strict=True):
            yield source * self.word_weight, width, x, y
        for source, width, z, y in zip(self.sources, self.propagated, left.propagated, right.propagated, strict=True):
            yield source * self.propagated_weight, width, z, y


def gather(
    problem: Problem,
    descendants: Sequence[float],
    ancestors: Sequence[float],
    decay: float,
    rows: np.ndarray | None = None,
) -> Inputs:
    """The inputs of `rows`, by default of every class, from only the classes that they depend on.

    `descendants` and `ancestors` are the fixed hop weights of the two phases, `decay` that of the ancestors in a.
    """
    hierarchy, rows = problem.hierarchy, problem.rows_or_all(rows)
    up, middle = hop_groups(hierarchy, "ancestors", len(ancestors) - 1, rows).select(rows)
    down, below = hop_groups(hierarchy, "descendants", len(descendants) - 1, middle).select(middle)
    first, second = mixed(down, descendants), mixed(up, ancestors)
    return Inputs(
        tuple(normalise_rows(part[rows]) for part in problem.vectors.parts),
        tuple(normalise_rows(second @ (first @ normalise_rows(part[below]))) for part in problem.vectors.parts),
        ancestor_vectors(hierarchy, decay, rows),
    )


def mixed(groups: Adjacency, weights: Sequence[float]) -> sparse.csr_matrix:
    """sum_k weights[k] D_k^-1 A_k, sparse, of the adjacency's shape."""
    from scipy import sparse

    values = (groups.weight * np.asarray(weights)[groups.group]).astype(np.float32)
    return sparse.csr_matrix((values, groups.column, groups.pointer), shape=(groups.rows, groups.columns))


def ancestor_vectors(hierarchy: Hierarchy, decay: float, rows: np.ndarray) -> sparse.csr_matrix:
    """a of each of `rows`: decay^distance at each ancestor and 1 at the class itself, scaled to length 1 (n x N)."""
    from scipy import sparse

    asked, row = np.unique(rows, return_inverse=True)
    position = np.full(len(hierarchy), -1)
    position[asked] = np.arange(len(asked))
    node, ancestor, distance = hierarchy.ancestor_pairs()
    kept = position[node] >= 0
    node, ancestor, distance = position[node[kept]], ancestor[kept], distance[kept]
    value = np.power(np.float32(decay), distance.astype(np.float32))
    length = np.sqrt(np.bincount(node, value**2, minlength=len(asked)))
    shape = (len(asked), len(hierarchy))
    return sparse.csr_matrix(((value / length[node]).astype(np.float32), (node, ancestor)), shape=shape)[row]


def natural_width(part: np.ndarray) -> float:
    """1 - the mean cosine between classes, or 1 if there are fewer than two.

    It is the unit of widths, so that the same setting suits vectors that are all alike and vectors that are not.
    """
    known = part[has_vector(part)].astype(np.float64)
    n = len(known)
    if n < 2:
        return 1.0
    together = known.sum(axis=0)
    mean = (together @ together - np.square(known).sum()) / (n * (n - 1))
    return float(max(1 - mean, 1e-3))


def _exponential(x: np.ndarray, y: np.ndarray, width: float) -> np.ndarray:
    likeness = np.exp(width * (x @ y.T - 1))
    likeness *= has_vector(x)[:, None]
    likeness *= has_vector(y)[None, :]
    return likeness


class Ridges:
    """A kernel K (M x M, symmetric), diagonalised once for any number of ridges."""

    def __init__(self, kernel: np.ndarray):
        values, self.basis = np.linalg.eigh(kernel.astype(np.float64))
        self.values = np.maximum(values, 0)

    def inverse(self, ridge: float) -> np.ndarray:
        """(K + ridge I)^-1, M x M."""
        return (self.basis / (self.values + ridge)) @ self.basis.T

    def solve(self, targets: np.ndarray, ridge: float) -> np.ndarray:
        """(K + ridge I)^-1 T, M x P."""
        return self.basis @ ((self.basis.T @ targets.astype(np.float64)) / (self.values + ridge)[:, None])


def leave_groups_out(inverse: np.ndarray, targets: np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray:
    """What ridge regression predicts for each class when its whole group is left out (M x P).

    `inverse` is (K + ridge I)^-1; `groups` are disjoint arrays of positions that together hold every class.
    """
    dual = inverse @ targets
    predicted = np.empty_like(dual)
    for group in groups:
        predicted[group] = targets[group] - np.linalg.solve(inverse[np.ix_(group, group)], dual[group])
    return predicted
