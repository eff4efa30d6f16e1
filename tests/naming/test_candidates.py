"""Which classes a photo may be assigned to."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.problems import SEEN, make_hierarchy
from unseen.data import imagenet_1k, imagenet_21k
from unseen.examples import fruits
from unseen.hierarchy.core import Hierarchy
from unseen.naming.candidates import HELP, default_candidates, register_candidates, resolve_candidates, set_names
from unseen.naming.reading import read_ids
from unseen.util.errors import UnseenError

TABLE = (Path(__file__).resolve().parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
HIERARCHY = make_hierarchy()
CLASSES = [id for id in HIERARCHY.ids if id != "thing"]  # "thing" only connects


def resolve(spec, **options) -> set[str]:
    return meant(spec, HIERARCHY, SEEN, CLASSES, **options)


def meant(spec, hierarchy, seen, classes, added=(), with_seen=False) -> set[str]:
    rows = resolve_candidates(make_bundle(hierarchy, seen, classes, added), spec, with_seen)
    return {hierarchy.ids[row] for row in rows}


def make_bundle(hierarchy, seen, classes, added=()) -> Any:
    is_class = np.isin(hierarchy.ids, list(classes))
    is_seen = np.isin(hierarchy.ids, list(seen))
    facts = {"seen_ids": seen, "is_seen": is_seen, "is_class": is_class, "added": added}
    return SimpleNamespace(hierarchy=hierarchy, ids=hierarchy.ids, **facts)


def test_names():
    unseen = set(CLASSES) - set(SEEN)
    assert resolve("any") == set(CLASSES)
    assert resolve("seen") == set(SEEN) and resolve("unseen") == unseen
    assert resolve("unseen+1K") == resolve("unseen", with_seen=True) == set(CLASSES)
    assert resolve("leaves") == {"poodle", "beagle", "tabby", "hammer", "saw", "lonely"}
    assert resolve("subtree:dog") == {"dog", "poodle", "beagle"}
    assert resolve("subtree:Dog+1k") == {"poodle", *SEEN}
    assert resolve("hops:1") == {"cat", "pet", "poodle", "tool"}
    assert resolve("hops:9") == unseen - {"lonely"}
    assert resolve(["poodle", "saw"]) == {"poodle", "saw"}


def test_what_was_added_is_own():
    assert resolve("own", added=["saw", "poodle"]) == {"saw", "poodle"}
    assert resolve("own+seen", added=["saw"]) == {"saw", *SEEN}
    with pytest.raises(UnseenError, match="nothing was added to this bundle"):
        resolve("own")


def test_own_classes_of_a_built_in_hierarchy(tmp_path):
    rows = ["id,name,parent", "labradoodle,labradoodle,n02113335", "n02439398,okapi,", "robot-dog,robot dog,n03699975"]
    (tmp_path / "new.csv").write_text("\n".join(rows))
    hierarchy = Hierarchy.load(f"imagenet+{tmp_path / 'new.csv'}")

    def found(spec: str, added=()) -> set[str]:
        return meant(spec, hierarchy, imagenet_1k(), hierarchy.ids, added)

    assert found("own") == {"labradoodle", "robot-dog", "n02439398"}
    assert found("own", ["n02084071"]) == {"labradoodle", "robot-dog", "n02439398", "n02084071"}
    assert found(str(tmp_path / "new.csv")) == {"labradoodle", "robot-dog", "n02439398"}


def test_several_are_joined(tmp_path):
    (tmp_path / "a+b.txt").write_text("saw\n")
    assert resolve(str(tmp_path / "a+b.txt")) == {"saw"}
    (tmp_path / "ids.txt").write_text("saw\n")
    assert resolve(f"subtree:dog + {tmp_path / 'ids.txt'}") == {"dog", "poodle", "beagle", "saw"}
    assert resolve("seen+unseen") == set(CLASSES)


def test_operations():
    assert resolve("unseen&leaves") == {"poodle", "saw", "lonely"} == resolve("leaves-seen")
    assert resolve("any - seen") == resolve("unseen") and resolve("any-seen&leaves") == resolve("unseen&leaves")
    assert resolve("leaves&unseen+seen") == resolve("unseen&leaves") | set(SEEN)  # from left to right
    assert resolve("seen+leaves&unseen") == resolve("unseen&leaves")
    assert resolve("subtree:dog-subtree:poodle") == {"dog", "beagle"}
    assert resolve("novel") == {"poodle", "saw", "lonely"}
    with pytest.raises(UnseenError, match="name no class"):
        resolve("seen&unseen")


def test_operators_inside_names(tmp_path, monkeypatch):
    hierarchy = Hierarchy.from_edges([("t-shirt", "r&b"), ("jack+jones", "r&b"), ("r&b", "top")])

    def found(spec: str) -> set[str]:
        return meant(spec, hierarchy, ["t-shirt"], hierarchy.ids)

    assert found("subtree:r&b") == {"t-shirt", "jack+jones", "r&b"}
    assert found("subtree:r&b-seen") == {"jack+jones", "r&b"} == found("subtree:r&b-subtree:t-shirt")
    assert found("subtree:jack+jones+subtree:t-shirt") == {"jack+jones", "t-shirt"}
    monkeypatch.chdir(tmp_path)
    for name in ("any-seen.txt", "a&b", "2-hops-mine"):
        (tmp_path / name).write_text("r&b\nt-shirt\n")
        assert found(name) == {"r&b", "t-shirt"} and found(f"{name}-seen") == found(f"unseen&{name}") == {"r&b"}


def test_the_order_of_a_list_is_kept(tmp_path):
    wanted = ["saw", "poodle", "beagle"]
    (tmp_path / "ids.txt").write_text("\n".join([*wanted, "saw"]))
    bundle = make_bundle(HIERARCHY, SEEN, CLASSES)
    for spec in (wanted, str(tmp_path / "ids.txt")):
        assert [HIERARCHY.ids[row] for row in resolve_candidates(bundle, spec)] == wanted
        assert [HIERARCHY.ids[row] for row in resolve_candidates(bundle, spec, with_seen=True)][:3] == wanted
    assert (np.diff(resolve_candidates(bundle, f"{tmp_path / 'ids.txt'}+seen")) > 0).all()


def test_the_classes_of_the_photos():
    bundle = make_bundle(HIERARCHY, SEEN, CLASSES)
    rows = resolve_candidates(bundle, "novel&folder", folder=["saw", "tool", "hammer"])
    assert [HIERARCHY.ids[row] for row in rows] == ["saw"]
    with pytest.raises(UnseenError, match="'folder' are the classes of the photos"):
        resolve("folder")


def test_people_are_candidates_only_if_asked_for():
    hierarchy = Hierarchy.load("imagenet")
    person, groom, abomination = "n00007846", "n10148035", "n09756961"  # the second is one of the 1,000
    assert hierarchy.name(groom) == "groom" and person in hierarchy.ancestors(abomination)

    def found(spec, added=()) -> set[str]:
        return meant(spec, hierarchy, imagenet_1k(), imagenet_21k(), added)

    assert {person, groom} <= found("any") and abomination not in found("any") | found("leaves") | found("novel")
    below = set(hierarchy.descendants(person)).intersection(imagenet_21k()) - set(imagenet_1k())
    assert len(below) > 2800 and found("any") == set(imagenet_21k()) - below
    assert found("any+person") == set(imagenet_21k()) and len(found("unseen")) == 20_842
    assert abomination in found("person") & found("subtree:person") & found([abomination])
    assert abomination in found("any", [abomination])
    with pytest.raises(UnseenError, match="branch of WordNet"):
        resolve("any+person")


def test_a_line_is_an_id_or_a_name(tmp_path):
    names = {"c1": "cup", "c2": ["cup holder", "holder, cup"], "n02084071": "dog"}
    hierarchy = Hierarchy.from_edges([("c1", "t"), ("c2", "t"), ("n02084071", "t")], names=names)
    (tmp_path / "names.txt").write_text("cup holder\nn02084071 dog, domestic dog\nc1,for tea\n")
    assert read_ids(tmp_path / "names.txt", hierarchy) == ["cup holder", "n02084071", "c1"]
    assert meant(str(tmp_path / "names.txt"), hierarchy, ["c1"], hierarchy.ids) == {"c2", "n02084071", "c1"}
    (tmp_path / "names.txt").write_text("Holder, cup\n")
    assert meant(str(tmp_path / "names.txt"), hierarchy, ["c1"], hierarchy.ids) == {"c2"}
    (tmp_path / "names.txt").write_text("cup of tea\n")
    with pytest.raises(UnseenError, match="1 ids or names are not in the hierarchy: cup of tea"):
        meant(str(tmp_path / "names.txt"), hierarchy, ["c1"], hierarchy.ids)


def test_files(tmp_path):
    (tmp_path / "ids.txt").write_text("\ufeffpoodle\nsaw, a tool\n\n  Tabby\ta cat\n", encoding="utf-8")
    assert resolve(str(tmp_path / "ids.txt")) == {"poodle", "saw", "tabby"}
    (tmp_path / "ids.json").write_text(json.dumps(["poodle"]))
    assert resolve(str(tmp_path / "ids.json")) == {"poodle"}


def test_files_of_classes_as_they_are_added(tmp_path):
    (tmp_path / "new.csv").write_text("Name;id;parent;definition\nA poodle, curly;poodle;dog;\nsaw;saw;tool;\n")
    assert resolve(str(tmp_path / "new.csv")) == {"poodle", "saw"}
    (tmp_path / "names.csv").write_text("name,parent\npoodle|curly dog,dog\n")
    assert resolve(str(tmp_path / "names.csv")) == {"poodle"}
    (tmp_path / "new.json").write_text(json.dumps([{"id": "saw", "name": "saw", "parent": "tool"}]))
    assert resolve(str(tmp_path / "new.json")) == {"saw"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("hop:2", "no candidates named 'hop:2', and no such file. Choose from: any, unseen, novel"),
        ("unsen", "Did you mean unseen"),
        ("seen+", "no candidates named 'seen.'.*Did you mean seen"),
        (["poodel"], r"1 ids or names are not in the hierarchy: poodel. Did you mean poodle\?"),
        ("hops:0", "an integer of at least 1, not '0'"),
        ("hops:two", "an integer of at least 1, not 'two'"),
        ("subtree:beagel", "'beagel' is neither an id nor a name.*Did you mean beagle"),
        (["poodle", "none"], "the candidates: 1 ids or names are not in the hierarchy: none"),
        ([], "name no class"),
    ],
)
def test_mistakes(spec, says):
    with pytest.raises(UnseenError, match=says):
        resolve(spec)


def test_what_is_evaluated_by_default():
    own = fruits().bundle
    assert default_candidates(own) == "unseen&leaves"  # citrus and berry are headings
    names = {own.ids[row] for row in resolve_candidates(own, default_candidates(own))}
    assert names == {"lemon", "raspberry"}


def test_an_ambiguous_chain_is_refused_quickly():
    """`young-person` is one part and also `young` minus `person`: reading must not try every combination."""
    hierarchy = Hierarchy.from_edges([("young person", "person"), ("young", "animal"), ("person", "animal")])
    for count in (40, 150):
        started = time.process_time()
        with pytest.raises(UnseenError, match="zzqq"):
            meant("subtree:zzqq" + "-subtree:young-person" * (count // 2), hierarchy, ["young"], hierarchy.ids)
        assert time.process_time() - started < 1
    with pytest.raises(UnseenError, match="more than 200"):
        meant("subtree:zzqq" + "-seen" * 300, hierarchy, ["young"], hierarchy.ids)
    with pytest.raises(UnseenError, match="hops:N"):
        meant("hops:" + "9" * 5000, hierarchy, ["young"], hierarchy.ids)


def test_sets_can_be_registered():
    register_candidates("sharp", lambda hierarchy: ["saw", "knife"])
    assert resolve("sharp") == {"saw"} and resolve("sharp+seen") == {"saw", *SEEN}
    for name in ("any", "folder", "hops:2", "a+b"):
        with pytest.raises(UnseenError, match="candidates cannot be named"):
            register_candidates(name, lambda hierarchy: [])


def test_help_and_documentation_name_every_set():
    for name in set(set_names()) - {"1K", "1k", "sharp", "sour"}:
        assert f"`{name}`" in TABLE, f"docs/answers.md does not explain {name}"
        assert name in HELP or name.startswith("awa2")
