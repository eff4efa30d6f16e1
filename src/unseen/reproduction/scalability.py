"""The paper's figures on size: how dense the adjacencies are, and how many weights the networks have."""

from __future__ import annotations

from unseen.methods import make_method
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
    import torch

    with torch.device("meta"):  # no memory is filled
        networks = {name: make_method(name).build(VECTOR, OUTPUT) for name in ("sgcn", "dgp", "gcnz")}
    return {f"weights_{name}": network.weight_count() for name, network in networks.items()}
