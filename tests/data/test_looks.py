"""The glossary of looks: its form, and where classes without a line take theirs from."""

from __future__ import annotations

import re

from unseen.data import data_file, imagenet_1k, imagenet_21k, looks_glossary
from unseen.hierarchy.core import Hierarchy
from unseen.vectors.looks import described, find_look

PERSON = "n00007846"


def test_the_glossary_has_the_form_that_its_page_says():
    lines = data_file("looks.tsv").read_bytes().decode("utf-8").split("\n")
    assert lines.pop() == ""
    assert all(re.fullmatch(r"n\d{8}\t[A-Za-z0-9 ,;:.'()/âçèéû-]+", line) for line in lines)
    ids, looks = zip(*(line.split("\t") for line in lines), strict=True)
    assert list(ids) == sorted(set(ids)) and len(set(looks)) == len(looks)
    assert [look for look in looks if len(look.split()) not in range(22, 46)] == []
    assert [look for look in looks if look != " ".join(look.split()) or look.endswith(".")] == []


def test_every_imagenet_class_is_described_but_kinds_of_people_that_no_network_knows():
    people = Hierarchy.imagenet().descendants(PERSON)
    assert set(imagenet_21k()) - (set(people) - set(imagenet_1k())) == set(looks_glossary())


def test_a_node_that_connects_others_takes_the_looks_of_those_below():
    looks = looks_glossary()
    tree = Hierarchy.from_edges(
        [("tools", "all"), ("n03239726", "tools"), ("n02758490", "n03239726"), ("n02084071", "all"), ("empty", "all")]
    )
    assert described(tree, "n03239726") == ["n03239726"]
    assert described(tree, "all") == ["n02084071", "n03239726"], "nearest first, and none below another"
    assert described(tree, "empty") == [] and find_look(tree, "empty") is None
    assert find_look(tree, "all") == (looks["n03239726"], "n03239726"), "the one with most below it"
    assert find_look(tree, "n02084071") == (looks["n02084071"], "n02084071")


def test_a_sense_has_its_look():
    imagenet = Hierarchy.imagenet()
    assert imagenet.sense("n02084071").looks == looks_glossary()["n02084071"]
    assert imagenet.sense("n00001740").looks == ""
