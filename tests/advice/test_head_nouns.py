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
