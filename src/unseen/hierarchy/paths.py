"""Graph algorithms of the hierarchy on plain arrays, with no Python loop over nodes.

A graph is a pair (ptr, idx) in compressed rows: the neighbours of row u are idx[ptr[u]:ptr[u + 1]].
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from unseen.util.errors import UnseenError

Graph = tuple[np.ndarray, np.ndarray]

# A pair (ancestor, distance) is one int64, ancestor << BITS | distance; with the node before it, it still must fit.
BITS = 15
MOST_NODES = 1 << 24
MOST_PAIRS = 1 << 24  # 17 million, 1.4 GB in all; or as many as MANY_ABOVE a node, if that is more
SHALLOW = 64  # levels; WordNet's nouns have about 20
MANY_ABOVE = 64  # ancestors of a class on average; WordNet's nouns have 8


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


def runs(start: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices start[i], start[i] + 1, ... (count[i] of them) for each i, as (i, index), one run after the other."""
    which = np.repeat(np.arange(len(start)), count)
    begin = np.cumsum(count) - count  # where each run begins in the output
    return which, np.arange(len(which)) + np.repeat(start - begin, count)


def neighbours(graph: Graph, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All neighbours of `rows`, as (position in rows, neighbour): the join of a list of rows with the graph."""
    ptr, idx = graph
    start = ptr[rows].astype(np.int64)
    which, at = runs(start, ptr[rows + 1] - start)
    return which, idx[at]


def distances(sources: np.ndarray, *graphs: Graph) -> np.ndarray:
    """Steps from the nearest source along the edges of any of `graphs`; -1 where there is no way. int32[nodes]."""
    distance = np.full(len(graphs[0][0]) - 1, -1, np.int32)
    finder = np.empty(len(distance), np.int64)
    frontier = np.unique(np.asarray(sources, np.int64))
    distance[frontier] = 0
    step = 0
    while frontier.size:
        step += 1
        reached = np.concatenate([neighbours(graph, frontier)[1] for graph in graphs])
        reached = reached[distance[reached] < 0]
        finder[reached] = np.arange(len(reached))
        frontier = reached[finder[reached] == np.arange(len(reached))]  # each once, without sorting
        distance[frontier] = step
    return distance


def ancestor_pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every (node, ancestor) with the length of the shortest way up, self at distance 0 included.

        pairs(u) = {(u, 0)} + the nearest of {(a, d + 1) : (a, d) in pairs(p), p parent of u}

    for all nodes at once whose parents are done. Returns node int32[], ancestor int32[], distance int16[], sorted by
    (distance, node, ancestor).
    """
    nodes = len(graph[0]) - 1
    if nodes >= MOST_NODES:
        raise UnseenError(f"{nodes:,} classes are too many: ancestors are computed for up to {MOST_NODES - 1:,}.")
    start, count = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)  # each node's run in `store`
    store, used = np.empty(nodes, np.int64), 0
    most = max(MOST_PAIRS, MANY_ABOVE * nodes)
    for level, ready in enumerate(_levels(graph), 1):
        position, parent = neighbours(graph, ready)
        which, at = runs(start[parent], count[parent])
        node = np.concatenate([np.arange(len(ready)), position[which]])
        pair = np.concatenate([ready << BITS, store[at] + 1])
        key = node * (nodes << BITS) + pair
        key.sort()
        key = key[np.diff(key >> BITS, prepend=-1) != 0]  # of several ways to an ancestor the first is the shortest
        node, pair = np.divmod(key, nodes << BITS)
        count[ready] = np.bincount(node)
        start[ready] = used + np.cumsum(count[ready]) - count[ready]
        if used + len(pair) > len(store):
            store = np.concatenate([store[:used], np.empty(used + len(pair), np.int64)])
        store[used : used + len(pair)] = pair
        used += len(pair)
        if used > most or level >> BITS:  # memory grows with the square of a chain's length
            above = f"{used / np.count_nonzero(count):,.0f} classes above each on average"
            raise UnseenError(f"The hierarchy is too deep, {level:,} levels with {above}: is it a chain by mistake?")
    pair = store[runs(start, count)[1]]  # by node, then by ancestor
    del store
    distance, ancestor = (pair & ((1 << BITS) - 1)).astype(np.int16), (pair >> BITS).astype(np.int32)
    del pair
    order = np.argsort(distance, kind="stable")
    return np.repeat(np.arange(nodes, dtype=np.int32), count)[order], ancestor[order], distance[order]


def _levels(graph: Graph) -> Iterator[np.ndarray]:
    """Rows whose parents all came before, from the roots down; what is on or below a cycle never comes."""
    down, undone = reverse(graph), np.diff(graph[0])  # parents still to come
    ready = np.flatnonzero(undone == 0)
    while ready.size:
        yield ready
        child, done = np.unique(neighbours(down, ready)[1], return_counts=True)
        undone[child] -= done.astype(undone.dtype)
        ready = child[undone[child] == 0].astype(np.int64)


def find_cycle(graph: Graph) -> list[int] | None:
    """The rows of one cycle [a, b, ..., a], or None: then every strongly connected component is a single node."""
    if sum(map(len, islice(_levels(graph), SHALLOW))) == len(graph[0]) - 1:  # every way up ends
        return None
    from scipy.sparse import csr_array  # here: it takes longer to import than to search most hierarchies
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


def climb(graph: Graph, row: int) -> dict[int, tuple[int, int]]:
    """All above `row`, and itself -> (steps, the row from which it was reached), nearest first."""
    ptr, idx = graph
    reached = {row: (0, row)}
    queue = [row]
    for here in queue:
        for parent in idx[ptr[here] : ptr[here + 1]].tolist():
            if parent not in reached:
                reached[parent] = (reached[here][0] + 1, here)
                queue.append(parent)
    return reached


def way_up(graph: Graph, row: int, top: int | None = None) -> list[int]:
    """The rows of a shortest way from `row` up to its ancestor `top`, by default its nearest root; both included."""
    ptr, reached = graph[0], climb(graph, row)
    way = [next(above for above in reached if ptr[above] == ptr[above + 1]) if top is None else top]
    while way[-1] != row:
        way.append(reached[way[-1]][1])
    return way[::-1]


def lowest_common(graph: Graph, a: int, b: int) -> int | None:
    """A row above both (a row is above itself) with no other such row below it: of several, the nearest to both."""
    above_a, above_b = climb(graph, a), climb(graph, b)
    common = above_a.keys() & above_b.keys()
    # What is above a common ancestor is common too, so just the parents of common ones have another below them.
    higher = neighbours(graph, np.array(sorted(common), np.int64))[1].tolist()
    return min(common.difference(higher), key=lambda row: (above_a[row][0] + above_b[row][0], row), default=None)
