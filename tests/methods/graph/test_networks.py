"""All graph networks: the field computes what the full graph computes, and both what the formulas say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from support.graphs import VARIANTS, small_method, small_network, small_problem
from unseen.errors import UnseenError
from unseen.methods import make_method
from unseen.methods.graph.adjacency import receptive_field, whole_graph
from unseen.methods.graph.layers import UnitRows
from unseen.methods.graph.method import predict_rows
from unseen.methods.graph.sparse import Operator
from unseen.methods.graph.training import half_squares

every_variant = pytest.mark.parametrize("variant", VARIANTS)


def results(method, network, field, problem, masks=None, rows=None):
    """Output rows and the gradients of all parameters."""
    x = torch.from_numpy(problem.vectors.matrix[field.inputs]).double()
    output = network(x, [Operator(layer, torch.float64) for layer in field.layers], masks)
    output = output if rows is None else output[torch.from_numpy(rows)]
    network.zero_grad()
    half_squares(output, torch.from_numpy(problem.targets()).double()).backward()
    return [output.detach()] + [p.grad.clone() for p in network.parameters()]


@every_variant
@pytest.mark.parametrize("dropout", [False, True])
def test_the_field_gives_the_full_graph_s_values_and_gradients(variant, dropout):
    problem, method = small_problem(), small_method(variant)
    layers, network = method.adjacencies(problem.taxonomy), small_network(method)
    field = receptive_field(layers, problem.seen)
    assert len(field.nodes[-2]) < len(problem.taxonomy)  # else the test would compare a thing with itself
    widths = [network.layers[0].weight.shape[-2], *(layer.outputs for layer in network.layers)]
    drawn = [torch.randint(0, 2, (len(problem.taxonomy), width)).double() * 2 for width in widths]

    def masks(nodes):
        return (lambda layer, shape: drawn[layer][torch.from_numpy(nodes[layer])]) if dropout else None

    whole = whole_graph(layers)
    full = results(method, network, whole, problem, masks(whole.nodes), problem.seen)
    ours = results(method, network, field, problem, masks(field.nodes))
    for expected, got in zip(full, ours, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-14)
    assert all(gradient.abs().max() > 0 for gradient in ours)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if not name.startswith("gat")])
def test_both_associations_of_the_product_agree(variant, monkeypatch):
    problem, method = small_problem(), small_method(variant)
    network, field = small_network(method), whole_graph(method.adjacencies(problem.taxonomy))
    found = []
    for first in (True, False):
        monkeypatch.setattr(
            "unseen.methods.graph.layers.GraphConvolution.propagates_first", lambda *_, first=first: first
        )
        found.append(results(method, network, field, problem, rows=problem.seen))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


@every_variant
def test_gradients_agree_with_finite_differences(variant):
    problem, method = small_problem(12, 3), small_method(variant)
    network, field = small_network(method), receptive_field(method.adjacencies(problem.taxonomy), problem.seen)
    x = torch.from_numpy(problem.vectors.matrix[field.inputs]).double()
    operators = [Operator(layer, torch.float64) for layer in field.layers]
    names = [name for name, _ in network.named_parameters()]

    def run(*parameters):
        return torch.func.functional_call(network, dict(zip(names, parameters, strict=True)), (x, operators))

    parameters = tuple(p.detach().clone().requires_grad_() for p in network.parameters())
    assert torch.autograd.gradcheck(run, parameters, fast_mode=True)


@every_variant
def test_prediction_in_chunks_is_the_full_forward(variant, monkeypatch):
    problem, method = small_problem(), small_method(variant)
    network, layers = small_network(method).float(), method.adjacencies(problem.taxonomy)
    whole, x = whole_graph(layers), problem.vectors.matrix
    expected = network(torch.from_numpy(x), [Operator(layer) for layer in whole.layers]).detach().numpy()
    monkeypatch.setattr("unseen.methods.graph.method.CHUNK_ROWS", 7)
    np.testing.assert_allclose(predict_rows(network, whole, x), expected, atol=1e-6)
    state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    np.testing.assert_allclose(method.predict(problem, state), expected, atol=1e-6)
    rows = np.array([31, 2, 8])
    np.testing.assert_allclose(method.predict(problem, state, rows), expected[rows], atol=1e-6)
    assert method.predict(problem, state, np.array([], int)).shape == (0, expected.shape[1])


@every_variant
def test_output_rows_have_length_1(variant):
    problem, method = small_problem(), small_method(variant)
    rows = method.predict(problem, {k: v.numpy() for k, v in small_network(method).float().state_dict().items()})
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_rows_of_zeros_stay_zero_and_pass_no_gradient():
    rows = torch.randn(4, 3, dtype=torch.float64)
    rows[2] = 0
    pull, ours, theirs = torch.randn(4, 3).double(), rows.clone().requires_grad_(), rows.clone().requires_grad_()
    output = UnitRows.apply(ours * 1)
    expected = torch.nn.functional.normalize(theirs)
    (output * pull).sum().backward()
    (expected * pull).sum().backward()
    torch.testing.assert_close(output, expected)
    kept = [0, 1, 3]
    torch.testing.assert_close(ours.grad[kept], theirs.grad[kept])
    assert not ours.grad[2].any()


@pytest.mark.parametrize(
    ("name", "weights"),
    [("sgcn", 4_810_752), ("dgp", 4_810_752 + 10), ("gcnz", 9_527_808), ("gat", 4_810_752 + 2 * 4097)],
)
def test_weight_counts_are_the_paper_s(name, weights):
    with torch.device("meta"):
        network = make_method(name).build(300, 2049)
    assert network.weight_count() == weights


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("dgp", {"k": 0}, "k must be an integer of at least 1"),
        ("dgp", {"hidden": [2048]}, "hidden must be an integer"),
        ("gcnz", {"hidden": 2048}, "hidden must be a list of integers"),
        ("sgcn", {"dropout": 1.0}, "dropout must be a number of at least 0 and less than 1"),
        ("sgcn", {"layers": 0}, "layers must be an integer of at least 1"),
        ("dgp", {"weighted": "no"}, "weighted must be true or false"),
        ("gat", {"epochs": 2.5}, "epochs must be an integer"),
        ("sgcn", {"learning_rate": -1}, "learning_rate must be a number of at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, settings, words):
    with pytest.raises(UnseenError, match=words):
        make_method(name, settings)


def test_heads_must_divide_the_hidden_size():
    with pytest.raises(UnseenError, match="heads must divide"):
        make_method("gat", {"heads": 3, "hidden": 8}).build(4, 5)
