"""Hierarchies from files (CSV, JSON, edge lists) and from networkx. A mistake is reported with its file and line.

In all of them names hold synonyms separated by `|`, several parents are separated by `|` too, underscores in names are
blanks, and a parent is the id of another class or, where that is unambiguous, its name.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.hierarchy import paths
from unseen.hierarchy.core import Hierarchy, Node, Sense, describe_cycle
from unseen.hierarchy.search import close_matches, did_you_mean, plain
from unseen.hierarchy.wordnet import (
    BUILT_IN,
    built_in,
    completed,
    connecting_nodes,
    is_wordnet_id,
    wordnet,
    wordnet_rows,
)
from unseen.util.devices import uncollected
from unseen.util.errors import UnseenError
from unseen.util.safe_text import csv_text

if TYPE_CHECKING:
    from unseen.vectors.class_vectors import Coverage

COLUMNS = {"id": "id", "name": "name", "names": "name", "parent": "parent", "parents": "parent"}
TEXTS = ("definition", "looks")
COLUMNS |= {kind: kind for kind in TEXTS}  # what a header may say -> what it means
FAR = 4  # hops: further from every seen class than this, a prediction is guesswork
HEADER = "The first line must name the columns: id,name,parent and, if you like, definition and looks"


def load(spec: str | Path) -> Hierarchy:
    """A built-in name, a file, or both as `wordnet+my.csv` -> the hierarchy."""
    text = str(spec)
    if text in BUILT_IN:
        return built_in(text)
    base, plus, file = text.partition("+")
    if plus and base in BUILT_IN:
        if not file:
            raise UnseenError(f"{text!r}: name the CSV file with your classes after the '+'.")
        return _with_additions(built_in(base), Path(file))
    path = Path(spec)
    with uncollected():
        return load_json(path) if path.suffix.lower() == ".json" else read_file(path).hierarchy()


def read_file(path: Path) -> Listing:
    """The classes that a file lists, read by the format that its suffix names."""
    read = READERS.get(path.suffix.lower())
    if read is not None:
        return read(path)
    choices = f"Choose {', '.join(BUILT_IN)}, a file ({' '.join(READERS)}), or e.g. wordnet+my-classes.csv."
    if path.exists():
        raise UnseenError(f"{path}: not a kind of file that a hierarchy is read from. {choices}")
    near = did_you_mean(close_matches(str(path), BUILT_IN))
    raise UnseenError(f"There is no hierarchy {str(path)!r}.{near} {choices}")


def read_additions(path: str | Path, hierarchy: Hierarchy) -> list[Node]:
    """The classes in a file as nodes for `hierarchy`: see `Listing.additions`."""
    return read_file(Path(path)).additions(hierarchy)


def _with_additions(hierarchy: Hierarchy, path: Path) -> Hierarchy:
    """A built-in hierarchy with the new classes of a file. Missing parents come from WordNet.

    `source` records which WordNet nouns the file names as classes: they are possible answers, not only links.
    """
    nodes = read_additions(path, hierarchy)
    new = [completed(node) for node in nodes if node.id not in hierarchy]
    grown = hierarchy.extend([*connecting_nodes(hierarchy, new), *new])
    facts = {"added": len(new), "additions": path.name, "already_there": len(nodes) - len(new)}
    facts["named"] = [node.id for node in nodes if is_wordnet_id(node.id)]
    grown.source.update({key: fact for key, fact in facts.items() if fact})
    return grown


# --- what a file lists ------------------------------------------------------------------------------------------------


@dataclass
class Listing:
    """The classes of a file in its order, by row, and its edges: a child's row, what the file calls the parent, a line.

    `line_of` turns a position that `add` received into a line: readers of JSON count objects instead.
    """

    file: str
    kind: str
    line_of: Callable[[int], int] = field(default=lambda line: line)
    rows: dict[str, int] = field(default_factory=dict)
    names: list[tuple[str, ...]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    definitions: dict[str, str] = field(default_factory=dict)
    looks: dict[str, str] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    edge_lines: list[int] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return list(self.rows)

    def error(self, line: int, message: str) -> UnseenError:
        return UnseenError(f"{self.file}:{self.line_of(line)}: {message}")

    def add(self, line: int, id: str, names: tuple[str, ...], parents: Sequence[str], **texts: str) -> None:
        """Add a class, or further parents of one that is there; `texts`: its definition and looks, if it has them."""
        if not id:
            raise self.error(line, "the id is empty.")
        row = self.rows.setdefault(id, len(self.names))
        if row == len(self.names):
            self.names.append(names)
            self.lines.append(line)
        elif names and names != self.names[row]:
            if self.names[row]:
                first = f"{'|'.join(self.names[row])!r} in line {self.line_of(self.lines[row])}"
                advice = "Repeat an id only for more parents, with the same name; another class needs another id."
                raise self.error(line, f"duplicate id {id!r}: {first}, {'|'.join(names)!r} here. {advice}")
            self.names[row] = names
        for kind, text in texts.items():
            known = {"definition": self.definitions, "looks": self.looks}[kind]
            if text and known.setdefault(id, text) != text:
                first = f"it has another text for {kind} in line {self.line_of(self.lines[row])}"
                raise self.error(line, f"duplicate id {id!r}: {first}.")
        for parent in parents:
            if parent == id:
                raise self.error(line, f"{id!r} is its own parent. Leave the parent empty for a root.")
            self.children.append(row)
            self.parents.append(parent)
            self.edge_lines.append(line)

    def hierarchy(self) -> Hierarchy:
        """The hierarchy that the file alone makes."""
        self._fill_names()
        graph = self._graph(self._parent_ids((), "is not in the file: it needs a row of its own"))
        source = {"kind": self.kind, "file": self.file.replace("\\", "/").rsplit("/", 1)[-1]}
        return Hierarchy.trusted(self.rows, self.names, graph, self.definitions, source, self.looks)

    def additions(self, base: Hierarchy) -> list[Node]:
        """The file's classes as nodes for `base`. Parents: ids or names, of the file, of `base` or of WordNet.

        A row may restate a class of `base`: its id, with no name or some of its names, below one of its ancestors. It
        is returned as a node too. Any other row with an id of `base` is a mistake.
        """
        self._fill_names(base)
        ids = self.ids
        for id, names, line in zip(ids, self.names, self.lines, strict=True):
            if id in base and not set(map(plain, names)) <= set(map(plain, base.lemmas[base.index(id)])):
                known = f"{id!r} is already in the hierarchy ({base.name(id)})"
                raise self.error(line, f"{known}. Give a new class an id of its own, or drop this row.")
        others = (base, wordnet()) if any(map(is_wordnet_id, base.ids)) else (base,)
        parent_ids = self._parent_ids(others, "is neither in the file nor in the hierarchy")
        self._graph(parent_ids)  # refuses cycles
        parents: list[list[str]] = [[] for _ in ids]
        for row, parent, line in zip(self.children, parent_ids, self.edge_lines, strict=True):
            id = ids[row]
            if id in base and not any(id in other and parent in other.ancestors(id) for other in others):
                known = f"{id!r} is already in the hierarchy ({base.name(id)}), and not below {parent!r}"
                raise self.error(line, f"{known}. Drop this row, or give your class an id of its own.")
            parents[row].append(parent)
        lost = {id: line for id, above, line in zip(ids, parents, self.lines, strict=True) if not above}
        lost = {id: line for id, line in lost.items() if id not in base and not is_wordnet_id(id)}
        if lost:
            id, line = next(iter(lost.items()))
            message = f"{id!r}: a new class needs a parent, so that it has something to borrow from."
            raise self.error(line, message + self._others("Without one too", lost))
        texts = self.definitions, self.looks
        return [
            Node(id, self.names[row], parents[row], *(known.get(id, "") for known in texts))
            for id, row in self.rows.items()
        ]

    def _parent_ids(self, others: Sequence[Hierarchy], why: str) -> list[str]:
        """The id of each edge's parent; all unknown parents are reported in one message."""
        meaning: dict[str, str | None] = {}
        unknown: dict[str, int] = {}
        for edge, text in enumerate(self.parents):
            if text in self.rows:
                continue
            if text not in meaning:
                try:
                    meaning[text] = self._meant(_described_id(text), others)
                except UnseenError as error:
                    raise self.error(self.edge_lines[edge], f"the parent {error}") from None
            if meaning[text] is None:
                unknown.setdefault(_described_id(text), edge)
        if unknown:
            text, edge = next(iter(unknown.items()))
            names = [*self.rows, *chain.from_iterable(others[-1].lemmas if others else ())]
            message = f"the parent {text!r} of {self.ids[self.children[edge]]!r} {why}."
            message += did_you_mean(close_matches(text, names))
            places = {other: self.edge_lines[at] for other, at in unknown.items()}
            raise self.error(self.edge_lines[edge], message + self._others("Unknown too", places))
        return [meaning.get(text) or text for text in self.parents]

    def _others(self, what: str, lines: Mapping[str, int]) -> str:
        """A sentence with all but the first of these texts and their lines."""
        shown = ", ".join(f"{text!r} (line {self.line_of(line)})" for text, line in islice(lines.items(), 1, 6))
        return f" {what}: {shown}" + f" and {len(lines) - 6:,} more" * (len(lines) > 6) + "." if shown else ""

    def _meant(self, text: str, others: Sequence[Hierarchy]) -> str | None:
        """The id of a parent that the file calls `text`: ids before names, the file before other hierarchies."""
        if text in self.rows or any(text in hierarchy for hierarchy in others):
            return text
        ids = self._ids_by_name.get(plain(text), [])
        if len(ids) > 1:
            listed = ", ".join(ids[:10])
            raise UnseenError(f"{text!r} names {len(ids)} classes; use the id of the one you mean: {listed}")
        return ids[0] if ids else next((other.resolve(text) for other in others if other.named(text)), None)

    @cached_property
    def _ids_by_name(self) -> dict[str, list[str]]:
        ids: dict[str, list[str]] = {}
        for id, names in zip(self.rows, self.names, strict=True):
            for name in dict.fromkeys(map(plain, names)):
                ids.setdefault(name, []).append(id)
        return ids

    def _graph(self, parent_ids: Sequence[str]) -> paths.Graph:
        """The graph of the file's classes, without the edges that lead out of it."""
        child = np.array(self.children, np.int64)
        parent = np.array([self.rows.get(id, -1) for id in parent_ids], np.int64)
        graph = paths.graph_of(child[parent >= 0], parent[parent >= 0], len(self.rows))
        cycle = paths.find_cycle(graph)
        if cycle:
            edges = [int(np.argmax((child == low) & (parent == up))) for low, up in pairwise(cycle[:13])]
            lines = [self.line_of(self.edge_lines[edge]) for edge in edges]
            where, ids = ", ".join(map(str, lines)) + ", ..." * (len(cycle) > 13), self.ids
            what = describe_cycle([ids[row] for row in cycle])
            raise UnseenError(f"{self.file}:{lines[0]}: {what} (lines {where}). Drop one of these parents.")
        return graph

    def _fill_names(self, base: Hierarchy | None = None) -> None:
        """Classes without a name get the names of their id in `base` or WordNet; in an edge list, the id itself."""
        if not self.rows:
            raise UnseenError(f"{self.file}: contains no classes.")
        for id, row in self.rows.items():
            if self.names[row]:
                continue
            if base is not None and id in base:
                self.names[row] = base.lemmas[base.index(id)]
            elif self.kind == "edges" or is_wordnet_id(id):
                self.names[row] = _names_of(id, None)
            if not any(self.names[row]):
                raise self.error(self.lines[row], f"{id!r} has no name.")


