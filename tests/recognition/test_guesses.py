"""Labels as lines for a person: nothing twice, and no name that could mean two of them."""

import pytest

from unseen.recognition.answers import Label, support_in_words
from unseen.recognition.guesses import fold, tell_apart
from unseen.taxonomy import Node, Taxonomy

NODES = [
    Node("animal", ("animal",)),
    Node("horse", ("horse",), ("animal",)),
    Node("shire", ("shire", "draft horse"), ("horse",)),
    Node("cat", ("cat",), ("animal",)),
    Node("tabby1", ("tabby", "queen"), ("cat",), "a female cat"),
    Node("tabby2", ("tabby", "tabby cat"), ("cat",), "a cat with stripes"),
    Node("crane1", ("crane",), ("animal",)),
    Node("machine", ("machine",)),
    Node("crane2", ("crane",), ("machine",)),
    Node("twin1", ("twin",), ("machine",), "the one"),
    Node("twin2", ("twin",), ("machine",), "the other"),
]


@pytest.fixture(scope="module")
def taxonomy():
    return Taxonomy(
        [node.id for node in NODES],
        [node.lemmas for node in NODES],
        [node.parents for node in NODES],
        {node.id: node.definition for node in NODES},
    )


def label(id: str, probability: float) -> Label:
    return Label(id, id, 0.0, False, 0.6, (), probability)


def test_a_class_and_those_above_it_make_one_line(taxonomy):
    labels = [label("horse", 0.3), label("tabby1", 0.25), label("shire", 0.2), label("animal", 0.1)]
    first, second = fold(taxonomy, labels, most=5)
    assert (first.title, first.also) == ("horse", ("shire", "animal")) and first.probability == pytest.approx(0.6)
    assert (second.title, second.also, second.probability) == ("tabby", (), 0.25)


def test_two_kinds_of_one_thing_are_two_lines(taxonomy):
    labels = [label("cat", 0.4), label("tabby1", 0.3), label("tabby2", 0.2), label("animal", 0.05)]
    first, second = fold(taxonomy, labels, most=5)
    assert (first.title, first.also, second.title) == ("cat", ("tabby, queen", "animal"), "tabby, tabby cat")


def test_lines_come_by_what_they_hold_together(taxonomy):
    labels = [label("tabby1", 0.35), label("horse", 0.3), label("shire", 0.2)]
    assert [guess.id for guess in fold(taxonomy, labels, most=5)] == ["horse", "tabby1"]


def test_there_are_no_more_lines_than_asked_for_and_later_ones_still_fold(taxonomy):
    labels = [label("horse", 0.3), label("tabby1", 0.2), label("crane2", 0.1), label("shire", 0.05)]
    lines = fold(taxonomy, labels, most=2)
    assert [guess.id for guess in lines] == ["horse", "tabby1"] and lines[0].also == ("shire",)


def test_the_same_name_never_comes_twice(taxonomy):
    titles = tell_apart(taxonomy, ["tabby1", "tabby2", "crane1", "crane2", "twin1", "twin2", "horse"])
    assert titles["tabby1"] == "tabby, queen" and titles["tabby2"] == "tabby, tabby cat"
    assert titles["crane1"] == "crane, a kind of animal" and titles["crane2"] == "crane, a kind of machine"
    assert len(set(titles.values())) == 7 and titles["horse"] == "horse"
    assert tell_apart(taxonomy, ["tabby1"]) == {"tabby1": "tabby"}


def test_trust_in_words():
    told = [support_in_words(trust) for trust in (None, 0.9, 0.5, 0.2, 0.0)]
    assert told == ["", "well supported", "partly supported", "hardly supported", "hardly supported"]
