"""`unseen add`: from a name or a CSV to labels, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.bundles import DOG, OKAPI, ZEBRA
from unseen.bundle import Bundle, remove
from unseen.naming.placing import suggest, to_csv

BUNDLE = ("--bundle", "bundle", "--device", "cpu")


def test_a_class_by_name_takes_part_in_the_answers(here, unseen):
    done = unseen("add", "bundle", "--name", "rescue dog", "--name", "avalanche dog", "--parent", DOG,
                  "--definition", "a dog that finds people", "--out", "grown", "--json")  # fmt: skip
    assert done.code == 0
    (added,) = done.json["added"]
    assert (added["id"], added["name"], added["parents"], added["without_vector"]) == (
        "rescue-dog", "rescue dog", [DOG], False,
    )  # fmt: skip
    assert 0 <= added["trust"] <= 1 and done.json["nodes"] == 44 and done.json["bundle"] == "grown"
    labels = unseen("classify", "photo.png", "--bundle", "grown", "--device", "cpu", "-k", 99, "--json").json
    assert "rescue-dog" in {label["id"] for label in labels["photos"][0]["labels"]}
    info = unseen("info", "grown", "--json").json
    assert info["added"] == ["rescue-dog"] and info["nodes"] == 44


def test_looks_that_a_bundle_cannot_use_are_kept_and_that_is_said(here, unseen):
    done = unseen(
        "add", "bundle", "--name", "rescue dog", "--parent", DOG, "--looks", " orange  vest ", "--out", "grown"
    )
    assert done.code == 0 and "trained without the vectors `looks`" in done.err
    assert Bundle.load("grown").hierarchy.look("rescue-dog") == "orange vest"


def test_a_class_in_place(here, unseen):
    assert unseen("add", "bundle", "--name", "rescue dog", "--parent", "dog", "--out", "bundle").code == 0
    assert len(Bundle.load("bundle")) == 44


def test_a_wordnet_id_alone(here, unseen):
    remove(Bundle.load("bundle"), [OKAPI]).save("bundle")
    done = unseen("add", "bundle", "--id", OKAPI, "--out", "bundle", "--json")
    assert done.code == 0 and done.json["added"][0]["name"] == "okapi"
    assert Bundle.load("bundle").hierarchy.lemmas[-1] == ("okapi", "Okapia johnstoni")


def test_a_parent_of_wordnet_comes_along(here, unseen):
    done = unseen("add", "bundle", "--name", "spotted kitten", "--parent", "n02128385", "--out", "grown", "--json")
    assert done.code == 0 and done.json["added"][0]["parents"] == ["n02128385"]
    grown = Bundle.load("grown")
    assert "n02128385" in grown.connecting
    assert not grown.is_class[grown.hierarchy.index("n02128385")]


def test_a_name_that_is_there_is_mentioned(here, unseen):
    done = unseen("add", "bundle", "--name", "okapi", "--parent", "giraffe", "--out", "grown")
    assert done.code == 0 and f"okapi (okapi): the bundle has other classes of that name: {OKAPI}" in done.err
    assert "okapi (okapi) under n02439033" in done.out and "unseen classify PHOTO --bundle grown" in done.out


def test_many_from_a_csv(here, unseen):
    Path("new.csv").write_text(
        f"id,name,parent,definition\n{DOG},dog,,\npup,pup|whelp,{DOG},a young dog\n"
        f"toy,toy pup,pup,\nmule,mule,{ZEBRA}|n02374451,\n"
    )
    done = unseen("add", "bundle", "--csv", "new.csv", "--out", "grown", "--json")
    assert done.code == 0 and [item["id"] for item in done.json["added"]] == ["pup", "toy", "mule"]
    assert done.json["already_there"] == [DOG] and "1 classes of new.csv are in the bundle already" in done.err
    assert set(Bundle.load("grown").hierarchy.parents("mule")) == {ZEBRA, "n02374451"}


def test_the_csv_of_suggestions_as_it_is(here, unseen):
    Path("new.csv").write_text(to_csv(suggest(["okapi", "leopard", "rescue dog"])))
    done = unseen("add", "bundle", "--csv", "new.csv", "--out", "grown", "--json")
    assert done.code == 0
    assert [item["id"] for item in done.json["added"]] == ["n02128385", "rescue-dog"]
    assert done.json["already_there"] == [OKAPI]
    grown = Bundle.load("grown")
    assert grown.is_class[grown.hierarchy.indices(["n02128385", "rescue-dog"])].all() and grown.connecting


def test_without_a_bundle_the_default_one_grows(here, unseen, monkeypatch):
    monkeypatch.setattr("unseen.apps.cli.grow.default_bundle", lambda: Bundle.load("bundle"))
    done = unseen("add", "--name", "pup", "--parent", DOG, "--out", "grown", "--json")
    assert done.code == 0 and done.json["nodes"] == 44 and len(Bundle.load("bundle")) == 43
    done = unseen("add", "--name", "pup", "--parent", DOG, "--out", "bundle")
    assert done.code == 1 and "bundle is another bundle" in done.err


HUGE = "id,name,parent\n" + "".join(f"c{i},class {i},{DOG}\n" for i in range(3000))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("id,name\npup,pup\n", "new.csv:1: no column 'parent' in the header (id,name)"),
        ("id,name,parent\npup,pup,dgo\n", "new.csv:2: the parent 'dgo' of 'pup' is neither in the file nor in"),
        (f"id,name,parent\n{ZEBRA},zebra,{DOG}\n", "new.csv:2: 'n02391049' is already in the hierarchy (zebra), and"),
        (f"id,name,parent\n{ZEBRA},zebra,\n", "new.csv: all 1 classes are in the bundle already: nothing to add"),
        (f'id,name,parent\na,"x,{DOG}\n', "new.csv:2: unexpected end of data. Is a quotation mark left open"),
        (HUGE.replace("c2999,class 2999,n02084071", "c2999,class 2999,none"), "new.csv:3001: the parent 'none'"),
    ],
)
def test_malformed_tables_are_reported_with_their_line(here, unseen, content, says):
    Path("new.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    done = unseen("add", "bundle", "--csv", "new.csv", "--out", "grown", "--json")
    assert done.code == 1 and says in done.json["error"]
    assert done.err.startswith("error: ") and says in done.err
    assert not Path("grown").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--id", ""), "name a class with --name and --parent"),
        ((), "name a class with --name and --parent, or give many with --csv FILE"),
        (("--name", "x", "--csv", "new.csv"), "one of the two"),
        (("--csv", "new.csv", "--parent", DOG), "in a CSV they are columns"),
        (("--name", "x"), "x: a new class needs a parent"),
        (("--id", "x"), "x: a new class needs a name"),
        (("--name", "x", "--parent", "dgo"), "'dgo' is neither an id nor a name"),
        (("--name", "dog", "--id", DOG, "--parent", ZEBRA), f"already a class of this bundle: {DOG} (dog)"),
        (("--name", "x", "--parent", "crane"), "'crane' names 5 classes; use the id of the one you mean"),
    ],
)
def test_mistakes_are_one_line_and_exit_1(here, unseen, arguments, says):
    done = unseen("add", "bundle", *arguments, "--out", "grown")
    assert done.code == 1 and done.out == "" and done.err.startswith("error: ") and says in done.err
    assert not Path("grown").exists()


def test_another_bundle_is_not_overwritten_without_overwrite(here, unseen):
    options = ("add", "bundle", "--name", "pup", "--parent", DOG, "--out", "grown")
    assert unseen(*options).code == 0
    done = unseen(*options)
    assert done.code == 1 and "grown is another bundle: choose another name, or overwrite it" in done.err
    assert unseen(*options, "--overwrite").code == 0
    done = unseen("add", "bundle", "--name", "pup", "--parent", DOG, "--out", "tree.csv")
    assert done.code == 1 and "exists and is not a bundle" in done.err


def test_wrong_usage_is_exit_2(here, unseen):
    assert unseen("add", "bundle", "--name", "x").code == 2
    assert unseen("remove", "bundle").code == 2  # Python has it: model.remove


def test_names_with_markup_are_shown_as_they_are(here, unseen):
    done = unseen("add", "bundle", "--name", "x [/b]", "--parent", DOG, "--out", "[/b]")
    assert done.code == 0 and "x [/b]" in done.out and "--bundle [/b]" in done.out
    assert "[/b]" in unseen("info", "[/b]").out
