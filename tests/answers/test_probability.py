"""From scores to probabilities, with a calibration and without, and up a hierarchy that is no tree."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from unseen.answers.probability import (
    DOUBT,
    SHARPNESS,
    NodeProbabilities,
    NodeSums,
    exponent,
    log_probabilities,
    node_probabilities,
    plain_probabilities,
)
from unseen.bundle.records import CONFIDENCES, ProbabilityNumbers
from unseen.hierarchy.core import Hierarchy

EDGES = [
    ("cat", "pet"),
    ("cat", "feline"),
    ("lion", "feline"),
    ("pet", "animal"),
    ("feline", "animal"),
    ("oak", "plant"),
]


@pytest.fixture
def hierarchy():
    return Hierarchy.from_edges(EDGES)


def test_a_class_that_reaches_a_node_by_two_ways_counts_once(hierarchy):
    sums = NodeSums(hierarchy, hierarchy.indices(["cat", "lion", "oak"]))
    masses = sums(np.array([[0.5, 0.3, 0.2]], np.float32))[0]
    found = {hierarchy.ids[row]: float(mass) for row, mass in zip(sums.nodes, masses, strict=True)}
    assert found == pytest.approx(
        {"cat": 0.5, "pet": 0.5, "feline": 0.8, "lion": 0.3, "animal": 0.8, "oak": 0.2, "plant": 0.2}
    )
    assert sums.sizes[sums.ids.tolist().index("animal")] == 2


def test_information_is_that_of_the_candidates_below(hierarchy):
    sums = NodeSums(hierarchy, hierarchy.indices(["cat", "lion", "oak", "feline"]))
    information = {hierarchy.ids[row]: float(bits) for row, bits in zip(sums.nodes, sums.information, strict=True)}
    assert information == pytest.approx(
        {"cat": 2, "pet": 2, "feline": np.log2(4 / 3), "lion": 2, "animal": np.log2(4 / 3), "oak": 2, "plant": 2}
    )


def test_nodes_without_a_candidate_below_have_no_place(hierarchy):
    sums = NodeSums(hierarchy, hierarchy.indices(["oak"]))
    assert "animal" not in sums.ids and len(sums.nodes) == 2


def test_sums_agree_with_a_walk_over_random_hierarchies():
    random = np.random.default_rng(0)
    edges = [(f"n{i}", f"n{p}") for i in range(1, 60) for p in {int(x) for x in random.integers(0, i, 2)}]
    hierarchy = Hierarchy.from_edges(edges)
    rows = np.sort(random.choice(len(hierarchy), 30, replace=False))
    p = random.dirichlet(np.ones(30), 4).astype(np.float32)
    sums = NodeSums(hierarchy, rows)
    masses = sums(p)
    for place, node in enumerate(sums.nodes):
        below = {hierarchy.ids[node], *hierarchy.descendants(hierarchy.ids[node])}
        inside = np.array([hierarchy.ids[row] in below for row in rows])
        np.testing.assert_allclose(masses[:, place], p[:, inside].sum(axis=1), atol=1e-6)


def test_one_photos_nodes_by_name(hierarchy):
    sums = NodeSums(hierarchy, hierarchy.indices(["cat", "lion", "oak"]))
    nodes = NodeProbabilities(sums, sums(np.array([[0.7, 0.3, 0.0]], np.float32))[0])
    assert nodes["animal"] == pytest.approx(1) and nodes["plant"] == 0
    assert pickle.loads(pickle.dumps(nodes)).items() == nodes.items() and nodes["nowhere"] == 0
    assert nodes.items()[0][0] in ("animal", "feline") and "oak" not in dict(nodes.items())


def test_candidates_without_a_probability_still_count_in_what_a_node_tells(hierarchy):
    candidates = hierarchy.indices(["cat", "lion", "oak", "feline"])
    sums = NodeSums(hierarchy, hierarchy.indices(["cat"]), candidates=candidates)
    assert sums.information[sums.ids.tolist().index("feline")] == pytest.approx(np.log2(4 / 3))
    assert sums.information[sums.ids.tolist().index("cat")] == 2


NUMBERS = ProbabilityNumbers(1.5, 2.0, 0.2, 0.8, 2.0, 0.4, 0.3, np.geomspace(0.5, 30, 7).tolist())
WAY = np.array([[0.5, 0.5], [0.0, 0.0], [0.0, 1.0]])  # from three seen candidates up to the unseen ones 1 and 4


def by_hand(logits, seen_scores, scores, own):
    """The formulas of the module, plainly."""
    like = lambda z: np.log(np.exp(SHARPNESS * z / scores.std(axis=1, keepdims=True)).mean(axis=1))  # noqa: E731
    odds = like(seen_scores) - like(scores)
    gate = 1 / (1 + np.exp(-(0.8 * (np.log(np.exp(logits).sum(axis=1)) - 2.0) + 0.4 * odds + 0.3)))[:, None]
    seen = softmax(1.5 * logits[:, own])
    climbed = np.zeros(scores.shape)
    climbed[:, [1, 4]] = seen @ WAY
    stays = 1 - climbed.sum(axis=1, keepdims=True)
    plain = softmax(2.0 * scores / scores.std(axis=1, keepdims=True))
    return gate * seen, (1 - gate) * ((0.8 + 0.2 * stays) * plain + 0.2 * climbed)


def test_probabilities_are_those_of_the_formulas():
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(5, n)) for n in (4, 3, 6)]
    own, climb = np.array([0, 2, 3]), (np.array([1, 4]), WAY)
    found = log_probabilities(NUMBERS, *arrays, own, climb)
    for ours, expected in zip(found, by_hand(*arrays, own), strict=True):
        np.testing.assert_allclose(np.exp(ours), expected, rtol=1e-6)
    np.testing.assert_allclose(sum(np.exp(part).sum(1) for part in found), 1)


def test_one_group_alone_needs_no_gate():
    random = np.random.default_rng(0)
    scores, logits = random.normal(size=(5, 4)), random.normal(size=(5, 4))
    nothing, no_way = np.zeros(0, int), (np.zeros(0, int), np.zeros((0, 0)))
    _, unseen = log_probabilities(NUMBERS, logits, scores[:, :0], scores, nothing, no_way)
    np.testing.assert_allclose(np.exp(unseen), softmax(2.0 * scores / scores.std(1, keepdims=True)))
    seen, _ = log_probabilities(NUMBERS, logits, scores, scores[:, :0], np.arange(4), no_way)
    np.testing.assert_allclose(np.exp(seen), softmax(1.5 * logits))


def softmax(values):
    return np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)


def test_exponents_are_kept_interpolated_and_continued():
    for place, confidence in enumerate(CONFIDENCES):
        assert exponent(NUMBERS, confidence) == pytest.approx(NUMBERS.exponents[place])
    found = [exponent(NUMBERS, confidence) for confidence in (0.01, 0.3, 0.55, 0.85, 0.93, 0.99, 0.9999)]
    assert (np.diff(found) > 0).all() and found[0] > 0


def test_nodes_of_unseen_classes_lose_with_detail_and_the_gate_may_be_wrong():
    """Against the formulas, node by node: two seen classes, three unseen ones."""
    edges = [("cat", "pet"), ("dog", "pet"), ("pet", "animal"), ("yak", "animal"), ("oak", "tree"), ("elm", "tree")]
    hierarchy = Hierarchy.from_edges(edges)
    sums = NodeSums(hierarchy, hierarchy.indices(["cat", "oak", "dog", "yak", "elm"]), seen=2)
    p = np.random.default_rng(0).dirichlet(np.ones(5), 3)
    numbers = replace(NUMBERS, detail=0.1, stated_slope=0.7, stated_offset=0.4)
    stated, cautious = node_probabilities(numbers, sums, p)
    for photo, shares in enumerate(p):
        gate = shares[:2].sum()
        for place, node in enumerate(sums.ids):
            below = [id == node or node in hierarchy.ancestors(id) for id in ("cat", "oak", "dog", "yak", "elm")]
            seen, unseen = shares[:2][below[:2]].sum(), shares[2:][below[2:]].sum()
            unseen *= np.exp(-0.1 * np.log2(5 / sum(below)) ** 2)
            odds = 0.7 * np.log((seen + unseen) / (1 - seen - unseen)) + 0.4
            assert stated[photo, place] == pytest.approx(1 / (1 + np.exp(-odds)))
            gates = [gate * f / (gate * f + 1 - gate) for f in np.exp([-DOUBT, DOUBT])]
            least = min(g * seen / gate + (1 - g) * unseen / (1 - gate) for g in gates)
            assert cautious[photo, place] == pytest.approx(least)


def test_they_survive_json():
    assert ProbabilityNumbers.from_json(NUMBERS.to_json()) == NUMBERS


def test_without_a_calibration_the_order_of_scores_stays_whatever_their_scale():
    scores = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    scores[:, 7] = -np.inf  # no answer
    p = plain_probabilities(scores)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (p.argmax(1) == scores.argmax(1)).all() and (p[:, 7] == 0).all()
    np.testing.assert_allclose(p, plain_probabilities(1000 * scores + 5), rtol=1e-3)
    assert np.isfinite(plain_probabilities(np.zeros((1, 3), np.float32))).all()
