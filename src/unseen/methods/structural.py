"""The structural baseline: no words and no learning, only who is near whom in the hierarchy.

The hop benchmarks reward closeness to seen classes, so that this alone does well on them (Hascoet et al., CVPR 2019);
a table without it flatters every method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import FitRecord, Method, Problem, Solution, State, normalise_rows
from unseen.methods.projections import Append1
from unseen.util.run import Run
from unseen.util.settings import NOT_NEGATIVE

FAR = 20_000  # steps to a class that cannot be reached


@dataclass(frozen=True)
class StructuralSettings:
    """Settings of the structural baseline.

    Args:
        decay: How fast a seen class's part falls with its distance.
    """

    decay: Annotated[float, NOT_NEGATIVE] = 1.5


class Structural(Method):
    """W~(u) = sum_s exp(-decay d(u, s)) W(s), rows normalised; d is the undirected distance in the hierarchy.

    Classes that are equally far from every seen class, or further by the same number of steps (a class and the leaves
    below it), have the same direction: it is computed once for all of them, so that they tie exactly.

    Shapes: W is M x P, the known classifiers scaled to length 1; W~ is N x P.
    """

    name = "structural"
    Settings = StructuralSettings

    def fit(self, problem: Problem, run: Run) -> Solution:
        return Solution(self.predict(problem, {}), Append1(), record=FitRecord(weights=0))

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        targets = problem.targets().astype(np.float64)
        steps = distances(problem.hierarchy, problem.seen)[problem.rows_or_all(rows)]
        steps[steps < 0] = FAR  # another component of the hierarchy
        nearest = steps.min(axis=1, keepdims=True)
        steps -= np.where(nearest == FAR, 0, nearest)  # only the differences matter
        kinds, kind = np.unique(steps.view(np.dtype((np.void, 2 * steps.shape[1]))).ravel(), return_inverse=True)
        steps = kinds.view(np.int16).reshape(len(kinds), -1)
        mixed = np.where(steps > FAR // 2, 0, np.exp(-self.settings.decay * steps)) @ targets
        return normalise_rows(mixed).astype(np.float32)[kind]


def distances(hierarchy: Hierarchy, sources: np.ndarray) -> np.ndarray:
    """Undirected hierarchy distance from every node to every source (N x len(sources), int16; -1: unreachable).

    All sources walk together. A node keeps a bit for each source that has reached it, 64 to a word, and a hop is an
    OR over the node's neighbours; the distance is the number of hops after which the bit was still unset.
    """
    # Five times as fast as scipy.sparse.csgraph.dijkstra(unweighted=True) on ImageNet's hierarchy with 1,000 sources,
    # which is most of what this method costs, and without a matrix of float64 of that size.
    child, parent = (np.asarray(ends, np.int64) for ends in hierarchy.edges())
    n, count = len(hierarchy), len(sources)
    itself = np.arange(n)  # so that every node has a neighbour, and keeps what it has
    node, neighbour = np.concatenate([child, parent, itself]), np.concatenate([parent, child, itself])
    order = np.argsort(node, kind="stable")
    neighbour, first = neighbour[order], np.searchsorted(node[order], itself)
    reached = np.zeros((n, -(-count // 64) * 64), bool)
    reached[sources, np.arange(count)] = True
    bits = np.packbits(reached, axis=1).view(np.uint64)
    distance, hop = np.zeros((n, count), np.uint8), 0
    while True:
        missing = np.unpackbits(~bits.view(np.uint8), axis=1, count=count)
        further = np.bitwise_or.reduceat(bits[neighbour], first, axis=0)
        if np.array_equal(further, bits):
            distance = distance.astype(np.int16)
            distance[missing.view(bool)] = -1
            return distance
        distance += missing
        bits, hop = further, hop + 1
        if hop == 255:  # the next one would not fit
            distance = distance.astype(np.int16)
