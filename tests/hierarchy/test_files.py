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
from unseen.hierarchy.core import Hierarchy, Node, Sense
from unseen.hierarchy.files import read_additions
from unseen.util.errors import UnseenError

# --- CSV --------------------------------------------------------------------------------------------------------------


def test_csv(load):
    pets = load(PETS)
    assert pets.ids == ("a", "d", "w")
    assert pets.lemmas == (("animal",), ("dog", "hound"), ("wolf",))
    assert pets.sense("d") == Sense("d", "dog", ("dog", "hound"), "it barks")
    assert (pets.roots, pets.children("a"), pets.definition("w")) == (["a"], ["d", "w"], "")
    assert pets.source == {"kind": "csv", "file": "pets.csv"}


def test_looks_are_a_column_and_a_key_of_nodes(tmp_path):
    (tmp_path / "bins.csv").write_text("name,parent,looks\nbin,,\nwheelie bin,bin,tall  and green\n")
    nodes = [{"name": "bin", "children": [{"name": "wheelie bin", "looks": "tall and green"}]}]
    (tmp_path / "bins.json").write_text(json.dumps(nodes))
    for file in ("bins.csv", "bins.json"):
        bins = Hierarchy.load(tmp_path / file)
        assert bins.own_looks == {"wheelie bin": "tall and green"} and bins.look("bin") == ""
        (node,) = read_additions(tmp_path / file, Hierarchy(["bin"], [("bin",)], [()]))[1:]
        assert node.looks == "tall and green"
    (tmp_path / "bins.csv").write_text("name,parent,looks\nbin,,tall\nlid,bin,\nlid,bin,flat\nbin,,wide\n")
    with pytest.raises(UnseenError, match=r"bins.csv:5: duplicate id 'bin': 'tall' in line 2, 'wide' here"):
        Hierarchy.load(tmp_path / "bins.csv")


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
        ("id,name,parent\n", "pets.csv: contains no classes."),
        ("id,name\na,animal\n", "pets.csv:1: no column 'parent' in the header (id,name). The first line must name"),
        ("a,animal,\nd,dog,a\n", "pets.csv:1: no column 'name' and 'parent' in the header (a,animal,)"),
        ("id,name,parent\na," + "x" * 200_000 + ",\n", "pets.csv:2: field larger than field limit"),
        ("id,name,parent\na,animal,\nd,dog,animl\n", "pets.csv:3: the parent 'animl' of 'd' is not in the file"),
        ("id,name,parent\nmammal,m,\nd,dog,mamal\n", "Did you mean mammal?"),
        ("id,name,parent\na,x,p\nb,y,q\nc,z,p\n", "Unknown too: 'q' (line 3)."),
        ("id,name,parent\na,A,b\nb,B,c\nc,C,a\n", "pets.csv:2: a cycle: a -> b -> c -> a (lines 2, 3, 4)"),
        ("id,name,parent\na,A,\nb,B,b\n", "pets.csv:3: 'b' is its own parent"),
        ("id,name,parent\na,dog,\na,cat,\n", "pets.csv:3: duplicate id 'a': 'dog' in line 2, 'cat' here"),
        ("id,name,parent\na,A\n", "pets.csv:2: 2 cells, but the header has 3"),
        ("id,name,parent\n,A,\n", "pets.csv:2: the id is empty"),
        ("id,name,parent\na,,\n", "pets.csv:2: 'a' has no name"),
        ("id,name,parent\na|b,A,\n", "pets.csv:2: the id 'a|b' must not contain '|'"),
        (
            'id,name,parent\na,A,\nb,"open,a\nc,C,a\n',
            "pets.csv:3: unexpected end of data. Is a quotation",
        ),
        ('id,name,parent\na,"two\nlines",\nb,B,q\n', "pets.csv:4: the parent 'q'"),
        (b"id,name,parent\na,caf\xe9,\n", "pets.csv:2: byte 0xe9 at offset 20 is not UTF-8"),
        ("id,name,parent\na,A,\n".encode("utf-16"), "pets.csv:1: this is UTF-16 text. Save it as UTF-8"),
    ],
)
def test_csv_mistakes_are_reported_with_file_and_line(refusal, content, says):
    assert says in refusal(content)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UnseenError, match=r"pets\.csv: cannot be read: No such file"):
        Hierarchy.from_csv(tmp_path / "pets.csv")
    with pytest.raises(UnseenError, match="cannot be read: Is a directory"):
        Hierarchy.from_csv(tmp_path)


