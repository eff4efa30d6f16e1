"""Names find their class, or those that may have been meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.hierarchy.core import Hierarchy, Sense
from unseen.hierarchy.search import match_names, near_ids
from unseen.util.errors import UnseenError


def animals() -> Hierarchy:
    lemmas = {
        "b": ["bear"],
        "p": ["polar bear", "ice bear"],
        "y": ["Bearberry"],
        "f": ["forbearance"],
        "r": ["bare bear"],
    }
    lemmas |= {"s": ["bear", "Bär"], "x": ["x-ray"]}
    return Hierarchy.from_edges([("p", "b")], lemmas)


def test_search_puts_the_name_itself_first_then_beginnings_words_and_parts():
    found = [sense.id for sense in animals().search("BEAR")]
    assert found == ["b", "s", "y", "p", "r", "f"]
    assert [sense.id for sense in animals().search("bear", limit=3)] == found[:3]
    assert animals().search("bear", limit=0) == animals().search("  ") == animals().search("\n") == []


@pytest.mark.parametrize("text", ["ice_bear", " Ice  Bear ", "ICE BEAR", "ice-bear"])
def test_search_and_resolve_forgive_case_blanks_and_underscores(text):
    assert animals().resolve(text) == "p"
    assert animals().search(text) == [Sense("p", "polar bear", ("polar bear", "ice bear"), "")]


def test_search_takes_any_text():
    for text in ("bär", "BÄR", "("):
        assert [sense.id for sense in animals().search(text)] == (["s"] if text != "(" else [])
    assert animals().search("p")[0].id == "p"  # an id counts, too
    assert animals().resolve("X ray") == "x"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1), min_size=1, max_size=8))
def test_every_name_is_found_by_itself(names):
    names = [name for name in names if name.strip()] or ["a"]
    hierarchy = Hierarchy([f"id{row}" for row in range(len(names))], [(name,) for name in names], [()] * len(names))
    for row, name in enumerate(names):
        if name.strip("-_ \t"):
            assert f"id{row}" in [sense.id for sense in hierarchy.senses(name) or hierarchy.search(name)]


def test_resolve_lists_the_senses_of_an_ambiguous_name():
    with pytest.raises(UnseenError) as caught:
        Hierarchy.imagenet().resolve("crane")
    text = str(caught.value)
    assert "'crane' names 2 classes" in text
    assert "n02012849" in text and "wading bird" in text
    assert "n03126707" in text and "lifting tackle" in text


def test_resolve_suggests_what_may_have_been_meant():
    with pytest.raises(UnseenError, match=r"Did you mean n02391049 \(zebra\)"):
        Hierarchy.imagenet().resolve("zebr")
    with pytest.raises(UnseenError, match=r"neither an id nor a name in this hierarchy\. Did you mean okapi"):
        Hierarchy.imagenet().resolve("okapy")
    for missing_a_digit in (Hierarchy.imagenet().resolve, Hierarchy.imagenet().index):
        with pytest.raises(UnseenError, match=r"Did you mean n02113335 \(poodle\)\?"):
            missing_a_digit("n0211333")


def test_what_may_be_meant_by_an_unknown_id():
    animals = Hierarchy.from_edges([("n1", "n0"), ("n2", "n0"), ("okapi", "n0")], {"n0": "animal", "n1": "polar bear"})
    assert near_ids(["Polar_Bear", "okapy", "mouse"], animals) == ["n1 (polar bear)", "okapi"]
    with pytest.raises(UnseenError, match=r"1 of 2 ids are not in this hierarchy: okapy. Did you mean okapi\?"):
        animals.indices(["n1", "okapy"])


def test_folders_match_if_they_mean_one_wanted_class():
    names = {"bird": "bird", "shuttle": ["shuttlecock", "bird"], "c1": "crane", "c2": "crane"}
    birds = Hierarchy.from_edges([("bird", "t"), ("shuttle", "t"), ("c1", "t"), ("c2", "t")], names=names)
    found = match_names(["Bird", "c1", "crane", "Shuttlecock", "t"], birds, {"bird", "c1", "shuttle"})
    assert found == {"c1": "c1", "crane": "c1", "Shuttlecock": "shuttle"}
    assert match_names(["Bird"], birds, {"bird"}) == {"Bird": "bird"}
