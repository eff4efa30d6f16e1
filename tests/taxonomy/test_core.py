"""The hierarchy against a plain networkx implementation."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.errors import UnseenError
from unseen.taxonomy import Node, Taxonomy


@st.composite
def taxonomies(draw, max_nodes: int = 14) -> Taxonomy:
    """Any acyclic graph, its rows shuffled so that parents may come before or after their children."""
    count = draw(st.integers(1, max_nodes))
    pairs = [(low, high) for low in range(count) for high in range(low)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=3 * count)) if pairs else []
    order = draw(st.permutations(range(count)))
    parents: list[list[str]] = [[] for _ in range(count)]
    for low, high in edges:
        parents[order[low]].append(f"id{order[high]}")
    return Taxonomy([f"id{row}" for row in range(count)], [(f"name {row}",) for row in range(count)], parents)


def plain(taxonomy: Taxonomy) -> nx.DiGraph:
    """The same graph in networkx, edges child -> parent."""
    graph = nx.DiGraph()
    graph.add_nodes_from(taxonomy.ids)
    graph.add_edges_from((id, parent) for id in taxonomy.ids for parent in taxonomy.parents(id))
    return graph


def same(a: Taxonomy, b: Taxonomy) -> bool:
    saved_a, saved_b = ({**taxonomy.to_json(), "source": None} for taxonomy in (a, b))
    return saved_a == saved_b


# --- properties -------------------------------------------------------------------------------------------------------


@given(taxonomies())
def test_neighbours_roots_leaves_and_edges(taxonomy):
    graph = plain(taxonomy)
    for id in taxonomy.ids:
        assert set(taxonomy.children(id)) == set(graph.predecessors(id))
    assert taxonomy.roots == [id for id in taxonomy.ids if graph.out_degree(id) == 0]
    assert taxonomy.leaves == [id for id in taxonomy.ids if graph.in_degree(id) == 0]
    child, parent = taxonomy.edges()
    assert {(taxonomy.ids[c], taxonomy.ids[p]) for c, p in zip(child, parent, strict=True)} == set(graph.edges)
    assert child.dtype == parent.dtype == taxonomy.parent_ptr.dtype == taxonomy.parent_idx.dtype == np.int32


@given(taxonomies())
def test_ancestors_and_descendants_have_the_shortest_distance(taxonomy):
    graph = plain(taxonomy)
    for id in taxonomy.ids:
        up = nx.single_source_shortest_path_length(graph, id)
        down = nx.single_source_shortest_path_length(graph.reverse(), id)
        assert {id: 0, **taxonomy.ancestors(id)} == dict(up)
        assert {id: 0, **taxonomy.descendants(id)} == dict(down)
        assert list(taxonomy.descendants(id).values()) == sorted(taxonomy.descendants(id).values())
        to_roots = [up[root] for root in taxonomy.roots if root in up]
        assert taxonomy.depths[taxonomy.index(id)] == min(to_roots)
    assert taxonomy.depth == max(taxonomy.depths)


@given(taxonomies())
def test_ancestor_pairs(taxonomy):
    expected = sorted(
        (distance, taxonomy.index(id), taxonomy.index(above))
        for id, reached in nx.all_pairs_shortest_path_length(plain(taxonomy))
        for above, distance in reached.items()
    )
    node, ancestor, distance = taxonomy.ancestor_pairs()
    assert list(zip(distance.tolist(), node.tolist(), ancestor.tolist(), strict=True)) == expected
    assert (node.dtype, ancestor.dtype, distance.dtype) == (np.int32, np.int32, np.int16)


@given(taxonomies(), st.data())
def test_hops_are_undirected_distances(taxonomy, data):
    sources = data.draw(st.lists(st.sampled_from(taxonomy.ids), max_size=4))
    graph = plain(taxonomy).to_undirected()
    near = nx.multi_source_dijkstra_path_length(graph, set(sources)) if sources else {}
    assert taxonomy.hops_from(sources).tolist() == [near.get(id, -1) for id in taxonomy.ids]
    assert taxonomy.within_hops(sources, 2) == [id for id in taxonomy.ids if 1 <= near.get(id, -1) <= 2]


@given(taxonomies(), st.data())
def test_lowest_common_ancestor_and_paths(taxonomy, data):
    a, b = (data.draw(st.sampled_from(taxonomy.ids)) for _ in "ab")
    graph = plain(taxonomy)
    up_a, up_b = (nx.single_source_shortest_path_length(graph, id) for id in (a, b))
    common = up_a.keys() & up_b.keys()
    lowest = [one for one in common if not common & nx.ancestors(graph, one)]  # networkx's ancestors: those below
    found, path = taxonomy.lowest_common_ancestor(a, b), taxonomy.path(a, b)
    if not common:
        assert found is None and path == []
        return
    assert found in lowest
    assert up_a[found] + up_b[found] == min(up_a[one] + up_b[one] for one in lowest)
    turn = path.index(found)
    assert (path[0], path[-1], turn, len(path)) == (a, b, up_a[found], up_a[found] + up_b[found] + 1)
    assert nx.is_path(graph, path[: turn + 1]) and nx.is_path(graph, path[turn:][::-1])


@given(taxonomies(), st.data())
def test_path_to_root(taxonomy, data):
    id = data.draw(st.sampled_from(taxonomy.ids))
    path = taxonomy.path_to_root(id)
    assert path[0] == id and path[-1] in taxonomy.roots
    assert len(path) == taxonomy.depths[taxonomy.index(id)] + 1
    assert nx.is_path(plain(taxonomy), path)


@given(taxonomies(), st.data(), st.booleans())
def test_subgraph(taxonomy, data, closed):
    ids = data.draw(st.lists(st.sampled_from(taxonomy.ids)))
    graph = plain(taxonomy)
    expected = set(ids).union(*(nx.descendants(graph, id) for id in ids)) if closed else set(ids)
    part = taxonomy.subgraph(ids, closed)
    assert list(part.ids) == [id for id in taxonomy.ids if id in expected]
    assert set(plain(part).edges) == set(graph.subgraph(expected).edges)
    assert [part.name(id) for id in part.ids] == [taxonomy.name(id) for id in part.ids]


@given(taxonomies(), st.data())
def test_without_keeps_who_is_above_whom(taxonomy, data):
    gone = data.draw(st.lists(st.sampled_from(taxonomy.ids)))
    rest = taxonomy.without(gone)
    graph, left = plain(taxonomy), plain(rest)
    assert list(rest.ids) == [id for id in taxonomy.ids if id not in gone]
    for id in rest.ids:
        assert set(rest.ancestors(id)) == set(taxonomy.ancestors(id)) - set(gone)
    # No edge is invented: each one is an edge of before, or a way that led only through removed classes.
    inside = graph.subgraph(gone)
    for child, parent in left.edges:
        through = {end for up in graph.successors(child) if up in gone for end in (up, *nx.descendants(inside, up))}
        assert graph.has_edge(child, parent) or any(graph.has_edge(end, parent) for end in through)


@given(taxonomies(), st.data())
def test_extend_then_without_gives_the_same_back(taxonomy, data):
    count = data.draw(st.integers(0, 4))
    known = list(taxonomy.ids)
    nodes = []
    for number in range(count):
        parents = data.draw(st.lists(st.sampled_from(known), unique=True, max_size=3))
        nodes.append(Node(f"new{number}", [f"new name {number}"], parents, "what it is"))
        known.append(f"new{number}")
    grown = taxonomy.extend(data.draw(st.permutations(nodes)))
    assert grown.ids[: len(taxonomy)] == taxonomy.ids and len(grown) == len(taxonomy) + count
    for id in taxonomy.ids:
        assert grown.parents(id) == taxonomy.parents(id)
    for node in nodes:
        assert (grown.parents(node.id), grown.definition(node.id)) == (list(node.parents), "what it is")
        assert grown.lemmas[grown.index(node.id)] == tuple(node.lemmas)
    assert same(grown.without([node.id for node in nodes]), taxonomy)


@given(taxonomies())
def test_json_round_trip(taxonomy):
    saved = json.loads(json.dumps(taxonomy.to_json()))
    assert Taxonomy.from_dict(saved).to_json() == taxonomy.to_json()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
@settings(max_examples=200)
def test_a_cycle_is_found_exactly_when_there_is_one(edges):
    graph = nx.DiGraph((f"id{a}", f"id{b}") for a, b in edges)
    if nx.is_directed_acyclic_graph(graph):
        assert set(plain(Taxonomy.from_edges(graph.edges)).edges) == set(graph.edges)
        return
    with pytest.raises(UnseenError, match=r"a cycle: |its own parent: ") as caught:
        Taxonomy.from_edges(graph.edges)
    named = str(caught.value).split(": ")[1].split(". Drop")[0].split(" -> ")
    if len(named) == 1:
        assert graph.has_edge(named[0], named[0])
    else:
        assert named[0] == named[-1] and nx.is_path(graph, named)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def make(ids="ab", lemmas=(("A",), ("B",)), parents=((), ("a",)), **more):
    return Taxonomy(ids, lemmas, parents, **more)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"ids": "", "lemmas": (), "parents": ()}, "empty"),
        ({"ids": ["a", ""]}, "non-empty string"),
        ({"ids": ["a", 3]}, "non-empty string"),
        ({"ids": ["a", "b\nc"]}, "control characters"),
        ({"ids": "aa"}, "'a' is given twice"),
        ({"lemmas": (("A",), ())}, "b: needs one or more names"),
        ({"lemmas": (("A",), ("two\nlines",))}, "b: needs one or more names"),
        ({"lemmas": (("A",),)}, "2 ids but names for 1"),
        ({"parents": ((),)}, "2 ids but parents for 1"),
        ({"parents": ((), ("aa",))}, r"b: its parent 'aa' is not in the hierarchy"),
        ({"parents": ((), ("b",))}, "its own parent: b"),
        ({"parents": (("b",), ("a",))}, "a cycle: a -> b -> a"),
        ({"parents": (np.array([0, 0, 1]), np.array([7]))}, "not a valid pair"),
        ({"parents": (np.array([0, 1]), np.array([0]))}, "not a valid pair"),
        ({"parents": (np.array([0, 2, 1]), np.array([0]))}, "not a valid pair"),
    ],
)
def test_unsound_input_is_refused(given_, says):
    with pytest.raises(UnseenError, match=says):
        make(**given_)


def test_one_name_or_parent_may_stand_alone():
    grown = make(lemmas=("A", "B")).extend([Node("c", "sea cow", "b")])
    assert (grown.names, grown.parents("c")) == (["A", "B", "sea cow"], ["b"])


def test_unknown_ids_are_named():
    taxonomy = Taxonomy(["mammal", "dog"], [("mammal",), ("dog",)], [(), ("mammal",)])
    with pytest.raises(UnseenError, match=r"'mamal' is not an id of this hierarchy\. Did you mean mammal\?"):
        taxonomy.index("mamal")
    with pytest.raises(UnseenError, match="2 of 3 ids are not in this hierarchy: x, y"):
        taxonomy.indices(["dog", "x", "y"])
    for method in (taxonomy.parents, taxonomy.children, taxonomy.ancestors, taxonomy.name, taxonomy.definition):
        with pytest.raises(UnseenError, match="not an id"):
            method("cat")


def test_extend_refuses_known_ids_unknown_parents_and_cycles():
    taxonomy = make()
    with pytest.raises(UnseenError, match="Already in the hierarchy: a"):
        taxonomy.extend([Node("a", ["again"])])
    with pytest.raises(UnseenError, match="its parent 'zoo' is not"):
        taxonomy.extend([Node("c", ["C"], ["zoo"])])
    with pytest.raises(UnseenError, match="a cycle: c -> d -> c"):
        taxonomy.extend([Node("c", ["C"], ["d"]), Node("d", ["D"], ["c", "a"])])
    with pytest.raises(UnseenError, match="given twice"):
        taxonomy.extend([Node("c", ["C"]), Node("c", ["C"])])


@pytest.mark.parametrize(
    "damage", [{"format": 99}, {"ids": None}, {"parent_idx": [5]}, {"definitions": 3}, {"parent_ptr": ["x"]}]
)
def test_a_damaged_saved_hierarchy_is_refused(damage):
    with pytest.raises(UnseenError):
        Taxonomy.from_dict({**make().to_json(), **damage})


def test_arrays_cannot_be_changed():
    taxonomy = make()
    for array in (taxonomy.parent_ptr, taxonomy.parent_idx, *taxonomy.ancestor_pairs()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_long_chain_is_read_and_measured():
    chain = Taxonomy.from_edges((str(row), str(row + 1)) for row in range(1500))  # more than Python would recurse
    assert chain.depth == 1500
    assert len(chain.path_to_root("0")) == 1501
    assert len(chain.ancestor_pairs()[0]) == 1501 * 1502 // 2