# --- text -------------------------------------------------------------------------------------------------------------


def read_text(path: str | Path) -> str:
    """A UTF-8 file, with or without byte order mark."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnseenError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise UnseenError(f"{path}:1: this is UTF-16 text. Save it as UTF-8 (in a spreadsheet: 'CSV UTF-8').")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8"
        raise UnseenError(f"{path}:{line}: {what}. Save the file as UTF-8 (in a spreadsheet: 'CSV UTF-8').") from error
    if not text.strip():
        raise UnseenError(f"{path}: the file is empty.")
    return text


def tidy(name: str) -> str:
    """A name as a person would write it: single blanks, and no underscores."""
    return " ".join(name.replace("_", " ").split())


def _names(cell: str) -> tuple[str, ...]:
    if "|" not in cell:  # files have a million
        return (name,) if (name := tidy(cell)) else ()
    return tuple(dict.fromkeys(filter(None, map(tidy, cell.split("|")))))


def _parents(cell: str) -> list[str]:
    if "|" not in cell:
        return [parent] if (parent := cell.strip()) else []
    return [part for part in map(str.strip, cell.split("|")) if part]


def describe_parent(sense: Sense) -> str:
    """A parent for people to read: `id (name: definition)`. A "|" would end it, for readers of tables."""
    return f"{sense.id} ({sense.name}: {sense.definition})".replace("|", "/")


def _described_id(text: str) -> str:
    """The id that `describe_parent` wrote; any other text as it is."""
    described = re.fullmatch(r"(\S+) \([^:()]+: .*\)", text)
    return described[1] if described else text


# --- CSV --------------------------------------------------------------------------------------------------------------


def read_csv(path: str | Path) -> Listing:
    """Columns id, name, parent and optionally definition and looks, in any order; comma, semicolon or tab.

    Several parents: several rows with the same id, or `|`. No parent: a root. Without a column id, the name is the id.
    """
    text, listing = read_text(path), Listing(str(path), "csv")
    first = text.lstrip().splitlines()[0].lower()
    delimiter = max(",;\t", key=lambda mark: sum(cell.strip(' "') in COLUMNS for cell in first.split(mark)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line, columns, width = 1, {}, 0
    at_name = at_parent = 0
    at_id: int | None = None
    texts: dict[str, int] = {}
    try:
        for cells in reader:
            if not any(map(str.strip, cells)):
                pass
            elif not columns:
                columns, width = _read_header(listing, line, cells, delimiter), len(cells)
                at_name, at_parent = columns["name"], columns["parent"]
                at_id, texts = columns.get("id"), {kind: columns[kind] for kind in TEXTS if kind in columns}
            else:
                cells = [csv_text(cell) for cell in cells]
                if len(cells) != width:
                    advice = "Is a delimiter missing, or one inside a cell not in quotes?"
                    raise listing.error(line, f"{len(cells)} cells, but the header has {width}. {advice}")
                id = cells[at_name].split("|")[0].strip() if at_id is None else cells[at_id].strip()
                if not id:
                    raise listing.error(line, f"the {'name' if at_id is None else 'id'} is empty.")
                if "|" in id:
                    raise listing.error(line, f"the id {id!r} must not contain '|', which separates parents.")
                described = {kind: " ".join(cells[at].split()) for kind, at in texts.items()}
                listing.add(line, id, _names(cells[at_name]), _parents(cells[at_parent]), **described)
            line = reader.line_num + 1  # in which the next row begins: a quoted cell may span several
    except csv.Error as error:
        raise listing.error(line, f"{error}. Is a quotation mark left open, or not doubled inside quotes?") from error
    if not listing.rows:
        raise UnseenError(f"{path}: has a header but no classes.")
    return listing


def _read_header(listing: Listing, line: int, header: list[str], delimiter: str) -> dict[str, int]:
    """Column -> position."""
    names = [COLUMNS.get(cell.strip(' "').lower()) for cell in header]
    columns = {name: place for place, name in enumerate(names) if name}
    if len(columns) < len(names) - names.count(None):
        raise listing.error(line, "a column is given twice in the header.")
    missing = [name for name in ("name", "parent") if name not in columns]
    if missing:
        hint = " If your ids are names, call the column 'name'." * (missing == ["name"] and "id" in columns)
        shown = delimiter.join(header).strip()
        shown = shown if len(shown) < 80 else shown[:77] + "..."
        what = " and ".join(f"'{name}'" for name in missing)
        raise listing.error(line, f"no column {what} in the header ({shown}). {HEADER}.{hint}")
    return columns


# --- edge lists -------------------------------------------------------------------------------------------------------


def read_edge_file(path: str | Path) -> Listing:
    """One `child<TAB>parent` or `child,parent` a line; blank lines and lines that begin with # are skipped."""
    listing = Listing(str(path), "edges")
    edges = 0
    for line, content in enumerate(read_text(path).split("\n"), 1):
        content = content.strip()
        if not content or content[0] == "#" or (not edges and re.fullmatch(r"(?i)child\s*[\t,]\s*parent", content)):
            continue
        try:
            cells = content.split("\t") if "\t" in content else next(csv.reader([content], skipinitialspace=True))
        except csv.Error as error:
            raise listing.error(line, f"{error}.") from error
        cells = [cell.strip() for cell in cells]
        if len(cells) > 2 or not all(cells):
            raise listing.error(line, f"expected child<TAB>parent or child,parent, found {content!r}.")
        listing.add(line, cells[0], (), cells[1:])
        listing.add(line, cells[-1], (), ())
        edges += len(cells) == 2
    if not edges:
        raise UnseenError(f"{path}: no line has a tab or a comma between a child and its parent.")
    return listing


