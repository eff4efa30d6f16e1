from __future__ import annotations

import networkx
import numpy as np
import pytest

from support.problems import PARENTS, make_problem, make_taxonomy
from unseen.methods import make_method
from unseen.methods.baselines import structural
from unseen.runtime.run import Run
from unseen.taxonomy import Taxonomy


def test_distances_are_networkx_shortest_paths():
    taxonomy = make_taxonomy()
    graph = networkx.Graph()
    graph.add_nodes_from(PARENTS)
    graph.add_edges_from((child, parent) for child, parents in PARENTS.items() for parent in parents)
    found = structural.distances(taxonomy, np.arange(len(taxonomy)))
    for i, a in enumerate(taxonomy.ids):
        for j, b in enumerate(taxonomy.ids):
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
    row = problem.taxonomy.index("poodle")
    assert np.allclose(solution.classifiers[row], expected / np.linalg.norm(expected), atol=1e-6)


def test_class_with_no_way_to_a_seen_one_is_zero():
    problem = make_problem()
    solution = make_method("structural").fit(problem, Run())
    assert not solution.classifiers[problem.taxonomy.index("lonely")].any()


def test_distances_in_a_very_deep_hierarchy():
    ids = [str(i) for i in range(300)]
    chain = Taxonomy(ids, [(id,) for id in ids], [[]] + [[id] for id in ids[:-1]])
    assert np.array_equal(structural.distances(chain, np.array([0, 299]))[:, 0], np.arange(300))
    assert np.array_equal(structural.distances(chain, np.array([0, 299]))[:, 1], 299 - np.arange(300))


def test_a_steep_decay_does_not_overflow_for_a_class_with_no_way_to_a_seen_one(recwarn):
    assert np.isfinite(make_method("structural", {"decay": 500.0}).fit(make_problem(), Run()).classifiers).all()
    assert not recwarn.list
