from __future__ import annotations

import pytest
import torch

from support.graphs import HIDDEN, INPUTS, OUTPUTS, small_method, small_network, small_problem
from unseen.methods.graph import reference
from unseen.methods.graph.adjacency import receptive_field, whole_graph
from unseen.methods.graph.dgp import DGP
from unseen.methods.graph.layers import Operator
from unseen.methods.graph.training import Training


def as_reference(problem, network, dtype=torch.float64) -> list[reference.Layer]:
    """The reference's layers with a copy of the network's parameters."""
    made = reference.dgp if isinstance(network, DGP) else reference.sgcn
    layers, hops = made(problem.hierarchy, INPUTS, HIDDEN, OUTPUTS), getattr(network, "hops", {})
    return [
        reference.Layer(
            [matrix.to(dtype) for matrix in layer.adjacency],
            own.weight.detach().clone().requires_grad_(),
            own.bias.detach().clone().requires_grad_(),
            hops[phase].detach().clone().requires_grad_() if hops else None,
        )
        for layer, own, phase in zip(layers, network.layers, ("descendants", "ancestors"), strict=True)
    ]


@pytest.mark.parametrize("name", ["dgp", "sgcn"])
def test_the_forward_pass_is_that_of_the_reference(name):
    problem, method = small_problem(), small_method(name)
    network = small_network(method)
    x = torch.from_numpy(problem.vectors.matrix).double()
    operators = [Operator(layer, torch.float64) for layer in whole_graph(method.adjacencies(problem.hierarchy)).layers]
    torch.testing.assert_close(network(x, operators), reference.forward(x, as_reference(problem, network)))


@pytest.mark.parametrize("name", ["dgp", "sgcn"])
def test_training_on_the_field_is_that_of_the_reference_on_all_nodes(name):
    problem, method = small_problem(), small_method(name, dropout=0.0, dtype="float64")
    network = small_network(method)
    layers, field = as_reference(problem, network), receptive_field(method.adjacencies(problem.hierarchy), problem.seen)
    training = Training(network, field, problem.vectors.matrix[field.inputs], problem.targets(), method.settings)
    losses = [training.step() for _ in range(20)]
    x, known = torch.from_numpy(problem.vectors.matrix).double(), torch.from_numpy(problem.targets()).double()
    loss = reference.train(x, layers, torch.from_numpy(problem.seen), known, 20, dropout=0.0)
    torch.testing.assert_close(losses[-1], loss)
    assert loss < losses[0]
    for ours, theirs in zip(network.layers, layers, strict=True):
        torch.testing.assert_close(ours.weight, theirs.weight)
        torch.testing.assert_close(ours.bias, theirs.bias)


def test_hop_weights_are_reported_as_shares():
    shares = small_network(small_method("dgp")).hop_weights()
    assert list(shares) == ["descendants", "ancestors"]
    assert all(len(values) == 5 and abs(sum(values) - 1) < 1e-3 for values in shares.values())
    assert small_network(small_method("dgp, no weights")).hop_weights() == {}
    assert list(small_network(small_method("dgp, one phase")).hop_weights()) == ["first", "second"]
