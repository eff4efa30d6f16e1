"""The method itself: fit, predict, how far to trust a class, and whom it borrows from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import sparse

from unseen.errors import UnseenError
from unseen.kin.choose import best_of, halvings, principal_part
from unseen.kin.inputs import Inputs, Kernel, gather, natural_width
from unseen.methods import Solution
from unseen.problem import Problem
from unseen.projections import Append1
from unseen.ridge import Ridges, leave_one_out
from unseen.run import Run

CHUNK = 4096  # classes at a time: the kernel against the seen classes is CHUNK x M
WIDTHS = (0.5, 1.0, 2.0)
RIDGES = (0.03, 0.1, 0.3)
HALVINGS = 2
FEW = 8  # seen classes: with fewer, halves say nothing


@dataclass(frozen=True)
class KinSettings:
    """`None`: chosen on the seen classes. The other numbers were learned on seen classes too, by
    `benchmarks/kin_ablation.py --learn` on the built-in network."""

    ridge: float | None = None
    width: float | None = None  # multiplies both widths below
    word_width: float = 4.0  # g_x, in units of 1 / (1 - mean cosine) of the vectors at hand
    propagated_width: float = 6.0  # g_z, likewise
    word_weight: float = 1.0  # w_x, of each source of vectors
    propagated_weight: float = 1.0  # w_z, of each source of vectors
    ancestor_weight: float = 1.0  # w_a
    decay: float = 0.6  # of an ancestor's part with its distance
    descendants: list[float] = field(default_factory=lambda: [0.25, 0.45, 0.15, 0.08, 0.07])  # hop weights, first phase
    ancestors: list[float] = field(default_factory=lambda: [0.5, 0.3, 0.1, 0.05, 0.05])  # hop weights, second phase
    floor: float = 0.05  # c in d / (|d| + c): how long a deviation has to be to count, for classifiers of length 1


class Kin:
    """Kernel ridge regression from what is known of a class to its classifier, in closed form:

        d(u) = K(u, S) (K(S, S) + ridge I)^-1 (W(S) - mu),          W~(u) = mu + d(u) / (|d(u)| + floor)

    with S the seen classes, W their classifiers scaled to length 1, mu the mean of W. `Kernel` has K's formula. A class
    that nothing seen resembles has a small d; `floor` keeps it from being blown up to a confident answer. A seen class
    has its own classifier among those that it is predicted from, and so a longer d than an unseen one would have: its
    d / (|d| + floor) is shortened to the length that it would have had, had it been left out.

    The state is the solved system and the seen classes' inputs as they were at training time. A class that is added
    later changes z of its ancestors and of the classes below them, a little; the seen classes' stored z stays as it
    was, since the system was solved with it, and only the asked classes' inputs are computed on the grown hierarchy.
    """

    name: ClassVar[str] = "kin"
    needs_features: ClassVar[bool] = False
    Settings: ClassVar[type] = KinSettings

    def __init__(self, settings: KinSettings):
        _check(settings)
        self.settings = settings

    def fit(self, problem: Problem, run: Run) -> Solution:
        inputs = self._gather(problem)
        seen = inputs[problem.seen]
        targets = problem.targets().astype(np.float64)
        mean = targets.mean(axis=0)
        found, width, ridge = self._choose(seen, targets - mean, run)
        kernel = self._kernel(seen, width)
        system = Ridges(kernel(seen, seen))
        state = {
            "dual": system.solve(targets - mean, ridge).astype(np.float32),
            "inverse": system.inverse(ridge).astype(np.float32),
            "mean": mean.astype(np.float32),
            "seen_scale": self._left_out_scale(system, targets - mean, ridge),
            "word_widths": np.array(kernel.words, np.float32),
            "propagated_widths": np.array(kernel.propagated, np.float32),
            **_saved(seen, problem),
        }
        rows = np.arange(len(problem.taxonomy))
        classifiers = np.empty((len(rows), targets.shape[1]), np.float32)
        trust = np.empty(len(rows), np.float32)
        for part, likeness in self._likeness(problem, state, rows, inputs):
            classifiers[part] = self._classifiers(likeness, state)
            trust[part] = _explained(likeness, state)
        _shorten_seen(classifiers, rows, problem, state)
        trust[problem.seen] = 1.0
        details = {"weights": int(state["dual"].size), "chosen": {"width": width, "ridge": ridge}}
        if found is not None:
            details["hidden_halves"] = {"mean_reciprocal_rank": round(found, 4)}
        return Solution(classifiers, Append1(), state, details, trust=trust)

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        rows = np.arange(len(problem.taxonomy)) if rows is None else np.asarray(rows)
        classifiers = np.empty((len(rows), state["dual"].shape[1]), np.float32)
        for part, likeness in self._likeness(problem, state, rows):
            classifiers[part] = self._classifiers(likeness, state)
        _shorten_seen(classifiers, rows, problem, state)
        return classifiers

    def trust(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """How far seen classes settle each class, 0 to 1: sqrt(K(u, S) (K(S, S) + ridge I)^-1 K(S, u)).

        Under the root stands the part of the prior variance k(u, u) = 1 that the posterior no longer has, so that the
        root is the correlation to expect between the predicted classifier and the one that photos would give. A seen
        class has 1.
        """
        rows = np.arange(len(problem.taxonomy)) if rows is None else np.asarray(rows)
        trust = np.empty(len(rows), np.float32)
        for part, likeness in self._likeness(problem, state, rows):
            trust[part] = _explained(likeness, state)
        trust[np.isin(rows, problem.seen)] = 1.0
        return trust

    def shares(self, problem: Problem, state: dict[str, np.ndarray], row: int) -> np.ndarray:
        """What a class borrows: the factor of each seen class's W - mu in d(u), M. Some are negative."""
        (_, likeness), *_ = self._likeness(problem, state, np.array([row]))
        return (likeness @ state["inverse"])[0]

    def _classifiers(self, likeness: np.ndarray, state: dict[str, np.ndarray]) -> np.ndarray:
        deviation = likeness @ state["dual"]
        length = np.linalg.norm(deviation, axis=1, keepdims=True)
        return state["mean"] + deviation / (length + max(self.settings.floor, np.finfo(np.float32).tiny))

    def _left_out_scale(self, system: Ridges, centred: np.ndarray, ridge: float) -> np.ndarray:
        """M: the length of d / (|d| + floor) had the class been left out, over the one that it has."""
        inverse = system.inverse(ridge)
        dual = inverse @ centred
        inside, outside = centred - ridge * dual, leave_one_out(inverse, centred, dual)
        floor = max(self.settings.floor, np.finfo(np.float32).tiny)
        lengths = (np.linalg.norm(d, axis=1) for d in (outside, inside))
        left_out, own = (length / (length + floor) for length in lengths)
        return np.minimum(left_out / np.maximum(own, np.finfo(np.float32).tiny), 1).astype(np.float32)

    def _gather(self, problem: Problem) -> Inputs:
        return gather(problem, self.settings.descendants, self.settings.ancestors, self.settings.decay)

    def _kernel(self, seen: Inputs, width: float) -> Kernel:
        """The kernel with its widths in the natural units of the seen classes' vectors."""
        s = self.settings
        words = tuple(width * s.word_width / natural_width(part) for part in seen.words)
        propagated = tuple(width * s.propagated_width / natural_width(part) for part in seen.propagated)
        return Kernel(words, propagated, s.word_weight, s.propagated_weight, s.ancestor_weight)

    def _choose(self, seen: Inputs, centred: np.ndarray, run: Run) -> tuple[float | None, float, float]:
        """(quality, width, ridge): the given ones, or the best on hidden halves of the seen classes."""
        s = self.settings
        widths = WIDTHS if s.width is None else (s.width,)
        ridges = RIDGES if s.ridge is None else (s.ridge,)
        if len(centred) < FEW or len(widths) * len(ridges) == 1:
            return None, 1.0 if s.width is None else s.width, 0.1 if s.ridge is None else s.ridge
        splits = halvings(len(centred), HALVINGS, run.seed)

        def kernel_of(width: float) -> np.ndarray:
            return self._kernel(seen, width)(seen, seen)

        return best_of(kernel_of, widths, ridges, principal_part(centred), splits, s.floor)

    def _likeness(
        self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray, inputs: Inputs | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """K(u, S) for chunks of rows, each with its place among them."""
        inputs = self._gather(problem) if inputs is None else inputs
        seen = _restored(state, problem)
        s = self.settings
        weights = (s.word_weight, s.propagated_weight, s.ancestor_weight)
        kernel = Kernel(tuple(state["word_widths"]), tuple(state["propagated_widths"]), *weights)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            yield part, kernel(inputs[rows[part]], seen)


def _shorten_seen(classifiers: np.ndarray, rows: np.ndarray, problem: Problem, state: dict[str, np.ndarray]) -> None:
    """Bring the seen classes' deviations down to unseen classes' terms, in place."""
    scale = np.ones(len(problem.taxonomy), np.float32)
    scale[problem.seen] = state["seen_scale"]
    chosen = np.flatnonzero(scale[rows] != 1)
    mean = state["mean"]
    classifiers[chosen] = mean + scale[rows[chosen], None] * (classifiers[chosen] - mean)


def _explained(likeness: np.ndarray, state: dict[str, np.ndarray]) -> np.ndarray:
    explained = ((likeness @ state["inverse"]) * likeness).sum(axis=1)
    return np.sqrt(np.clip(explained, 0, 1))


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
    ids = state["ancestor_ids"].tobytes().decode().split("\n")
    here = np.array([id in problem.taxonomy for id in ids], bool)  # a class above seen ones may have been removed since
    rows = np.full(len(ids), -1)
    rows[here] = problem.taxonomy.indices([id for id, kept in zip(ids, here, strict=True) if kept])
    kept = here[state["ancestor_column"]]
    place = state["ancestor_row"][kept], rows[state["ancestor_column"][kept]]
    shape = (len(state["dual"]), len(problem.taxonomy))
    sources = range(len(state["word_widths"]))
    return Inputs(
        tuple(state[f"words_{i}"] for i in sources),
        tuple(state[f"propagated_{i}"] for i in sources),
        sparse.csr_matrix((state["ancestor_value"][kept], place), shape=shape),
    )


def _check(settings: KinSettings) -> None:
    for name in ("ridge", "width"):
        value = getattr(settings, name)
        if value is not None and not value > 0:
            raise UnseenError(f"kin: {name} must be greater than 0, not {value}")
    if settings.floor < 0:
        raise UnseenError(f"kin: floor must not be negative, and is {settings.floor}")
    if not 0 < settings.decay <= 1:
        raise UnseenError(f"kin: decay must be greater than 0 and at most 1, not {settings.decay}")
    weights = (settings.word_weight, settings.propagated_weight, settings.ancestor_weight)
    if min(weights) < 0 or not sum(weights) > 0:
        raise UnseenError(f"kin: the kernel's weights must not be negative, and not all 0: {weights}")
    for name in ("descendants", "ancestors"):
        if len(getattr(settings, name)) < 2:
            raise UnseenError(f"kin: {name} needs at least two hop weights, the class itself and the rest")
