"""The class hierarchy: a directed acyclic graph of ids with names and definitions.

    taxonomy = Taxonomy.imagenet()
    taxonomy.resolve("okapi")                       # 'n02439398'
    taxonomy.ancestors("n02439398")                 # {'n02439033': 1, ...}: id -> steps up
    node, ancestor, distance = taxonomy.ancestor_pairs()

Ids are the key, never names: thousands of ImageNet classes share a name with another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from unseen.errors import UnseenError
from unseen.taxonomy import paths
from unseen.taxonomy.checks import check_nodes, check_parents
from unseen.taxonomy.makers import MAKERS
from unseen.taxonomy.nodes import Node, Sense, as_texts
from unseen.taxonomy.search import NameIndex, close_matches, did_you_mean, near_ids

FORMAT = 1  # of to_json()


class Taxonomy:
    """An immutable hierarchy of N classes with E edges from a class to a parent.

    Two arrays hold the edges, `parent_ptr` int32[N + 1] and `parent_idx` int32[E]: the parents of row u are the rows
    parent_idx[parent_ptr[u]:parent_ptr[u + 1]].

    Args:
        ids: N different strings.
        lemmas: N lists of names; the first of each is the one to show.
        parents: For each class the ids of its parents, or the pair of arrays (parent_ptr, parent_idx).
        definitions: Id -> definition, where there is one.
        source: Where the hierarchy came from, as plain JSON values.

    >>> from unseen import Taxonomy
    >>> animals = Taxonomy.from_edges([("dog", "canine"), ("fox", "canine"), ("canine", "mammal"), ("cat", "mammal")])
    >>> animals
    Taxonomy(edges: 5 nodes, 4 edges)
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
        source: Mapping | None = None,
    ):
        ids, lemmas = tuple(ids), tuple(as_texts(names) for names in lemmas)
        rows = check_nodes(ids, lemmas)
        self._fill(ids, lemmas, check_parents(ids, rows, parents), definitions, source or {"kind": "own"})
        self.__dict__["_rows"] = rows

    @classmethod
    def trusted(cls, ids, lemmas, graph: paths.Graph, definitions=None, source=None, rows=None) -> Taxonomy:
        """A taxonomy from parts that are known to be sound: nothing is checked. `rows`: id -> row, if known."""
        taxonomy = cls.__new__(cls)
        taxonomy._fill(tuple(ids), tuple(lemmas), graph, definitions, source)
        if rows is not None:
            taxonomy.__dict__["_rows"] = rows
        return taxonomy

    def _fill(self, ids, lemmas, graph: paths.Graph, definitions, source) -> None:
        self.ids: tuple[str, ...] = ids
        self.lemmas: tuple[tuple[str, ...], ...] = lemmas
        self.parent_ptr, self.parent_idx = graph
        self.own_definitions: dict[str, str] = {key: text for key, text in (definitions or {}).items() if text}
        self.source: dict = dict(source or {})
        for array in graph:
            array.flags.writeable = False

    # --- where taxonomies come from -----------------------------------------------------------------------------------

    @classmethod
    def load(cls, spec: str | Path) -> Taxonomy:
        """What a user writes: imagenet, paper, wordnet, a file (.csv .tsv .json .txt), or both: "wordnet+my.csv"."""
        return MAKERS["load"](spec)

    @classmethod
    def wordnet(cls) -> Taxonomy:
        """The 82,115 noun synsets of WordNet 3.0; edges are hypernyms (not instance hypernyms)."""
        return MAKERS["wordnet"]()

    @classmethod
    def imagenet(cls) -> Taxonomy:
        """The 21,842 ImageNet classes and all that is above them in WordNet: 23,547 nodes."""
        return MAKERS["imagenet"]()

    @classmethod
    def paper(cls) -> Taxonomy:
        """The 32,324 nodes of the DGP authors' graph, from their lists (fetched unless UNSEEN_ASSETS holds them)."""
        return MAKERS["paper"]()

    @classmethod
    def from_csv(cls, path: str | Path) -> Taxonomy:
        """A table with the columns id, name, parent and perhaps definition: see `readers.read_csv`."""
        return MAKERS["read_csv"](path).taxonomy()

    @classmethod
    def from_json(cls, path: str | Path) -> Taxonomy:
        """A list of nodes or a tree of {"name", "children"} (`readers.read_json`), or what `to_json` gave."""
        return MAKERS["taxonomy_from_json"](path)

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[str, str]], names: Mapping[str, str | Sequence[str]] | None = None):
        """(child id, parent id) pairs; `names` gives an id's name or names, which otherwise are the id itself."""
        return MAKERS["read_edges"](edges, names or {})

    @classmethod
    def from_networkx(cls, graph, direction: str = "child-to-parent") -> Taxonomy:
        """A networkx.DiGraph; node attributes `name` (or `names`) and `definition`.

        `direction` tells what an edge u -> v means: "child-to-parent" (u is a v) or "parent-to-child".
        """
        return MAKERS["read_networkx"](graph, direction)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    def __repr__(self) -> str:
        return f"Taxonomy({self.source.get('kind', 'own')}: {len(self):,} nodes, {len(self.parent_idx):,} edges)"

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
        unknown = [id for id, row in zip(ids, rows, strict=True) if row < 0]
        if unknown:
            listed = ", ".join(map(str, unknown[:10])) + (", ..." if len(unknown) > 10 else "")
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
        return MAKERS["wordnet_gloss"](id)

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
        ptr, idx = self._down
        row = self.index(id)
        return self._ids(idx[ptr[row] : ptr[row + 1]])

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """(child, parent): two int32[E] arrays of rows."""
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

    @cached_property
    def depth(self) -> int:
        """The greatest of `depths`."""
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
        """(node int32[], ancestor int32[], distance int16[]): every pair with its shortest distance, 0 = itself.

        Sorted by (distance, node, ancestor). Computed once.
        """
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
        """The classes at 1 to `hops` edges from the nearest of `seen_ids`, those themselves excluded."""
        distance = self.hops_from(seen_ids)
        return self._ids(np.flatnonzero((distance >= 1) & (distance <= hops)))

    def lowest_common_ancestor(self, a: str, b: str) -> str | None:
        """A class above both (a class is above itself) with no other such class below it; None if there is none.

        Where several are lowest, the one nearest to `a` and `b` together; then the first in the taxonomy's order.
        """
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
        row = self.index(id)
        if row not in self._ways_up:  # every label of every photo asks
            self._ways_up[row] = paths.way_to_root(self._up, row)
        return self._ids(self._ways_up[row])

    @cached_property
    def _ways_up(self) -> dict[int, list[int]]:
        return {}

    # --- names --------------------------------------------------------------------------------------------------------

    @cached_property
    def _name_index(self) -> NameIndex:
        return NameIndex(self.lemmas)

    def sense(self, id: str) -> Sense:
        lemmas = self.lemmas[self.index(id)]
        return Sense(id, lemmas[0], lemmas, self.definition(id))

    def search(self, text: str, limit: int = 20) -> list[Sense]:
        """The classes whose id or one of whose names is, begins with, or contains `text`; best first, any case."""
        found: dict[str, None] = {text.strip(): None} if text.strip() in self else {}
        for row in self._name_index.search(text):
            if len(found) >= limit:
                break
            found[self.ids[row]] = None
        return [self.sense(id) for id in list(found)[:limit]]

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
        near = [f"{sense.name} ({sense.id})" for sense in self.search(text, 3)]
        if not near:
            near = close_matches(text, (name for names in self.lemmas for name in names)) or near_ids([text], self)
        raise UnseenError(f"{text!r} is neither an id nor a name in this hierarchy.{did_you_mean(near)}")

    # --- other taxonomies ---------------------------------------------------------------------------------------------

    def subgraph(self, ids: Iterable[str], closed: bool = True) -> Taxonomy:
        """These classes, and unless `closed` is false all that is above them, with the edges between them.

        Rows keep the order they have here.
        """
        kept = np.zeros(len(self), bool)
        kept[self.indices(ids)] = True
        if closed:
            kept = paths.distances(np.flatnonzero(kept), self._up) >= 0
        child, parent = self.edges()
        inside = kept[child] & kept[parent]
        return self._only(kept, child[inside], parent[inside], self.source)

    def without(self, ids: Iterable[str]) -> Taxonomy:
        """This taxonomy less some classes; a removed class's children go to its parents, so nothing else is cut off."""
        gone = np.zeros(len(self), bool)
        gone[self.indices(ids)] = True
        removed = self.source.get("removed", 0) + int(gone.sum())
        return self._only(~gone, *paths.bypass(self._up, gone), {**self.source, "removed": removed})

    def _only(self, kept: np.ndarray, child: np.ndarray, parent: np.ndarray, source: dict) -> Taxonomy:
        """The rows of the mask `kept`, with edges between them that are given by their rows here."""
        rows = np.flatnonzero(kept).tolist()
        new_row = np.cumsum(kept) - 1
        ids = self._ids(rows)
        here = set(ids)
        definitions = {id: text for id, text in self.own_definitions.items() if id in here}
        graph = paths.graph_of(new_row[child], new_row[parent], len(rows))
        return Taxonomy.trusted(ids, [self.lemmas[row] for row in rows], graph, definitions, source)

    def extend(self, nodes: Sequence[Node]) -> Taxonomy:
        """This taxonomy with new classes after the old ones, whose rows stay as they are."""
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
        source = {**self.source, "added": self.source.get("added", 0) + len(nodes)}
        graph = ptr.astype(np.int32), np.concatenate([self.parent_idx, idx])
        return Taxonomy.trusted(self.ids + ids, self.lemmas + lemmas, graph, definitions, source)

    # --- what bundles keep --------------------------------------------------------------------------------------------

    def to_json(self) -> dict:
        """All of it as plain JSON values. WordNet's definitions are not repeated: they are looked up by id."""
        return {
            "format": FORMAT,
            "source": self.source,
            "ids": list(self.ids),
            "lemmas": [list(names) for names in self.lemmas],
            "parent_ptr": self.parent_ptr.tolist(),
            "parent_idx": self.parent_idx.tolist(),
            "definitions": self.own_definitions,
        }

    @classmethod
    def from_dict(cls, saved: Mapping) -> Taxonomy:
        """The inverse of `to_json`, checked like any other input."""
        if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
            raise UnseenError(f"Not a saved hierarchy of format {FORMAT}: was it made by another version of unseen?")
        try:
            graph = np.array(saved["parent_ptr"], np.int64), np.array(saved["parent_idx"], np.int64)
            return cls(saved["ids"], saved["lemmas"], graph, saved["definitions"], saved["source"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UnseenError(f"The saved hierarchy is damaged: {error!r}") from error
