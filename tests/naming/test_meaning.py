"""What class a text means: ids, names, parents of new classes, and the noun in a name."""

from __future__ import annotations

import pytest

from unseen.hierarchy.core import Hierarchy, Node
from unseen.naming.meaning import find_class, find_classes, find_head_noun, spell_out, with_parent_ids
from unseen.util.errors import UnseenError

NAMES = {"bird": "bird", "shuttle": ["shuttlecock", "bird"], "c1": "crane", "c2": "crane"}
HIERARCHY = Hierarchy.from_edges([("bird", "t"), ("shuttle", "t"), ("c1", "t"), ("c2", "t")], names=NAMES)
DOG, OKAPI = "n02084071", "n02439398"


def test_an_id_comes_before_a_name_and_a_first_name_before_another():
    assert find_class(" bird ", HIERARCHY) == "bird" and find_class("Shuttlecock", HIERARCHY) == "shuttle"
    with pytest.raises(UnseenError, match="'Bird' names 2 classes"):
        find_class("Bird", HIERARCHY)
    assert find_class("Bird", HIERARCHY, prefer_first_name=True) == "bird"
    assert find_class("shuttle", HIERARCHY, prefer_first_name=True) == "shuttle"
    with pytest.raises(UnseenError, match="names 2 classes"):
        find_class("crane", HIERARCHY, prefer_first_name=True)
    with pytest.raises(UnseenError, match=r"'brid' is neither an id nor a name .*Did you mean bird\?"):
        find_class("brid", HIERARCHY)


def test_several_hierarchies_are_searched_in_order():
    wordnet = Hierarchy.wordnet()
    assert find_class("okapi", HIERARCHY, wordnet) == find_class(OKAPI, HIERARCHY, wordnet) == OKAPI
    with pytest.raises(UnseenError, match="'crane' names 2 classes"):  # 5 in WordNet
        find_class("crane", HIERARCHY, wordnet)


def test_one_message_names_all_unknown_texts_of_a_list():
    assert find_classes(["Bird", "c2"], HIERARCHY, "list") == ["bird", "c2"]
    with pytest.raises(UnseenError, match=r"list: 2 ids or names are not .*: brid, x. Did you mean bird\?"):
        find_classes(["brid", "c1", "x"], HIERARCHY, "list")


def test_parents_of_new_classes_may_be_names():
    def parents(hierarchy: Hierarchy, *nodes: Node) -> list[tuple[str, ...]]:
        return [tuple(node.parents) for node in with_parent_ids(nodes, hierarchy)]

    imagenet = Hierarchy.imagenet()
    assert parents(imagenet, Node("kitten", "kitten", ["Okapia johnstoni", OKAPI])) == [(OKAPI,)]
    assert parents(imagenet, Node("a", "a", DOG), Node("b", "b", "a"), Node("c", "c")) == [(DOG,), ("a",), ()]
    small = imagenet.subgraph([OKAPI])
    assert DOG not in small and parents(small, Node("pup", "pup", "Canis familiaris")) == [(DOG,)]
    assert parents(HIERARCHY, Node("chick", "chick", "shuttlecock")) == [("shuttle",)]
    for hierarchy, parent, says in [
        (imagenet, "dgo", "'dgo' is neither an id nor a name"),
        (imagenet, "crane", r"'crane' names 2 classes"),
        (HIERARCHY, "okapi", "'okapi' is neither an id nor a name"),  # WordNet does not count here
    ]:
        with pytest.raises(UnseenError, match=says):
            parents(hierarchy, Node("x", "x", parent))


# --- the noun in a name -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "is_name", "compound"),
    [
        ("okapi", "okapi", True, False),
        ("red electric guitar", "electric guitar", False, False),
        ("E-Scooter", "scooter", False, False),
        ("children's guitars", "guitars", False, False),
        ("hoverboard", "board", False, True),
        ("robotaxi", "taxi", False, True),
        ("Bosch impact driver 18V", "driver", False, False),
        ("Bluetooth speakers (2 pack)", "speakers", False, False),
        ("leather case for phones", "case", False, False),
        ("Garden hose 20 m", "garden hose", True, False),
        ("3D printer", "printer", False, False),
        ("qqxzv", "", False, False),
        ("!", "", False, False),
    ],
)
def test_the_longest_end_that_is_a_noun(name, text, is_name, compound):
    head = find_head_noun(name, Hierarchy.wordnet())
    assert (head.text, head.is_name, head.compound) == (text, is_name, compound)
    assert bool(head.ids) == bool(text)


def test_sizes_and_remarks_are_no_part_of_a_name():
    assert spell_out("Air Fryer XL 5.5L (black)") == "air fryer"
    assert spell_out('LED TV 55"') == "led tv"
    assert spell_out("3D printer") == "3d printer"
    assert spell_out("(500 g)") == "500 g"