cells = st.text(st.sampled_from("ab ,;\t|\"'\n\r\ufeffé_-#\0"), max_size=6)


@given(st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6), st.sampled_from(",;\t"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_table_crashes_the_reader(tmp_path, rows, delimiter):
    path = tmp_path / "any.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([["id", "name", "parent"], *rows])
    try:
        assert len(Hierarchy.from_csv(path)) > 0
    except UnseenError as error:
        assert str(path) in str(error)


@given(st.binary(max_size=60), st.sampled_from(["id,name,parent\n", ""]), st.sampled_from([".csv", ".txt", ".json"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_crash_a_reader(tmp_path, content, header, suffix):
    path = tmp_path / f"any{suffix}"
    path.write_bytes(header.encode() + content)
    try:
        assert len(Hierarchy.load(path)) > 0
    except UnseenError as error:
        assert str(path) in str(error)


SAVED = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal"), ("dog", "pet")]).to_json()
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
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_no_json_crashes_the_reader(tmp_path, value):
    path = tmp_path / "any.json"
    path.write_text(json.dumps(value))
    try:
        hierarchy = Hierarchy.load(path)
        json.dumps(hierarchy.to_json() | {"source": None}, ensure_ascii=False).encode()  # the name of a file may be odd
        assert all(hierarchy.ancestors(id) is not None for id in hierarchy.ids)
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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "pets.json: the file is empty"),
        ("[]", "pets.json: contains no classes"),
        ('[\n{"id": 1,}]', "pets.json:2: not valid JSON"),
        ('[{"name": "a"},\n{"name": "b", "children": ["|c"]}]', "pets.json: the id is empty."),
        ('[{"name": "a"},\n{"name": "\\ud800"}]', "pets.json: cannot be read"),
        ('[{"name": "a", "id": ' + "1" * 5000 + "}]", "pets.json: cannot be read"),
        ('[{"name": "a"},\n\n{"parent": "a"}]', 'pets.json: a node needs "id" or "name"; its keys are parent.'),
        (
            '[{"name": "a"},\n{"name": true}]',
            'pets.json: "name" must be text or a list of texts, not true: {"na',
        ),
        (
            '[{"name": "{a", "note": {"x": [{}]}},\n{"name": "b\\"{"},\n{"name": "c",\n "parent": "q"}]',
            "pets.json: the parent 'q' of 'c' is not in the file",
        ),
        (
            '[{"name": "a", "parent": "b"},\n{"name": "b", "parent": "a"}]',
            "json: a cycle: a -> b -> a. Drop",
        ),
        ('{"name": "a", "children": [\n{"name": "b", "children":\n [{"name": "a"}]}]}', "a cycle: a -> b -> a. Drop"),
        (
            '[{"id": "x", "name": "a"},\n{"id": "x", "name": "b"}]',
            "json: duplicate id 'x': 'a', 'b' here",
        ),
        ("[" * 100_000, "pets.json: nested too deeply"),
        (b'[{"name": "\xff"}]', "pets.json:1: byte 0xff at offset 11 is not UTF-8"),
    ],
)
def test_json_mistakes_are_reported_with_file_and_class(refusal, content, says):
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
        ("n02084071 n02083346\n", "pets.txt: no line has a tab or a comma"),
        ("a,b\na,b,c\n", "pets.txt:2: expected child<TAB>parent or child,parent, found 'a,b,c'"),
        ("a,b\n,c\n", "pets.txt:2: expected child"),
        ("a\tb\nb\tc\nc\ta\n", "pets.txt:1: a cycle: a -> b -> c -> a (lines 1, 2, 3)"),
        (b"a,b\n\xe9,b\n", "pets.txt:2: byte 0xe9"),
    ],
)
def test_edge_file_mistakes_are_reported_with_file_and_line(refusal, content, says):
    assert says in refusal(content, "pets.txt")


