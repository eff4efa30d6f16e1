"""`unseen hierarchy find`, `show` and `export`."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.hierarchy.core import Hierarchy

TREE = "id,name,parent,definition\nt,thing,,\na,animal|beast,t,it moves\ndog,dog,a,\ncat,cat,a,\nlone,lonely thing,,\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text(TREE)
    return tmp_path


def test_find_lists_what_a_word_may_mean(unseen):
    found = unseen("hierarchy", "find", "drill", "--json").json
    tool = next(item for item in found["classes"] if item["id"] == "n03239726")
    assert tool["names"] == ["drill"] and tool["parents"] == [{"id": "n04451818", "name": "tool"}]
    assert tool["definition"].startswith("a tool with a sharp point")
    done = unseen("hierarchy", "find", "beast", "--hierarchy", "tree.csv")
    assert done.code == 0 and done.out.strip() == "a animal, beast: it moves  (under thing)"


def test_find_helps_with_spelling(unseen):
    done = unseen("hierarchy", "find", "animul", "--hierarchy", "tree.csv")
    assert done.code == 1 and "'animul' is in no name of tree.csv. Did you mean animal?" in done.err


def test_show_lists_a_branch(unseen):
    done = unseen("hierarchy", "show", "animal", "--hierarchy", "tree.csv")
    assert done.code == 0 and done.out.splitlines() == [
        "thing",
        "animal a: it moves",
        "  cat cat",
        "  dog dog",
        "2 classes below animal",
    ]
    found = unseen("hierarchy", "show", "t", "--hierarchy", "tree.csv", "--depth", "1", "--json").json
    branch = {"id": "a", "name": "animal", "children": [], "more": 2}
    assert found["branch"] == {"id": "t", "name": "thing", "children": [branch], "more": 0}
    assert found["above"] == [] and found["below"] == 3
    done = unseen("hierarchy", "show", "drill")
    assert done.code == 1 and "n03239726" in done.err and "names 4 classes" in done.err


def test_show_says_what_a_class_looks_like(unseen):
    drill = unseen("hierarchy", "show", "n03239726", "--json").json
    assert "spiral bit" in drill["looks"] and drill["looks_of"] == "n03239726"
    done = unseen("hierarchy", "show", "n03239726", "--depth", "0")
    assert done.out.count("looks like: ") == 1 and "spiral" in done.out
    assert unseen("hierarchy", "show", "animal", "--hierarchy", "tree.csv", "--json").json["looks"] == ""
    Path("tools.csv").write_text("id,name,parent\ntools,tools of ours,\nn03239726,drill,tools\n")
    done = unseen("hierarchy", "show", "tools", "--hierarchy", "tools.csv")
    assert done.out.startswith("tools of ours tools\nlooks like (as drill, n03239726, which is below it): ")


def test_an_exported_table_is_read_again(unseen):
    done = unseen("hierarchy", "export", "--hierarchy", "tree.csv", "--out", "copy.csv", "--json")
    assert done.json == {"out": "copy.csv", "hierarchy": "tree.csv", "classes": 5, "edges": 3}
    given, copy = Hierarchy.load("tree.csv"), Hierarchy.load("copy.csv")
    assert copy.ids == given.ids and copy.lemmas == given.lemmas and copy.parents("dog") == ["a"]
    assert copy.definition("a") == "it moves"
    done = unseen("hierarchy", "export", "--hierarchy", "tree.csv", "--out", "copy.csv")
    assert done.code == 1 and "copy.csv exists already" in done.err
    done = unseen("hierarchy", "export", "--hierarchy", "tree.csv", "--below", "animal")
    assert done.out == "id,name,parent,definition\na,animal|beast,,it moves\ndog,dog,a,\ncat,cat,a,\n"
    assert unseen("hierarchy", "export", "--hierarchy", "tree.csv", "--json").code == 1
