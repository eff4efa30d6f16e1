"""What kin knows of a class, and how alike that makes two classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unseen.methods.graph.adjacency import Adjacency, hop_groups
from unseen.methods.problem import Problem, has_vector, normalise_rows
from unseen.taxonomy import Taxonomy

if TYPE_CHECKING:  # a bundle that only labels photos asks for the method's settings, and never for a product
    from scipy import sparse


@dataclass(frozen=True)
class Inputs:
    """What is known of n classes.

    Args:
        words: x for each source of vectors: n x S, rows of length 1 or 0.
        propagated: z for each source, the vectors propagated over the hierarchy as DGP does: n x S, rows likewise.
        ancestors: a, n x N, rows of length 1.
    """

    words: tuple[np.ndarray, ...]
    propagated: tuple[np.ndarray, ...]
    ancestors: sparse.csr_matrix

    def __getitem__(self, rows) -> Inputs:
        return Inputs(
            tuple(part[rows] for part in self.words),
            tuple(part[rows] for part in self.propagated),
            self.ancestors[rows],
        )


@dataclass(frozen=True)
class Kernel:
    """k(u, v) = sum over sources of  w_s (w_x exp(g_x (<x, x'> - 1)) + w_z exp(g_z (<z, z'> - 1))),  plus  w_a <a, a'>,

    divided by the sum of the weights, so that k(u, u) = 1 for a class of which all is known. A class without a vector
    gets nothing from that source: no likeness, rather than a little with everybody.

    Args:
        words: g_x of each source.
        propagated: g_z of each source.
        sources: w_s of each source.
        word_weight: w_x.
        propagated_weight: w_z.
        ancestor_weight: w_a.
    """

    words: tuple[float, ...]
    propagated: tuple[float, ...]
    sources: tuple[float, ...]
    word_weight: float
    propagated_weight: float
    ancestor_weight: float

    def __call__(self, left: Inputs, right: Inputs) -> np.ndarray:
        """k(u, v) of n classes with m others: n x m, float32."""
        total = self.ancestor_weight * np.asarray((left.ancestors @ right.ancestors.T).todense(), np.float32)
        for weight, width, x, y in self._parts(left, right):
            if weight:
                total += weight * _exponential(x, y, width)
        return total / self._sum()

    def _parts(self, left: Inputs, right: Inputs) -> Iterator[tuple[float, float, np.ndarray, np.ndarray]]:
        for source, width, x, y in zip(self.sources, self.words, left.words, right.words, strict=True):
            yield source * self.word_weight, width, x, y
        for source, width, z, y in zip(self.sources, self.propagated, left.propagated, right.propagated, strict=True):
            yield source * self.propagated_weight, width, z, y

    def _sum(self) -> float:
        return (self.word_weight + self.propagated_weight) * sum(self.sources) + self.ancestor_weight


def gather(
    problem: Problem,
    descendants: Sequence[float],
    ancestors: Sequence[float],
    decay: float,
    rows: np.ndarray | None = None,
) -> Inputs:
    """The inputs of `rows`, by default of every class, from just the classes that they depend on.

    Args:
        problem: With the hierarchy and the class vectors.
        descendants: Hop weights of the first phase. They are DGP's, but fixed.
        ancestors: Hop weights of the second phase.
        decay: Of an ancestor's part in a with its distance.
        rows: n rows of the hierarchy, in any order.
    """
    taxonomy, rows = problem.taxonomy, problem.rows_or_all(rows)
    up, middle = hop_groups(taxonomy, "ancestors", len(ancestors) - 1, rows).select(rows)
    down, below = hop_groups(taxonomy, "descendants", len(descendants) - 1, middle).select(middle)
    first, second = mixed(down, descendants), mixed(up, ancestors)
    return Inputs(
        tuple(normalise_rows(part[rows]) for part in problem.vectors.parts),
        tuple(normalise_rows(second @ (first @ normalise_rows(part[below]))) for part in problem.vectors.parts),
        ancestor_vectors(taxonomy, decay, rows),
    )


def mixed(groups: Adjacency, weights: Sequence[float]) -> sparse.csr_matrix:
    """sum_k weights[k] D_k^-1 A_k, sparse, of the adjacency's shape."""
    from scipy import sparse

    values = (groups.weight * np.asarray(weights)[groups.group]).astype(np.float32)
    return sparse.csr_matrix((values, groups.column, groups.pointer), shape=(groups.rows, groups.columns))


def ancestor_vectors(taxonomy: Taxonomy, decay: float, rows: np.ndarray) -> sparse.csr_matrix:
    """a of each of `rows`: decay^distance at each ancestor and 1 at the class itself, scaled to length 1 (n x N)."""
    from scipy import sparse

    asked, place = np.unique(rows, return_inverse=True)
    position = np.full(len(taxonomy), -1)
    position[asked] = np.arange(len(asked))
    node, ancestor, distance = taxonomy.ancestor_pairs()
    kept = position[node] >= 0
    node, ancestor, distance = position[node[kept]], ancestor[kept], distance[kept]
    value = np.power(np.float32(decay), distance.astype(np.float32))
    length = np.sqrt(np.bincount(node, value**2, minlength=len(asked)))
    shape = (len(asked), len(taxonomy))
    return sparse.csr_matrix(((value / length[node]).astype(np.float32), (node, ancestor)), shape=shape)[place]


def natural_width(part: np.ndarray) -> float:
    """1 - the mean cosine between classes: what "far apart" means in these vectors; 1 where there are too few classes.

    Widths are given in this unit, so that the same setting suits vectors that all look alike and vectors that do not.
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
