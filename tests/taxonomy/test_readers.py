"""Hierarchies from files: what loads, and what is refused with file and line."""

from __future__ import annotations

import csv
import json
import time

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.pets import PETS
from unseen.errors import UnseenError
from unseen.taxonomy import Sense, Taxonomy

# --- CSV --------------------------------------------------------------------------------------------------------------


def test_csv(load):
    pets = load(PETS)
    assert pets.ids == ("a", "d", "w")
    assert pets.lemmas == (("animal",), ("dog", "hound"), ("wolf",))
    assert pets.sense("d") == Sense("d", "dog", ("dog", "hound"), "it barks")
    assert (pets.roots, pets.children("a"), pets.definition("w")) == (["a"], ["d", "w"], "")
    assert pets.source == {"kind": "csv", "file": "pets.csv"}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + PETS.encode(),
        PETS.replace(",", ";"),
        PETS.replace(",", "\t"),
        PETS.replace("\n", "\r\n"),
        PETS.replace("\n", "\r"),
        PETS.rstrip("\n"),
        "\n" + PETS.replace("\n", "\n\n") + ",,,\n",
        PETS.replace("id,name,parent,definition", " ID , Name ,PARENT,Definition"),
        PETS.replace("id,name,parent,definition", "id,names,parents,definition"),
        PETS.replace("dog|hound", '"dog|hound"').replace("it barks", '"it\nbarks"'),
        PETS.replace("dog|hound", " dog | hound | dog |"),
        "extra,definition,parent,name,id\n9,it moves,,animal,a\n,it barks,a,dog|hound,d\n,,a,wolf,w\n",
        "id,name,parent,definition\nd,dog|hound,a,it barks\nw,wolf,a,\na,animal,,it moves\n",  # parents may come later
    ],
    ids=[
        "bom",
        "semicolons",
        "tabs",
        "crlf",
        "cr",
        "no-newline",
        "blanks",
        "capitals",
        "plural",
        "quotes",
        "spaces",
        "order",
        "later",
    ],
)
def test_csv_dialects_give_the_same_hierarchy(load, content):
    pets, expected = load(content), load(PETS, "expected.csv")
    for id in expected.ids:
        assert pets.sense(id) == expected.sense(id)
        assert pets.parents(id) == expected.parents(id)
    assert len(pets) == len(expected)


def test_csv_several_parents_by_rows_or_by_bars(load):
    rows = load("id,name,parent\nd,dog,p\np,pet,\nd,dog,c\nc,canine,\nd,,c\n")
    bars = load("id,name,parent\nd,dog,p|c\np,pet,\nc,canine,\n")
    assert rows.parents("d") == bars.parents("d") == ["p", "c"]


def test_csv_without_ids_uses_the_first_name(load):
    pets = load("name,parent\nice_bear|polar bear,bear\nbear,\nZürich fox,bear\n")
    assert pets.ids == ("ice_bear", "bear", "Zürich fox")
    assert pets.lemmas[0] == ("ice bear", "polar bear")


def test_csv_parent_may_be_a_name_where_it_is_unambiguous(load, refusal):
    assert load("id,name,parent\n1,dog,Domestic Animal\n2,domestic animal,\n").parents("1") == ["2"]
    said = refusal("id,name,parent\n1,dog,animal\n2,animal,\n3,animal,\n")
    assert said == "pets.csv:2: the parent 'animal' names 2 classes; use the id of the one you mean: 2, 3"


