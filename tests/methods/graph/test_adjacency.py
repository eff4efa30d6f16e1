from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.graphs import random_hierarchy
from unseen.hierarchy.core import Hierarchy
from unseen.methods.graph.adjacency import all_hops, hop_groups, neighbours, receptive_field
from unseen.util.errors import UnseenError


def distances(hierarchy: Hierarchy) -> np.ndarray:
    """N x N: hops from a node (row) up to its ancestor (column), by networkx; infinite where there is none."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(hierarchy)))
    graph.add_edges_from(zip(*(ends.tolist() for ends in hierarchy.edges()), strict=True))
    up = np.full((len(hierarchy),) * 2, np.inf)
    for node, lengths in nx.all_pairs_shortest_path_length(graph):
        for ancestor, length in lengths.items():
            up[node, ancestor] = length
    return up


def divided_by_degree(connected: np.ndarray) -> np.ndarray:
    return connected / np.maximum(connected.sum(1, keepdims=True), 1)


@pytest.mark.parametrize("direction", ["ancestors", "descendants", "both"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_hop_groups_are_the_rows_of_each_distance_divided_by_their_degree(direction, k):
    hierarchy = random_hierarchy()
    up = distances(hierarchy)
    hops = {"ancestors": up, "descendants": up.T, "both": np.minimum(up, up.T)}[direction]
    alpha = np.random.default_rng(0).random(k + 1)
    expected = sum(
        alpha[g] * divided_by_degree(hops == g if g < k else np.isfinite(hops) & (hops >= k)) for g in range(k + 1)
    )
    np.testing.assert_allclose(hop_groups(hierarchy, direction, k).dense(alpha), expected)


@pytest.mark.parametrize("direction", ["descendants", "ancestors", "both"])
def test_hop_groups_of_some_rows_are_those_of_the_whole(direction):
    hierarchy, rows = random_hierarchy(30), np.array([7, 0, 29])
    whole, some = hop_groups(hierarchy, direction, 2), hop_groups(hierarchy, direction, 2, rows)
    alpha = np.array([0.2, 0.5, 0.3])
    assert np.array_equal(some.dense(alpha)[rows], whole.dense(alpha)[rows])
    assert some.entries == sum(whole.pointer[row + 1] - whole.pointer[row] for row in rows)


@pytest.mark.parametrize("direction", ["ancestors", "descendants", "both"])
def test_without_weights_all_hops_count_the_same(direction):
    hierarchy = random_hierarchy()
    up = np.isfinite(distances(hierarchy))
    connected = {"ancestors": up, "descendants": up.T, "both": up | up.T}[direction]
    np.testing.assert_allclose(all_hops(hierarchy, direction).dense(), divided_by_degree(connected))


def test_neighbours_are_normalised_by_row_or_symmetrically():
    hierarchy = random_hierarchy()
    up = distances(hierarchy) <= 1
    adjacent = (up | up.T).astype(float)
    degree = adjacent.sum(1)
    np.testing.assert_allclose(neighbours(hierarchy).dense(), adjacent / degree[:, None])
    symmetric = adjacent / np.sqrt(degree[:, None] * degree[None])
    np.testing.assert_allclose(neighbours(hierarchy, "symmetric").dense(), symmetric)


def test_unknown_names_are_refused_with_those_there_are():
    hierarchy = random_hierarchy(5)
    with pytest.raises(UnseenError, match="row, symmetric"):
        neighbours(hierarchy, "column")
    with pytest.raises(UnseenError, match="descendants, ancestors, both"):
        hop_groups(hierarchy, "cousins")
    with pytest.raises(UnseenError, match="at least 1"):
        hop_groups(hierarchy, "ancestors", 0)


@given(st.integers(2, 30), st.integers(0, 5), st.integers(1, 4), st.data())
@settings(deadline=None)
def test_the_field_keeps_all_that_the_rows_read_and_nothing_else(nodes, seed, depth, data):
    hierarchy = random_hierarchy(nodes, seed)
    rows = np.array(data.draw(st.lists(st.integers(0, nodes - 1), min_size=1, unique=True)))
    kinds = [hop_groups(hierarchy, "descendants"), hop_groups(hierarchy, "ancestors"), neighbours(hierarchy)]
    layers = [data.draw(st.sampled_from(kinds)) for _ in range(depth)]
    field = receptive_field(layers, rows)
    assert field.nodes[-1].tolist() == rows.tolist()
    for layer, kept, below, above in zip(layers, field.layers, field.nodes[:-1], field.nodes[1:], strict=True):
        whole = layer.dense()[above]
        np.testing.assert_allclose(kept.dense(), whole[:, below])
        assert not np.delete(whole, below, axis=1).any()  # nothing that is read is missing
        assert whole[:, below].any(0).all()  # nothing is kept that is not read
        assert below[kept.diagonal].tolist() == above.tolist()


def test_the_paper_s_graph_has_the_paper_s_densities_and_a_small_field(authors_lists):
    from unseen.data import imagenet_1k

    hierarchy = Hierarchy.paper()
    nodes, dense = len(hierarchy), hop_groups(hierarchy, "descendants")
    assert neighbours(hierarchy).entries / nodes**2 == pytest.approx(9.32e-5, abs=1e-7)
    assert dense.entries / nodes**2 == pytest.approx(19.15e-5, abs=1e-7)
    assert np.bincount(dense.group).tolist() == [32324, 32544, 32629, 30750, 200082 - 32324 - 32544 - 32629 - 30750]
    field = receptive_field([dense, hop_groups(hierarchy, "ancestors")], hierarchy.indices(imagenet_1k()))
    assert [len(rows) for rows in field.nodes][1:] == [1825, 1000]
