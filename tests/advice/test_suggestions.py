"""Names without a hierarchy find a place in WordNet, which the user can read over."""

from __future__ import annotations

import csv
import io

import pytest

from unseen.advice import places
from unseen.advice.suggestions import FIELDS, suggest, to_csv
from unseen.errors import UnseenError
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.sources import read_additions

OKAPI, GUITAR, ELECTRIC_GUITAR, CRANE_BIRD = "n02439398", "n03467517", "n03272010", "n02012849"


def one(name: str):
    (found,) = suggest([name])
    return found


@pytest.mark.parametrize("name", ["okapi", "Okapi", "okapis", " okapi ", "Okapia_johnstoni"])
def test_a_noun_of_wordnet_keeps_its_id(name):
    found = one(name)
    assert (found.id, found.known) == (OKAPI, True)
    assert found.parent == "|".join(Taxonomy.wordnet().parents(OKAPI)) and found.definition.startswith("similar to the")
    assert found.note == "is in WordNet"


def test_another_name_goes_under_its_last_words():
    found = one("red electric guitar")
    assert (found.id, found.parent, found.known) == ("red-electric-guitar", ELECTRIC_GUITAR, False)
    assert one("children's guitars").parent == GUITAR
    assert found.note.startswith("new class")


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
    assert Taxonomy.wordnet().definition(one(name).parent).startswith(meant)


def test_senses_that_can_be_seen_come_first_and_the_others_are_listed():
    found = one("crane")
    assert found.id in (CRANE_BIRD, "n03126707") and found.known
    assert {CRANE_BIRD, "n03126707"} <= {found.id, *(sense.id for sense in found.others)}
    assert all(sense.definition for sense in found.others)
    assert "other senses: " in found.note and "Crane" in found.note


def test_no_place_is_said_and_not_made_up():
    found = one("qqxzv")
    assert (found.id, found.parent, found.known) == ("qqxzv", "", False)
    assert found.note == "no place found: fill in the parent"


def test_names_of_one_class_are_its_synonyms():
    found = suggest(["okapi", "Okapia johnstoni", "okapi", "red guitar", "Red Guitar!"])
    assert [(item.id, item.name) for item in found] == [
        (OKAPI, "okapi|Okapia johnstoni"),
        ("red-guitar", "red guitar|Red Guitar!"),
    ]
    assert [item.dropped for item in found] == [("okapi", "Okapia johnstoni"), ("Red Guitar!",)]


NAMES = ["okapi", "crane", 'rescue, "big" drone', "unicorn", "red electric guitar", "domestic dog", "dog"]


def test_the_table_can_be_used_as_it_is(tmp_path):
    text = to_csv(suggest(NAMES))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == FIELDS and rows[0]["id"] == OKAPI
    guitar = next(row for row in rows if row["id"] == "red-electric-guitar")
    assert guitar["parent"].startswith(f"{ELECTRIC_GUITAR} (electric guitar: a guitar whose sound is amplified")
    file = tmp_path / "new.csv"
    file.write_text(text)
    grown = Taxonomy.load(f"imagenet+{file}")
    assert grown.name("rescue-big-drone") == 'rescue, "big" drone'
    assert grown.parents("red-electric-guitar") == [ELECTRIC_GUITAR]
    unicorn = Taxonomy.wordnet().senses("unicorn")[0].id
    assert grown.parents(unicorn) and unicorn in grown.source["named"]
    nodes = read_additions(file, Taxonomy.imagenet())
    assert len(nodes) == 6
    assert {node.id for node in nodes if node.id not in Taxonomy.imagenet()} == {
        "rescue-big-drone", "red-electric-guitar", unicorn,
    }  # fmt: skip


def test_plurals_and_sizes_of_a_noun_do_not_rename_it(tmp_path):
    file = tmp_path / "new.csv"
    file.write_text(to_csv(suggest(["okapis", "Electric guitar 2 kg", "okapi"])))
    assert [row["name"] for row in csv.DictReader(file.open())] == ["okapi", "electric guitar"]
    assert {node.id for node in read_additions(file, Taxonomy.imagenet())} == {OKAPI, ELECTRIC_GUITAR}


def test_a_class_without_a_place_is_refused_until_it_has_one(tmp_path):
    file = tmp_path / "new.csv"
    file.write_text(to_csv(suggest(["qqxzv"])))
    with pytest.raises(UnseenError, match=r"new.csv:2: 'qqxzv': a new class needs a parent"):
        Taxonomy.load(f"imagenet+{file}")
    file.write_text(to_csv(suggest(["qqxzv"])).replace("qqxzv,qqxzv,", "qqxzv,qqxzv,okapy"))
    with pytest.raises(UnseenError, match=r"new.csv:2: the parent 'okapy' of 'qqxzv' is neither in"):
        Taxonomy.load(f"imagenet+{file}")


def test_three_places_are_offered_for_a_new_class():
    found = one("rescue drone")
    assert len(found.places) == 3 and found.places[0].sense.id == found.parent
    scores = [place.score for place in found.places]
    assert scores == sorted(scores, reverse=True) and 0 < sum(scores) <= 1
    assert all(place.sense.definition for place in found.places)
    assert found.as_dict()["places"][0]["id"] == found.parent


def test_without_the_sentence_encoder_word_vectors_do(monkeypatch):
    monkeypatch.setattr(places, "encoder_installed", lambda: False)
    assert one("red electric guitar").parent == ELECTRIC_GUITAR
    assert one("qqxzv").parent == ""


def test_a_hierarchy_without_wordnets_classes_has_no_place_for_a_name():
    own = Taxonomy(["a", "b"], [("thing",), ("other thing",)], [[], ["a"]], source={"kind": "t"})
    with pytest.raises(UnseenError, match="none of WordNet's classes"):
        suggest(["0"], own)
