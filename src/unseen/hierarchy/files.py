"""Hierarchies from files: CSV, JSON, edge lists. A message names the file with the line, in JSON the class.

In all of them names hold synonyms separated by `|`, several parents are separated by `|` too, underscores in names are
blanks, and a parent is the id of another class or, where that is unambiguous, its name.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen.hierarchy import paths
from unseen.hierarchy.core import Hierarchy, Node, Sense, describe_cycle
from unseen.hierarchy.search import NameIndex, close_matches, did_you_mean, plain
from unseen.hierarchy.wordnet import (
    BUILT_IN,
    built_in,
    completed,
    connecting_nodes,
    has_wordnet_ids,
    is_wordnet_id,
    wordnet,
)
from unseen.util.devices import uncollected
from unseen.util.errors import UnseenError
from unseen.util.safe_text import csv_text

COLUMNS = {"id": "id", "name": "name", "names": "name", "parent": "parent", "parents": "parent"}
TEXTS = ("definition", "looks")
COLUMNS |= {kind: kind for kind in TEXTS}  # what a header may say -> what it means
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


def load_json(path: str | Path) -> Hierarchy:
    """What `Hierarchy.to_json` returned, or a file for `read_json`."""
    value = parse_json(path)
    if isinstance(value, dict) and "parent_ptr" in value:
        try:
            return Hierarchy.from_dict(value)
        except UnseenError as error:
            raise UnseenError(f"{path}: {error}") from error
    return Listing(path, "json", _json_rows(path, value)).hierarchy()


def read_file(path: Path) -> Listing:
    """The classes that a file lists, in the format that its suffix names."""
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


class Row(NamedTuple):
    """A class as a file states it, or further parents of one stated before."""

    line: int  # 0 in JSON
    id: str
    names: tuple[str, ...] = ()
    parents: Sequence[str] = ()
    definition: str = ""
    looks: str = ""


class Edge(NamedTuple):
    child: str  # id
    parent: str  # as the file calls it
    line: int


class Listing:
    """The classes of a file, each once and in its order, and its edges."""

    def __init__(self, file: str | Path, kind: str, rows: Iterable[Row]):
        self.file, self.kind = str(file), kind
        self.rows: dict[str, Row] = {}
        self.edges: list[Edge] = []
        for row in rows:
            self._add(row)
        if not self.rows:
            raise UnseenError(f"{self.file}: contains no classes.")

    @cached_property
    def ids(self) -> list[str]:
        return list(self.rows)

    def _add(self, row: Row) -> None:
        if not row.id:
            raise _mistake(self.file, row.line, "the id is empty.")
        known = self.rows.setdefault(row.id, row)
        if known is not row and (row.names or row.definition or row.looks):
            self.rows[row.id] = self._merged(known, row)
        for parent in row.parents:
            if parent == row.id:
                raise _mistake(self.file, row.line, f"{row.id!r} is its own parent. Leave the parent empty for a root.")
            self.edges.append(Edge(row.id, parent, row.line))

    def _merged(self, known: Row, row: Row) -> Row:
        """The class of two rows with the same id, which must not contradict one another."""
        for what in ("names", *TEXTS):
            before, now = getattr(known, what), getattr(row, what)
            if before and now and before != now:
                before, now = ("|".join(text) if what == "names" else text for text in (before, now))
                where = f" in line {known.line}" if known.line else ""
                advice = "Repeat an id only for more parents, with the same name; another class needs another id."
                message = f"duplicate id {row.id!r}: {before!r}{where}, {now!r} here. {advice}"
                raise _mistake(self.file, row.line, message)
        return known._replace(**{what: getattr(known, what) or getattr(row, what) for what in ("names", *TEXTS)})

    def hierarchy(self) -> Hierarchy:
        """The hierarchy that the file alone makes."""
        self._fill_names()
        graph = self._graph(self._parent_ids((), "is not in the file: it needs a row of its own"))
        texts = [{row.id: getattr(row, kind) for row in self.rows.values()} for kind in TEXTS]
        source = {"kind": self.kind, "file": self.file.replace("\\", "/").rsplit("/", 1)[-1]}
        lemmas = [row.names for row in self.rows.values()]
        return Hierarchy.trusted(self.ids, lemmas, graph, texts[0], source, texts[1])

    def additions(self, base: Hierarchy) -> list[Node]:
        """The file's classes as nodes for `base`. Parents: ids or names, of the file, of `base` or of WordNet.

        A row may restate a class of `base`: its id, with no name or some of its names, below one of its ancestors. It
        is returned as a node too. Any other row with an id of `base` is a mistake.
        """
        self._fill_names(base)
        for id, row in self.rows.items():
            if id in base and not set(map(plain, row.names)) <= set(map(plain, base.lemmas[base.index(id)])):
                known = f"{id!r} is already in the hierarchy ({base.name(id)})"
                raise _mistake(self.file, row.line, f"{known}. Give a new class an id of its own, or drop this row.")
        others = (base, wordnet()) if has_wordnet_ids(base) else (base,)
        parent_ids = self._parent_ids(others, "is neither in the file nor in the hierarchy")
        self._graph(parent_ids)  # refuses cycles
        parents: dict[str, list[str]] = {id: [] for id in self.rows}
        for edge, parent in zip(self.edges, parent_ids, strict=True):
            id = edge.child
            if id in base and not any(id in other and parent in other.ancestors(id) for other in others):
                known = f"{id!r} is already in the hierarchy ({base.name(id)}), and not below {parent!r}"
                raise _mistake(self.file, edge.line, f"{known}. Drop this row, or give your class an id of its own.")
            parents[id].append(parent)
        lost = [row for id, row in self.rows.items() if not (parents[id] or id in base or is_wordnet_id(id))]
        if lost:
            message = f"{lost[0].id!r}: a new class needs a parent, so that it has something to borrow from."
            others_lost = _others("Without one too", [(row.id, row.line) for row in lost])
            raise _mistake(self.file, lost[0].line, message + others_lost)
        return [Node(id, row.names, parents[id], row.definition, row.looks) for id, row in self.rows.items()]

    def _fill_names(self, base: Hierarchy | None = None) -> None:
        """Give classes without a name those of their id in `base` or WordNet; in an edge list, the id itself."""
        for id, row in self.rows.items():
            if not row.names:
                if base is not None and id in base:
                    names = base.lemmas[base.index(id)]
                else:
                    names = _default_names(id) if self.kind == "edges" or is_wordnet_id(id) else ()
                if not any(names):
                    raise _mistake(self.file, row.line, f"{id!r} has no name.")
                self.rows[id] = row._replace(names=names)

    def _parent_ids(self, others: Sequence[Hierarchy], why: str) -> list[str]:
        """The id of each edge's parent; one message names all unknown parents."""
        meaning: dict[str, str | None] = {}
        unknown: dict[str, Edge] = {}
        for edge in self.edges:
            if edge.parent in self.rows:
                continue
            text = _described_id(edge.parent)
            if edge.parent not in meaning:
                try:
                    meaning[edge.parent] = self._find(text, others)
                except UnseenError as error:
                    raise _mistake(self.file, edge.line, f"the parent {error}") from None
            if meaning[edge.parent] is None:
                unknown.setdefault(text, edge)
        if unknown:
            text, edge = next(iter(unknown.items()))
            names = [*self.rows, *chain.from_iterable(others[-1].lemmas if others else ())]
            message = f"the parent {text!r} of {edge.child!r} {why}.{did_you_mean(close_matches(text, names))}"
            others_unknown = _others("Unknown too", [(text, edge.line) for text, edge in unknown.items()])
            raise _mistake(self.file, edge.line, message + others_unknown)
        return [meaning.get(edge.parent) or edge.parent for edge in self.edges]

    def _find(self, text: str, others: Sequence[Hierarchy]) -> str | None:
        """The id of a parent that the file calls `text`: ids before names, the file before other hierarchies."""
        if text in self.rows or any(text in hierarchy for hierarchy in others):
            return text
        ids = [self.ids[row] for row in self._name_index.exact(text)]
        if len(ids) > 1:
            listed = ", ".join(ids[:10])
            raise UnseenError(f"{text!r} names {len(ids)} classes; use the id of the one you mean: {listed}")
        return ids[0] if ids else next((other.resolve(text) for other in others if other.named(text)), None)

    @cached_property
    def _name_index(self) -> NameIndex:
        return NameIndex([row.names for row in self.rows.values()])

    def _graph(self, parent_ids: Sequence[str]) -> paths.Graph:
        """The graph of the file's classes, without the edges that lead out of it."""
        position = {id: at for at, id in enumerate(self.rows)}
        child = np.array([position[edge.child] for edge in self.edges], np.int64)
        parent = np.array([position.get(id, -1) for id in parent_ids], np.int64)
        graph = paths.graph_of(child[parent >= 0], parent[parent >= 0], len(self.rows))
        cycle = paths.find_cycle(graph)
        if cycle:
            edges = [int(np.argmax((child == low) & (parent == up))) for low, up in pairwise(cycle[:13])]
            lines = [self.edges[edge].line for edge in edges]
            where = f" (lines {', '.join(map(str, lines))}{', ...' * (len(cycle) > 13)})" if any(lines) else ""
            what = describe_cycle([self.ids[at] for at in cycle])
            raise _mistake(self.file, lines[0], f"{what}{where}. Drop one of these parents.")
        return graph


