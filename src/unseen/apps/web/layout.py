"""Where every class lies on the map: all classes in one row, so that whatever is below a node is one stretch of it.

The page bends the row into a plane with a curve that keeps neighbours together, so that a stretch becomes a region.
Siblings that look alike to the network are neighbours: their order comes from `data/map.npz`, which
`tools/build_map.py` makes from the default model's classifiers. A class that it does not have goes by its name.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from unseen.data import data_file
from unseen.hierarchy.core import Hierarchy


class Layout:
    """`start` and `size` (N each): the stretch of the row that the classes at and below each node take.

    A node with several parents lies below the first. `rows` (C) are the classes in their order along the row.

    >>> pets = Hierarchy.from_edges([("dog", "pet"), ("cat", "pet"), ("poodle", "dog")])
    >>> layout = Layout(pets, np.ones(4, bool))
    >>> [pets.ids[row] for row in layout.rows]
    ['pet', 'cat', 'dog', 'poodle']
    >>> {id: layout.stretch(pets.index(id)) for id in pets.ids}
    {'dog': [2, 2], 'pet': [0, 4], 'cat': [1, 1], 'poodle': [3, 1]}
    """

    def __init__(self, hierarchy: Hierarchy, is_class: np.ndarray):
        ranks, count = embedded_ranks(), len(hierarchy)
        order = {row: (ranks.get(id, 1 << 20), hierarchy.names[row].lower()) for row, id in enumerate(hierarchy.ids)}
        parents = first_parents(hierarchy)
        below: list[list[int]] = [[] for _ in range(count)]
        for row in sorted(range(count), key=order.__getitem__):
            if parents[row] >= 0:
                below[parents[row]].append(row)
        self.depth = np.zeros(count, np.int32)
        self.start, self.size = np.zeros(count, np.int64), np.zeros(count, np.int64)
        walk, rows, waiting = [], [], sorted(np.flatnonzero(parents < 0).tolist(), key=order.__getitem__, reverse=True)
        while waiting:
            row = waiting.pop()
            walk.append(row)
            self.start[row] = len(rows)
            if is_class[row]:
                rows.append(row)
            self.depth[below[row]] = self.depth[row] + 1
            waiting.extend(reversed(below[row]))
        self.size[rows] = 1
        for row in reversed(walk):
            if parents[row] >= 0:
                self.size[parents[row]] += self.size[row]
        self.parents, self.rows = parents, np.array(rows, np.int64)

    def stretch(self, row: int) -> list[int]:
        """[first place, number of places]."""
        return [int(self.start[row]), int(self.size[row])]

    def regions(self, least: int) -> np.ndarray:
        """Rows of the nodes with `least` places or more, except those that cover no more than one below them."""
        large = np.flatnonzero(self.size >= least)
        inner = {(int(self.start[row]), int(self.size[row]), int(self.parents[row])) for row in large}
        same = [(int(self.start[row]), int(self.size[row]), int(row)) not in inner for row in large]
        return large[same]


def first_parents(hierarchy: Hierarchy) -> np.ndarray:
    """The row of each node's first parent, -1 at the top. int64[N]"""
    has_parent = np.diff(hierarchy.parent_ptr) > 0
    parents = np.full(len(hierarchy), -1, np.int64)
    parents[has_parent] = hierarchy.parent_idx[hierarchy.parent_ptr[:-1][has_parent]]
    return parents


@cache
def embedded_ranks() -> dict[str, int]:
    """The place of each WordNet node among its siblings."""
    with np.load(data_file("map.npz"), allow_pickle=False) as file:
        offsets = np.cumsum(file["steps"], dtype=np.int64)  # sorted offsets, as differences
        return {f"n{offset:08d}": rank for offset, rank in zip(offsets.tolist(), file["ranks"].tolist(), strict=True)}
