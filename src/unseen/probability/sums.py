"""Probabilities of classes, summed up the hierarchy.

P(v) = sum of p(c) over the candidate classes c at or below node v. The hierarchy is a directed acyclic graph: a class
that reaches v by several ways counts once.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unseen.taxonomy import Taxonomy

if TYPE_CHECKING:
    from scipy import sparse

FEW = 8  # photos: for so many, importing scipy takes longer than all of the sums


class NodeSums:
    """The nodes above some candidate classes, and how probable each is.

    `rows`: rows of the taxonomy for the classes that have a probability. `candidates`: rows of all C classes that a
    photo may be assigned to, where some of them never have one; they count in `sizes`. `nodes`: rows of the V nodes
    that have a class with a probability at or below them, ascending.

    >>> taxonomy = Taxonomy.from_edges([("cat", "animal"), ("dog", "animal"), ("oak", "plant")])
    >>> sums = NodeSums(taxonomy, taxonomy.indices(["cat", "dog", "oak"]))
    >>> [taxonomy.ids[row] for row in sums.nodes]
    ['cat', 'animal', 'dog', 'oak', 'plant']
    >>> sums(np.array([[0.5, 0.25, 0.25]])).tolist()
    [[0.5, 0.75, 0.25, 0.25, 0.25]]
    >>> sums.sizes.tolist()
    [1, 2, 1, 1, 1]
    """

    def __init__(self, taxonomy: Taxonomy, rows: np.ndarray, candidates: np.ndarray | None = None):
        self.rows = np.asarray(rows, np.int64)
        self.candidates = self.rows if candidates is None else np.asarray(candidates, np.int64)
        column = np.full(len(taxonomy), -1)
        column[self.rows] = np.arange(len(self.rows))
        node, ancestor, _ = taxonomy.ancestor_pairs()  # each pair once, the node itself among its ancestors
        kept = column[node] >= 0
        self.nodes, place = np.unique(ancestor[kept], return_inverse=True)
        order = np.argsort(column[node[kept]], kind="stable")
        self._pairs = column[node[kept]][order], place[order]  # (class, node at or above it), by class
        is_candidate = np.zeros(len(taxonomy), bool)
        is_candidate[self.candidates] = True
        self.sizes = np.bincount(ancestor[is_candidate[node]], minlength=len(taxonomy))[self.nodes]  # c(v), V

    @cached_property
    def membership(self) -> sparse.csr_matrix:
        """C x V: 1 where a node is a class or above it, else 0."""
        from scipy import sparse

        ones, shape = np.ones(len(self._pairs[0]), np.float32), (len(self.rows), len(self.nodes))
        return sparse.csr_matrix((ones, self._pairs), shape=shape)

    @cached_property
    def _to_nodes(self) -> sparse.csr_matrix:
        return self.membership.T.tocsr()

    @cached_property
    def information(self) -> np.ndarray:
        """V: log2(C / c(v)), the bits that naming a node is worth; 0 for one that holds every candidate."""
        return np.log2(len(self.candidates) / self.sizes)

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Of classes (n x C) -> of nodes (n x V)."""
        if len(probabilities) > FEW:
            return np.ascontiguousarray((self._to_nodes @ probabilities.T).T)
        sums = np.zeros((len(probabilities), len(self.nodes)), probabilities.dtype)
        for own, given in zip(sums, probabilities, strict=True):
            np.add.at(own, self._pairs[1], given[self._pairs[0]])  # one after the other, as scipy adds
        return sums

    def place(self, row: int) -> int | None:
        """Where a row of the taxonomy stands among `nodes`; None if no candidate is at or below it."""
        at = int(np.searchsorted(self.nodes, row))
        return at if at < len(self.nodes) and self.nodes[at] == row else None


class NodeProbabilities:
    """The probabilities of one photo's nodes, without those that are next to nothing."""

    LEAST = 1e-4

    def __init__(self, taxonomy: Taxonomy, sums: NodeSums, masses: np.ndarray):
        kept = masses >= self.LEAST
        self.taxonomy, self.rows, self.values = taxonomy, sums.nodes[kept], masses[kept]

    def __getitem__(self, node: str) -> float:
        """Of a node by id or name; 0 for one that was left out."""
        row = self.taxonomy.index(find_node(self.taxonomy, node))
        at = int(np.searchsorted(self.rows, row))
        return float(self.values[at]) if at < len(self.rows) and self.rows[at] == row else 0.0

    def items(self) -> list[tuple[str, float]]:
        """(id, probability), most probable first."""
        order = np.argsort(-self.values, kind="stable")
        return [(self.taxonomy.ids[self.rows[i]], float(self.values[i])) for i in order]


def find_node(taxonomy: Taxonomy, text: str) -> str:
    """The id of a node by id or name. Of several that bear the name, the one that it is the first name of: a "bird" is
    no shuttlecock."""
    if text not in taxonomy:
        first = [sense.id for sense in taxonomy.senses(text) if sense.lemmas[0].lower() == text.strip().lower()]
        if len(first) == 1:
            return first[0]
    return taxonomy.resolve(text)
