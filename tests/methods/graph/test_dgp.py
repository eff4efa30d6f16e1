from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import leaky_relu, normalize

from support.graphs import small_method, small_network, small_problem
from unseen.methods.graph.adjacency import hop_groups, whole_graph
from unseen.methods.graph.sparse import Operator


def forward(method, problem, network):
    x = torch.from_numpy(problem.vectors.matrix).double()
    operators = [Operator(layer, torch.float64) for layer in whole_graph(method.adjacencies(problem.taxonomy)).layers]
    return x, network(x, operators)


def test_it_is_the_paper_s_equation():
    problem, method = small_problem(), small_method("dgp")
    network = small_network(method)
    x, output = forward(method, problem, network)
    mixed = {}
    for side in ("descendants", "ancestors"):
        alpha = network.hops[side].softmax(0).detach().numpy()
        mixed[side] = torch.from_numpy(hop_groups(problem.taxonomy, side, 4).dense(alpha))
    first, second = network.layers
    hidden = leaky_relu(mixed["descendants"] @ (x @ first.weight + first.bias), 0.2)
    expected = normalize(mixed["ancestors"] @ (hidden @ second.weight + second.bias))
    torch.testing.assert_close(output, expected)


def test_hop_weights_are_shared_by_all_layers_of_a_phase():
    network = small_network(small_method("dgp, 3 hidden"))
    assert set(network.hops) == {"descendants", "ancestors"}
    assert torch.equal(network.mixing(0), network.mixing(2))
    assert torch.equal(network.mixing(1), network.mixing(3))
    assert not torch.equal(network.mixing(0), network.mixing(1))


def test_hop_weights_are_reported_as_shares():
    shares = small_network(small_method("dgp")).hop_weights()
    assert list(shares) == ["descendants", "ancestors"]
    assert all(len(values) == 5 and abs(sum(values) - 1) < 1e-3 for values in shares.values())
    assert small_network(small_method("dgp, no weights")).hop_weights() == {}
    assert list(small_network(small_method("dgp, one phase")).hop_weights()) == ["first", "second"]


def test_training_moves_the_hop_weights(tmp_path):
    from unseen.runtime.run import Run

    solution = small_method("dgp", epochs=20, learning_rate=0.01).fit(small_problem(), Run(show_progress=False))
    for shares in solution.record.hop_weights.values():
        assert np.abs(np.array(shares) - 0.2).max() > 0.01
