from __future__ import annotations

import numpy as np
import pytest
import torch

from support.graphs import random_taxonomy
from unseen.methods.graph import sparse
from unseen.methods.graph.adjacency import hop_groups, receptive_field
from unseen.methods.graph.sparse import Operator


@pytest.fixture(params=["whole", "field"])
def adjacency(request):
    taxonomy = random_taxonomy()
    whole = hop_groups(taxonomy, "descendants", 3)
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


def test_devices_without_compressed_rows_gather_the_same(adjacency, monkeypatch):
    monkeypatch.setattr(sparse, "GATHERED_NUMBERS", 40)  # several parts even on a small graph
    operator = Operator(adjacency, torch.float64)
    x = torch.randn(adjacency.columns, 5, dtype=torch.float64)
    grad = torch.randn(adjacency.rows, 5, dtype=torch.float64)
    product = sparse._gathered_product(operator.pointer, operator.column, operator.weight, x)
    torch.testing.assert_close(product, operator.product(operator.weight, x))
    torch.testing.assert_close(sparse._gathered_dots(operator, grad, x), sparse._dots(operator, grad, x))