def test_csv_with_wordnet_ids_needs_no_names(load):
    assert load("id,name,parent\nn02084071,,\n").lemmas == (("dog", "domestic dog", "Canis familiaris"),)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "pets.csv: the file is empty."),
        (" \n\n", "pets.csv: the file is empty."),
        ("id,name,parent\n", "pets.csv: has a header but no classes."),
        ("id,name\na,animal\n", "pets.csv:1: no column 'parent' in the header (id,name). The first line must name"),
        ("id,parent\na,\n", "call the column 'name'"),
        ("a,animal,\nd,dog,a\n", "pets.csv:1: no column 'name' and 'parent' in the header (a,animal,)"),
        ("\n\nid,label\n", "pets.csv:3: no column 'name' and 'parent'"),
        ("x" * 200_000 + "\n", "pets.csv:1: field larger than field limit"),
        ("id,name,parent\na," + "x" * 200_000 + ",\n", "pets.csv:2: field larger than field limit"),
        ("id,name,parent,Name\n", "pets.csv:1: a column is given twice"),
        ("id,name,parent\na,animal,\nd,dog,animl\n", "pets.csv:3: the parent 'animl' of 'd' is not in the file"),
        ("id,name,parent\nmammal,m,\nd,dog,mamal\n", "Did you mean mammal?"),
        ("id,name,parent\na,x,p\nb,y,q\nc,z,p\n", "Unknown too: 'q' (line 3)."),
        ("id,name,parent\na,A,b\nb,B,c\nc,C,a\n", "pets.csv:2: a cycle: a -> b -> c -> a (lines 2, 3, 4)"),
        ("id,name,parent\nr,R,\na,A,r|b\n\nb,B,a\n", "pets.csv:3: a cycle: a -> b -> a (lines 3, 5)"),
        ("id,name,parent\na,A,\nb,B,b\n", "pets.csv:3: 'b' is its own parent"),
        ("id,name,parent\na,A,\nb,B,B\n", "pets.csv:3: a class that is its own parent: b"),
        ("id,name,parent\na,dog,\na,cat,\n", "pets.csv:3: duplicate id 'a': 'dog' in line 2, 'cat' here"),
        (
            "id,name,parent,definition\na,A,,x\na,A,,y\n",
            "duplicate id 'a': it has another definition in line 2",
        ),
        ("id,name,parent\na,A\n", "pets.csv:2: 2 cells, but the header has 3"),
        ("id,name,parent\na,A,,\n", "pets.csv:2: 4 cells, but the header has 3"),
        ("id,name,parent\n,A,\n", "pets.csv:2: the id is empty"),
        ("name,parent\n,x\n", "pets.csv:2: the name is empty"),
        ("id,name,parent\na,,\n", "pets.csv:2: 'a' has no name"),
        ("id,name,parent\na|b,A,\n", "pets.csv:2: the id 'a|b' must not contain '|'"),
        (
            'id,name,parent\na,A,\nb,"open,a\nc,C,a\n',
            "pets.csv:3: unexpected end of data. Is a quotation",
        ),
        ('id,name,parent\na,"A"B,\n', "pets.csv:2: "),
        ('id,name,parent\na,"two\nlines",\nb,B,q\n', "pets.csv:4: the parent 'q'"),
        (b"id,name,parent\na,caf\xe9,\n", "pets.csv:2: byte 0xe9 at offset 20 is not UTF-8"),
        ("id,name,parent\na,A,\n".encode("utf-16"), "pets.csv:1: this is UTF-16 text. Save it as UTF-8"),
    ],
)
def test_csv_mistakes_are_told_with_file_and_line(refusal, content, says):
    assert says in refusal(content)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UnseenError, match=r"pets\.csv: cannot be read: No such file"):
        Taxonomy.from_csv(tmp_path / "pets.csv")
    with pytest.raises(UnseenError, match="cannot be read: Is a directory"):
        Taxonomy.from_csv(tmp_path)


cells = st.text(st.sampled_from("ab ,;\t|\"'\n\r\ufeffé_-#\0"), max_size=6)


