"""New classes that WordNet knows of: names, parents and connecting nodes come from there."""

from __future__ import annotations

import pytest

from unseen.errors import UnseenError
from unseen.taxonomy import Node, Taxonomy
from unseen.taxonomy.additions import check_connected, completed, connecting_nodes, reserve_of
from unseen.taxonomy.sources import read_additions
from unseen.taxonomy.wordnet import wordnet_gloss

OKAPI, DOG, CANINE, ANIMAL, CARNIVORE = "n02439398", "n02084071", "n02083346", "n00015388", "n02075296"


def test_a_wordnet_noun_is_completed():
    wordnet = Taxonomy.wordnet()
    dog = wordnet.lemmas[wordnet.index(DOG)]
    assert completed(Node(DOG, ())) == Node(DOG, dog, tuple(wordnet.parents(DOG)))
    assert completed(Node(DOG, "Canis Familiaris", [CANINE])) == Node(DOG, (dog[2], dog[0], dog[1]), (CANINE,))
    assert completed(Node(DOG, "dog", (), wordnet_gloss(DOG))).definition == ""


@pytest.mark.parametrize(
    "node", [Node(DOG, ("my pet",), (CANINE,)), Node(DOG, ("dog",), (CANINE,), "my own"), Node("x", ("dog",), ())]
)
def test_what_is_the_users_own_stays(node):
    assert completed(node) == node


def test_connecting_nodes_reach_the_hierarchy_and_no_further():
    animals = Taxonomy.wordnet().subgraph([OKAPI])
    new = [Node("pup", ("pup",), (DOG,)), Node("whelp", ("whelp",), ("pup",))]
    links = connecting_nodes(animals, new)
    assert {node.id for node in links} >= {DOG, CANINE, CARNIVORE}
    assert not any(node.id in animals for node in links)
    grown = animals.extend([*links, *new])
    wordnet = Taxonomy.wordnet()
    assert set(grown.ancestors("pup")) == {DOG, *wordnet.ancestors(DOG)}
    assert connecting_nodes(animals, [Node("o", ("o",), (OKAPI,))]) == []
    check_connected(animals, grown, ["pup", "whelp"])


def test_a_class_that_nothing_connects_is_refused():
    tools = Taxonomy(["saw"], [("saw",)], [()])
    grown = tools.extend([*connecting_nodes(tools, [Node("pup", ("pup",), (DOG,))]), Node("pup", ("pup",), (DOG,))])
    with pytest.raises(UnseenError, match=r"pup: nothing above it \(dog \(n02084071\).*such as saw \(saw\)"):
        check_connected(tools, grown, ["pup"])


def test_wordnet_is_in_reserve_only_where_ids_are_its_own():
    assert reserve_of(Taxonomy(["n1", DOG], [("a",), ("dog",)], [(), ()])) is Taxonomy.wordnet()
    assert reserve_of(Taxonomy(["n1", "n00000001"], [("a",), ("b",)], [(), ()])) is None


# -- from a file ---------------------------------------------------------------------------------------------------


@pytest.fixture
def additions(tmp_path):
    def read(content: str, base: Taxonomy) -> list[Node]:
        (tmp_path / "new.csv").write_text(content)
        return read_additions(tmp_path / "new.csv", base)

    return read


def test_rows_may_restate_what_is_there(additions):
    base = Taxonomy.wordnet().subgraph([OKAPI, DOG])
    nodes = additions(f"id,name,parent\n{DOG},Domestic dog,{CANINE}\n{OKAPI},,\npup,pup,dog\n", base)
    assert [(node.id, node.id in base) for node in nodes] == [(DOG, True), (OKAPI, True), ("pup", False)]
    assert nodes[2].parents == [DOG]


def test_rows_may_not_rename_or_move_what_is_there(additions):
    base = Taxonomy.wordnet().subgraph([OKAPI, DOG])
    with pytest.raises(UnseenError, match=r"new.csv:2: 'n02084071' is already in the hierarchy \(dog\). Give"):
        additions(f"id,name,parent\n{DOG},hound,{CANINE}\n", base)
    with pytest.raises(UnseenError, match=r"new.csv:3: 'n02084071' is already in .*not below 'n02439398'"):
        additions(f"id,name,parent\n{DOG},dog,{CANINE}\n{DOG},dog,{OKAPI}\n", base)


def test_a_parent_may_be_wordnets_by_id_or_by_name(additions):
    base = Taxonomy.wordnet().subgraph([OKAPI])
    nodes = additions(f"name,parent\npup,{DOG}\nfawn,Canis familiaris\n", base)
    assert [node.parents for node in nodes] == [[DOG], [DOG]]
    with pytest.raises(UnseenError, match=r"new.csv:2: the parent 'crane' names 5 classes"):
        additions("name,parent\npup,crane\n", base)
    own = Taxonomy(["a"], [("animal",)], [()])
    with pytest.raises(UnseenError, match=r"new.csv:2: the parent 'crane' of 'pup' is neither in the file nor in the"):
        additions("name,parent\npup,crane\n", own)


def test_a_built_in_hierarchy_keeps_which_nouns_were_named(tmp_path):
    unicorn = Taxonomy.wordnet().senses("unicorn")[0].id
    file = tmp_path / "new.csv"
    file.write_text(f"id,name,parent\n{unicorn},unicorn,\n{DOG},dog,{CANINE}\npony,pony unicorn,{unicorn}\n")
    grown = Taxonomy.load(f"imagenet+{file}")
    assert grown.source["named"] == [unicorn, DOG]
    assert (grown.source["added"], grown.source["already_there"]) == (2, 1)
    assert grown.parents(unicorn) == Taxonomy.wordnet().parents(unicorn)
    assert grown.parents("pony") == [unicorn]