def _mistake(file: str | Path, line: int, message: str) -> UnseenError:
    return UnseenError(f"{file}:{line}: {message}" if line else f"{file}: {message}")


def _others(what: str, found: Sequence[tuple[str, int]]) -> str:
    """A sentence with all but the first of these texts and their lines."""
    shown = ", ".join(f"{text!r} (line {line})" if line else repr(text) for text, line in islice(found, 1, 6))
    return f" {what}: {shown}" + f" and {len(found) - 6:,} more" * (len(found) > 6) + "." if shown else ""


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


def _split_names(cell: str) -> tuple[str, ...]:
    if "|" not in cell:  # files have a million
        return (name,) if (name := tidy(cell)) else ()
    return tuple(dict.fromkeys(filter(None, map(tidy, cell.split("|")))))


def _split_parents(cell: str) -> list[str]:
    if "|" not in cell:
        return [parent] if (parent := cell.strip()) else []
    return [part for part in map(str.strip, cell.split("|")) if part]


def _default_names(id: str) -> tuple[str, ...]:
    """WordNet's names of an id, else the id itself."""
    return wordnet().lemmas[wordnet().index(id)] if is_wordnet_id(id) else (tidy(id),)


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
    return Listing(path, "csv", _csv_rows(path))


def _csv_rows(path: str | Path) -> Iterator[Row]:
    text = read_text(path)
    delimiter, _ = read_header(text.lstrip().splitlines()[0])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line, header = 1, []
    try:
        for cells in reader:
            if not any(map(str.strip, cells)):
                pass
            elif not header:
                header = [COLUMNS.get(cell.strip(' "').lower(), "") for cell in cells]
                _check_header(path, line, header, delimiter.join(cells).strip())
            elif len(cells) != len(header):
                advice = "Is a delimiter missing, or one inside a cell not in quotes?"
                raise _mistake(path, line, f"{len(cells)} cells, but the header has {len(header)}. {advice}")
            else:
                yield _csv_row(path, line, dict(zip(header, map(csv_text, cells), strict=True)))
            line = reader.line_num + 1  # in which the next row begins: a quoted cell may span several
    except csv.Error as error:
        raise _mistake(path, line, f"{error}. Is a quotation mark left open, or not doubled inside quotes?") from error


