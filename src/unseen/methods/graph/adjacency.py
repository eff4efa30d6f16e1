"""Normalised sparse adjacencies of a class hierarchy, and the receptive field of output rows.

A layer of a graph network computes row i of its output from the rows j that i is adjacent to. The loss reads only the
seen rows: walking back from them through each layer's adjacency gives all rows that training must compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError

DIRECTIONS = ("descendants", "ancestors", "both")
NORMALISATIONS = ("row", "symmetric")


@dataclass(frozen=True)
class Adjacency:
    """A sparse matrix (rows x columns) in compressed rows; each entry has a fixed weight and belongs to a hop group.

    With hop weights alpha it is  A = sum_k alpha_k D_k^-1 A_k;  with one group, the matrix itself.
    """

    pointer: np.ndarray  # rows + 1, int64: entries of row i are pointer[i]:pointer[i + 1]
    column: np.ndarray  # entries, int64
    weight: np.ndarray  # entries, float64
    group: np.ndarray  # entries, int64
    groups: int
    columns: int
    diagonal: np.ndarray  # rows, int64: the column that stands for the same node as row i

    @property
    def rows(self) -> int:
        return len(self.pointer) - 1

    @property
    def entries(self) -> int:
        return len(self.column)

    @cached_property
    def row(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(self.rows), np.diff(self.pointer))

    def select(self, rows: np.ndarray) -> tuple[Adjacency, np.ndarray]:
        """These rows with the columns that they read, and those columns (ascending)."""
        counts = (self.pointer[1:] - self.pointer[:-1])[rows]
        pointer = np.concatenate([[0], np.cumsum(counts)])
        kept = np.arange(pointer[-1]) + np.repeat(self.pointer[rows] - pointer[:-1], counts)
        is_read = np.zeros(self.columns, bool)
        is_read[self.column[kept]] = is_read[self.diagonal[rows]] = True
        position = np.cumsum(is_read) - 1  # of each column among the ones that are read
        selected = Adjacency(
            pointer=pointer,
            column=position[self.column[kept]],
            weight=self.weight[kept],
            group=self.group[kept],
            groups=self.groups,
            columns=int(is_read.sum()),
            diagonal=position[self.diagonal[rows]],
        )
        return selected, np.flatnonzero(is_read)

    def dense(self, alpha: np.ndarray | None = None) -> np.ndarray:
        """The matrix in full (rows x columns), for small graphs and tests."""
        matrix = np.zeros((self.rows, self.columns))
        scale = 1.0 if alpha is None else np.asarray(alpha)[self.group]
        np.add.at(matrix, (self.row, self.column), self.weight * scale)
        return matrix


@dataclass(frozen=True)
class Field:
    """The nodes that a stack of layers reads for some output rows: the rows of `nodes[l]` enter layer l."""

    layers: tuple[Adjacency, ...]
    nodes: tuple[np.ndarray, ...]  # one more than layers; the last are the output rows, in the order asked for

    @property
    def inputs(self) -> np.ndarray:
        return self.nodes[0]


def hop_groups(hierarchy: Hierarchy, direction: str, k: int = 4, rows: np.ndarray | None = None) -> Adjacency:
    """Every node gathers from itself and all its descendants, ancestors, or both, in groups of equal distance.

    Group g < k holds the pairs at distance g, group k those at distance k or more. In each group a row is divided by
    its own degree (D_g^-1 A_g), so a row with an empty group sums to less than 1 once the groups are mixed. With `rows`
    only these nodes gather: the rows of the others are left empty.
    """
    if k < 1:
        raise UnseenError(f"k must be at least 1, not {k}: group 0 is the node itself")
    row, column, distance = _dense_pairs(hierarchy, direction)
    if rows is not None:
        asked = np.zeros(len(hierarchy), bool)
        asked[rows] = True
        kept = asked[row]
        row, column, distance = row[kept], column[kept], distance[kept]
    return _normalised(row, column, np.minimum(distance, k), k + 1, len(hierarchy), "row")


def all_hops(hierarchy: Hierarchy, direction: str) -> Adjacency:
    """The dense connections of all distances in one group: D^-1 A."""
    row, column, _ = _dense_pairs(hierarchy, direction)
    return _normalised(row, column, np.zeros(len(row), np.int64), 1, len(hierarchy), "row")


def neighbours(hierarchy: Hierarchy, normalisation: str = "row") -> Adjacency:
    """The hierarchy's edges in both directions and self-loops: D^-1 A (`row`) or D^-1/2 A D^-1/2 (`symmetric`)."""
    if normalisation not in NORMALISATIONS:
        raise UnseenError(f"no normalisation named {normalisation!r}. There are: {', '.join(NORMALISATIONS)}")
    child, parent = (np.asarray(ends, np.int64) for ends in hierarchy.edges())
    itself = np.arange(len(hierarchy))
    row, column = np.concatenate([child, parent, itself]), np.concatenate([parent, child, itself])
    return _normalised(row, column, np.zeros(len(row), np.int64), 1, len(hierarchy), normalisation)


def whole_graph(layers: list[Adjacency]) -> Field:
    """The field of all rows."""
    return Field(tuple(layers), (np.arange(layers[0].rows),) * (len(layers) + 1))


def receptive_field(layers: list[Adjacency], rows: np.ndarray) -> Field:
    """Walk back from the output rows: each layer keeps the rows that the next one reads, and the columns they read."""
    nodes, kept = [np.asarray(rows, np.int64)], []
    for adjacency in reversed(layers):
        selected, needed = adjacency.select(nodes[0])
        kept.insert(0, selected)
        nodes.insert(0, needed)
    return Field(tuple(kept), tuple(nodes))


def _dense_pairs(hierarchy: Hierarchy, direction: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, column, distance) of every pair that a direction connects, the node itself once at distance 0."""
    if direction not in DIRECTIONS:
        raise UnseenError(f"no direction named {direction!r}. There are: {', '.join(DIRECTIONS)}")
    node, ancestor, distance = (np.asarray(part, np.int64) for part in hierarchy.ancestor_pairs())
    if direction == "ancestors":
        return node, ancestor, distance
    if direction == "descendants":
        return ancestor, node, distance
    apart = distance > 0
    return (
        np.concatenate([node, ancestor[apart]]),
        np.concatenate([ancestor, node[apart]]),
        np.concatenate([distance, distance[apart]]),
    )


def _normalised(
    row: np.ndarray, column: np.ndarray, group: np.ndarray, groups: int, nodes: int, normalisation: str
) -> Adjacency:
    order = np.lexsort((column, row))
    row, column, group = row[order], column[order], group[order].astype(np.int64)
    slot = row * groups + group
    degree = np.bincount(slot, minlength=nodes * groups).astype(np.float64)
    if normalisation == "row":
        weight = 1.0 / degree[slot]
    else:
        weight = 1.0 / np.sqrt(degree[row] * degree[column])
    pointer = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=nodes))])
    return Adjacency(pointer, column, weight, group, groups, nodes, np.arange(nodes))
