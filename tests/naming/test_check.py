"""A hierarchy looked over before training."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.data import imagenet_1k
from unseen.hierarchy.core import Hierarchy
from unseen.naming.candidates import own_classes
from unseen.naming.check import check_up
from unseen.vectors.class_vectors import class_vectors, load_vectors

PARENTS = {"thing": [], "animal": ["thing"], "dog": ["animal"], "qqxzv": ["animal"], "far": ["qqxzv"], "alone": []}
PARENTS |= {f"deep{i}": [f"deep{i - 1}" if i else "far"] for i in range(3)}


def check(hierarchy: Hierarchy, seen) -> dict:
    return check_up(hierarchy, seen, class_vectors(hierarchy, load_vectors("glove")).coverage)


def test_shape_distances_and_guesswork():
    hierarchy = Hierarchy(list(PARENTS), [(name,) for name in PARENTS], list(PARENTS.values()))
    found = check(hierarchy, ["dog", "cow"])
    assert (found["nodes"], found["edges"], found["roots"], found["leaves"], found["depth"]) == (9, 7, 2, 3, 6)
    assert found["orphans"] == ["alone"] and found["own"] == 9
    assert (found["seen_present"], found["seen_missing"]) == (1, ["cow"])
    assert found["without_vector"] == ["qqxzv", "deep0", "deep1", "deep2"] and found["missed_words"]["qqxzv"] == 1
    assert found["hops"] == {-1: 1, 0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1}
    assert found["distance"] == {
        "thing": 2, "animal": 1, "dog": 0, "qqxzv": 2, "far": 3, "alone": -1, "deep0": 4, "deep1": 5, "deep2": 6,
    }  # fmt: skip
    assert found["guesswork"] == {
        "qqxzv": "no word of its name has a vector, and 2 hops from the nearest seen class",
        "alone": "not connected to any seen class",
        "deep0": "no word of its name has a vector, and 4 hops from the nearest seen class",
        "deep1": "5 hops from the nearest seen class",
        "deep2": "6 hops from the nearest seen class",
    }


def test_no_seen_class_at_all():
    hierarchy = Hierarchy(["a"], [("animal",)], [()])
    found = check(hierarchy, ["x"])
    assert found["seen_present"] == 0 and found["orphans"] == [] and found["distance"] == {"a": -1}


@pytest.mark.slow
def test_of_a_built_in_hierarchy_only_the_users_classes_are_judged(tmp_path):
    file = tmp_path / "new.csv"
    unicorn = Hierarchy.wordnet().senses("unicorn")[0].id
    file.write_text(f"id,name,parent\npup,pup,n02084071\npony,pony,{unicorn}\nn02439398,okapi,\n")
    hierarchy = Hierarchy.load(f"imagenet+{file}")
    assert own_classes(hierarchy) == ["n02439398", "pup", "pony"]
    found = check(hierarchy, imagenet_1k())
    assert set(found["distance"]) == {"n02439398", "pup", "pony"} and found["already_there"] == 1
    assert found["distance"]["pup"] == 2 and found["seen_present"] == 1000
    assert found["nodes"] > 23_547 and found["own"] == 3


def test_all_of_imagenet():
    hierarchy = Hierarchy.imagenet()
    found = check(hierarchy, imagenet_1k())
    assert found["own"] == found["nodes"] == 23_547 and found["hops"][0] == 1000
    # WordNet gives the sun and three other single things no hypernym, only a "what it is an instance of".
    assert len(found["orphans"]) == 4 and found["hops"][-1] == 4
    distance = hierarchy.hops_from(imagenet_1k())
    hopeless = {hierarchy.ids[row] for row in np.flatnonzero((distance > 4) | (distance < 0))}
    assert hopeless <= set(found["guesswork"])
