"""Figures that know the hierarchy, each against a count by hand."""

import numpy as np
import pytest

from unseen.evaluation.metrics import (
    Relations,
    curve_area,
    hierarchical_figures,
    relation_figures,
    reliability_bins,
    verdict_figures,
)
from unseen.evaluation.table import RANKS, SWEEP, VERDICTS, RanksTable
from unseen.hierarchy.core import Hierarchy

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
def hierarchy():
    return Hierarchy.from_edges(EDGES)


@pytest.fixture(scope="module")
def relations(hierarchy):
    return Relations(hierarchy, np.sort(hierarchy.indices(CLASSES)))


def test_heights_are_the_longest_way_down(hierarchy, relations):
    found = dict(zip(hierarchy.ids, relations.heights.tolist(), strict=True))
    assert found == {
        "poodle": 0, "dog": 1, "husky": 0, "canine": 2, "fox": 0, "animal": 3, "cat": 0, "feline": 1, "pet": 1,
        "thing": 4, "oak": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "label, truth, steps",
    [("husky", "poodle", 1), ("cat", "poodle", 1), ("cat", "fox", 3), ("oak", "cat", 4), ("dog", "husky", 1)],
)
def test_severity_is_the_height_of_the_lowest_node_above_both(hierarchy, relations, label, truth, steps):
    assert relations.severity(hierarchy.index(label), hierarchy.index(truth)) == steps


def test_the_nearest_candidates_include_all_that_tie(hierarchy, relations):
    near = {hierarchy.ids[row] for row in relations.nearest(hierarchy.index("poodle"), 2)}
    assert near == {"poodle", "dog"}  # one step away; cat and husky are two
    assert {hierarchy.ids[row] for row in relations.nearest(hierarchy.index("poodle"), 3)} == {
        "poodle",
        "dog",
        "husky",
        "cat",
    }


def test_a_claim_leaves_out_what_holds_for_every_candidate(hierarchy, relations):
    assert {hierarchy.ids[row] for row in relations.claims(hierarchy.index("fox"))} == {"fox", "canine", "animal"}


@pytest.fixture(scope="module")
def table(hierarchy):
    """Four photos with their first two labels and their verdicts."""
    rows = np.zeros(4, [("class", np.int32), *VERDICTS])
    rows["class"] = hierarchy.indices(["poodle", "fox", "cat", "oak"])
    rows["verdict"] = [*hierarchy.indices(["dog", "dog", "feline"]), -1]
    rows["best"] = -1
    for photo, labels in enumerate((["poodle", "dog"], ["husky", "fox"], ["oak", "cat"], ["oak", "fox"])):
        rows["best"][photo, :2] = hierarchy.indices(labels)
    rows["curve"] = np.tile(rows["verdict"][:, None], len(SWEEP))
    rows["probability"] = [0.9, 0.8, 0.7, np.nan]
    rows["stated"] = rows["probability"][:, None]
    candidates = np.sort(hierarchy.indices(CLASSES))
    return RanksTable(rows, [], hierarchy, candidates, np.zeros(len(hierarchy), bool))


def test_right_is_among_the_photos_with_a_verdict(relations, table):
    figures = verdict_figures(relations, table, table["verdict"], table["probability"])
    information = round((1 + 1 + np.log2(6)) / 4, 3)
    assert figures == {"told": 75.0, "right": 66.6667, "stated": 80.0, "information": information}
    nothing = verdict_figures(relations, table, np.full(4, -1), np.full(4, np.nan, np.float32))
    assert nothing == {"told": 0.0, "right": None, "stated": None, "information": 0.0}


def test_hits_by_relation_to_the_seen_classes(hierarchy):
    """Seen: dog. Its parent canine is above it, poodle below it, fox beside it; the rest is further."""
    rows = np.zeros(5, RANKS)
    rows["class"] = hierarchy.indices(["canine", "poodle", "fox", "oak", "cat"])
    rows["greater"] = [0, 3, 0, 9, 0]
    seen = np.zeros(len(hierarchy), bool)
    seen[hierarchy.index("dog")] = True
    figures = relation_figures(RanksTable(rows, [], hierarchy, np.arange(len(hierarchy)), seen))
    assert figures == {
        "above": {"classes": 1, "hit@1": 100.0, "hit@5": 100.0},
        "below": {"classes": 1, "hit@1": 0.0, "hit@5": 100.0},
        "sibling": {"classes": 1, "hit@1": 100.0, "hit@5": 100.0},
        "further": {"classes": 2, "hit@1": 50.0, "hit@5": 50.0},
    }


def test_figures_of_the_table_by_hand(relations, table):
    figures = hierarchical_figures(relations, table)
    # Near: all of the first five but oak for the cat, and fox for the oak, whose five nearest are all candidates.
    near = sum(
        label in relations.nearest(int(row["class"]), 5) for row in table.rows for label in row["best"] if label >= 0
    )
    assert figures["precision@5"] == 100 * near / 20
    assert figures["severity"] == (2 + 4) / 2  # husky for fox: canine; oak for cat: thing
    # claimed dog canine animal, twice, and feline animal; true 5 of the poodle, 3, 4 of the cat, 1 of the oak
    claimed, true, both = 3 + 3 + 2, 5 + 3 + 4 + 1, 3 + 2 + 2
    assert figures["f1"] == round(200 * both / (claimed + true), 2)
    points = [{"information": (2 + np.log2(6)) / 4, "told": 75.0, "right": 200 / 3}]
    assert figures["area"] == pytest.approx(curve_area(points, len(CLASSES)), abs=1e-3)


def test_reliability_counts_the_nodes_that_say_something(hierarchy, relations):
    nodes = hierarchy.indices(["poodle", "dog", "thing", "oak"])
    masses = np.array([[0.55, 0.75, 1.0, 0.01], [0.3, 0.35, 1.0, 0.65]], np.float32)
    bins = reliability_bins(relations, nodes, masses, hierarchy.indices(["poodle", "oak"]), floor=0.02)
    assert bins["nodes"].tolist() == [[0] * 5 + [1, 0, 1, 0, 0], [0, 0, 0, 2, 0, 0, 1, 0, 0, 0]]
    assert bins["true"][0].sum() == 2 and bins["true"][1].tolist() == [0] * 6 + [1, 0, 0, 0]
    assert bins["mass"].sum() == pytest.approx(0.55 + 0.75 + 0.3 + 0.35 + 0.65)