def _csv_row(path: str | Path, line: int, cells: Mapping[str, str]) -> Row:
    id = cells["id"].strip() if "id" in cells else cells["name"].split("|")[0].strip()
    if "|" in id:
        raise _mistake(path, line, f"the id {id!r} must not contain '|', which separates parents.")
    definition, looks = (" ".join(cells.get(kind, "").split()) for kind in TEXTS)
    return Row(line, id, _split_names(cells["name"]), _split_parents(cells["parent"]), definition, looks)


def read_header(line: str) -> tuple[str, list[str]]:
    """The delimiter of a table and the columns that its first line names, "" for cells that name none."""
    split = {mark: [COLUMNS.get(cell.strip(' "').lower(), "") for cell in line.split(mark)] for mark in ",;\t"}
    return max(split.items(), key=lambda item: len(item[1]) - item[1].count(""))


def _check_header(path: str | Path, line: int, header: Sequence[str], shown: str) -> None:
    named = [name for name in header if name]
    if len(set(named)) < len(named):
        raise _mistake(path, line, "a column is given twice in the header.")
    missing = [name for name in ("name", "parent") if name not in named]
    if missing:
        hint = " If your ids are names, call the column 'name'." * (missing == ["name"] and "id" in named)
        what = " and ".join(f"'{name}'" for name in missing)
        shown = shown if len(shown) < 80 else shown[:77] + "..."
        raise _mistake(path, line, f"no column {what} in the header ({shown}). {HEADER}.{hint}")


# --- edge lists -------------------------------------------------------------------------------------------------------


def read_edge_file(path: str | Path) -> Listing:
    """One `child<TAB>parent` or `child,parent` a line; blank lines and lines that begin with # are skipped."""
    listing = Listing(path, "edges", _edge_rows(path))
    if not listing.edges:
        raise UnseenError(f"{path}: no line has a tab or a comma between a child and its parent.")
    return listing


