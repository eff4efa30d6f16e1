"""The nouns in a name."""

from __future__ import annotations

import pytest

from unseen.advice.head_nouns import find_head, spell_out
from unseen.taxonomy import Taxonomy


@pytest.mark.parametrize(
    ("name", "text", "whole", "compound"),
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
def test_the_longest_end_that_is_a_noun(name, text, whole, compound):
    head = find_head(name, Taxonomy.wordnet())
    assert (head.text, head.whole, head.compound) == (text, whole, compound)
    assert bool(head.ids) == bool(text)


def test_names_in_plain_words():
    assert spell_out("E-Bike") == "electric bike"
    assert spell_out('rescue, "big" drone') == "rescue big drone"
    assert spell_out("wi-fi_router") == "wi fi router"


def test_sizes_and_remarks_are_no_part_of_a_name():
    assert spell_out("Air Fryer XL 5.5L (black)") == "air fryer"
    assert spell_out('LED TV 55"') == "led tv"
    assert spell_out("3D printer") == "3d printer"
    assert spell_out("(500 g)") == "500 g"
