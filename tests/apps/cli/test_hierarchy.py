"""`unseen hierarchy check` and `suggest`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.bundles import OKAPI

TREE = "id,name,parent\nt,thing,\na,animal,t\ndog,dog,a\nq,qqxzv,a\nr,red qqxzv,q\nlone,lonely thing,\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text(TREE)
    Path("classes.txt").write_text("dog\ncow\n")
    return tmp_path


def test_the_json_of_a_check(folder, unseen):
    done = unseen("hierarchy", "check", "tree.csv", "--classes", "classes.txt", "--json")
    found = done.json
    assert done.code == 0 and (found["nodes"], found["roots"], found["seen_missing"]) == (6, 2, ["cow"])
    assert found["orphans"] == ["lone"] and found["without_vector"] == ["q"]
    assert found["distance"] == {"t": 2, "a": 1, "dog": 0, "q": 2, "r": 3, "lone": -1}
    assert found["guesswork"] == {
        "q": "no word of its name has a vector, and 2 hops from the nearest seen class",
        "lone": "not connected to any seen class",
    }


def test_a_check_for_people(folder, unseen):
    done = unseen("hierarchy", "check", "tree.csv", "--classes", "classes.txt")
    assert done.code == 0 and "1 here, 1 missing: cow" in done.out
    assert "lonely thing (lone): guesswork: not connected to any seen class" in done.out
    done = unseen("hierarchy", "check", "tree.csv")
    assert done.code == 0 and "None of the network's classes is in this hierarchy" in done.err


def test_additions_are_judged_alone(folder, unseen):
    rows = f"pup,rescue dog,n02084071\n{OKAPI},okapi,\nb,small beagle,n02088364\nq,qqxzv,n02084071\n"
    Path("new.csv").write_text(f"id,name,parent\n{rows}")
    done = unseen("hierarchy", "check", "imagenet+new.csv")
    assert done.code == 0 and "4; 1 row restates what is there" in done.out and "1 class\n" in done.out
    assert "small beagle (b): 1 hop from a seen class" in done.out
    assert "rescue dog (pup): 2 hops from a seen class" in done.out


def test_a_chain_by_mistake_is_reported(folder, unseen):
    Path("chain.csv").write_text(
        "id,name,parent\n" + "".join(f"c{i},dog,{f'c{i - 1}' if i else ''}\n" for i in range(150))
    )
    done = unseen("hierarchy", "check", "chain.csv", "--json")
    assert done.json["depth"] == 149
    assert "chain.csv is 149 levels deep: is it a chain by mistake?" in done.err


def test_suggestions_become_a_table_to_read_over(folder, unseen):
    Path("names.txt").write_text("\ufeffokapi\ncrane\n\nrescue dog\nqqxzv\nokapi\n", encoding="utf-8")
    done = unseen("hierarchy", "suggest", "names.txt", "--out", "new.csv", "--json")
    assert done.code == 0 and done.json["out"] == "new.csv" and "okapi is listed twice: kept once" in done.err
    found = {item["name"]: item for item in done.json["classes"]}
    assert found["okapi"]["id"] == OKAPI and found["okapi"]["known"]
    places = found["rescue dog"].pop("places")
    assert len(places) == 3 and places[0].keys() == {"id", "name", "definition", "score"}
    assert found["rescue dog"] | {"note": ""} == {
        "name": "rescue dog", "id": "rescue-dog", "parent": "n02084071", "known": False, "note": "", "dropped": [],
        "score": places[0]["score"], "check": False, "looks": "",
    }  # fmt: skip
    assert "other senses" in found["crane"]["note"] and found["qqxzv"]["note"].startswith("no place found")
    table = Path("new.csv").read_text()
    assert table.startswith("id,name,parent,definition,looks,score,check,note\n") and OKAPI in table
    done = unseen("hierarchy", "suggest", "names.txt", "--out", "new.csv")
    assert done.code == 1 and "new.csv exists already: choose another name" in done.err
    done = unseen("hierarchy", "suggest", "names.txt", "--out", "other.csv")
    assert done.code == 0 and "unseen hierarchy check imagenet+other.csv" in " ".join(done.out.split())


def test_suggest_mistakes(folder, unseen):
    done = unseen("hierarchy", "suggest", "none.txt")
    assert done.code == 1 and "none.txt: cannot be read" in done.err
    Path("names.txt").write_text("\n\n")
    done = unseen("hierarchy", "suggest", "names.txt")
    assert done.code == 1 and "names.txt: the file is empty" in done.err
    assert unseen("hierarchy", "suggest").code == 2
