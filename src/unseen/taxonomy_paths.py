"""Graph algorithms of the taxonomy on plain arrays, with no Python loop over nodes.

A graph is a pair (ptr, idx) in compressed rows: the neighbours of row u are idx[ptr[u]:ptr[u + 1]].
"""

from __future__ import annotations

import numpy as np

from unseen.errors import UnseenError

Graph = tuple[np.ndarray, np.ndarray]

# Pairs are joined for this many nodes at a time: it bounds the working memory and keeps the sorts in the cache.
BLOCK = 1 << 15


def graph_of(child: np.ndarray, parent: np.ndarray, nodes: int) -> Graph:
    """Edges -> compressed rows, int32. An edge given twice counts once; each child's parents keep the order given."""
    child, parent = np.asarray(child, np.int64), np.asarray(parent, np.int64)
    first = np.sort(np.unique(child * nodes + parent, return_index=True)[1])
    child, parent = child[first], parent[first]
    order = np.argsort(child, kind="stable")
    ptr = np.zeros(nodes + 1, np.int32)
    np.cumsum(np.bincount(child, minlength=nodes), out=ptr[1:])
    return ptr, parent[order].astype(np.int32)


def edges_of(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Compressed rows -> (child, parent), int32, sorted by child."""
    ptr, idx = graph
    return np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr)), idx


def reverse(graph: Graph) -> Graph:
    """The same edges the other way round; each parent's children come in row order."""
    child, parent = edges_of(graph)
    order = np.argsort(parent, kind="stable")
    ptr = np.zeros_like(graph[0])
    np.cumsum(np.bincount(parent, minlength=len(ptr) - 1), out=ptr[1:])
    return ptr, child[order]


def neighbours(graph: Graph, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All neighbours of `rows`, as (position in rows, neighbour): the join of a list of rows with the graph."""
    ptr, idx = graph
    start = ptr[rows].astype(np.int64)
    count = ptr[rows + 1] - start
    position = np.repeat(np.arange(len(rows)), count)
    # Entry j of a row's run reads idx[start + j]; `before` is where its run begins in the output.
    before = np.cumsum(count) - count
    return position, idx[np.arange(len(position)) + np.repeat(start - before, count)]


def distances(sources: np.ndarray, *graphs: Graph) -> np.ndarray:
    """Steps from the nearest source along the edges of any of `graphs`; -1 where there is no way. int32[nodes]."""
    distance = np.full(len(graphs[0][0]) - 1, -1, np.int32)
    frontier = np.unique(np.asarray(sources, np.int64))
    distance[frontier] = 0
    step = 0
    while frontier.size:
        step += 1
        reached = np.concatenate([neighbours(graph, frontier)[1] for graph in graphs])
        frontier = np.unique(reached[distance[reached] < 0])
        distance[frontier] = step
    return distance


def ancestor_pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every (node, ancestor) with the length of the shortest way up, self at distance 0 included.

    Level d + 1 is the join of level d with the parents, less the pairs already met. Returns node int32[], ancestor
    int32[], distance int16[], sorted by (distance, node, ancestor).
    """
    nodes = len(graph[0]) - 1
    levels: list[list[np.ndarray]] = []
    for first in range(0, nodes, BLOCK):
        node = ancestor = np.arange(first, min(first + BLOCK, nodes), dtype=np.int64)
        met = node * nodes + ancestor  # one sorted int64 key a pair
        step = 0
        while node.size:
            if step > np.iinfo(np.int16).max:
                raise UnseenError(f"The hierarchy is more than {step - 1:,} levels deep: is that a chain by mistake?")
            if step == len(levels):
                levels.append([])
            levels[step].append(np.stack([node, ancestor]).astype(np.int32))
            position, parent = neighbours(graph, ancestor)
            key = np.unique(node[position] * nodes + parent)
            key = key[met[np.minimum(np.searchsorted(met, key), len(met) - 1)] != key]
            met = np.sort(np.concatenate([met, key]), kind="stable")
            node, ancestor = np.divmod(key, nodes)
            step += 1
    if not levels:
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int16)
    # Blocks go up in node order and keys are sorted within a block, so each level is already sorted.
    sizes = [sum(part.shape[1] for part in level) for level in levels]
    node, ancestor = np.concatenate([part for level in levels for part in level], axis=1)
    return node, ancestor, np.repeat(np.arange(len(levels), dtype=np.int16), sizes)


def find_cycle(graph: Graph) -> list[int] | None:
    """The rows of one cycle [a, b, ..., a], or None: then every strongly connected component is a single node."""
    from scipy.sparse import csr_array  # here, so that reading WordNet need not wait for scipy
    from scipy.sparse.csgraph import connected_components

    ptr, idx = graph
    nodes = len(ptr) - 1
    child, parent = edges_of(graph)
    if (child == parent).any():
        row = int(child[child == parent][0])
        return [row, row]
    matrix = csr_array((np.ones(len(idx), np.int8), idx, ptr), shape=(nodes, nodes))
    components, label = connected_components(matrix, directed=True, connection="strong")
    if components == nodes:
        return None
    row = int(np.argmax(np.bincount(label)[label] > 1))
    way: dict[int, int] = {}
    while row not in way:  # from inside a component there is always a next step within it
        way[row] = len(way)
        row = next(int(up) for up in idx[ptr[row] : ptr[row + 1]] if label[up] == label[row])
    return [*list(way)[way[row] :], row]


def bypass(graph: Graph, gone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The edges (child, parent) after the rows of the mask `gone` left: their children go to their parents instead."""
    child, parent = edges_of(graph)
    child, parent = child[~gone[child]], parent[~gone[child]]
    while gone[parent].any():
        position, grandparent = neighbours(graph, parent[gone[parent]])
        # Stable in the child's order of parents: the new ones stand where the removed one stood.
        slot = np.concatenate([np.flatnonzero(~gone[parent]), np.flatnonzero(gone[parent])[position]])
        order = np.argsort(slot, kind="stable")
        parent = np.concatenate([parent[~gone[parent]], grandparent])[order]
        child = child[slot[order]]
    return child, parent
