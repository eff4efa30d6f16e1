from __future__ import annotations

import numpy as np
import pytest

from unseen.export.graph import Graph
from unseen.export.to_onnx import PROJECTIONS
from unseen.methods import projections
from unseen.methods.projections import Append1, ConvexCombination, Linear, Projection, Unit, from_saved
from unseen.networks.run import open_session
from unseen.util.errors import UnseenError

random = np.random.default_rng(0)
FEATURES = random.normal(size=(7, 5)).astype(np.float32)


def every_projection() -> list[Projection]:
    matrix = random.normal(size=(5, 3))
    return [
        Append1(),
        Linear(matrix),
        Linear(matrix, random.normal(size=3), normalise=True),
        ConvexCombination(random.normal(size=(6, 5)), random.normal(size=6), random.normal(size=(6, 4)), top=3),
        Unit(random.normal(size=5)),
    ]


def test_append1_scores_weight_and_bias():
    row = np.array([1, 2, 3, 4, 5, 10], np.float32)
    assert np.allclose(Append1()(FEATURES) @ row, FEATURES @ row[:5] + 10)


def test_linear_is_its_formula():
    matrix, bias = random.normal(size=(5, 3)), random.normal(size=3)
    expected = FEATURES @ matrix + bias
    assert np.allclose(Linear(matrix, bias)(FEATURES), expected, atol=1e-5)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(Linear(matrix, bias, normalise=True)(FEATURES), expected / lengths, atol=1e-5)


def test_convex_combination_by_hand():
    # Logits are 0, 1, 2 for the photo (1,): of the top two, shares are e and e^2 over their sum.
    projection = ConvexCombination([[0.0], [1.0], [2.0]], [0, 0, 0], [[9, 9], [1, 0], [0, 1]], top=2)
    e = np.exp(1)
    point = np.array([e, e**2]) / (e + e**2)
    assert np.allclose(projection(np.ones((1, 1))), point / np.linalg.norm(point), atol=1e-6)


def test_convex_combination_survives_huge_logits_and_zero_vectors():
    projection = ConvexCombination([[1000.0], [-1000.0]], [0, 0], [[0, 0], [1, 0]], top=1)
    assert np.array_equal(projection(np.array([[10.0]])), [[0, 0]])
    assert np.array_equal(projection(np.array([[-10.0]])), [[1, 0]])


@pytest.mark.parametrize("projection", every_projection(), ids=lambda projection: projection.kind)
def test_saved_and_restored(projection):
    again = from_saved(projection.kind, projection.arrays(), projection.settings())
    assert np.array_equal(again(FEATURES), projection(FEATURES))


@pytest.mark.parametrize("projection", every_projection(), ids=lambda projection: projection.kind)
def test_its_graph_agrees(projection):
    graph = Graph()
    points = PROJECTIONS[projection.kind](projection, graph.input("features", FEATURES.shape[1]))
    model = graph.model({"features": ["batch", FEATURES.shape[1]]}, {"points": points})
    (found,) = open_session(model.SerializeToString(), "the graph").run(["points"], {"features": FEATURES})
    assert np.allclose(found, projection(FEATURES), atol=1e-5)


@pytest.mark.parametrize("projection", every_projection(), ids=lambda projection: projection.kind)
def test_batches_do_not_show(projection, monkeypatch):
    whole = projection(FEATURES)
    monkeypatch.setattr(projections, "BATCH", 2)
    assert np.allclose(projection(FEATURES), whole, atol=1e-6)
    assert projection(FEATURES[:0]).shape == (0, whole.shape[1])


def test_mistakes_are_named():
    with pytest.raises(UnseenError, match=r"wanted \(photos, 5\)"):
        Linear(np.ones((5, 2)))(np.ones((3, 4)))
    with pytest.raises(UnseenError, match="append1, linear, convex"):
        from_saved("cubic", {}, {})
