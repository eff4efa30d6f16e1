"""The real graphs have the numbers that are known of them, and are quick to load and to search."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import networkx as nx
import numpy as np
import pytest

from unseen.data import imagenet_21k
from unseen.hierarchy import paths
from unseen.hierarchy.core import Hierarchy, Node
from unseen.hierarchy.wordnet import check_connected, completed, connecting_nodes, wordnet_gloss
from unseen.util.errors import UnseenError


def test_wordnet():
    hierarchy = Hierarchy.wordnet()
    assert len(hierarchy) == 82_115
    assert hierarchy.resolve("okapi") == "n02439398"
    assert hierarchy.search("okapi")[0] == hierarchy.sense("n02439398")
    assert hierarchy.lemmas[hierarchy.index("n02084071")] == ("dog", "domestic dog", "Canis familiaris")
    assert "genus Canis" in hierarchy.definition("n02084071")
    assert hierarchy.parents("n02084071") == ["n02083346", "n01317541"]  # canine, domestic animal
    assert hierarchy.name(hierarchy.lowest_common_ancestor("n02084071", "n02121620")) == "carnivore"
    assert hierarchy.parents("n10954498") == []  # Albert Einstein: instance hypernyms are not edges
    assert paths.find_cycle((hierarchy.parent_ptr, hierarchy.parent_idx)) is None


def test_imagenet_is_closed_under_hypernyms():
    hierarchy, whole = Hierarchy.imagenet(), Hierarchy.wordnet()
    assert len(imagenet_21k()) == 21_842
    assert len(hierarchy) == 23_547
    assert all(hierarchy.parents(id) == whole.parents(id) for id in hierarchy.ids)
    assert hierarchy.source["kind"] == "imagenet"


def test_paper_graph_has_the_published_numbers(authors_lists):
    hierarchy = Hierarchy.paper()
    nodes, edges = len(hierarchy), len(hierarchy.parent_idx)
    assert (nodes, edges) == (32_324, 32_544)
    assert round((2 * edges + nodes) / nodes**2 * 1e5, 2) == 9.32
    _, _, distance = hierarchy.ancestor_pairs()
    by_distance = "32324 32544 32629 30750 26542 19320 11815 6642 3700 2030 1036 539 182 29"
    assert np.bincount(distance).tolist() == [int(count) for count in by_distance.split()]
    assert len(distance) == 200_082
    assert round(len(distance) / nodes**2 * 1e5, 2) == 19.15


@pytest.mark.slow
def test_pairs_of_the_default_graph_equal_networkx():
    hierarchy = Hierarchy.imagenet()
    graph = nx.DiGraph(zip(*(rows.tolist() for rows in hierarchy.edges()), strict=True))
    graph.add_nodes_from(range(len(hierarchy)))
    expected = {
        (low, high): steps for low in graph for high, steps in nx.single_source_shortest_path_length(graph, low).items()
    }
    node, ancestor, distance = (values.tolist() for values in hierarchy.ancestor_pairs())
    assert dict(zip(zip(node, ancestor, strict=True), distance, strict=True)) == expected


# --- speed ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_loading_wordnet_is_quick_and_needs_no_heavy_library():
    code = """
import json, sys, time
from unseen.hierarchy.core import Hierarchy
start = time.process_time()
size = len(Hierarchy.wordnet())
heavy = [name for name in ("torch", "networkx", "scipy") if name in sys.modules]
print(json.dumps([size, time.process_time() - start, heavy]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    size, seconds, heavy = json.loads(run.stdout)
    assert (size, heavy) == (82_115, [])
    assert seconds < 0.5


def test_typing_ahead_over_wordnet_is_quick():
    hierarchy = Hierarchy.wordnet()
    hierarchy.search("warm up")
    times = []
    for text in ["s", "e", "ok", "sew", "sewing ma", "ing", "zzz", "n0243"]:
        start = time.process_time()
        hierarchy.search(text)
        times.append(time.process_time() - start)
    assert np.median(times) < 0.03


# --- classes that a user adds -----------------------------------------------------------------------------------------

OKAPI, DOG, CANINE, ANIMAL, CARNIVORE = "n02439398", "n02084071", "n02083346", "n00015388", "n02075296"


def test_a_wordnet_noun_is_completed():
    wordnet = Hierarchy.wordnet()
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
    animals = Hierarchy.wordnet().subgraph([OKAPI])
    new = [Node("pup", ("pup",), (DOG,)), Node("whelp", ("whelp",), ("pup",))]
    links = connecting_nodes(animals, new)
    assert {node.id for node in links} >= {DOG, CANINE, CARNIVORE}
    assert not any(node.id in animals for node in links)
    grown = animals.extend([*links, *new])
    wordnet = Hierarchy.wordnet()
    assert set(grown.ancestors("pup")) == {DOG, *wordnet.ancestors(DOG)}
    assert connecting_nodes(animals, [Node("o", ("o",), (OKAPI,))]) == []
    check_connected(animals, grown, ["pup", "whelp"])


def test_a_class_that_nothing_connects_is_refused():
    tools = Hierarchy(["saw"], [("saw",)], [()])
    grown = tools.extend([*connecting_nodes(tools, [Node("pup", ("pup",), (DOG,))]), Node("pup", ("pup",), (DOG,))])
    with pytest.raises(UnseenError, match=r"pup: no class above it \(dog \(n02084071\).*such as saw \(saw\)"):
        check_connected(tools, grown, ["pup"])
