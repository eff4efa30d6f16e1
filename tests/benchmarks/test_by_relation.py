"""Accuracy by relation, on a hierarchy small enough to see the relations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support import tiny_network
from support.problems import SEEN, make_hierarchy
from support.stores import FakeStore
from unseen.methods.base import FitRecord
from unseen.methods.graph.adjacency import hop_groups, neighbours
from unseen.model import Model

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
UNSEEN = ["cat", "poodle", "saw", "pet", "lonely", "thing"]
HOPS = {"descendants": [0.4, 0.3, 0.1, 0.1, 0.1], "ancestors": [0.5, 0.2, 0.1, 0.1, 0.1]}


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import by_relation

    return by_relation


@pytest.fixture
def bundles() -> dict:
    """Two methods whose classifiers differ."""
    bundle = tiny_network.make_bundle()
    random = np.random.default_rng(1)
    other = random.normal(size=bundle.solution.classifiers.shape).astype(np.float32)
    record = FitRecord(hop_weights=HOPS)
    dgp = replace(bundle, method="dgp", settings={"epochs": 5}, solution=replace(bundle.solution, record=record))
    sgcn = replace(bundle, method="sgcn", settings={"epochs": 5},
                   solution=replace(bundle.solution, classifiers=other))  # fmt: skip
    return {"dgp": dgp, "sgcn": sgcn}


def test_relations_by_hand(study):
    found = study.relations(make_hierarchy(), UNSEEN, list(SEEN))
    assert found == {
        "cat": "ancestor",  # of the tabby, one edge away, as it is from the animal, which is above it
        "poodle": "descendant",  # of the dog
        "saw": "sibling",  # of the hammer
        "pet": "ancestor",  # of the tabby
        "lonely": "further",
        "thing": "ancestor",  # of the animal
    }


def test_figures_are_those_of_evaluate(study, bundles):
    random = np.random.default_rng(3)
    photos = FakeStore(random.normal(size=(90, tiny_network.FEATURES)), random.choice([*UNSEEN, *SEEN], 90))
    found = study.measure(bundles, lambda model: photos, ["unseen"])["unseen"]
    for method, bundle in bundles.items():
        alone = Model(bundle, device="cpu").evaluate(photos, "unseen", confidence=None)
        assert {id: entry[method] for id, entry in found.items()} == {
            row["id"]: {1: row["hit@1"], 5: row["hit@5"]} for row in alone.per_class
        }
    rows = {row["relation"]: row for row in study.summarise(found, list(bundles), 1)}
    assert (
        sum(rows[kind]["classes"] for kind in study.RELATIONS if kind in rows) == rows["any"]["classes"] == len(found)
    )
    own = [entry for entry in found.values() if entry["relation"] == "ancestor"]
    assert rows["ancestor"]["dgp"] == pytest.approx(np.mean([entry["dgp"][1] for entry in own]))
    assert rows["any"]["difference"] == pytest.approx(rows["any"]["dgp"] - rows["any"]["sgcn"])
    assert 0 < rows["any"]["p"] <= 1
    text = study.page({"tiny": (bundles, {"unseen": found})}, "command")
    assert "| unseen | ancestor |" in text and "Made by `command`." in text
    # cat, pet, thing and tool lie above a seen class, poodle below one, the saw beside one, the lonely one apart
    assert "| unseen | 7 | 57.1 % | 14.3 % | 14.3 % | 14.3 % |" in text


def test_what_is_gathered_is_the_product_of_the_layers(study, bundles):
    hierarchy, ids = make_hierarchy(), ["cat", "saw"]
    rows = hierarchy.indices(ids)
    layers = [hop_groups(hierarchy, side).dense(np.array(HOPS[side])) for side in ("descendants", "ancestors")]
    whole = {"dgp": layers[1] @ layers[0], "sgcn": np.linalg.matrix_power(neighbours(hierarchy).dense(), 2)}
    for method, bundle in bundles.items():
        own, nodes = study.mixtures(bundle, ids)
        expected = whole[method][rows] / whole[method][rows].sum(axis=1, keepdims=True)
        assert own == pytest.approx([expected[i, row] for i, row in enumerate(rows)])
        for i, row in enumerate(rows):
            rest = np.delete(expected[i], row)
            assert nodes[i] == pytest.approx(rest.sum() ** 2 / np.square(rest).sum())