@given(st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6), st.sampled_from(",;\t"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_table_crashes_the_reader(tmp_path, rows, delimiter):
    path = tmp_path / "any.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([["id", "name", "parent"], *rows])
    try:
        assert len(Taxonomy.from_csv(path)) > 0
    except UnseenError as error:
        assert str(path) in str(error)


@given(st.binary(max_size=60), st.sampled_from(["id,name,parent\n", ""]), st.sampled_from([".csv", ".txt", ".json"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_crash_a_reader(tmp_path, content, header, suffix):
    path = tmp_path / f"any{suffix}"
    path.write_bytes(header.encode() + content)
    try:
        assert len(Taxonomy.load(path)) > 0
    except UnseenError as error:
        assert str(path) in str(error)


SAVED = Taxonomy.from_edges([("dog", "animal"), ("cat", "animal"), ("dog", "pet")]).to_json()
ODD = st.sampled_from([None, -1, 2**31, 2**70, 1.5, "", "x", "|", "\0", "\ud800", True, [], {}, [[]], ["a"], {"a": 1}])


@st.composite
def changed(draw, value):
    """A JSON value in which something has been replaced, doubled or left out."""
    if draw(st.integers(0, 3)) == 0 or not isinstance(value, (list, dict)) or not value:
        return draw(ODD)
    parts = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    at = draw(st.sampled_from(list(parts)))
    if draw(st.integers(0, 4)) == 0:
        del parts[at]
    else:
        parts[at] = draw(changed(parts[at]))
    return parts if isinstance(value, dict) else [*parts.values(), *draw(st.sampled_from([[], value[:1]]))]


@given(
    st.one_of(
        changed(SAVED),
        changed([{"id": "a", "name": "animal"}, {"id": "d", "names": ["dog", "hound"], "parents": ["a"]}]),
        changed({"name": "animal", "children": [{"name": "dog", "definition": "it barks"}, "cat"]}),
    )
)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_json_crashes_the_reader(tmp_path, value):
    path = tmp_path / "any.json"
    path.write_text(json.dumps(value))
    try:
        taxonomy = Taxonomy.load(path)
        json.dumps(taxonomy.to_json() | {"source": None}, ensure_ascii=False).encode()  # the name of a file may be odd
        assert all(taxonomy.ancestors(id) is not None for id in taxonomy.ids)
    except UnseenError as error:
        assert str(error).startswith(str(path))


@pytest.mark.slow
def test_many_rows_load_quickly_and_the_last_mistake_has_its_line(load, refusal):
    rows = [f"c{row},class {row},{f'c{row // 4}' if row else ''}" for row in range(100_000)]
    start = time.process_time()
    assert len(load("\n".join(["id,name,parent", *rows]))) == 100_000
    assert time.process_time() - start < 5
    assert "pets.csv:100002: the parent 'c99999x' of 'last'" in refusal(
        "\n".join(["id,name,parent", *rows, "last,x,c99999x"])
    )


# --- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        [
            {"id": "d", "name": "dog|hound", "parent": "a", "definition": "it barks"},
            {"id": "w", "names": ["wolf"], "parents": ["a"], "note": {"seen": [{"x": 1}]}},
            {"id": "a", "name": "animal", "parent": None, "definition": "it moves"},
        ],
        {
            "id": "a",
            "name": "animal",
            "definition": "it moves",
            "children": [
                {"id": "d", "names": ["dog", "hound"], "definition": "it barks", "children": []},
                {"id": "w", "name": "wolf"},
            ],
        },
        [{"id": "a", "name": "animal", "definition": "it moves"}, {"id": "w", "name": "wolf", "parents": "a"}]
        + [{"id": "d", "name": "dog|hound", "definition": "it barks", "parent": "a"}],
    ],
    ids=["list", "tree", "mixed"],
)
def test_json(load, value):
    pets, expected = load(json.dumps(value), "pets.json"), load(PETS)
    assert set(pets.ids) == set(expected.ids)
    for id in expected.ids:
        assert (pets.sense(id), pets.parents(id)) == (expected.sense(id), expected.parents(id))
    assert pets.source == {"kind": "json", "file": "pets.json"}


def test_json_children_may_be_mere_names_and_may_have_two_places(load):
    tree = [{"name": "pet", "children": ["dog", "goldfish"]}, {"name": "canine", "children": ["dog", "wolf"]}]
    pets = load(json.dumps(tree), "pets.json")
    assert pets.ids == ("pet", "dog", "goldfish", "canine", "wolf")
    assert pets.parents("dog") == ["pet", "canine"]


def test_json_reads_what_to_json_writes(load):
    saved = load(PETS).to_json()
    assert load(json.dumps(saved), "saved.json").to_json() == saved


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "pets.json: the file is empty"),
        ("[]", "pets.json: contains no classes"),
        ("3", "pets.json:1: expected a list of nodes"),
        ('[\n{"id": 1,}]', "pets.json:2: not valid JSON"),
        ('[{"name": "a"},\n{"name": "b", "children": ["|c"]}]', "pets.json:2: the id is empty."),
        ('[{"name": "a"},\n{"name": "\\ud800"}]', "pets.json:2: '\\ud800': contains half a character"),
        ('[{"name": "a", "id": ' + "1" * 5000 + "}]", "pets.json: a number in it has thousands of digits."),
        ('[\n"dog"]', 'expected an object with a name, found "dog"'),
        ('[{"name": "a"},\n\n{"parent": "a"}]', 'pets.json:3: a node needs "id" or "name"; its keys are parent.'),
        ('[{"name": "a"},\n{"name": true}]', 'pets.json:2: "name" must be text or a list of texts, not true.'),
        ('[{"name": "a"},\n{"name": "b", "children": "a"}]', "pets.json:2: 'b': \"children\" must be a list"),
        (
            '[{"name": "{a", "note": {"x": [{}]}},\n{"name": "b\\"{"},\n{"name": "c",\n "parent": "q"}]',
            "pets.json:3: the parent 'q' of 'c' is not in the file",
        ),
        (
            '[{"name": "a", "parent": "b"},\n{"name": "b", "parent": "a"}]',
            "json:1: a cycle: a -> b -> a (lines 1, 2)",
        ),
        ('{"name": "a", "children": [\n{"name": "b", "children":\n [{"name": "a"}]}]}', "a -> b -> a (lines 3, 2)"),
        ('{"name": "a", "children": [\n{"name": "a"}]}', "pets.json:2: 'a' is its own parent"),
        (
            '[{"id": "x", "name": "a"},\n{"id": "x", "name": "b"}]',
            "json:2: duplicate id 'x': 'a' in line 1",
        ),
        ('[{"id": 7}]', "pets.json:1: '7' has no name"),
        ("[" * 100_000, "pets.json: nested too deeply"),
        (b'[{"name": "\xff"}]', "pets.json:1: byte 0xff at offset 11 is not UTF-8"),
        ('{"parent_ptr": [0]}', "Not a saved hierarchy"),
    ],
)
def test_json_mistakes_are_told_with_file_and_line(refusal, content, says):
    assert says in refusal(content, "pets.json")


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "dog\tanimal\nwolf\tanimal\nice_bear\tanimal\n",
        "dog,animal\nwolf, animal\nice_bear,animal",
        '# mine\nChild,Parent\n\n"dog","animal"\r\nwolf,animal\nice_bear,animal\ndog,animal\n',
        "dog\tanimal\n# mine\n\nwolf\nwolf\tanimal\nice_bear\tanimal\n",
    ],
    ids=["tabs", "commas", "header-and-quotes", "comments"],
)
def test_edge_file(load, content):
    pets = load(content, "pets.txt")
    assert pets.ids == ("dog", "animal", "wolf", "ice_bear")
    assert pets.children("animal") == ["dog", "wolf", "ice_bear"]
    assert pets.name("ice_bear") == "ice bear"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "pets.txt: the file is empty"),
        ("# nothing\n", "pets.txt: no line has a tab or a comma"),
        ("n02084071 n02083346\n", "pets.txt: no line has a tab or a comma"),
        ("a,b\na,b,c\n", "pets.txt:2: expected child<TAB>parent or child,parent, found 'a,b,c'"),
        ("a,b\n,c\n", "pets.txt:2: expected child"),
        ("a,b\n_,b\n", "pets.txt:2: '_' has no name."),
        ("a\tb\nb\tb\n", "pets.txt:2: 'b' is its own parent"),
        ("a\tb\nb\tc\nc\ta\n", "pets.txt:1: a cycle: a -> b -> c -> a (lines 1, 2, 3)"),
        (b"a,b\n\xe9,b\n", "pets.txt:2: byte 0xe9"),
    ],
)
def test_edge_file_mistakes_are_told_with_file_and_line(refusal, content, says):
    assert says in refusal(content, "pets.txt")