def test_edges_in_memory():
    pets = Hierarchy.from_edges([("d", "a"), ("n02084071", "a")], {"d": ["dog", "hound"], "x": "alone"})
    assert pets.ids == ("d", "a", "n02084071", "x")
    assert pets.names == ["dog", "a", "dog", "alone"]
    for edges in (["ab"], [("a", "b", "c")]):
        with pytest.raises(UnseenError, match=r"Edge 0: expected a pair"):
            Hierarchy.from_edges(edges)
    with pytest.raises(UnseenError, match="empty"):
        Hierarchy.from_edges([])


def test_the_edges_of_a_networkx_graph():
    graph = nx.DiGraph([("dog", "animal"), ("wolf", "animal")])
    pets = Hierarchy.from_edges(graph.edges, names={"dog": ["dog", "hound"]})
    assert pets.children("animal") == ["dog", "wolf"] and pets.lemmas[0] == ("dog", "hound")
    for edges, says in [([("1", "2"), ("2", "1")], "a cycle: 1 -> 2 -> 1"), ([("1", "1")], "its own parent: 1")]:
        with pytest.raises(UnseenError, match=says):
            Hierarchy.from_edges(nx.DiGraph(edges).edges)
    with pytest.raises(UnseenError, match=r"Edge 0: expected a pair of ids \(child, parent\), not \(1, 2\)"):
        Hierarchy.from_edges(nx.DiGraph([(1, 2)]).edges)


# --- names and sums ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["wordnett", "nothing.csvv", "imagenet+", "wordnet+nothing.csv", "nothing.csv"])
def test_an_unknown_hierarchy(spec, tmp_path):
    with pytest.raises(UnseenError) as caught:
        Hierarchy.load(spec)
    assert ("Did you mean wordnet?" in str(caught.value)) == (spec == "wordnett")
    (tmp_path / "tree.xlsx").write_text("x")
    with pytest.raises(UnseenError, match="not a kind of file that a hierarchy is read from"):
        Hierarchy.load(tmp_path / "tree.xlsx")


ADDITIONS = """id,name,parent,definition
my-okapi,forest giraffe,okapi,it is shy
my-calf,forest giraffe calf,my-okapi,
my-pup,wolf dog,n02084071|Canis lupus,
my-friend,imaginary friend,my-calf|forest giraffe,
"""


@pytest.mark.parametrize("base", ["wordnet", "imagenet"])
def test_additions_to_a_built_in_hierarchy(load, base):
    grown = load(ADDITIONS, "mine.csv", base + "+{}")
    before = Hierarchy.load(base)
    assert grown.ids == (*before.ids, "my-okapi", "my-calf", "my-pup", "my-friend")
    assert grown.parents("my-okapi") == ["n02439398"]
    assert grown.parents("my-calf") == ["my-okapi"]
    assert grown.parents("my-pup") == ["n02084071", "n02114367"]
    assert grown.parents("my-friend") == ["my-calf", "my-okapi"]
    assert (grown.definition("my-okapi"), grown.name("my-pup")) == ("it is shy", "wolf dog")
    assert grown.source == {**before.source, "added": 4, "additions": "mine.csv"}
    assert "added" not in before.source


def test_additions_to_any_hierarchy(load, tmp_path):
    pets = load(PETS)
    (tmp_path / "more.csv").write_text("id,name,parent\np,puppy,Dog\nt,toy puppy,puppy|w\n")
    nodes = read_additions(tmp_path / "more.csv", pets)
    assert nodes == [Node("p", ("puppy",), ["d"]), Node("t", ("toy puppy",), ["p", "w"])]
    assert pets.extend(nodes).ancestors("t") == {"p": 1, "w": 1, "d": 2, "a": 2}


