"""Figures that know the hierarchy, each against a count by hand."""

import numpy as np
import pytest

from unseen.evaluation.hierarchical import Relations, VerdictCounter, heights
from unseen.probability.sums import NodeSums
from unseen.taxonomy import Taxonomy

EDGES = [("poodle", "dog"), ("husky", "dog"), ("dog", "canine"), ("fox", "canine"), ("canine", "animal")]
EDGES += [
    ("cat", "feline"),
    ("feline", "animal"),
    ("cat", "pet"),
    ("poodle", "pet"),
    ("animal", "thing"),
    ("oak", "thing"),
]
CLASSES = ["poodle", "husky", "fox", "cat", "oak", "dog"]


@pytest.fixture(scope="module")
def taxonomy():
    return Taxonomy.from_edges(EDGES)


@pytest.fixture(scope="module")
def relations(taxonomy):
    return Relations(taxonomy, np.sort(taxonomy.indices(CLASSES)))


def test_heights_are_the_longest_way_down(taxonomy):
    found = dict(zip(taxonomy.ids, heights(taxonomy).tolist(), strict=True))
    assert found == {
        "poodle": 0, "dog": 1, "husky": 0, "canine": 2, "fox": 0, "animal": 3, "cat": 0, "feline": 1, "pet": 1,
        "thing": 4, "oak": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "label, truth, steps",
    [("husky", "poodle", 1), ("cat", "poodle", 1), ("cat", "fox", 3), ("oak", "cat", 4), ("dog", "husky", 1)],
)
def test_severity_is_the_height_of_the_lowest_node_above_both(taxonomy, relations, label, truth, steps):
    assert relations.severity(taxonomy.index(label), taxonomy.index(truth)) == steps


def test_the_nearest_candidates_include_all_that_tie(taxonomy, relations):
    near = {taxonomy.ids[row] for row in relations.nearest(taxonomy.index("poodle"), 2)}
    assert near == {"poodle", "dog"}  # one step away; cat and husky are two
    assert {taxonomy.ids[row] for row in relations.nearest(taxonomy.index("poodle"), 3)} == {
        "poodle",
        "dog",
        "husky",
        "cat",
    }


def test_a_claim_leaves_out_what_holds_for_every_candidate(taxonomy, relations):
    assert {taxonomy.ids[row] for row in relations.claims(taxonomy.index("fox"))} == {"fox", "canine", "animal"}


def test_right_information_and_unknown(taxonomy, relations):
    sums = NodeSums(taxonomy, np.sort(taxonomy.indices(CLASSES)))
    place = [sums.place(taxonomy.index(id)) for id in ("dog", "dog", "feline", "cat")]
    counter = VerdictCounter()
    truth = taxonomy.indices(["poodle", "fox", "cat", "oak"])
    counter.update(relations, sums, np.array([*place[:3], -1]), truth)
    assert counter.figures() == {"right": 75.0, "information": round((1 + 1 + np.log2(6)) / 4, 3), "unknown": 25.0}
