"""kin: a class's classifier from its kin, by kernel ridge regression in closed form.

    W~(u) = mu + K(u, S) (K(S, S) + ridge I)^-1 (W(S) - mu),   rows normalised

K adds up, for each source of class vectors, exp(g_x (<x, x'> - 1)) on the unit vectors x and exp(g_z (<z, z'> - 1)) on
those propagated over the hierarchy, z; and <a, a'> on unit vectors over a class's ancestors with entries beta^distance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import sparse

from unseen.methods import Solution
from unseen.problem import Problem, normalise_rows
from unseen.projections import Append1
from unseen.ridge import Ridges
from unseen.run import Run
from unseen.taxonomy import Taxonomy

CHUNK = 4096


@dataclass(frozen=True)
class KinSettings:
    word: float = 5.0  # g_x
    propagated: float = 10.0  # g_z
    beta: float = 0.6
    ridge: float = 1.0
    down: list[float] = field(default_factory=lambda: [0.25, 0.45, 0.15, 0.08, 0.07])
    up: list[float] = field(default_factory=lambda: [0.5, 0.3, 0.1, 0.05, 0.05])


class Kin:
    name: ClassVar[str] = "kin"
    needs_features: ClassVar[bool] = False
    Settings: ClassVar[type] = KinSettings

    def __init__(self, settings: KinSettings):
        self.settings = settings

    def fit(self, problem: Problem, run: Run) -> Solution:
        inputs = self._inputs(problem)
        seen = [part[problem.seen] for part in inputs]
        kernel = self._kernel(seen, seen)
        targets = problem.targets().astype(np.float64)
        mean = targets.mean(0)
        ridges = Ridges(kernel)
        state = {
            "dual": ridges.solve(targets - mean, self.settings.ridge).astype(np.float32),
            "inverse": ridges.inverse(self.settings.ridge).astype(np.float32),
            "mean": mean.astype(np.float32),
        }
        for i, part in enumerate(seen[:-1]):
            state[f"seen.{i}"] = np.asarray(part, np.float32)
        ancestors = seen[-1].tocoo()
        ids = np.array([problem.taxonomy.ids[c] for c in ancestors.col])
        state["ancestor.row"], state["ancestor.value"] = (
            ancestors.row.astype(np.int32),
            ancestors.data.astype(np.float32),
        )
        state["ancestor.id"] = np.frombuffer("\n".join(ids.tolist()).encode(), np.uint8)
        classifiers = self.predict(problem, state)
        return Solution(
            classifiers, Append1(), state, {"weights": int(state["dual"].size)}, trust=self.trust(problem, state)
        )

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        parts = [k @ state["dual"] + state["mean"] for k in self._rows(problem, state, rows)]
        return normalise_rows(np.concatenate(parts))

    def trust(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """Share of a class's prior variance that the seen classes explain, 0..1."""
        whole = 2 * len(problem.vectors.parts) + 1
        parts = [((k @ state["inverse"]) * k).sum(1) / whole for k in self._rows(problem, state, rows)]
        return np.clip(np.concatenate(parts), 0, 1).astype(np.float32)

    def shares(self, problem: Problem, state: dict[str, np.ndarray], row: int) -> np.ndarray:
        kernel = next(self._rows(problem, state, np.array([row])))
        return (kernel @ state["inverse"])[0]

    def _rows(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None):
        """K(u, S) in chunks of rows."""
        rows = np.arange(len(problem.taxonomy)) if rows is None else np.asarray(rows)
        inputs = self._inputs(problem)
        seen = [state[f"seen.{i}"] for i in range(len(inputs) - 1)]
        ids = state["ancestor.id"].tobytes().decode().split("\n")
        shape = (len(state["dual"]), len(problem.taxonomy))
        here = np.array([id in problem.taxonomy for id in ids], bool)  # a class above seen ones may have been removed
        above = problem.taxonomy.indices(id for id in ids if id in problem.taxonomy)
        value, row = state["ancestor.value"][here], state["ancestor.row"][here]
        seen.append(sparse.csr_matrix((value, (row, above)), shape=shape))
        for start in range(0, len(rows), CHUNK):
            yield self._kernel([part[rows[start : start + CHUNK]] for part in inputs], seen)

    def _inputs(self, problem: Problem) -> list:
        s, inputs = self.settings, []
        for x in problem.vectors.parts:
            z = propagate(problem.taxonomy, propagate(problem.taxonomy, x, s.down, True), s.up, False)
            inputs += [x, normalise_rows(z)]
        node, ancestor, distance = problem.taxonomy.ancestor_pairs()
        n = len(problem.taxonomy)
        a = sparse.csr_matrix((s.beta ** distance.astype(np.float32), (node, ancestor)), shape=(n, n))
        length = np.sqrt(np.asarray(a.multiply(a).sum(1)).ravel())
        return [*inputs, sparse.diags((1 / length).astype(np.float32)) @ a]

    def _kernel(self, left: list, right: list) -> np.ndarray:
        s = self.settings
        total = np.asarray((left[-1] @ right[-1].T).todense(), np.float32)
        for i, (x, y) in enumerate(zip(left[:-1], right[:-1], strict=True)):
            total += np.exp((s.propagated if i % 2 else s.word) * (x @ y.T - 1))
        return total


def propagate(taxonomy: Taxonomy, x: np.ndarray, weights: list[float], down: bool) -> np.ndarray:
    """sum_k weights[k] D_k^-1 A_k x over hop groups; from descendants if `down`, else from ancestors."""
    node, ancestor, distance = taxonomy.ancestor_pairs()
    receiver, giver = (ancestor, node) if down else (node, ancestor)
    group = np.minimum(distance, len(weights) - 1)
    n = len(taxonomy)
    degree = np.bincount(group.astype(np.int64) * n + receiver, minlength=n * len(weights))
    value = np.asarray(weights, np.float32)[group] / degree[group.astype(np.int64) * n + receiver]
    return sparse.csr_matrix((value.astype(np.float32), (receiver, giver)), shape=(n, n)) @ x