def from_edges(edges: Iterable[tuple[str, str]], names: Mapping[str, str | Sequence[str]]) -> Hierarchy:
    """(child, parent) pairs in memory."""
    parents: dict[str, list[str]] = {}
    for number, edge in enumerate(edges):
        if isinstance(edge, str) or len(edge) != 2:
            raise UnseenError(f"Edge {number}: expected a pair (child, parent), not {edge!r}.")
        parents.setdefault(edge[0], []).append(edge[1])
        parents.setdefault(edge[1], [])
    for id in names:
        parents.setdefault(id, [])
    lemmas = [_names_of(id, names.get(id)) for id in parents]
    return Hierarchy(parents, lemmas, list(parents.values()), source={"kind": "edges"})


def from_networkx(graph, direction: str) -> Hierarchy:
    """A directed networkx graph."""
    if direction not in ("child-to-parent", "parent-to-child"):
        raise UnseenError(f"direction must be 'child-to-parent' or 'parent-to-child', not {direction!r}.")
    if not graph.is_directed():
        raise UnseenError("The networkx graph is undirected: use a DiGraph, so that child and parent differ.")
    up = graph.successors if direction == "child-to-parent" else graph.predecessors
    attributes = dict(graph.nodes(data=True))
    lemmas = [_names_of(str(node), given.get("names", given.get("name"))) for node, given in attributes.items()]
    parents = [[str(parent) for parent in up(node)] for node in attributes]
    definitions, looks = (
        {str(node): str(given.get(kind) or "") for node, given in attributes.items()} for kind in TEXTS
    )
    return Hierarchy(map(str, attributes), lemmas, parents, definitions, {"kind": "networkx"}, looks)


