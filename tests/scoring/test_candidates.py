"""Which classes a photo may be assigned to."""

from __future__ import annotations

import json

import pytest

from support.problems import SEEN, make_taxonomy
from unseen.assets import imagenet_1k
from unseen.errors import UnseenError
from unseen.scoring.candidates import paper_list, read_ids, resolve_candidates
from unseen.taxonomy import Taxonomy

TAXONOMY = make_taxonomy()
CLASSES = [id for id in TAXONOMY.ids if id != "thing"]  # "thing" only connects


def resolve(spec, **options) -> set[str]:
    found = resolve_candidates(spec, TAXONOMY, SEEN, CLASSES, **options)
    assert found == sorted(found, key=TAXONOMY.index)
    return set(found)


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
    taxonomy = Taxonomy.load(f"imagenet+{tmp_path / 'new.csv'}")

    def found(spec: str, added=()) -> set[str]:
        return set(resolve_candidates(spec, taxonomy, imagenet_1k(), taxonomy.ids, added=added))

    assert found("own") == {"labradoodle", "robot-dog", "n02439398"}
    assert found("own", ["n02084071"]) == {"labradoodle", "robot-dog", "n02439398", "n02084071"}
    assert found(str(tmp_path / "new.csv")) == {"labradoodle", "robot-dog", "n02439398"}


def test_several_are_joined(tmp_path):
    (tmp_path / "a+b.txt").write_text("saw\n")
    assert resolve(str(tmp_path / "a+b.txt")) == {"saw"}
    (tmp_path / "ids.txt").write_text("saw\n")
    assert resolve(f"subtree:dog + {tmp_path / 'ids.txt'}") == {"dog", "poodle", "beagle", "saw"}
    assert resolve("seen+unseen") == set(CLASSES)


def test_hops_are_those_of_the_hierarchy():
    for hops in (1, 2, 3):
        expected = set(TAXONOMY.within_hops(SEEN, hops)) & set(CLASSES)
        assert resolve(f"hops:{hops}") == expected


def test_files(tmp_path):
    (tmp_path / "ids.txt").write_text("\ufeffpoodle\nsaw, a tool\n\n  tabby a cat\n", encoding="utf-8")
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
        ("hop:2", "no candidates named 'hop:2', and no such file. Choose from: any, unseen, seen, own"),
        ("unsen", "Did you mean unseen"),
        ("seen+", "no candidates named ''"),
        (["poodel"], r"1 ids are not in the hierarchy: poodel. Did you mean poodle\?"),
        (["Poodle"], r"Did you mean poodle \(poodle\)"),
        ("hops:0", "an integer of at least 1, not '0'"),
        ("hops:two", "an integer of at least 1, not 'two'"),
        ("subtree:beagel", "'beagel' is neither an id nor a name.*Did you mean beagle"),
        ("subtree:thing+1K", None),
        (["poodle", "none"], "the candidates: 1 ids are not in the hierarchy: none"),
        ([], "name no class"),
    ],
)
def test_mistakes(spec, says):
    if says is None:
        assert resolve(spec)
        return
    with pytest.raises(UnseenError, match=says):
        resolve(spec)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"\xff\xfe", "cannot be read as UTF-8 text"),
        ("a.txt", b"\n \n", "holds no ids"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b"{}", "must hold a JSON list of ids"),
        ("a.json", b"[1]", "must hold a JSON list of ids"),
        ("a.json", b"[]", "holds no ids"),
    ],
)
def test_files_with_mistakes(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnseenError, match=says):
        read_ids(tmp_path / name)


def test_a_missing_file(tmp_path):
    with pytest.raises(UnseenError, match="cannot be read"):
        read_ids(tmp_path / "none.txt")


def test_the_authors_lists(authors_lists):
    lists = {name: paper_list(name) for name in ("2-hops", "3-hops", "all", "train", "awa2-test", "awa2-train")}
    sizes = {name: len(ids) for name, ids in lists.items()}
    assert sizes == {"2-hops": 1549, "3-hops": 7860, "all": 20842, "train": 1000, "awa2-test": 10, "awa2-train": 40}
    assert set(lists["2-hops"]) < set(lists["3-hops"]) < set(lists["all"])
    assert not set(lists["all"]) & set(lists["train"])
    assert sorted(lists["train"]) == list(imagenet_1k())
    taxonomy = Taxonomy.paper()
    found = resolve_candidates("2-hops", taxonomy, lists["train"], taxonomy.ids)
    assert set(found) == set(lists["2-hops"])
    assert len(resolve_candidates("2-hops+1K", taxonomy, lists["train"], taxonomy.ids)) == 2549
    assert len(resolve_candidates("awa2", taxonomy, lists["train"], taxonomy.ids)) == 50
