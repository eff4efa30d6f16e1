from __future__ import annotations

import networkx
import numpy as np
import pytest

from support.problems import PARENTS, make_hierarchy, make_problem
from unseen._util.run import Run
from unseen.methods import make_method
from unseen.methods.baselines import structural


def test_distances_are_networkx_shortest_paths():
    hierarchy = make_hierarchy()
    graph = networkx.Graph()
    graph.add_nodes_from(PARENTS)
    graph.add_edges_from((child, parent) for child, parents in PARENTS.items() for parent in parents)
    found = structural.distances(hierarchy, np.arange(len(hierarchy)))
    for i, a in enumerate(hierarchy.ids):
        for j, b in enumerate(hierarchy.ids):
            expected = networkx.shortest_path_length(graph, a, b) if networkx.has_path(graph, a, b) else -1
            assert found[i, j] == expected


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_weights_fall_with_distance(monkeypatch, chunk):
    monkeypatch.setattr(structural, "CHUNK", chunk)
    problem = make_problem()
    solution = make_method("structural").fit(problem, Run())
    # poodle - dog 1, beagle 2 (over dog), tabby 2 (over pet), hammer 5, animal 2; the seen order is SEEN's
    distance = np.array([1, 2, 2, 5, 2])
    expected = np.exp(-1.5 * distance) @ problem.targets()
    row = problem.hierarchy.index("poodle")
    assert np.allclose(solution.classifiers[row], expected / np.linalg.norm(expected), atol=1e-6)


def test_class_with_no_way_to_a_seen_one_is_zero():
    problem = make_problem()
    solution = make_method("structural").fit(problem, Run())
    assert not solution.classifiers[problem.hierarchy.index("lonely")].any()


def test_a_steep_decay_does_not_overflow_for_a_class_with_no_way_to_a_seen_one(recwarn):
    assert np.isfinite(make_method("structural", {"decay": 500.0}).fit(make_problem(), Run()).classifiers).all()
    assert not recwarn.list