def test_additions_to_the_papers_graph(load, authors_lists):
    assert len(load("name,parent\nmy okapi,n02439398\n", "mine.csv", "paper+{}")) == 32_325


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "id,name,parent\nx,X,okapi\nn02439398,my okapi,\n",
            "mine.csv:3: 'n02439398' is already in the hierarchy (okapi). Give",
        ),
        ("name,parent\nmy crane,crane\n", "mine.csv:2: the parent 'crane' names 2 classes; use the id"),
        ("name,parent\na,okapi\nb,\nc,b\nd,\n", "mine.csv:3: 'b': a new class needs a parent"),
        ("name,parent\na,okapi\nb,\nc,b\nd,\n", "Without one too: 'd' (line 5)."),
        (
            "name,parent\nmy okapi,okapy\n",
            "mine.csv:2: the parent 'okapy' of 'my okapi' is neither in",
        ),
        ("name,parent\nmy okapi,okapy\n", " or okapi or oka?"),
        ("name,parent\na,okapi\nb,a|c\nc,b\n", "mine.csv:3: a cycle: b -> c -> b (lines 3, 4)"),
        ("name,parent\nokapi,okapi\n", "mine.csv:2: 'okapi' is its own parent"),
    ],
)
def test_additions_mistakes(refusal, content, says):
    assert says in refusal(content, "mine.csv", "imagenet+{}")


# --- additions --------------------------------------------------------------------------------------------------------

OKAPI, DOG, CANINE, ANIMAL, CARNIVORE = "n02439398", "n02084071", "n02083346", "n00015388", "n02075296"


@pytest.fixture
def additions(tmp_path):
    def read(content: str, base: Hierarchy) -> list[Node]:
        (tmp_path / "new.csv").write_text(content)
        return read_additions(tmp_path / "new.csv", base)

    return read


def test_rows_may_restate_what_is_there(additions):
    base = Hierarchy.wordnet().subgraph([OKAPI, DOG])
    nodes = additions(f"id,name,parent\n{DOG},Domestic dog,{CANINE}\n{OKAPI},,\npup,pup,dog\n", base)
    assert [(node.id, node.id in base) for node in nodes] == [(DOG, True), (OKAPI, True), ("pup", False)]
    assert nodes[2].parents == [DOG]


def test_rows_may_not_rename_or_move_what_is_there(additions):
    base = Hierarchy.wordnet().subgraph([OKAPI, DOG])
    with pytest.raises(UnseenError, match=r"new.csv:2: 'n02084071' is already in the hierarchy \(dog\). Give"):
        additions(f"id,name,parent\n{DOG},hound,{CANINE}\n", base)
    with pytest.raises(UnseenError, match=r"new.csv:3: 'n02084071' is already in .*not below 'n02439398'"):
        additions(f"id,name,parent\n{DOG},dog,{CANINE}\n{DOG},dog,{OKAPI}\n", base)


def test_a_parent_may_be_wordnets_by_id_or_by_name(additions):
    base = Hierarchy.wordnet().subgraph([OKAPI])
    nodes = additions(f"name,parent\npup,{DOG}\nfawn,Canis familiaris\n", base)
    assert [node.parents for node in nodes] == [[DOG], [DOG]]
    with pytest.raises(UnseenError, match=r"new.csv:2: the parent 'crane' names 5 classes"):
        additions("name,parent\npup,crane\n", base)
    own = Hierarchy(["a"], [("animal",)], [()])
    with pytest.raises(UnseenError, match=r"new.csv:2: the parent 'crane' of 'pup' is neither in the file nor in the"):
        additions("name,parent\npup,crane\n", own)


def test_a_built_in_hierarchy_keeps_which_nouns_were_named(tmp_path):
    unicorn = Hierarchy.wordnet().senses("unicorn")[0].id
    file = tmp_path / "new.csv"
    file.write_text(f"id,name,parent\n{unicorn},unicorn,\n{DOG},dog,{CANINE}\npony,pony unicorn,{unicorn}\n")
    grown = Hierarchy.load(f"imagenet+{file}")
    assert grown.source["named"] == [unicorn, DOG]
    assert (grown.source["added"], grown.source["already_there"]) == (2, 1)
    assert grown.parents(unicorn) == Hierarchy.wordnet().parents(unicorn)
    assert grown.parents("pony") == [unicorn]
