from __future__ import annotations

import pytest
import torch
from torch.nn.functional import leaky_relu, normalize, scaled_dot_product_attention

from support.graphs import small_method, small_network, small_problem
from unseen.methods.graph.adjacency import neighbours
from unseen.methods.graph.layers import Operator


def dense_attention(layer, hidden, connected, last):
    """The layer of the GAT paper over all pairs of nodes, with those that are not connected masked out."""
    heads = []
    for weight, attention in zip(layer.weight, layer.attention, strict=True):
        z = hidden @ weight
        pairs = torch.cat([z.unsqueeze(1).expand(-1, len(z), -1), z.unsqueeze(0).expand(len(z), -1, -1)], 2)
        energy = leaky_relu(pairs @ torch.cat([attention[:, 0], attention[:, 1]]), 0.2)
        heads.append(energy.masked_fill(~connected, -torch.inf).softmax(1) @ z)
    joined = torch.stack(heads).mean(0) if last else torch.cat(heads, 1)
    return joined if layer.bias is None else joined + layer.bias


@pytest.mark.parametrize("variant", ["gat, 1 hidden", "gat, 2 hidden", "gat, 3 heads", "gat, no bias"])
def test_it_is_attention_over_the_neighbours(variant):
    problem, method = small_problem(), small_method(variant)
    network = small_network(method)
    connected = torch.from_numpy(neighbours(problem.hierarchy).dense() > 0)
    x = torch.from_numpy(problem.vectors.matrix).double()
    hidden = x
    for index, layer in enumerate(network.layers):
        last = index + 1 == len(network.layers)
        hidden = dense_attention(layer, hidden, connected, last)
        hidden = normalize(hidden) if last else leaky_relu(hidden, 0.2)
    operators = [Operator(layer, torch.float64) for layer in method.adjacencies(problem.hierarchy)]
    torch.testing.assert_close(network(x, operators), hidden)


def test_large_scores_do_not_overflow():
    problem, method = small_problem(), small_method("gat, 1 hidden")
    network = small_network(method)
    with torch.no_grad():
        network.layers[0].attention.mul_(1e4)
    operators = [Operator(layer, torch.float64) for layer in method.adjacencies(problem.hierarchy)]
    assert network(torch.from_numpy(problem.vectors.matrix).double(), operators).isfinite().all()


@pytest.mark.parametrize("variant", ["trgcn", "trgcn, 2 hidden"])
def test_trgcn_is_torchs_attention_over_the_neighbours(variant):
    problem, method = small_problem(), small_method(variant)
    network = small_network(method)
    connected = torch.from_numpy(neighbours(problem.hierarchy).dense() > 0)
    x = hidden = torch.from_numpy(problem.vectors.matrix).double()
    for index, layer in enumerate(network.layers):
        parts = [hidden @ layer.query, hidden @ layer.key, hidden @ layer.weight]
        attended = scaled_dot_product_attention(*(part.unsqueeze(0) for part in parts), attn_mask=connected)[0]
        hidden = attended + hidden @ layer.skip + (0 if layer.bias is None else layer.bias)
        hidden = normalize(hidden) if index + 1 == len(network.layers) else leaky_relu(hidden, 0.2)
    operators = [Operator(layer, torch.float64) for layer in method.adjacencies(problem.hierarchy)]
    torch.testing.assert_close(network(x, operators), hidden)
