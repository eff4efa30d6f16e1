"""The real graphs have the numbers that are known of them, and are quick to load and to search."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import networkx as nx
import numpy as np

from unseen.assets import imagenet_21k
from unseen.taxonomy import Node, Taxonomy, paths


def test_wordnet():
    taxonomy = Taxonomy.wordnet()
    assert len(taxonomy) == 82_115
    assert taxonomy.resolve("okapi") == "n02439398"
    assert taxonomy.search("okapi")[0] == taxonomy.sense("n02439398")
    assert taxonomy.lemmas[taxonomy.index("n02084071")] == ("dog", "domestic dog", "Canis familiaris")
    assert "genus Canis" in taxonomy.definition("n02084071")
    assert taxonomy.parents("n02084071") == ["n02083346", "n01317541"]  # canine, domestic animal
    assert taxonomy.name(taxonomy.lowest_common_ancestor("n02084071", "n02121620")) == "carnivore"
    assert taxonomy.parents("n10954498") == []  # Albert Einstein: instance hypernyms are not edges
    assert paths.find_cycle((taxonomy.parent_ptr, taxonomy.parent_idx)) is None


def test_imagenet_is_closed_under_hypernyms():
    taxonomy, whole = Taxonomy.imagenet(), Taxonomy.wordnet()
    assert len(imagenet_21k()) == 21_842
    assert len(taxonomy) == 23_547
    assert all(taxonomy.parents(id) == whole.parents(id) for id in taxonomy.ids)
    assert taxonomy.source["kind"] == "imagenet"


def test_paper_graph_has_the_published_numbers(authors_lists):
    taxonomy = Taxonomy.paper()
    nodes, edges = len(taxonomy), len(taxonomy.parent_idx)
    assert (nodes, edges) == (32_324, 32_544)
    assert round((2 * edges + nodes) / nodes**2 * 1e5, 2) == 9.32
    _, _, distance = taxonomy.ancestor_pairs()
    by_distance = "32324 32544 32629 30750 26542 19320 11815 6642 3700 2030 1036 539 182 29"
    assert np.bincount(distance).tolist() == [int(count) for count in by_distance.split()]
    assert len(distance) == 200_082
    assert round(len(distance) / nodes**2 * 1e5, 2) == 19.15


def test_pairs_of_the_default_graph_equal_networkx():
    taxonomy = Taxonomy.imagenet()
    graph = nx.DiGraph(zip(*(rows.tolist() for rows in taxonomy.edges()), strict=True))
    graph.add_nodes_from(range(len(taxonomy)))
    expected = {
        (low, high): steps for low in graph for high, steps in nx.single_source_shortest_path_length(graph, low).items()
    }
    node, ancestor, distance = (values.tolist() for values in taxonomy.ancestor_pairs())
    assert dict(zip(zip(node, ancestor, strict=True), distance, strict=True)) == expected


def test_bundled_wordnet_glosses_are_not_stored_again():
    taxonomy = Taxonomy.imagenet().extend([Node("okapi-2", ["second okapi"], ["n02439398"], "one more")])
    saved = taxonomy.to_json()
    assert saved["definitions"] == {"okapi-2": "one more"}
    again = Taxonomy.from_dict(saved)
    assert again.definition("n02439398") == Taxonomy.wordnet().definition("n02439398") != ""
    assert again.source["added"] == 1


# --- speed ------------------------------------------------------------------------------------------------------------


def test_loading_wordnet_is_quick_and_needs_no_heavy_library():
    code = """
import json, sys, time
from unseen.taxonomy import Taxonomy
start = time.process_time()
size = len(Taxonomy.wordnet())
heavy = [name for name in ("torch", "networkx", "scipy") if name in sys.modules]
print(json.dumps([size, time.process_time() - start, heavy]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    size, seconds, heavy = json.loads(run.stdout)
    assert (size, heavy) == (82_115, [])
    assert seconds < 0.5


def test_typing_ahead_over_wordnet_is_quick():
    taxonomy = Taxonomy.wordnet()
    taxonomy.search("warm up")
    times = []
    for text in ["s", "e", "ok", "sew", "sewing ma", "ing", "zzz", "n0243"]:
        start = time.process_time()
        taxonomy.search(text)
        times.append(time.process_time() - start)
    assert np.median(times) < 0.03


def test_pairs_of_a_large_graph_are_quick():
    start = time.process_time()
    random = np.random.default_rng(0)
    child = np.arange(1, 200_000)
    graph = paths.graph_of(child, (child * random.uniform(0.2, 0.3, len(child))).astype(int), 200_000)
    node, _, _ = paths.ancestor_pairs(graph)
    assert len(node) > 1_000_000
    assert time.process_time() - start < 10
