"""The paper's figures on size: how dense the adjacencies are, and how many weights the networks have."""

from __future__ import annotations

import torch

from unseen.methods.graph.dgp import DGPMethod
from unseen.methods.graph.gcnz import GCNZMethod
from unseen.methods.graph.sgcn import SGCNMethod
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


def weight_counts() -> dict[str, int]:
    """Weights without biases, counted on the networks themselves."""
    with torch.device("meta"):  # no memory is filled
        networks = {method.name: method.build(VECTOR, OUTPUT) for method in (SGCNMethod(), DGPMethod(), GCNZMethod())}
    return {f"weights_{name}": network.weight_count() for name, network in networks.items()}
