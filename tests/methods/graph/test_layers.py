"""All graph networks: the field computes what the full graph computes, and both what the formulas say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from support.graphs import VARIANTS, random_hierarchy, small_method, small_network, small_problem
from unseen.methods import make_method
from unseen.methods.graph.adjacency import hop_groups, receptive_field, whole_graph
from unseen.methods.graph.layers import Operator, UnitRows
from unseen.methods.graph.training import half_squares, predict_rows
from unseen.util.errors import UnseenError


@pytest.fixture(params=["whole", "field"])
def adjacency(request):
    hierarchy = random_hierarchy()
    whole = hop_groups(hierarchy, "descendants", 3)
    return whole if request.param == "whole" else receptive_field([whole], np.array([7, 0, 31])).layers[0]


def test_products_and_gradients_agree_with_the_dense_matrix(adjacency):
    operator = Operator(adjacency, torch.float64)
    alpha = torch.rand(4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(adjacency.columns, 5, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(adjacency.rows, 5, dtype=torch.float64)

    result = operator.product(operator.values(alpha), x)
    grads = torch.autograd.grad((result * pull).sum(), (alpha, x))

    groups = [torch.from_numpy(adjacency.dense(np.eye(4)[g])) for g in range(4)]
    dense = sum(a * m for a, m in zip(alpha, groups, strict=True)) @ x
    expected = torch.autograd.grad((dense * pull).sum(), (alpha, x))
    torch.testing.assert_close(result, dense)
    for ours, theirs in zip(grads, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_rows_of_a_product_and_row_sums(adjacency):
    operator = Operator(adjacency, torch.float64)
    alpha = torch.rand(4, dtype=torch.float64)
    matrix = torch.from_numpy(adjacency.dense(alpha.numpy()))
    x = torch.randn(adjacency.columns, 2, dtype=torch.float64)
    torch.testing.assert_close(operator.row_sums(alpha), matrix.sum(1))
    part = operator.rows_of_product(slice(1, 3), operator.values(alpha), x)
    torch.testing.assert_close(part, matrix[1:3] @ x)


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
    layers, network = method.adjacencies(problem.hierarchy), small_network(method)
    field = receptive_field(layers, problem.seen)
    assert len(field.nodes[-2]) < len(problem.hierarchy)  # else the test would compare a thing with itself
    widths = [network.layers[0].weight.shape[-2], *(layer.outputs for layer in network.layers)]
    drawn = [torch.randint(0, 2, (len(problem.hierarchy), width)).double() * 2 for width in widths]

    def masks(nodes):
        return (lambda layer, shape: drawn[layer][torch.from_numpy(nodes[layer])]) if dropout else None

    whole = whole_graph(layers)
    full = results(method, network, whole, problem, masks(whole.nodes), problem.seen)
    ours = results(method, network, field, problem, masks(field.nodes))
    for expected, got in zip(full, ours, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-14)
    assert all(gradient.abs().max() > 0 for gradient in ours)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if not name.startswith(("gat", "trgcn"))])
def test_both_associations_of_the_product_agree(variant, monkeypatch):
    problem, method = small_problem(), small_method(variant)
    network, field = small_network(method), whole_graph(method.adjacencies(problem.hierarchy))
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
    network, field = small_network(method), receptive_field(method.adjacencies(problem.hierarchy), problem.seen)
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
    network, layers = small_network(method).float(), method.adjacencies(problem.hierarchy)
    whole, x = whole_graph(layers), problem.vectors.matrix
    expected = network(torch.from_numpy(x), [Operator(layer) for layer in whole.layers]).detach().numpy()
    monkeypatch.setattr("unseen.methods.graph.training.CHUNK_ROWS", 7)
    np.testing.assert_allclose(predict_rows(network, whole, x), expected, atol=1e-6)
    state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    np.testing.assert_allclose(method.predict(problem, state), expected, atol=1e-6)
    rows = np.array([31, 2, 8])
    np.testing.assert_allclose(method.predict(problem, state, rows), expected[rows], atol=1e-6)
    assert method.predict(problem, state, np.array([], int)).shape == (0, expected.shape[1])


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


def test_heads_must_divide_the_hidden_size():
    with pytest.raises(UnseenError, match="heads must divide"):
        make_method("gat", {"heads": 3, "hidden": 8}).build(4, 5)
