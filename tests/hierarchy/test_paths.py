"""Pairs of a class and what is above it: against the plain way, and bounded for chains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.hierarchy import paths
from unseen.util.errors import UnseenError


@st.composite
def graphs(draw) -> paths.Graph:
    nodes = draw(st.integers(1, 30))
    order = draw(st.permutations(range(nodes)))  # rows in no order of their depth
    edges = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=60))
    edges = [(order[max(pair)], order[min(pair)]) for pair in edges if pair[0] != pair[1]]
    child, parent = np.array(edges, np.int64).reshape(-1, 2).T
    return paths.graph_of(child, parent, nodes)


@pytest.mark.parametrize("length", [paths.SHALLOW - 1, paths.SHALLOW, paths.SHALLOW + 1, 3 * paths.SHALLOW])
def test_a_chain_has_no_cycle_until_its_top_is_put_below_its_end(length):
    chain = np.arange(length - 1)
    assert paths.find_cycle(paths.graph_of(chain, chain + 1, length)) is None
    ring = paths.graph_of(np.append(chain, length - 1), np.append(chain + 1, 0), length)
    assert sorted(paths.find_cycle(ring)[1:]) == list(range(length))


@given(graphs())
def test_pairs_are_those_of_a_search_from_each_node(graph):
    nodes = len(graph[0]) - 1
    found = ((steps, row, above) for row in range(nodes) for above, (steps, _) in paths.climb(graph, row).items())
    node, ancestor, distance = paths.ancestor_pairs(graph)
    assert (node.dtype, ancestor.dtype, distance.dtype) == (np.int32, np.int32, np.int16)
    assert list(zip(distance.tolist(), node.tolist(), ancestor.tolist(), strict=True)) == sorted(found)


def chain(levels: int) -> paths.Graph:
    return paths.graph_of(np.arange(1, levels), np.arange(levels - 1), levels)


@pytest.mark.slow
def test_a_chain_by_mistake_is_refused_before_it_fills_the_memory():
    with pytest.raises(UnseenError, match=r"too deep, 5,\d+ levels with 2,\d+ classes above each on average: is it a"):
        paths.ancestor_pairs(chain(10_000))


def test_a_chain_that_fits_is_taken():
    assert len(paths.ancestor_pairs(chain(300))[0]) == 300 * 301 // 2
