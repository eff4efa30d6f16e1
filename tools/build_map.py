"""Order the classes of the page's map: siblings that look alike to the network side by side.

For the children of every node, the mean classifier of each and all below it; then the leaves of a dendrogram (average
linkage, cosine), in the order that puts the most alike next to each other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

import common
import unseen
from unseen.apps.web.layout import first_parents
from unseen.methods import normalise_rows

WIDEST = 700  # children: an optimal order of more takes too long, so they go by their first principal component


def order_siblings(vectors: np.ndarray) -> np.ndarray:
    """The order of these rows in which neighbours are alike."""
    if len(vectors) < 3:
        return np.arange(len(vectors))
    if len(vectors) > WIDEST:
        centred = vectors - vectors.mean(axis=0)
        return np.argsort(np.linalg.svd(centred, full_matrices=False)[0][:, 0], kind="stable")
    return leaves_list(linkage(vectors, "average", "cosine", optimal_ordering=True))


def build(model: unseen.Model, out: Path) -> Path:
    hierarchy, parents = model.bundle.hierarchy, first_parents(model.bundle.hierarchy)
    means = normalise_rows(np.asarray(model.bundle.solution.classifiers, np.float64))
    for row in np.argsort(-hierarchy.depths, kind="stable"):  # sums first, from the bottom up
        if parents[row] >= 0:
            means[parents[row]] += means[row]
    means = normalise_rows(means)
    ranks = np.zeros(len(hierarchy), np.uint16)
    for parent in np.unique(parents):
        children = np.flatnonzero(parents == parent)
        ranks[children[order_siblings(means[children])]] = np.arange(len(children))
    offsets = np.array([int(id[1:]) for id in hierarchy.ids])
    order = np.argsort(offsets)
    path = out / "map.npz"
    steps = np.diff(offsets[order], prepend=0).astype(np.uint32)
    common.save_npz(path, {"steps": steps, "ranks": ranks[order]})
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=common.DATA)
    path = build(unseen.load(), parser.parse_args().out)
    what = "the order of siblings on the page's map: those that look alike to the network side by side"
    default = common.Package("", "the default bundle's classifiers", "1", "", "")
    common.record(path, what, default, "MIT (numbers of our own)", "tools/build_map.py")


if __name__ == "__main__":
    main()
