"""The class hierarchy, a directed acyclic graph. Its keys are ids: thousands of names belong to several classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen.data import looks_glossary
from unseen.hierarchy import paths
from unseen.hierarchy.search import NameIndex, close_matches, describe, did_you_mean, near_ids
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

FORMAT = 1  # of to_json()
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # with all that ends a line


@dataclass(frozen=True)
class Node:
    """A class to add to a hierarchy with `Hierarchy.extend`, or to a model with `add`."""

    id: str  # one that the hierarchy does not have yet
    lemmas: str | Sequence[str]  # its name, or several; the first is the one to show
    parents: str | Sequence[str] = ()  # ids, in the hierarchy or among the other new nodes
    definition: str = ""
    looks: str = ""  # what it looks like in photos


class Sense(NamedTuple):
    """One class that a name may mean, as a search returns it."""

    id: str
    name: str
    lemmas: tuple[str, ...]
    definition: str
    looks: str = ""  # what it looks like in photos


def as_texts(given: str | Sequence[str]) -> tuple[str, ...]:
    """One text counts as a sequence of one, not as its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


class Hierarchy:
    """An immutable hierarchy of N classes with E edges from a class to a parent.

    Two arrays hold the edges, `parent_ptr` int32[N + 1] and `parent_idx` int32[E]: the parents of row u are the rows
    parent_idx[parent_ptr[u]:parent_ptr[u + 1]].

    `lemmas` are N lists of names, the first of each the one to show; `parents` are for each class the ids of its
    parents, or the pair of arrays. `definitions` and `looks` (what a class looks like in photos) are by id, `source` is
    plain JSON: where the hierarchy came from.

    >>> animals = Hierarchy.from_edges([("dog", "canine"), ("fox", "canine"), ("canine", "mammal"), ("cat", "mammal")])
    >>> animals
    Hierarchy(edges: 5 nodes, 4 edges)
    >>> animals.ancestors("fox")
    {'canine': 1, 'mammal': 2}
    >>> animals.path("fox", "cat")
    ['fox', 'canine', 'mammal', 'cat']
    """

    def __init__(
        self,
        ids: Iterable[str],
        lemmas: Iterable[Sequence[str]],
        parents: Sequence[Sequence[str]] | tuple[np.ndarray, np.ndarray],
        definitions: Mapping[str, str] | None = None,
        source: Mapping[str, Any] | None = None,
        looks: Mapping[str, str] | None = None,
    ):
        ids, lemmas = tuple(ids), tuple(as_texts(names) for names in lemmas)
        rows = check_nodes(ids, lemmas)
        self._fill(ids, lemmas, check_parents(ids, rows, parents), definitions, source or {"kind": "own"}, looks)

    @classmethod
    def trusted(
        cls,
        ids: Iterable[str],
        lemmas: Iterable[tuple[str, ...]],
        graph: paths.Graph,
        definitions: Mapping[str, str] | None = None,
        source: Mapping[str, Any] | None = None,
        looks: Mapping[str, str] | None = None,
    ) -> Hierarchy:
        """A hierarchy from valid parts, without checks."""
        hierarchy = cls.__new__(cls)
        hierarchy._fill(tuple(ids), tuple(lemmas), graph, definitions, source, looks)
        return hierarchy

    def _fill(self, ids, lemmas, graph: paths.Graph, definitions, source, looks) -> None:
        self.ids: tuple[str, ...] = ids
        self.lemmas: tuple[tuple[str, ...], ...] = lemmas
        self.parent_ptr: np.ndarray = graph[0]
        self.parent_idx: np.ndarray = graph[1]
        self.own_definitions: dict[str, str] = {key: text for key, text in (definitions or {}).items() if text}
        self.own_looks: dict[str, str] = {key: text for key, text in (looks or {}).items() if text}
        self.source: dict[str, Any] = dict(source or {})
        for array in graph:
            array.flags.writeable = False

    # --- where hierarchies come from --------------------------------------------------------------------------------

    @classmethod
    def load(cls, spec: str | Path) -> Hierarchy:
        """A built-in hierarchy (imagenet, paper, wordnet), a file (.csv .tsv .json .txt), or both: "wordnet+my.csv"."""
        from unseen.hierarchy.files import load

        return load(spec)

    @classmethod
    def wordnet(cls) -> Hierarchy:
        """The 82,115 noun synsets of WordNet 3.0; edges are hypernyms (not instance hypernyms)."""
        return cls.load("wordnet")

    @classmethod
    def imagenet(cls) -> Hierarchy:
        """The 21,842 ImageNet classes and their ancestors in WordNet: 23,547 nodes."""
        return cls.load("imagenet")

    @classmethod
    def paper(cls) -> Hierarchy:
        """The 32,324 nodes of the DGP authors' graph, from their lists (fetched unless UNSEEN_ASSETS holds them)."""
        return cls.load("paper")

    @classmethod
    def from_csv(cls, path: str | Path) -> Hierarchy:
        """A table with the columns id, name, parent and perhaps definition: see `files.read_csv`."""
        from unseen.hierarchy.files import read_csv

        return read_csv(path).hierarchy()

    @classmethod
    def from_json(cls, path: str | Path) -> Hierarchy:
        """A list of nodes or a tree of {"name", "children"} (`files.read_json`), or what `to_json` returned."""
        from unseen.hierarchy.files import load_json

        return load_json(path)

    @classmethod
    def from_edges(
        cls, edges: Iterable[tuple[str, str]], names: Mapping[str, str | Sequence[str]] | None = None
    ) -> Hierarchy:
        """(child id, parent id) pairs, such as a networkx graph's `edges`; `names` gives an id's name or names, which
        otherwise are the id itself."""
        from unseen.hierarchy.files import from_edges

        return from_edges(edges, names or {})

    # --- nodes --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    def __repr__(self) -> str:
        return f"Hierarchy({self.source.get('kind', 'own')}: {len(self):,} nodes, {len(self.parent_idx):,} edges)"

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {id: row for row, id in enumerate(self.ids)}

    def index(self, id: str) -> int:
        """The row of an id."""
        row = self._rows.get(id)
        if row is None:
            raise UnseenError(f"{id!r} is not an id of this hierarchy.{did_you_mean(near_ids([id], self))}")
        return row

    def indices(self, ids: Iterable[str]) -> np.ndarray:
        """The rows of many ids, int64."""
        ids = list(ids)
        rows = [self._rows.get(id, -1) for id in ids]
        if unknown := [id for id, row in zip(ids, rows, strict=True) if row < 0]:
            listed = list_some([str(item) for item in unknown], 10)
            near = did_you_mean(near_ids(unknown, self))
            raise UnseenError(f"{len(unknown):,} of {len(ids):,} ids are not in this hierarchy: {listed}.{near}")
        return np.array(rows, np.int64)

    @cached_property
    def names(self) -> list[str]:
        """The name to show for each class: its first lemma."""
        return [names[0] for names in self.lemmas]

    def name(self, id: str) -> str:
        return self.lemmas[self.index(id)][0]

    def definition(self, id: str) -> str:
        """The class's own definition, else WordNet's if the id is a WordNet id, else ""."""
        self.index(id)
        if id in self.own_definitions:
            return self.own_definitions[id]
        from unseen.hierarchy.wordnet import wordnet_gloss

        return wordnet_gloss(id)

    def look(self, id: str) -> str:
        """What the class looks like in photos: its own words, else the glossary's for this id, else ""."""
        self.index(id)
        if id in self.own_looks:
            return self.own_looks[id]
        return looks_glossary().get(id, "")

    # --- up and down --------------------------------------------------------------------------------------------------

    @property
    def _up(self) -> paths.Graph:
        return self.parent_ptr, self.parent_idx

    @cached_property
    def _down(self) -> paths.Graph:
        return paths.reverse(self._up)

    def _ids(self, rows: Iterable[int] | np.ndarray) -> list[str]:
        return [self.ids[row] for row in rows]

    def parents(self, id: str) -> list[str]:
        row = self.index(id)
        return self._ids(self.parent_idx[self.parent_ptr[row] : self.parent_ptr[row + 1]])

    def children(self, id: str) -> list[str]:
        (ptr, idx), row = self._down, self.index(id)
        return self._ids(idx[ptr[row] : ptr[row + 1]])

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """(child, parent): two int32[E] arrays of rows."""
        return self._edges

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        return paths.edges_of(self._up)

    @cached_property
    def roots(self) -> list[str]:
        """The classes without parents."""
        return self._ids(np.flatnonzero(np.diff(self.parent_ptr) == 0))

    @cached_property
    def leaves(self) -> list[str]:
        """The classes without children."""
        return self._ids(np.flatnonzero(np.diff(self._down[0]) == 0))

    @cached_property
    def depths(self) -> np.ndarray:
        """For each class the steps to its nearest root, int32[N]."""
        return paths.distances(np.flatnonzero(np.diff(self.parent_ptr) == 0), self._down)

    @property
    def depth(self) -> int:
        return int(self.depths.max(initial=0))

    def ancestors(self, id: str) -> dict[str, int]:
        """Everything above a class -> the length of the shortest way up; the class itself excluded."""
        return {self.ids[row]: steps for row, (steps, _) in paths.climb(self._up, self.index(id)).items() if steps}

    def descendants(self, id: str) -> dict[str, int]:
        """Everything below a class -> the length of the shortest way down; the class itself excluded."""
        distance = paths.distances(np.array([self.index(id)]), self._down)
        below = np.flatnonzero(distance > 0)
        below = below[np.argsort(distance[below], kind="stable")]
        return dict(zip(self._ids(below), distance[below].tolist(), strict=True))

    def ancestor_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(node int32[], ancestor int32[], distance int16[]), sorted by (distance, node, ancestor): every pair with its
        shortest distance, 0 = itself. Computed once."""
        return self._pairs

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pairs = paths.ancestor_pairs(self._up)
        for array in pairs:
            array.flags.writeable = False
        return pairs

    # --- distances between classes ------------------------------------------------------------------------------------

    def hops_from(self, ids: Iterable[str]) -> np.ndarray:
        """Edges, taken in either direction, between each class and the nearest of `ids`; -1 unreachable. int32[N]."""
        return paths.distances(self.indices(ids), self._up, self._down)

    def within_hops(self, seen_ids: Iterable[str], hops: int) -> list[str]:
        """The classes at 1 to `hops` edges from the nearest of `seen_ids`, without `seen_ids`."""
        distance = self.hops_from(seen_ids)
        return self._ids(np.flatnonzero((distance >= 1) & (distance <= hops)))

    def lowest_common_ancestor(self, a: str, b: str) -> str | None:
        """A class above both (a class is above itself) with no other such class below it; None if there is none. Of
        several, the one nearest to `a` and `b` together; then the first in the hierarchy's order."""
        row = paths.lowest_common(self._up, self.index(a), self.index(b))
        return None if row is None else self.ids[row]

    def path(self, a: str, b: str) -> list[str]:
        """From `a` up to their lowest common ancestor and down to `b`, each the shortest way; [] if there is none."""
        low, high = self.index(a), self.index(b)
        top = paths.lowest_common(self._up, low, high)
        if top is None:
            return []
        return self._ids(paths.way_up(self._up, low, top) + paths.way_up(self._up, high, top)[-2::-1])

    def path_to_root(self, id: str) -> list[str]:
        """From a class up to its nearest root, both included."""
        return self._ids(paths.way_up(self._up, self.index(id)))

    def name_paths(self, rows: Iterable[int]) -> list[tuple[str, ...]]:
        """For each of these rows, the names from its nearest root down to it."""
        names, ways = self.names, self._name_paths
        rows = list(rows)
        for row in rows:
            if row not in ways:
                ways[row] = tuple(map(names.__getitem__, reversed(paths.way_up(self._up, row))))
        return [ways[row] for row in rows]

    @cached_property
    def _name_paths(self) -> dict[int, tuple[str, ...]]:
        return {}

    # --- names --------------------------------------------------------------------------------------------------------

    @cached_property
    def _name_index(self) -> NameIndex:
        return NameIndex(self.lemmas)

    def sense(self, id: str) -> Sense:
        lemmas = self.lemmas[self.index(id)]
        return Sense(id, lemmas[0], lemmas, self.definition(id), self.look(id))

    def search(self, text: str, limit: int = 20) -> list[Sense]:
        """The classes whose id or one of whose names is, begins with, or contains `text`; best first, any case."""
        ids = dict.fromkeys([text.strip()] if text.strip() in self else [])
        ids |= dict.fromkeys(self._ids(islice(self._name_index.search(text), limit)))
        return [self.sense(id) for id in list(ids)[:limit]]

    def senses(self, name: str) -> list[Sense]:
        """The classes that have exactly this name, in any case."""
        return [self.sense(id) for id in self.named(name)]

    def named(self, name: str) -> list[str]:
        """The ids of `senses`, for which no definition is looked up: WordNet's take a while to load."""
        return self._ids(self._name_index.exact(name))

    def resolve(self, text: str) -> str:
        """The id that a user means by an id or a name. A name of several classes is refused, with its senses listed."""
        if text.strip() in self:
            return text.strip()
        named = self.named(text)
        if len(named) == 1:
            return named[0]
        if named:
            senses = [self.sense(id) for id in named]
            listed = "\n".join(f"  {s.id}  {', '.join(s.lemmas)}: {s.definition or 'no definition'}" for s in senses)
            raise UnseenError(f"{text!r} names {len(senses)} classes; use the id of the one you mean:\n{listed}")
        near = [describe(id, self) for id in self._ids(islice(self._name_index.search(text), 3))]
        near = near or close_matches(text, chain.from_iterable(self.lemmas)) or near_ids([text], self)
        raise UnseenError(f"{text!r} is neither an id nor a name in this hierarchy.{did_you_mean(near)}")

    # --- other hierarchies ------------------------------------------------------------------------------------------

    def subgraph(self, ids: Iterable[str], closed: bool = True) -> Hierarchy:
        """These classes, in the order they have here, and unless `closed` is false all that is above them."""
        kept = np.zeros(len(self), bool)
        kept[self.indices(ids)] = True
        if closed:
            kept = paths.distances(np.flatnonzero(kept), self._up) >= 0
        child, parent = self.edges()
        inside = kept[child] & kept[parent]
        return self._only(kept, child[inside], parent[inside], self.source)

    def without(self, ids: Iterable[str]) -> Hierarchy:
        """This hierarchy without these classes; children of a removed class go to its parents."""
        gone = np.zeros(len(self), bool)
        gone[self.indices(ids)] = True
        removed = self.source.get("removed", 0) + int(gone.sum())
        return self._only(~gone, *paths.bypass(self._up, gone), {**self.source, "removed": removed})

    def _only(self, kept: np.ndarray, child: np.ndarray, parent: np.ndarray, source: dict[str, Any]) -> Hierarchy:
        """The rows of the mask `kept`, with edges between them that are given by their rows here."""
        rows = np.flatnonzero(kept).tolist()
        new_row = np.cumsum(kept) - 1
        ids = self._ids(rows)
        here = set(ids)
        definitions = {id: text for id, text in self.own_definitions.items() if id in here}
        looks = {id: text for id, text in self.own_looks.items() if id in here}
        graph = paths.graph_of(new_row[child], new_row[parent], len(rows))
        return Hierarchy.trusted(ids, [self.lemmas[row] for row in rows], graph, definitions, source, looks)

    def extend(self, nodes: Sequence[Node]) -> Hierarchy:
        """This hierarchy with new classes after the old ones, whose rows stay as they are."""
        nodes = list(nodes)
        known = [node.id for node in nodes if node.id in self]
        if known:
            raise UnseenError(f"Already in the hierarchy: {', '.join(known[:10])}. A new class needs an id of its own.")
        ids, lemmas = tuple(node.id for node in nodes), tuple(as_texts(node.lemmas) for node in nodes)
        rows = check_nodes(ids, lemmas) if nodes else {}
        rows = {**self._rows, **{id: len(self) + row for id, row in rows.items()}}
        ptr, idx = check_parents(self.ids + ids, rows, [()] * len(self) + [as_texts(node.parents) for node in nodes])
        ptr = np.concatenate([self.parent_ptr[:-1], ptr[len(self) :] + len(self.parent_idx)])
        definitions = {**self.own_definitions, **{node.id: node.definition for node in nodes}}
        looks = {**self.own_looks, **{node.id: node.looks for node in nodes}}
        source = {**self.source, "added": self.source.get("added", 0) + len(nodes)}
        graph = ptr.astype(np.int32), np.concatenate([self.parent_idx, idx])
        return Hierarchy.trusted(self.ids + ids, self.lemmas + lemmas, graph, definitions, source, looks)

    # --- what bundles keep --------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON values, except WordNet's definitions and the glossary's looks, found by id."""
        return {
            "format": FORMAT,
            "source": self.source,
            "ids": list(self.ids),
            "lemmas": [list(names) for names in self.lemmas],
            "parent_ptr": self.parent_ptr.tolist(),
            "parent_idx": self.parent_idx.tolist(),
            "definitions": self.own_definitions,
            **({"looks": self.own_looks} if self.own_looks else {}),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Hierarchy:
        """The inverse of `to_json`, checked like any other input."""
        if saved.get("format") != FORMAT:
            raise UnseenError(f"Not a saved hierarchy of format {FORMAT}: was it made by another version of unseen?")
        lists: list[Any] = [saved.get(key) for key in ("ids", "lemmas", "parent_ptr", "parent_idx")]
        tables: list[Any] = [saved.get(key, {}) for key in ("definitions", "source", "looks")]
        (ids, lemmas, ptr, idx), (definitions, source, looks) = lists, tables
        sound = all(isinstance(part, list) for part in lists) and all(isinstance(part, dict) for part in tables)
        if sound:
            texts = [*definitions.values(), *looks.values()]
            kinds = [(lemmas, list), (ptr, int), (idx, int), (texts, str)]
            sound = (
                all(set(map(type, parts)) <= {kind} for parts, kind in kinds) and max([*ptr, *idx], default=0) < 2**31
            )
        if not sound:
            raise UnseenError("The saved hierarchy is damaged: a part is missing or of the wrong kind.")
        ids, lemmas = tuple(ids), tuple(map(tuple, lemmas))
        graph = check_parents(ids, check_nodes(ids, lemmas), (np.array(ptr), np.array(idx, int)))
        return cls.trusted(ids, lemmas, graph, definitions, source or {"kind": "own"}, looks)


# --- whether a hierarchy is sound -------------------------------------------------------------------------------------


def check_nodes(ids: tuple[str, ...], lemmas: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    """Id -> row, after the checks that need no edges."""
    if not ids:
        raise UnseenError("The hierarchy is empty: it needs at least one class.")
    if len(ids) != len(lemmas):
        raise UnseenError(f"{len(ids):,} ids but names for {len(lemmas):,} classes.")
    every = list(chain.from_iterable(lemmas))
    texts = set(map(type, ids)) | set(map(type, every)) == {str} and all(ids) and all(lemmas)
    if texts and not CONTROL.search("".join(ids)) and all(map(str.strip, every)) and "\n" not in "".join(every):
        rows = dict(zip(ids, range(len(ids)), strict=True))
        if len(rows) == len(ids):
            return rows
    rows = {}  # something is wrong: find out what, which takes ten times as long
    for row, (id, names) in enumerate(zip(ids, lemmas, strict=True)):
        if not isinstance(id, str) or not id or CONTROL.search(id):
            raise UnseenError(f"Row {row}: an id must be text, without control characters or line breaks, not {id!r}.")
        if rows.setdefault(id, row) != row:
            raise UnseenError(f"The id {id!r} is given twice, in rows {rows[id]} and {row}.")
        if not names or not all(isinstance(name, str) and name.strip() and "\n" not in name for name in names):
            raise UnseenError(f"{id}: needs one or more names, each a non-empty line of text, not {list(names)!r}.")
    return rows


def check_parents(ids: tuple[str, ...], rows: Mapping[str, int], parents) -> paths.Graph:
    """Parents by id, or as a (ptr, idx) pair -> a sound graph."""
    if isinstance(parents, tuple) and len(parents) == 2 and all(isinstance(part, np.ndarray) for part in parents):
        ptr, idx = parents
        sound = ptr.shape == (len(ids) + 1,) and idx.ndim == 1 and ptr[0] == 0 and ptr[-1] == len(idx)
        if not sound or (np.diff(ptr) < 0).any() or ((idx < 0) | (idx >= len(ids))).any():
            raise UnseenError(f"The parents are not a valid pair (ptr, idx) for {len(ids):,} classes.")
        child, parent = paths.edges_of((ptr, idx))
    else:
        if len(parents) != len(ids):
            raise UnseenError(f"{len(ids):,} ids but parents for {len(parents):,} classes.")
        parents = [[above] if isinstance(above, str) else above for above in parents]
        child = np.repeat(np.arange(len(ids)), [len(above) for above in parents])
        named = [id for above in parents for id in above]
        parent = np.array([rows.get(id, -1) for id in named], np.int64)
        if (parent < 0).any():
            at = int(np.argmax(parent < 0))
            hint = did_you_mean(close_matches(str(named[at]), ids))
            raise UnseenError(f"{ids[child[at]]}: its parent {named[at]!r} is not in the hierarchy.{hint}")
    graph = paths.graph_of(child, parent, len(ids))
    cycle = paths.find_cycle(graph)
    if cycle:
        raise UnseenError(f"The hierarchy has {describe_cycle([ids[row] for row in cycle])}. Drop one of these edges.")
    return graph


def describe_cycle(ids: Sequence[str]) -> str:
    """`a cycle: a -> b -> a`, shortened in the middle."""
    if len(ids) == 2:
        return f"a class that is its own parent: {ids[0]}"
    shown = ids if len(ids) <= 12 else [*ids[:6], f"... ({len(ids) - 12:,} more)", *ids[-6:]]
    return f"a cycle: {' -> '.join(shown)}"
