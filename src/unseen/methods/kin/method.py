"""The method itself: fit, predict, how far to trust a class, and whom it borrows from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from unseen.errors import UnseenError
from unseen.methods.base import Method, Solution
from unseen.methods.kin.choice import better, halvings, principal_part, quality, upward_ranks
from unseen.methods.kin.inputs import Inputs, Kernel, gather, natural_width
from unseen.methods.problem import Problem
from unseen.methods.projections import Append1
from unseen.methods.records import FitRecord
from unseen.methods.registry import register
from unseen.methods.ridge import Ridges
from unseen.methods.rows import Rows
from unseen.methods.settings import DECAY, NOT_NEGATIVE, POSITIVE
from unseen.runtime.run import Run

CHUNK = 4096  # classes at a time: the kernel against the seen classes is CHUNK x M
KEPT = 2**28  # bytes of likeness that are held between two uses
HALVINGS = 4
FEW = 20  # seen classes: with fewer, hidden halves say nothing
REACH, NEARBY = 3, 2500  # hops from a seen class, and how many of the unseen classes that near are asked about
START = {"width": 1.0, "ridge": 0.1}
GRID = {"width": (0.5, 2.0), "ridge": (0.03, 0.3)}
LESS = 0.5  # a source of vectors counts fully, or this much


@dataclass(frozen=True)
class KinSettings:
    """Settings of kin. None: chosen on the seen classes at fit time. The other numbers were chosen on seen classes too,
    for four networks together, by `benchmarks/criterion.py choose`.

    Args:
        sources: w_s, one for each source of vectors.
        width: Multiplies both widths below.
        ridge: Of the regression.
        word_width: g_x, in units of 1 / (1 - mean cosine) of the vectors at hand.
        propagated_width: g_z, likewise.
        word_weight: w_x.
        propagated_weight: w_z.
        ancestor_weight: w_a.
        decay: Of an ancestor's part with its distance.
        descendants: Hop weights of the first phase of z: the class itself, 1 hop, and so on; the last one is for the
            rest.
        ancestors: Hop weights of the second phase, likewise.
        caution: 0 makes every row as long as the next; with 1, short ones stay short.
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
    caution: Annotated[float, NOT_NEGATIVE] = 1.0


