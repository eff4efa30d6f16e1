"""The paper's figures on size: how dense the adjacencies are, and how many weights the networks have."""

from __future__ import annotations

import numpy as np

from unseen.taxonomy import Taxonomy

VECTOR, OUTPUT = 300, 2049  # the paper's word vectors and last layer


def densities(graph: str = "paper") -> dict[str, float]:
    """Share of non-zeros of A with self-loops: edges in both directions; and (node, ancestor) pairs in both."""
    taxonomy = Taxonomy.load(graph)
    n, (child, _) = len(taxonomy), taxonomy.edges()
    pairs = len(taxonomy.ancestor_pairs()[0])
    return {
        "nodes": n,
        "edges": len(child),
        "density_sparse": (n + 2 * len(child)) / n**2,
        "density_dense": pairs / n**2,  # of A_a, and so of its transpose A_d
    }


def weight_counts(vector: int = VECTOR, output: int = OUTPUT, hidden: int = 2048, k: int = 4) -> dict[str, int]:
    """Weights without biases, counted on the networks themselves."""
    from unseen.methods.graph.dgp import DGPMethod
    from unseen.methods.graph.gcnz import GCNZMethod
    from unseen.methods.graph.sgcn import SGCNMethod

    counts = {}
    for method in (SGCNMethod, DGPMethod, GCNZMethod):
        network = method(method.Settings()).build(vector, output)
        counts[f"weights_{method.name}"] = network.weight_count()
    return counts


def distance_histogram(taxonomy: Taxonomy) -> list[int]:
    """How many (node, ancestor) pairs lie 0, 1, 2, ... hops apart."""
    return np.bincount(taxonomy.ancestor_pairs()[2]).tolist()