def _names_of(id: str, given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names given for an id, else WordNet's, else the id itself."""
    names = _names(given if isinstance(given, str) else "|".join(given or ()))
    return names or (wordnet().lemmas[wordnet().index(id)] if is_wordnet_id(id) else (tidy(id),))


# --- JSON -------------------------------------------------------------------------------------------------------------


def load_json(path: str | Path) -> Hierarchy:
    """A list of nodes, a tree of {"name", "children"}, or what `Hierarchy.to_json` returned."""
    value, text = _parse_json(path)
    if isinstance(value, dict) and "parent_ptr" in value:
        try:
            return Hierarchy.from_dict(value)
        except UnseenError as error:
            raise UnseenError(f"{path}: {error}") from error
    return _list_json(path, value, text).hierarchy()


def read_json(path: str | Path) -> Listing:
    """A list of {"id", "name" or "names", "parent" or "parents", "definition", "looks"}, a tree of {"name",
    "children"}, or both mixed. Without "id" the first name is the id. A child may be just a name."""
    return _list_json(path, *_parse_json(path))


def _parse_json(path: str | Path) -> tuple[Any, str]:
    """The value in a JSON file, and the file's text."""
    text = read_text(path)
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # refuses half a character (a lone surrogate)
    except json.JSONDecodeError as error:
        raise UnseenError(f"{path}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno}).") from error
    except RecursionError as error:
        raise UnseenError(f"{path}: nested too deeply. Use a list of nodes with parents instead.") from error
    except ValueError as error:  # that, or a number with thousands of digits
        raise UnseenError(f"{path}: cannot be read: {error}.") from error
    return value, text


def _list_json(path: str | Path, value: Any, text: str) -> Listing:
    """The nodes of a JSON value in document order; `text` is what it was parsed from."""
    # Positions are counts of objects; the line of an object is searched for only when something is wrong.
    listing = Listing(str(path), "json", line_of=lambda count: _line_of_object(text, count))
    if not isinstance(value, (list, dict)):
        raise UnseenError(f'{path}:1: expected a list of nodes or a tree of {{"name", "children"}}.')
    count = 0
    stack: list[tuple[Any, str | None, bool]] = [(value, None, True)]  # value, id of the node above, is it a node?
    while stack:
        item, above, is_node = stack.pop()
        if isinstance(item, list):
            stack.extend((one, above, is_node) for one in reversed(item))
        elif isinstance(item, dict):
            count += 1
            id = _add_object(listing, count, item, above) if is_node else None
            nested = [(key, one) for key, one in item.items() if isinstance(one, (list, dict))]
            stack.extend((one, id, is_node and key == "children") for key, one in reversed(nested))
        elif is_node:
            if not isinstance(item, str) or above is None:
                raise listing.error(max(count, 1), f"expected an object with a name, found {json.dumps(item)}.")
            listing.add(count, item.split("|")[0].strip(), _names(item), [above])
    return listing


def _add_object(listing: Listing, count: int, item: dict, above: str | None) -> str:
    def texts(*keys: str) -> list[str]:
        given = next((item[key] for key in keys if item.get(key) is not None), [])
        given = given if isinstance(given, list) else [given]
        for one in given:
            if isinstance(one, bool) or not isinstance(one, (str, int)):
                raise listing.error(count, f'"{keys[0]}" must be text or a list of texts, not {json.dumps(one)}.')
        return list(map(str, given))

    names = texts("name", "names")
    id = "".join(texts("id")).strip() or (names[0].split("|")[0].strip() if names else "")
    if not id:
        raise listing.error(count, f'a node needs "id" or "name"; its keys are {", ".join(item) or "none"}.')
    if not isinstance(item.get("children", []), list):
        raise listing.error(count, f'{id!r}: "children" must be a list.')
    parents = [parent for cell in texts("parent", "parents") for parent in _parents(cell)]
    described = {kind: " ".join(" ".join(texts(kind)).split()) for kind in TEXTS}
    listing.add(count, id, _names("|".join(names)), parents if above is None else [*parents, above], **described)
    return id


def _line_of_object(text: str, count: int) -> int:
    """The line in which the count-th object of a JSON text begins. Braces inside strings do not count."""
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|\{', text):
        count -= token[0] == "{"
        if count == 0:
            return text.count("\n", 0, token.start()) + 1
    return 1


READERS = {".csv": read_csv, ".tsv": read_csv, ".json": read_json, ".txt": read_edge_file, ".edges": read_edge_file}


# --- what `unseen hierarchy check` reports ----------------------------------------------------------------------------


def own_classes(hierarchy: Hierarchy, added: Sequence[str] = ()) -> list[str]:
    """The ids that are the user's in a built-in hierarchy: what is not WordNet's, and what was added by name."""
    named = {*added, *hierarchy.source.get("named", ())}
    rows = wordnet_rows(hierarchy.ids).tolist()
    return [id for id, row in zip(hierarchy.ids, rows, strict=True) if row < 0 or id in named]


def check_up(hierarchy: Hierarchy, seen_ids: Sequence[str], coverage: Coverage) -> dict[str, Any]:
    """Shape, seen classes present and missing, names without vectors, distance of every own class to a seen one."""
    present = [i for i in seen_ids if i in hierarchy]
    hops = hierarchy.hops_from(present) if present else np.full(len(hierarchy), -1)
    child, parent = hierarchy.edges()
    connected = np.isin(np.arange(len(hierarchy)), [child, parent])
    without = set(coverage.zero)
    extended = hierarchy.source.get("kind") in BUILT_IN and "additions" in hierarchy.source
    classes = own_classes(hierarchy) if extended else list(hierarchy.ids)
    distance = dict(zip(classes, hops[hierarchy.indices(classes)].tolist(), strict=True))
    guesses = {i: why for i, steps in distance.items() if (why := _guesswork(steps, i in without))}
    return {
        "nodes": len(hierarchy),
        "edges": len(child),
        "roots": len(hierarchy.roots),
        "some_roots": [{"id": i, "name": hierarchy.name(i)} for i in hierarchy.roots[:5]],
        "leaves": len(hierarchy.leaves),
        "depth": hierarchy.depth,
        "orphans": [hierarchy.ids[row] for row in np.flatnonzero(~connected)] if len(hierarchy) > 1 else [],
        "already_there": hierarchy.source.get("already_there", 0),  # rows of a file that only restate a class
        "seen_present": len(present),
        "seen_missing": [i for i in seen_ids if i not in hierarchy],
        "own": len(classes),  # what follows is about these only
        "without_vector": [i for i in classes if i in without],
        "missed_words": dict(Counter(coverage.missed_words).most_common(10)),
        "hops": dict(sorted(Counter(distance.values()).items())),  # to a seen class -> classes; -1: not connected
        "distance": distance,  # id -> hops to the nearest seen class
        "guesswork": guesses,
    }


@lru_cache  # one text for all classes at the same distance
def _guesswork(distance: int, without_vector: bool) -> str | None:
    if distance < 0:
        return "not connected to any seen class"
    if distance > FAR:
        return f"{distance} hops from the nearest seen class"
    if without_vector and distance > 1:
        return f"no word of its name has a vector, and {distance} hops from the nearest seen class"
    return None
