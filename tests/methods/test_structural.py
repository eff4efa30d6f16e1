from __future__ import annotations

import networkx
import numpy as np

from support.problems import PARENTS, make_hierarchy, make_problem
from unseen.hierarchy.core import Hierarchy
from unseen.methods import make_method, structural
from unseen.methods.base import Problem
from unseen.util.run import Run
from unseen.vectors.class_vectors import ClassVectors


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


def test_weights_fall_with_distance():
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


def test_what_the_hierarchy_cannot_tell_apart_ties_to_the_last_bit():
    """Leaves below an unseen class are one step further from everything than it is: the direction is the same."""
    random = np.random.default_rng(0)
    parents = {"n0": []} | {f"n{i}": [f"n{random.integers(0, i)}"] for i in range(1, 200)}
    hierarchy = Hierarchy(list(parents), [(id,) for id in parents], list(parents.values()))
    seen = hierarchy.indices([f"n{i}" for i in range(0, 60, 3)])
    vectors = ClassVectors((np.zeros((len(hierarchy), 2), np.float32),), ("none",), [{}])
    classifiers = random.standard_normal((len(seen), 37)).astype(np.float32)
    problem = Problem(hierarchy, vectors, seen, classifiers, None)
    rows = make_method("structural").fit(problem, Run()).classifiers
    inner = {parent for above in parents.values() for parent in above}
    unseen = [id for id in parents if hierarchy.index(id) not in seen]
    pairs = [(id, parents[id][0]) for id in unseen if id not in inner and parents[id][0] in unseen]
    assert len(pairs) > 20
    for leaf, parent in pairs:
        assert rows[hierarchy.index(leaf)].tobytes() == rows[hierarchy.index(parent)].tobytes()
    some = make_method("structural").predict(problem, {}, np.array([5, 150]))
    np.testing.assert_allclose(some, rows[[5, 150]], atol=1e-7)
