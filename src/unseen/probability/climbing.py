"""From the seen classes up to the unseen ones above them: where a photo's probability goes if it shows such a one."""

from __future__ import annotations

import numpy as np

from unseen.taxonomy import Taxonomy


def way_up(taxonomy: Taxonomy, seen: np.ndarray, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the unseen classes lie above seen ones (A places in `unseen`), and the way there (len(seen) x A).

    Each step up halves the weight; a row sums to 1, or to 0 where nothing unseen is above a class.

    >>> taxonomy = Taxonomy.from_edges([("poodle", "dog"), ("dog", "canine"), ("fox", "canine")])
    >>> above, way = way_up(taxonomy, taxonomy.indices(["poodle"]), taxonomy.indices(["dog", "canine", "fox"]))
    >>> above.tolist(), (3 * way).round().tolist()
    ([0, 1], [[2.0, 1.0]])
    """
    place = np.full(len(taxonomy), -1)
    place[unseen] = np.arange(len(unseen))
    start = np.full(len(taxonomy), -1)
    start[seen] = np.arange(len(seen))
    node, ancestor, steps = taxonomy.ancestor_pairs()
    kept = (start[node] >= 0) & (place[ancestor] >= 0)
    above, column = np.unique(place[ancestor[kept]], return_inverse=True)
    way = np.zeros((len(seen), len(above)), np.float32)
    np.maximum.at(way, (start[node[kept]], column), 0.5 ** steps[kept].astype(np.float32))
    return above, way / np.maximum(way.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