def test_edges_in_memory():
    pets = Taxonomy.from_edges([("d", "a"), ("n02084071", "a")], {"d": ["dog", "hound"], "x": "alone"})
    assert pets.ids == ("d", "a", "n02084071", "x")
    assert pets.names == ["dog", "a", "dog", "alone"]
    for edges in (["ab"], [("a", "b", "c")]):
        with pytest.raises(UnseenError, match=r"Edge 0: expected a pair"):
            Taxonomy.from_edges(edges)
    with pytest.raises(UnseenError, match="empty"):
        Taxonomy.from_edges([])


# --- networkx ---------------------------------------------------------------------------------------------------------


def test_networkx_in_either_direction():
    graph = nx.DiGraph([("dog", "animal"), ("wolf", "animal"), (3, "animal")])
    graph.nodes["dog"].update(names=["dog", "hound"], definition="it barks")
    graph.nodes["animal"].update(name="living thing")
    pets = Taxonomy.from_networkx(graph)
    assert pets.ids == ("dog", "animal", "wolf", "3")
    assert pets.children("animal") == ["dog", "wolf", "3"]
    assert (pets.sense("dog"), pets.name("animal")) == (
        Sense("dog", "dog", ("dog", "hound"), "it barks"),
        "living thing",
    )
    turned = Taxonomy.from_networkx(graph.reverse(), direction="parent-to-child")
    assert turned.to_json() == pets.to_json()


@pytest.mark.parametrize(
    ("graph", "direction", "says"),
    [
        (nx.Graph([(1, 2)]), "child-to-parent", "undirected"),
        (nx.DiGraph([(1, 2), (2, 1)]), "child-to-parent", "a cycle: 1 -> 2 -> 1"),
        (nx.DiGraph([(1, 1)]), "child-to-parent", "its own parent: 1"),
        (nx.DiGraph([(1, "1")]), "child-to-parent", "'1' is given twice"),
        (nx.DiGraph(), "child-to-parent", "empty"),
        (nx.DiGraph([(1, 2)]), "up", "not 'up'"),
    ],
)
def test_networkx_mistakes(graph, direction, says):
    with pytest.raises(UnseenError, match=says):
        Taxonomy.from_networkx(graph, direction)