@register("kin")
class Kin(Method):
    """Kernel ridge regression from what is known of a class to its classifier, in closed form:

        d(u) = K(u, S) (K(S, S) + ridge I)^-1 (W(S) - mu),      W~(u) = mu + d(u) / sqrt(|d(u)|^2 + caution^2 chance^2)

    with S the seen classes, W their classifiers scaled to length 1 and mu the mean of W; `Kernel` has K's formula.
    `chance` is the length that d would have were the classifiers dealt to the seen classes at random: the median over
    classes of |K(u, S) (K(S, S) + ridge I)^-1|. The d of a class that resembles nothing seen is no longer than that,
    and is not blown up to a confident answer.

    A seen class goes by the same formula with d(s) = W(s) - mu, which is known. So its row is longer than those of
    unseen classes, which are in doubt; how much that counts against them is for a calibration to say.

    The state is the solved system and the seen classes' inputs as they were at training time. A class that is added
    later changes z of its ancestors and of the classes below them, a little; the seen classes' stored z stays as it
    was, since the system was solved with it, and only the asked classes' inputs are computed on the grown hierarchy.

    Shapes: W is M x P, K(u, S) M long, K(S, S) M x M, d and W~ are N x P.

    Args:
        settings: See `KinSettings`.
    """

    Settings = KinSettings

    def __init__(self, settings: KinSettings | None = None):
        super().__init__(settings)
        _check(self.settings)

    def fit(self, problem: Problem, run: Run) -> Solution:
        seen = self._gather(problem, problem.seen)
        targets = problem.targets().astype(np.float64)
        mean = targets.mean(axis=0)
        chosen, found = self._choose(problem, seen, targets - mean)
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
        everything = np.arange(len(problem.taxonomy))
        inputs = self._gather(problem, everything)
        # Rows are finished with the median of all: where there are too many to keep, likeness is computed twice.
        few = 4 * len(everything) * len(targets) <= KEPT
        kept = list(self._likeness(problem, state, everything, inputs)) if few else None
        chance, trust = np.empty(len(everything), np.float32), np.empty(len(everything), np.float32)
        for part, likeness in kept or self._likeness(problem, state, everything, inputs):
            shares = likeness @ state["inverse"]
            chance[part] = np.linalg.norm(shares, axis=1)
            trust[part] = _trust(likeness, shares)
        trust[problem.seen] = 1.0
        state["chance"] = np.array([np.median(chance)], np.float32)
        state["own"] = (targets - mean).astype(np.float32)
        self._scale(state["own"], state["chance"])
        classifiers, position = Rows(len(everything), targets.shape[1], run.folder), _positions(problem)
        for part, likeness in kept or self._likeness(problem, state, everything, inputs):
            classifiers.append(self._finish(likeness @ state["dual"], state, position[part]))
        record = FitRecord(weights=int(state["dual"].size), chosen=chosen, extra=found)
        return Solution(classifiers.matrix(), Append1(), state, record, trust=trust)

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        rows = problem.rows_or_all(rows)
        predicted, position = np.empty((len(rows), state["dual"].shape[1]), np.float32), _positions(problem)[rows]
        for part, likeness in self._likeness(problem, state, rows):
            predicted[part] = self._finish(likeness @ state["dual"], state, position[part])
        return predicted

    def _finish(self, deviations: np.ndarray, state: dict[str, np.ndarray], position: np.ndarray) -> np.ndarray:
        """d, in place -> W~; `position`: of each row among the seen classes, or -1."""
        self._scale(deviations, state["chance"])
        deviations[position >= 0] = state["own"][position[position >= 0]]
        deviations += state["mean"]
        return deviations

    def trust(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """How far seen classes settle each class, 0 to 1: sqrt(K(u, S) (K(S, S) + ridge I)^-1 K(S, u)).

        Under the root stands the part of the prior variance k(u, u) = 1 that the posterior no longer has, so that the
        root is the correlation that the model expects between the predicted classifier and the one that photos would
        give. A seen class has 1.
        """
        rows = problem.rows_or_all(rows)
        trust = np.empty(len(rows), np.float32)
        for part, likeness in self._likeness(problem, state, rows):
            trust[part] = _trust(likeness, likeness @ state["inverse"])
        trust[_positions(problem)[rows] >= 0] = 1.0
        return trust

    def shares(self, problem: Problem, state: dict[str, np.ndarray], row: int) -> np.ndarray:
        """What a class borrows: the factor of each seen class's W - mu in d(u), M; some are negative."""
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
        """The given settings, and those not given as the two questions of `choice` are best answered; and how well."""
        count = len(seen.words)
        given = {key: getattr(self.settings, key) for key in ("sources", "width", "ridge")}
        given = {key: value for key, value in given.items() if value is not None}
        if len(given.get("sources", seen.words)) != count:
            raise UnseenError(
                f"kin: {len(given['sources'])} weights of sources, but there are {count} sources of vectors"
            )
        start = {"sources": [1.0] * count, **START, **given}
        if len(centred) < FEW:
            return start, {}
        weaker = [[LESS if i == j else 1.0 for i in range(count)] for j in range(count)]
        grid = {key: values for key, values in {"sources": weaker, **GRID}.items() if key not in given}
        targets, splits = principal_part(centred), halvings(len(centred), HALVINGS)
        rows, parents = _nearby(problem)
        nearby = self._gather(problem, rows)

        def answers(chosen: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
            kernel = self._kernel(seen, chosen)
            known = kernel(seen, seen)
            return (
                quality(known, chosen["ridge"], targets, splits),
                upward_ranks(targets, self._foretold(kernel(nearby, seen), known, chosen["ridge"], targets), parents),
            )

        chosen, (halves, upward) = better(answers, start, grid)
        found = {"hidden_halves": {"mean_reciprocal_rank": round(float(halves.mean()), 4)}}
        if not np.isnan(upward).all():
            found["upward"] = {"mean_reciprocal_rank": round(float(np.nanmean(upward)), 4)}
        return chosen, found

    def _foretold(self, nearby: np.ndarray, known: np.ndarray, ridge: float, targets: np.ndarray) -> np.ndarray:
        """The deviations of unseen classes along the targets' directions, as long as their rows will be."""
        inverse = np.linalg.inv(known.astype(np.float64) + ridge * np.eye(len(known))).astype(np.float32)
        deviations = nearby @ (inverse @ targets.astype(np.float32))
        if len(nearby):
            sample = nearby[:: max(len(nearby) // 500, 1)]
            self._scale(deviations, np.median(np.linalg.norm(sample @ inverse, axis=1), keepdims=True))
        return deviations

    def _likeness(
        self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray, inputs: Inputs | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """K(u, S) for chunks of rows, each with its place among them; `inputs` of the rows, if they are at hand."""
        inputs, seen = inputs or self._gather(problem, rows), _restored(state, problem)
        s = self.settings
        words, propagated = state["widths"].tolist()
        weights = (s.word_weight, s.propagated_weight, s.ancestor_weight)
        kernel = Kernel(tuple(words), tuple(propagated), tuple(state["sources"].tolist()), *weights)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            yield part, kernel(inputs[part], seen)


def _trust(likeness: np.ndarray, shares: np.ndarray) -> np.ndarray:
    return np.sqrt(np.clip((likeness * shares).sum(axis=1), 0, 1))


def _nearby(problem: Problem) -> tuple[np.ndarray, list[np.ndarray]]:
    """Rows of unseen classes not far from seen ones, all parents of seen ones among them; and where in these rows each
    seen class has its parents."""
    taxonomy, unseen = problem.taxonomy, _positions(problem) < 0
    child, parent = taxonomy.edges()
    above = np.unique(parent[~unseen[child] & unseen[parent]])
    distance = taxonomy.hops_from([taxonomy.ids[row] for row in problem.seen])
    others = np.setdiff1d(np.flatnonzero(unseen & (distance > 0) & (distance <= REACH)), above)
    room = max(NEARBY - len(above), 1)
    rows = np.concatenate([above, others[:: -(-len(others) // room) or 1]])
    place = {int(row): i for i, row in enumerate(above)}
    parents = [[place[int(row)] for row in parent[child == own] if int(row) in place] for own in problem.seen]
    return rows, [np.array(places, np.int64) for places in parents]


def _positions(problem: Problem) -> np.ndarray:
    """For each row of the hierarchy its position among the seen classes, or -1."""
    position = np.full(len(problem.taxonomy), -1)
    position[problem.seen] = np.arange(len(problem.seen))
    return position


def _saved(seen: Inputs, problem: Problem) -> dict[str, np.ndarray]:
    """The seen classes' inputs as arrays. Ancestors are kept by id: rows of a hierarchy move when it changes."""
    ancestors = seen.ancestors.tocoo()
    columns, column = np.unique(ancestors.col, return_inverse=True)
    ids = "\n".join(problem.taxonomy.ids[row] for row in columns)
    state = {
        "ancestor_row": ancestors.row.astype(np.int32),
        "ancestor_column": column.astype(np.int32),
        "ancestor_value": ancestors.data.astype(np.float32),
        "ancestor_ids": np.frombuffer(ids.encode(), np.uint8),
    }
    for i, (word, propagated) in enumerate(zip(seen.words, seen.propagated, strict=True)):
        state |= {f"words_{i}": word, f"propagated_{i}": propagated}
    return state


def _restored(state: dict[str, np.ndarray], problem: Problem) -> Inputs:
    from scipy import sparse

    ids = state["ancestor_ids"].tobytes().decode().split("\n")
    here = np.array([id in problem.taxonomy for id in ids], bool)  # a class above seen ones may have been removed since
    rows = np.full(len(ids), -1)
    rows[here] = problem.taxonomy.indices([id for id, kept in zip(ids, here, strict=True) if kept])
    kept = here[state["ancestor_column"]]
    place = state["ancestor_row"][kept], rows[state["ancestor_column"][kept]]
    shape = (len(state["dual"]), len(problem.taxonomy))
    sources = range(len(state["sources"]))
    return Inputs(
        tuple(state[f"words_{i}"] for i in sources),
        tuple(state[f"propagated_{i}"] for i in sources),
        sparse.csr_matrix((state["ancestor_value"][kept], place), shape=shape),
    )


def _check(settings: KinSettings) -> None:
    """What no setting can tell alone."""
    of_sources = (settings.word_weight + settings.propagated_weight) * sum(settings.sources or [1.0])
    if not of_sources + settings.ancestor_weight > 0:
        raise UnseenError("kin: the kernel's weights (sources, word, propagated and ancestor weight) must not all be 0")
    for name in ("descendants", "ancestors"):
        if len(getattr(settings, name)) < 2:
            raise UnseenError(f"kin: {name} needs at least two hop weights, the class itself and the rest")
