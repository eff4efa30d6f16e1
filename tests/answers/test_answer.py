"""Labels as lines for a person: nothing twice, and no name that could mean two of them."""

import pytest

from unseen.answers.answer import Label, fold, support_in_words, tell_apart
from unseen.answers.words import words_of
from unseen.hierarchy.core import Hierarchy, Node

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
def hierarchy():
    return Hierarchy(
        [node.id for node in NODES],
        [node.lemmas for node in NODES],
        [node.parents for node in NODES],
        {node.id: node.definition for node in NODES},
    )


def label(id: str, probability: float) -> Label:
    name = next(node.lemmas[0] for node in NODES if node.id == id)
    return Label(id, name, 0.0, False, 0.6, (), probability, say=name)


def lines_of(hierarchy, labels, most=5):
    """Each name is as probable as it and those below it among the labels."""
    above = [{label.id, *hierarchy.ancestors(label.id)} for label in labels]
    ids = [label.id for label in labels]
    shares = [sum(label.probability for label, over in zip(labels, above, strict=True) if one in over) for one in ids]
    return fold(hierarchy, labels, above, shares, most)


def test_a_class_and_those_above_it_make_one_line(hierarchy):
    labels = [label("horse", 0.3), label("tabby1", 0.25), label("shire", 0.2), label("animal", 0.1)]
    first, second = lines_of(hierarchy, labels, most=5)
    assert (first.title, first.also) == ("horse", ("shire", "animal")) and first.probability == pytest.approx(0.5)
    assert (second.title, second.also, second.probability) == ("tabby", (), 0.25)


def test_two_kinds_of_one_thing_are_two_lines(hierarchy):
    labels = [label("cat", 0.4), label("tabby1", 0.3), label("tabby2", 0.2), label("animal", 0.05)]
    first, second = lines_of(hierarchy, labels, most=5)
    assert (first.title, first.also, second.title) == ("cat", ("tabby, queen", "animal"), "tabby, tabby cat")


def test_lines_come_in_the_order_of_their_first_labels(hierarchy):
    labels = [label("tabby1", 0.35), label("horse", 0.3), label("shire", 0.2)]
    assert [guess.id for guess in lines_of(hierarchy, labels, most=5)] == ["tabby1", "horse"]


def test_there_are_no_more_lines_than_asked_for_and_later_ones_still_fold(hierarchy):
    labels = [label("horse", 0.3), label("tabby1", 0.2), label("crane2", 0.1), label("shire", 0.05)]
    lines = lines_of(hierarchy, labels, most=2)
    assert [guess.id for guess in lines] == ["horse", "tabby1"] and lines[0].also == ("shire",)


def test_the_same_name_never_comes_twice(hierarchy):
    named = [(node.id, node.lemmas[0]) for node in NODES if node.id not in ("animal", "cat", "machine", "shire")]
    titles = tell_apart(hierarchy, [[one] for one in named])
    assert titles["tabby1"] == "tabby, queen" and titles["tabby2"] == "tabby, tabby cat"
    assert titles["crane1"] == "crane, a kind of animal" and titles["crane2"] == "crane, a kind of machine"
    assert len(set(titles.values())) == 7 and titles["horse"] == "horse"
    assert tell_apart(hierarchy, [[("tabby1", "tabby")]]) == {"tabby1": "tabby"}


def test_what_nobody_says_is_no_guess_and_one_name_is_one_line():
    imagenet = Hierarchy.imagenet()
    bowls, matter, dish = ("n02880940", "n02881193"), "n00020827", "n03206908"
    labels = [label_of(imagenet, id, p) for id, p in ((matter, 0.4), (bowls[0], 0.3), (dish, 0.2), (bowls[1], 0.1))]
    above = [{label.id, *imagenet.ancestors(label.id)} for label in labels]
    (guess,) = fold(imagenet, labels, above, [0.4, 0.4, 0.2, 0.4], 5)
    assert (guess.title, guess.probability, guess.id) == ("bowl", 0.4, bowls[0]) and "bowl" not in guess.also
    (alone,) = fold(imagenet, labels[:1], above[:1], [0.4], 5)  # better than nothing
    assert alone.id == matter


def label_of(hierarchy, id: str, probability: float) -> Label:
    say = words_of(hierarchy).says[hierarchy.index(id)]
    return Label(id, hierarchy.name(id), 0.0, False, 0.6, (), probability, say)


def test_trust_in_words():
    told = [support_in_words(trust) for trust in (None, 0.9, 0.5, 0.2, 0.0)]
    assert told == ["", "well supported", "partly supported", "hardly supported", "hardly supported"]
