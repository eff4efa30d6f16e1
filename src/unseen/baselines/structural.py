"""The structural baseline: no words and no learning, only who is near whom in the hierarchy.

The hop benchmarks reward closeness to seen classes, so that this alone does well on them (Hascoet et al., CVPR 2019);
a table without it flatters every method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from unseen.methods import Solution
from unseen.problem import Problem, normalise_rows
from unseen.projections import Append1
from unseen.run import Run
from unseen.taxonomy import Taxonomy

CHUNK = 256  # seen classes at a time: the walk keeps a few N x CHUNK arrays


class Structural:
    """W~(u) = sum_s exp(-decay d(u, s)) W(s), rows normalised; d is the undirected distance in the hierarchy."""

    name: ClassVar[str] = "structural"
    needs_features: ClassVar[bool] = False

    @dataclass(frozen=True)
    class Settings:
        decay: float = 1.5

    def __init__(self, settings: Settings):
        self.settings = settings

    def fit(self, problem: Problem, run: Run) -> Solution:
        return Solution(self.predict(problem, {}), Append1(), state={}, details={"weights": 0})

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        rows = np.arange(len(problem.taxonomy)) if rows is None else np.asarray(rows)
        targets = problem.targets()
        mixed = np.zeros((len(rows), targets.shape[1]), np.float32)
        for start in range(0, len(problem.seen), CHUNK):
            part = slice(start, start + CHUNK)
            distance = distances(problem.taxonomy, problem.seen[part])[rows]
            weight = np.exp(-self.settings.decay * distance, dtype=np.float32)
            weight[distance < 0] = 0  # another component of the hierarchy
            mixed += weight @ targets[part]
        return normalise_rows(mixed)


def distances(taxonomy: Taxonomy, sources: np.ndarray) -> np.ndarray:
    """Undirected hierarchy distance from every node to every source (N x len(sources), int16; -1: unreachable).

    All sources walk together: one sparse-by-dense product a hop moves every frontier one step.
    """
    child, parent = taxonomy.edges()
    n = len(taxonomy)
    ones = np.ones(2 * len(child), np.float32)
    links = (np.concatenate([child, parent]), np.concatenate([parent, child]))
    adjacency = sparse.csr_matrix((ones, links), shape=(n, n))
    distance = np.full((n, len(sources)), -1, np.int16)
    distance[sources, np.arange(len(sources))] = 0
    frontier = (distance == 0).astype(np.float32)
    hop = 0
    while frontier.any():
        hop += 1
        reached = (adjacency @ frontier > 0) & (distance < 0)
        distance[reached] = hop
        frontier = reached.astype(np.float32)
    return distance
