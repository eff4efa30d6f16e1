"""The hierarchy against a plain networkx implementation."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.hierarchy.core import Hierarchy, Node
from unseen.util.errors import UnseenError


@st.composite
def hierarchies(draw, max_nodes: int = 14) -> Hierarchy:
    """Any acyclic graph, its rows shuffled so that parents may come before or after their children."""
    count = draw(st.integers(1, max_nodes))
    pairs = [(low, high) for low in range(count) for high in range(low)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=3 * count)) if pairs else []
    order = draw(st.permutations(range(count)))
    parents: list[list[str]] = [[] for _ in range(count)]
    for low, high in edges:
        parents[order[low]].append(f"id{order[high]}")
    return Hierarchy([f"id{row}" for row in range(count)], [(f"name {row}",) for row in range(count)], parents)


def plain(hierarchy: Hierarchy) -> nx.DiGraph:
    """The same graph in networkx, edges child -> parent."""
    graph = nx.DiGraph()
    graph.add_nodes_from(hierarchy.ids)
    graph.add_edges_from((id, parent) for id in hierarchy.ids for parent in hierarchy.parents(id))
    return graph


def same(a: Hierarchy, b: Hierarchy) -> bool:
    saved_a, saved_b = ({**hierarchy.to_json(), "source": None} for hierarchy in (a, b))
    return saved_a == saved_b


# --- properties -------------------------------------------------------------------------------------------------------


@given(hierarchies())
def test_neighbours_roots_leaves_and_edges(hierarchy):
    graph = plain(hierarchy)
    for id in hierarchy.ids:
        assert set(hierarchy.children(id)) == set(graph.predecessors(id))
    assert hierarchy.roots == [id for id in hierarchy.ids if graph.out_degree(id) == 0]
    assert hierarchy.leaves == [id for id in hierarchy.ids if graph.in_degree(id) == 0]
    child, parent = hierarchy.edges()
    assert {(hierarchy.ids[c], hierarchy.ids[p]) for c, p in zip(child, parent, strict=True)} == set(graph.edges)
    assert child.dtype == parent.dtype == hierarchy.parent_ptr.dtype == hierarchy.parent_idx.dtype == np.int32


@given(hierarchies())
def test_ancestors_and_descendants_have_the_shortest_distance(hierarchy):
    graph = plain(hierarchy)
    for id in hierarchy.ids:
        up = nx.single_source_shortest_path_length(graph, id)
        down = nx.single_source_shortest_path_length(graph.reverse(), id)
        assert {id: 0, **hierarchy.ancestors(id)} == dict(up)
        assert {id: 0, **hierarchy.descendants(id)} == dict(down)
        assert list(hierarchy.descendants(id).values()) == sorted(hierarchy.descendants(id).values())
        to_roots = [up[root] for root in hierarchy.roots if root in up]
        assert hierarchy.depths[hierarchy.index(id)] == min(to_roots)
    assert hierarchy.depth == max(hierarchy.depths)


@given(hierarchies())
def test_ancestor_pairs(hierarchy):
    expected = sorted(
        (distance, hierarchy.index(id), hierarchy.index(above))
        for id, reached in nx.all_pairs_shortest_path_length(plain(hierarchy))
        for above, distance in reached.items()
    )
    node, ancestor, distance = hierarchy.ancestor_pairs()
    assert list(zip(distance.tolist(), node.tolist(), ancestor.tolist(), strict=True)) == expected
    assert (node.dtype, ancestor.dtype, distance.dtype) == (np.int32, np.int32, np.int16)


@given(hierarchies(), st.data())
def test_hops_are_undirected_distances(hierarchy, data):
    sources = data.draw(st.lists(st.sampled_from(hierarchy.ids), max_size=4))
    graph = plain(hierarchy).to_undirected()
    near = nx.multi_source_dijkstra_path_length(graph, set(sources)) if sources else {}
    assert hierarchy.hops_from(sources).tolist() == [near.get(id, -1) for id in hierarchy.ids]
    assert hierarchy.within_hops(sources, 2) == [id for id in hierarchy.ids if 1 <= near.get(id, -1) <= 2]


@given(hierarchies(), st.data())
def test_lowest_common_ancestor_and_paths(hierarchy, data):
    a, b = (data.draw(st.sampled_from(hierarchy.ids)) for _ in "ab")
    graph = plain(hierarchy)
    up_a, up_b = (nx.single_source_shortest_path_length(graph, id) for id in (a, b))
    common = up_a.keys() & up_b.keys()
    lowest = [one for one in common if not common & nx.ancestors(graph, one)]  # networkx's ancestors: those below
    found, path = hierarchy.lowest_common_ancestor(a, b), hierarchy.path(a, b)
    if not common:
        assert found is None and path == []
        return
    assert found in lowest
    assert up_a[found] + up_b[found] == min(up_a[one] + up_b[one] for one in lowest)
    turn = path.index(found)
    assert (path[0], path[-1], turn, len(path)) == (a, b, up_a[found], up_a[found] + up_b[found] + 1)
    assert nx.is_path(graph, path[: turn + 1]) and nx.is_path(graph, path[turn:][::-1])


@given(hierarchies(), st.data())
def test_path_to_root(hierarchy, data):
    id = data.draw(st.sampled_from(hierarchy.ids))
    path = hierarchy.path_to_root(id)
    assert path[0] == id and path[-1] in hierarchy.roots
    assert len(path) == hierarchy.depths[hierarchy.index(id)] + 1
    assert nx.is_path(plain(hierarchy), path)


@given(hierarchies(), st.data(), st.booleans())
def test_subgraph(hierarchy, data, closed):
    ids = data.draw(st.lists(st.sampled_from(hierarchy.ids)))
    graph = plain(hierarchy)
    expected = set(ids).union(*(nx.descendants(graph, id) for id in ids)) if closed else set(ids)
    part = hierarchy.subgraph(ids, closed)
    assert list(part.ids) == [id for id in hierarchy.ids if id in expected]
    assert set(plain(part).edges) == set(graph.subgraph(expected).edges)
    assert [part.name(id) for id in part.ids] == [hierarchy.name(id) for id in part.ids]


@given(hierarchies(), st.data())
def test_without_keeps_who_is_above_whom(hierarchy, data):
    gone = data.draw(st.lists(st.sampled_from(hierarchy.ids)))
    rest = hierarchy.without(gone)
    graph, left = plain(hierarchy), plain(rest)
    assert list(rest.ids) == [id for id in hierarchy.ids if id not in gone]
    for id in rest.ids:
        assert set(rest.ancestors(id)) == set(hierarchy.ancestors(id)) - set(gone)
    # No edge is invented: each one is an edge of before, or a way that led only through removed classes.
    inside = graph.subgraph(gone)
    for child, parent in left.edges:
        through = {end for up in graph.successors(child) if up in gone for end in (up, *nx.descendants(inside, up))}
        assert graph.has_edge(child, parent) or any(graph.has_edge(end, parent) for end in through)


@given(hierarchies(), st.data())
def test_extend_then_without_gives_the_same_back(hierarchy, data):
    count = data.draw(st.integers(0, 4))
    known = list(hierarchy.ids)
    nodes = []
    for number in range(count):
        parents = data.draw(st.lists(st.sampled_from(known), unique=True, max_size=3))
        nodes.append(Node(f"new{number}", [f"new name {number}"], parents, "what it is", "how it looks"))
        known.append(f"new{number}")
    grown = hierarchy.extend(data.draw(st.permutations(nodes)))
    assert grown.ids[: len(hierarchy)] == hierarchy.ids and len(grown) == len(hierarchy) + count
    for id in hierarchy.ids:
        assert grown.parents(id) == hierarchy.parents(id)
    for node in nodes:
        assert (grown.parents(node.id), grown.definition(node.id)) == (list(node.parents), "what it is")
        assert grown.look(node.id) == grown.subgraph([node.id]).look(node.id) == "how it looks"
        assert grown.lemmas[grown.index(node.id)] == tuple(node.lemmas)
    assert same(grown.without([node.id for node in nodes]), hierarchy)


@given(hierarchies())
def test_json_round_trip(hierarchy):
    saved = json.loads(json.dumps(hierarchy.to_json()))
    assert Hierarchy.from_dict(saved).to_json() == hierarchy.to_json()
    described = hierarchy.extend([Node("new", "new", looks="round")])
    assert Hierarchy.from_dict(json.loads(json.dumps(described.to_json()))).own_looks == {"new": "round"}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
@settings(deadline=None)
def test_a_cycle_is_found_exactly_when_there_is_one(edges):
    graph = nx.DiGraph((f"id{a}", f"id{b}") for a, b in edges)
    if nx.is_directed_acyclic_graph(graph):
        assert set(plain(Hierarchy.from_edges(graph.edges)).edges) == set(graph.edges)
        return
    with pytest.raises(UnseenError, match=r"a cycle: |its own parent: ") as caught:
        Hierarchy.from_edges(graph.edges)
    named = str(caught.value).split(": ")[1].split(". Drop")[0].split(" -> ")
    if len(named) == 1:
        assert graph.has_edge(named[0], named[0])
    else:
        assert named[0] == named[-1] and nx.is_path(graph, named)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def make(ids="ab", lemmas=(("A",), ("B",)), parents=((), ("a",)), **more):
    return Hierarchy(ids, lemmas, parents, **more)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"ids": "", "lemmas": (), "parents": ()}, "empty"),
        ({"ids": ["a", ""]}, "an id must be text"),
        ({"ids": ["a", 3]}, "an id must be text"),
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
    hierarchy = Hierarchy(["mammal", "dog"], [("mammal",), ("dog",)], [(), ("mammal",)])
    with pytest.raises(UnseenError, match=r"'mamal' is not an id of this hierarchy\. Did you mean mammal\?"):
        hierarchy.index("mamal")
    with pytest.raises(UnseenError, match="2 of 3 ids are not in this hierarchy: x, y"):
        hierarchy.indices(["dog", "x", "y"])
    for method in (hierarchy.parents, hierarchy.children, hierarchy.ancestors, hierarchy.name, hierarchy.definition):
        with pytest.raises(UnseenError, match="not an id"):
            method("cat")


def test_extend_refuses_known_ids_unknown_parents_and_cycles():
    hierarchy = make()
    with pytest.raises(UnseenError, match="Already in the hierarchy: a"):
        hierarchy.extend([Node("a", ["again"])])
    with pytest.raises(UnseenError, match="its parent 'zoo' is not"):
        hierarchy.extend([Node("c", ["C"], ["zoo"])])
    with pytest.raises(UnseenError, match="a cycle: c -> d -> c"):
        hierarchy.extend([Node("c", ["C"], ["d"]), Node("d", ["D"], ["c", "a"])])
    with pytest.raises(UnseenError, match="given twice"):
        hierarchy.extend([Node("c", ["C"]), Node("c", ["C"])])


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 99},
        {"ids": None},
        {"parent_idx": [5]},
        {"definitions": 3},
        {"looks": {"a": 3}},
        {"parent_ptr": ["x"]},
    ],
)
def test_a_damaged_saved_hierarchy_is_refused(damage):
    with pytest.raises(UnseenError):
        Hierarchy.from_dict({**make().to_json(), **damage})


def test_a_long_chain_is_read_and_measured():
    chain = Hierarchy.from_edges((str(row), str(row + 1)) for row in range(1500))  # more than Python would recurse
    assert chain.depth == 1500
    assert len(chain.path_to_root("0")) == 1501
    assert len(chain.ancestor_pairs()[0]) == 1501 * 1502 // 2
