"""Random hierarchies, and the graph networks at a size where every number can be checked."""

from __future__ import annotations

import numpy as np
import torch

from unseen.hierarchy.core import Hierarchy
from unseen.methods import make_method
from unseen.methods.base import Problem, normalise_rows
from unseen.methods.graph.training import GraphMethod
from unseen.vectors.class_vectors import ClassVectors

INPUTS, HIDDEN, OUTPUTS = 7, 6, 5

# Every model, depth and ablation that the tests compare; tiny widths.
VARIANTS = {
    "dgp": ("dgp", {}),
    "dgp, k=2": ("dgp", {"k": 2}),
    "dgp, 2 hidden": ("dgp", {"layers": 2}),
    "dgp, 3 hidden": ("dgp", {"layers": 3}),
    "dgp, no weights": ("dgp", {"weighted": False}),
    "dgp, one phase": ("dgp", {"two_phase": False}),
    "dgp, one phase, no weights": ("dgp", {"two_phase": False, "weighted": False}),
    "dgp, no bias": ("dgp", {"bias": False}),
    "sgcn": ("sgcn", {}),
    "sgcn, 2 hidden": ("sgcn", {"layers": 2}),
    "sgcn, 3 hidden": ("sgcn", {"layers": 3}),
    "sgcn, symmetric": ("sgcn", {"normalisation": "symmetric"}),
    "sgcn, no bias": ("sgcn", {"bias": False}),
    "gcnz": ("gcnz", {"hidden": [9, 8, 6, 5, 4]}),
    "gcnz, row": ("gcnz", {"hidden": [9, 8, 6, 5, 4], "normalisation": "row"}),
    "gat, 1 hidden": ("gat", {}),
    "gat, 2 hidden": ("gat", {"layers": 2}),
    "gat, 3 heads": ("gat", {"layers": 2, "heads": 3}),
    "gat, no bias": ("gat", {"bias": False}),
    "trgcn": ("trgcn", {"keys": 3}),
    "trgcn, 2 hidden": ("trgcn", {"keys": 3, "layers": 2, "bias": False}),
}


def random_hierarchy(nodes: int = 40, seed: int = 0) -> Hierarchy:
    """A hierarchy with some nodes that have two parents, a few roots, and shortcuts over several levels."""
    random = np.random.default_rng(seed)
    parents = [
        [] if i < 2 else [f"c{j}" for j in random.choice(i, min(i, 1 + int(random.random() < 0.3)), replace=False)]
        for i in range(nodes)
    ]
    return Hierarchy([f"c{i}" for i in range(nodes)], [(f"c{i}",) for i in range(nodes)], parents)


def small_method(variant: str, **settings) -> GraphMethod:
    name, own = VARIANTS[variant]
    return make_method(name, {"hidden": HIDDEN, **own, **settings})


def small_problem(nodes: int = 40, seen: int = 6, seed: int = 0) -> Problem:
    random = np.random.default_rng(seed)
    hierarchy = random_hierarchy(nodes, seed)
    vectors = normalise_rows(random.standard_normal((nodes, INPUTS)))
    rows = random.permutation(nodes)[:seen]  # not sorted: a network has its own class order
    classifiers = random.standard_normal((seen, OUTPUTS)).astype(np.float32)
    return Problem(hierarchy, ClassVectors((vectors,), ("made-up",), [{}]), rows, classifiers)


def small_network(method: GraphMethod, seed: int = 0) -> torch.nn.Module:
    """In float64, with biases and hop weights away from their first values, so that their part in the sum shows."""
    torch.manual_seed(seed)
    network = method.build(INPUTS, OUTPUTS).double()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias") or "hops" in name:
                parameter.add_(torch.randn_like(parameter))
    return network