def _edge_rows(path: str | Path) -> Iterator[Row]:
    begun = False
    for line, content in enumerate(read_text(path).split("\n"), 1):
        content = content.strip()
        if not content or content[0] == "#" or (not begun and re.fullmatch(r"(?i)child\s*[\t,]\s*parent", content)):
            continue
        try:
            cells = content.split("\t") if "\t" in content else next(csv.reader([content], skipinitialspace=True))
        except csv.Error as error:
            raise _mistake(path, line, f"{error}.") from error
        cells = [cell.strip() for cell in cells]
        if len(cells) > 2 or not all(cells):
            raise _mistake(path, line, f"expected child<TAB>parent or child,parent, found {content!r}.")
        yield Row(line, cells[0], parents=cells[1:])
        yield Row(line, cells[-1])
        begun = True


def from_edges(edges: Iterable[tuple[str, str]], names: Mapping[str, str | Sequence[str]]) -> Hierarchy:
    """(child, parent) pairs in memory."""
    parents: dict[str, list[str]] = {}
    for number, edge in enumerate(edges):
        if isinstance(edge, str) or len(edge) != 2 or not all(isinstance(id, str) for id in edge):
            raise UnseenError(f"Edge {number}: expected a pair of ids (child, parent), not {edge!r}.")
        parents.setdefault(edge[0], []).append(edge[1])
        parents.setdefault(edge[1], [])
    for id in names:
        parents.setdefault(id, [])
    given = {id: _split_names(name if isinstance(name, str) else "|".join(name)) for id, name in names.items()}
    lemmas = [given.get(id) or _default_names(id) for id in parents]
    return Hierarchy(parents, lemmas, list(parents.values()), source={"kind": "edges"})


# --- JSON -------------------------------------------------------------------------------------------------------------


def read_json(path: str | Path) -> Listing:
    """A list of {"id", "name" or "names", "parent" or "parents", "definition", "looks"}, a tree of {"name",
    "children"}, or both mixed. Without "id" the first name is the id. A child may be just a name."""
    return Listing(path, "json", _json_rows(path, parse_json(path)))


def parse_json(path: str | Path) -> Any:
    text = read_text(path)
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # refuses half a character (a lone surrogate)
    except json.JSONDecodeError as error:
        raise _mistake(path, error.lineno, f"not valid JSON: {error.msg} (column {error.colno}).") from error
    except RecursionError as error:
        raise UnseenError(f"{path}: nested too deeply. Use a list of nodes with parents instead.") from error
    except ValueError as error:  # that, or a number with thousands of digits
        raise UnseenError(f"{path}: cannot be read: {error}.") from error
    return value


def _json_rows(path: str | Path, value: Any) -> Iterator[Row]:
    """The nodes of a JSON value in the file's order."""
    if not isinstance(value, (list, dict)):
        raise UnseenError(f'{path}: expected a list of nodes or a tree of {{"name", "children"}}.')
    stack: list[tuple[Any, str | None]] = [(value, None)]  # a node or several, and the id of the one above
    while stack:
        item, above = stack.pop()
        if isinstance(item, list):
            stack.extend((one, above) for one in reversed(item))
        elif isinstance(item, dict):
            row = _json_row(path, item, above)
            yield row
            stack.append((item.get("children", []), row.id))
        elif isinstance(item, str) and above is not None:
            yield Row(0, item.split("|")[0].strip(), _split_names(item), [above])
        else:
            where = f" below {above!r}" if above is not None else ""
            raise UnseenError(f"{path}: expected an object with a name{where}, found {json.dumps(item)}.")


def _json_row(path: str | Path, item: dict, above: str | None) -> Row:
    def texts(*keys: str) -> list[str]:
        given = next((item[key] for key in keys if item.get(key) is not None), [])
        given = given if isinstance(given, list) else [given]
        for one in given:
            if isinstance(one, bool) or not isinstance(one, (str, int)):
                what = f'"{keys[0]}" must be text or a list of texts, not {json.dumps(one)}'
                raise UnseenError(f"{path}: {what}: {json.dumps(item)[:60]}")
        return list(map(str, given))

    names = texts("name", "names")
    id = "".join(texts("id")).strip() or (names[0].split("|")[0].strip() if names else "")
    if not id:
        where = f" below {above!r}" if above is not None else ""
        raise UnseenError(f'{path}: a node{where} needs "id" or "name"; its keys are {", ".join(item) or "none"}.')
    if not isinstance(item.get("children", []), list):
        raise UnseenError(f'{path}: {id!r}: "children" must be a list.')
    parents = [parent for cell in texts("parent", "parents") for parent in _split_parents(cell)]
    definition, looks = (" ".join(" ".join(texts(kind)).split()) for kind in TEXTS)
    names = _split_names("|".join(names))
    return Row(0, id, names, parents if above is None else [*parents, above], definition, looks)


READERS = {".csv": read_csv, ".tsv": read_csv, ".json": read_json, ".txt": read_edge_file, ".edges": read_edge_file}
