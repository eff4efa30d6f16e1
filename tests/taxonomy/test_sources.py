"""What a user may write for a hierarchy: a name, a file, a sum of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pets import PETS
from unseen.errors import UnseenError
from unseen.taxonomy import Node, Taxonomy
from unseen.taxonomy.sources import read_additions


def test_built_in_hierarchies_by_name():
    assert Taxonomy.load("wordnet") is Taxonomy.wordnet()
    assert Taxonomy.load("imagenet") is Taxonomy.imagenet()


@pytest.mark.parametrize("spec", ["wordnett", "nothing.csvv", "imagenet+", "wordnet+nothing.csv", "nothing.csv"])
def test_an_unknown_hierarchy(spec, tmp_path):
    with pytest.raises(UnseenError) as caught:
        Taxonomy.load(spec)
    assert ("Did you mean wordnet?" in str(caught.value)) == (spec == "wordnett")
    (tmp_path / "tree.xlsx").write_text("x")
    with pytest.raises(UnseenError, match="not a kind of file that a hierarchy is read from"):
        Taxonomy.load(tmp_path / "tree.xlsx")


ADDITIONS = """id,name,parent,definition
my-okapi,forest giraffe,okapi,it is shy
my-calf,forest giraffe calf,my-okapi,
my-pup,wolf dog,n02084071|Canis lupus,
my-friend,imaginary friend,my-calf|forest giraffe,
"""


@pytest.mark.parametrize("base", ["wordnet", "imagenet"])
def test_additions_to_a_built_in_hierarchy(load, base):
    grown = load(ADDITIONS, "mine.csv", base + "+{}")
    before = Taxonomy.load(base)
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


def test_imagenet_borrows_parents_from_wordnet(load):
    unicorn = Taxonomy.wordnet().senses("unicorn")[0].id
    assert unicorn not in Taxonomy.imagenet()
    grown = load(f"name,parent\npony unicorn,{unicorn}\n", "mine.csv", "imagenet+{}")
    assert grown.parents("pony unicorn") == [unicorn]
    assert grown.parents(unicorn) == Taxonomy.wordnet().parents(unicorn)
    assert set(Taxonomy.imagenet().ids) < set(grown.ids)


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


def test_ambiguous_parents_of_additions_show_definitions(refusal):
    said = refusal("name,parent\nmy crane,crane\n", "mine.csv", "imagenet+{}")
    assert "n02012849  crane: large long-necked wading bird" in said


def test_paths_are_accepted_too(tmp_path):
    path = Path(tmp_path) / "TREE.CSV"
    path.write_text(PETS)
    assert len(Taxonomy.load(path)) == len(Taxonomy.from_csv(str(path))) == 3
