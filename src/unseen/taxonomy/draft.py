"""A hierarchy as a file states it, with the line of every statement, so that a mistake can be told where it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from unseen.errors import UnseenError
from unseen.taxonomy import paths
from unseen.taxonomy.checks import describe_cycle
from unseen.taxonomy.core import Taxonomy
from unseen.taxonomy.nodes import Node, Sense
from unseen.taxonomy.search import close_matches, did_you_mean, plain
from unseen.taxonomy.wordnet import is_wordnet_id, wordnet


@dataclass
class Draft:
    """Nodes and edges in the file's order. An edge is a child's row and what the file calls its parent."""

    file: str
    kind: str
    ids_are_names: bool = False  # a node without a name may be called by its id
    escaped: bool = False  # the file can spell half a character, as JSON's "\ud800"
    line_of: Callable[[int], int] = field(default=lambda line: line)  # turns what `add` was given into a line number
    ids: list[str] = field(default_factory=list)
    lemmas: list[tuple[str, ...]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    definitions: dict[str, str] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    edge_lines: list[int] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)

    def error(self, line: int, message: str) -> UnseenError:
        return UnseenError(f"{self.file}:{self.line_of(line)}: {message}")

    def add(
        self, line: int, id: str, names: tuple[str, ...] = (), parents: Sequence[str] = (), definition: str = ""
    ) -> None:
        """State a node, or state it again with further parents."""
        if not id:
            raise self.error(line, "the id is empty.")
        if self.escaped:
            try:
                "".join((id, *names, definition)).encode()
            except UnicodeEncodeError:
                raise self.error(line, f"{id!r}: contains half a character (a lone surrogate).") from None
        row = self.rows.setdefault(id, len(self.ids))
        if row == len(self.ids):
            self.ids.append(id)
            self.lemmas.append(names)
            self.lines.append(line)
        elif names and names != self.lemmas[row]:
            if self.lemmas[row]:
                before, now = "|".join(self.lemmas[row]), "|".join(names)
                first = self.line_of(self.lines[row])
                advice = "Repeat an id only for more parents, with the same name; another class needs another id."
                raise self.error(line, f"duplicate id {id!r}: {before!r} in line {first}, {now!r} here. {advice}")
            self.lemmas[row] = names
        if definition and self.definitions.setdefault(id, definition) != definition:
            raise self.error(line, f"duplicate id {id!r}: it has another definition in line {self._line(row)}.")
        for parent in parents:
            if parent == id:
                raise self.error(line, f"{id!r} is its own parent. Leave the parent empty for a root.")
            self.children.append(row)
            self.parents.append(parent)
            self.edge_lines.append(line)

    def taxonomy(self) -> Taxonomy:
        """The hierarchy that the file alone makes."""
        self._name_the_nameless()
        by_name: dict[str, list[int]] = {}

        def find(text: str) -> int | None:
            if not by_name:
                by_name.update(self._rows_by_name())
            return self._one(text, by_name.get(plain(text), []))

        above = self._find_parents(find, "is not in the file: it needs a row of its own", lambda: self.ids)
        graph = self._sound_graph(above)
        source = {"kind": self.kind, "file": self.file.replace("\\", "/").rsplit("/", 1)[-1]}
        return Taxonomy.trusted(self.ids, self.lemmas, graph, self.definitions, source, self.rows)

    def additions(self, base: Taxonomy, reserve: Taxonomy | None = None) -> list[Node]:
        """The file's classes as nodes for `base`. Parents: ids or names, of the file, of `base` or of `reserve`.

        A row may restate a class of `base` (its id, with no name or some of its names, under what is above it there):
        it is given back as a node too, whose id is in `base`. Any other row with an id of `base` is a mistake.
        """
        self._name_the_nameless(base)
        for id, names, line in zip(self.ids, self.lemmas, self.lines, strict=True):
            if id in base and not set(map(plain, names)) <= set(map(plain, base.lemmas[base.index(id)])):
                known = f"{id!r} is already in the hierarchy ({base.name(id)})"
                raise self.error(line, f"{known}. Give a new class an id of its own, or drop this row.")
        by_name = self._rows_by_name()
        outside: dict[int, str] = {}  # negative stand-ins for rows of `base` and `reserve`

        def find(text: str) -> int | None:
            id = self._meant(text, by_name, base, reserve)
            if id is None:
                return None
            if id in self.rows:
                return self.rows[id]
            outside[-1 - len(outside)] = id
            return -len(outside)

        def known_names() -> list[str]:
            return [*self.ids, *(name for lemmas in (reserve or base).lemmas for name in lemmas)]

        above = self._find_parents(find, "is neither in the file nor in the hierarchy", known_names)
        self._sound_graph(above)
        parents: list[list[str]] = [[] for _ in self.ids]
        for edge, (child, row) in enumerate(zip(self.children, above, strict=True)):
            parent = self.ids[row] if row >= 0 else outside[row]
            if self.ids[child] in base:
                self._check_restated(self.edge_lines[edge], self.ids[child], parent, base, reserve)
            parents[child].append(parent)
        self._refuse_parentless(parents, base)
        everything = zip(self.ids, self.lemmas, parents, strict=True)
        return [Node(id, lemmas, up, self.definitions.get(id, "")) for id, lemmas, up in everything]

    def _refuse_parentless(self, parents: list[list[str]], base: Taxonomy) -> None:
        """A class without a parent would borrow from nothing, wherever it is added; WordNet knows those of its own."""
        without = [row for row, id in enumerate(self.ids) if not parents[row] and id not in base]
        without = [row for row in without if not is_wordnet_id(self.ids[row])]
        if without:
            also = [f"{self.ids[row]!r} (line {self._line(row)})" for row in without[1:6]]
            more = f" Without one too: {', '.join(also)}{', ...' * (len(without) > 6)}." if also else ""
            message = f"{self.ids[without[0]]!r}: a new class needs a parent, so that it has something to borrow from."
            raise self.error(self.lines[without[0]], message + more)

    def _check_restated(self, line: int, id: str, parent: str, base: Taxonomy, reserve: Taxonomy | None) -> None:
        """Refuse a row that would move a class of `base`: an edge that is quietly left out would be worse."""
        if parent in base.ancestors(id) or (reserve is not None and id in reserve and parent in reserve.parents(id)):
            return
        known = f"{id!r} is already in the hierarchy ({base.name(id)}), and not below {parent!r}"
        raise self.error(line, f"{known}. Drop this row, or give your class an id of its own.")

    def _meant(self, text: str, by_name: dict[str, list[int]], base: Taxonomy, reserve: Taxonomy | None) -> str | None:
        """The id that `text` means: ids before names, the file before the hierarchy."""
        others = [taxonomy for taxonomy in (base, reserve) if taxonomy is not None]
        if any(text in taxonomy for taxonomy in others):
            return text
        own = self._one(text, by_name.get(plain(text), []))
        if own is not None:
            return self.ids[own]
        return next((taxonomy.resolve(text) for taxonomy in others if taxonomy.senses(text)), None)

    def _one(self, text: str, rows: list[int]) -> int | None:
        if len(rows) > 1:
            listed = ", ".join(self.ids[row] for row in rows[:10])
            raise UnseenError(f"{text!r} names {len(rows)} classes; use the id of the one you mean: {listed}")
        return rows[0] if rows else None

    def _find_parents(self, find: Callable[[str], int | None], why: str, names: Callable[[], list[str]]) -> list[int]:
        """The row of each edge's parent: by id, else by what `find` makes of it. What is unknown is told at once."""
        above = [self.rows.get(parent) for parent in self.parents]
        for edge, row in enumerate(above):
            if row is None:
                self.parents[edge] = described_id(self.parents[edge])
                above[edge] = self.rows.get(self.parents[edge])
        found: dict[str, int | None] = {}
        unknown: dict[str, int] = {}
        for edge, row in enumerate(above):
            if row is None:
                text = self.parents[edge]
                if text not in found:
                    try:
                        found[text] = find(text)
                    except UnseenError as error:
                        raise self.error(self.edge_lines[edge], f"the parent {error}") from None
                above[edge] = found[text]
                if found[text] is None:
                    unknown.setdefault(text, edge)
        if unknown:
            text, edge = next(iter(unknown.items()))
            message = f"the parent {text!r} of {self.ids[self.children[edge]]!r} {why}."
            message += did_you_mean(close_matches(text, names()))
            rest = [f"{other!r} (line {self.line_of(self.edge_lines[at])})" for other, at in list(unknown.items())[1:6]]
            if rest:
                more = f" and {len(unknown) - 6:,} more" if len(unknown) > 6 else ""
                message += f" Unknown too: {', '.join(rest)}{more}."
            raise self.error(self.edge_lines[edge], message)
        return [row for row in above if row is not None]  # by now all of them

    def _sound_graph(self, above: list[int]) -> paths.Graph:
        """The graph of the file's own classes; negative rows stand for classes outside of it."""
        child, parent, line = (np.array(values, np.int64) for values in (self.children, above, self.edge_lines))
        own = parent >= 0
        graph = paths.graph_of(child[own], parent[own], len(self.ids))
        cycle = paths.find_cycle(graph)
        if cycle:
            edges = [int(np.argmax((child == low) & (parent == up))) for low, up in pairwise(cycle[:13])]
            lines = [self.line_of(int(line[edge])) for edge in edges]
            where = ", ".join(map(str, lines)) + ", ..." * (len(cycle) > 13)
            what = describe_cycle([self.ids[row] for row in cycle])
            raise UnseenError(f"{self.file}:{lines[0]}: {what} (lines {where}). Drop one of these parents.")
        return graph

    def _line(self, row: int) -> int:
        return self.line_of(self.lines[row])

    def _rows_by_name(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, names in enumerate(self.lemmas):
            for name in dict.fromkeys(map(plain, names)):
                rows.setdefault(name, []).append(row)
        return rows

    def _name_the_nameless(self, base: Taxonomy | None = None) -> None:
        """Give nodes without a name those that their id has in `base` or in WordNet, or their id where it is a name."""
        if not self.ids:
            raise UnseenError(f"{self.file}: contains no classes.")
        for row, names in enumerate(self.lemmas):
            if names:
                continue
            id = self.ids[row]
            if base is not None and id in base:
                self.lemmas[row] = base.lemmas[base.index(id)]
            elif is_wordnet_id(id):
                self.lemmas[row] = wordnet().lemmas[wordnet().index(id)]
            elif self.ids_are_names and tidy(id):
                self.lemmas[row] = (tidy(id),)
            else:
                raise self.error(self.lines[row], f"{id!r} has no name.")


def describe_parent(sense: Sense) -> str:
    """A parent for people to read: `id (name: definition)`. A "|" would end it, for readers of tables."""
    return f"{sense.id} ({sense.name}: {sense.definition})".replace("|", "/")


def described_id(text: str) -> str:
    """The id that `describe_parent` wrote; any other text as it is."""
    described = re.fullmatch(r"(\S+) \([^:()]+: .*\)", text)
    return described[1] if described else text


def tidy(name: str) -> str:
    """A name as a person would write it: single blanks, and no underscores."""
    return " ".join(name.replace("_", " ").split())
