"""Probabilities of classes, summed up a hierarchy that is no tree."""

import numpy as np
import pytest

from unseen.errors import UnseenError
from unseen.probability.sums import FEW, NodeProbabilities, NodeSums, find_node
from unseen.taxonomy import Taxonomy

EDGES = [
    ("cat", "pet"),
    ("cat", "feline"),
    ("lion", "feline"),
    ("pet", "animal"),
    ("feline", "animal"),
    ("oak", "plant"),
]


@pytest.fixture
def taxonomy():
    return Taxonomy.from_edges(EDGES)


def test_a_class_that_reaches_a_node_by_two_ways_counts_once(taxonomy):
    sums = NodeSums(taxonomy, taxonomy.indices(["cat", "lion", "oak"]))
    masses = sums(np.array([[0.5, 0.3, 0.2]], np.float32))[0]
    found = {taxonomy.ids[row]: float(mass) for row, mass in zip(sums.nodes, masses, strict=True)}
    assert found == pytest.approx(
        {"cat": 0.5, "pet": 0.5, "feline": 0.8, "lion": 0.3, "animal": 0.8, "oak": 0.2, "plant": 0.2}
    )
    assert sums.sizes[sums.place(taxonomy.index("animal"))] == 2


def test_few_photos_are_summed_to_the_last_bit_as_many_are():
    chance = np.random.default_rng(0)
    wide = Taxonomy.from_edges([(f"c{i}", f"g{i % 7}") for i in range(2000)] + [(f"g{i}", "top") for i in range(7)])
    sums = NodeSums(wide, chance.permutation(wide.indices([f"c{i}" for i in range(2000)])))
    many = chance.dirichlet(np.full(2000, 0.1), FEW + 1).astype(np.float32)
    assert np.array_equal(sums(many), np.concatenate([sums(row[None]) for row in many]))


def test_information_is_that_of_the_candidates_below(taxonomy):
    sums = NodeSums(taxonomy, taxonomy.indices(["cat", "lion", "oak", "feline"]))
    information = {taxonomy.ids[row]: float(bits) for row, bits in zip(sums.nodes, sums.information, strict=True)}
    assert information == pytest.approx(
        {"cat": 2, "pet": 2, "feline": np.log2(4 / 3), "lion": 2, "animal": np.log2(4 / 3), "oak": 2, "plant": 2}
    )


def test_nodes_without_a_candidate_below_have_no_place(taxonomy):
    sums = NodeSums(taxonomy, taxonomy.indices(["oak"]))
    assert sums.place(taxonomy.index("animal")) is None and len(sums.nodes) == 2


def test_sums_agree_with_a_walk_over_random_hierarchies():
    random = np.random.default_rng(0)
    edges = [(f"n{i}", f"n{p}") for i in range(1, 60) for p in {int(x) for x in random.integers(0, i, 2)}]
    taxonomy = Taxonomy.from_edges(edges)
    rows = np.sort(random.choice(len(taxonomy), 30, replace=False))
    p = random.dirichlet(np.ones(30), 4).astype(np.float32)
    sums = NodeSums(taxonomy, rows)
    masses = sums(p)
    for place, node in enumerate(sums.nodes):
        below = {taxonomy.ids[node], *taxonomy.descendants(taxonomy.ids[node])}
        inside = np.array([taxonomy.ids[row] in below for row in rows])
        np.testing.assert_allclose(masses[:, place], p[:, inside].sum(axis=1), atol=1e-6)


def test_one_photos_nodes_by_name(taxonomy):
    sums = NodeSums(taxonomy, taxonomy.indices(["cat", "lion", "oak"]))
    nodes = NodeProbabilities(taxonomy, sums, sums(np.array([[0.7, 0.3, 0.0]], np.float32))[0])
    assert nodes["animal"] == pytest.approx(1) and nodes["plant"] == 0
    assert nodes.items()[0][0] in ("animal", "feline") and "oak" not in dict(nodes.items())


def test_candidates_without_a_probability_still_count_in_what_a_node_tells(taxonomy):
    candidates = taxonomy.indices(["cat", "lion", "oak", "feline"])
    sums = NodeSums(taxonomy, taxonomy.indices(["cat"]), candidates)
    assert sums.information[sums.place(taxonomy.index("feline"))] == pytest.approx(np.log2(4 / 3))
    assert sums.information[sums.place(taxonomy.index("cat"))] == 2


def test_a_name_means_the_node_that_it_is_the_first_name_of():
    names = {"bird": "bird", "shuttle": ["shuttlecock", "bird"], "c1": "crane", "c2": "crane"}
    taxonomy = Taxonomy.from_edges([("bird", "t"), ("shuttle", "t"), ("c1", "t"), ("c2", "t")], names=names)
    assert find_node(taxonomy, "Bird") == "bird" and find_node(taxonomy, "shuttle") == "shuttle"
    with pytest.raises(UnseenError, match="names 2 classes"):
        find_node(taxonomy, "crane")
