"""Hierarchies from files (CSV, JSON, edge lists) and from networkx. Every mistake is told with file and line.

In all of them names hold synonyms separated by `|`, several parents are separated by `|` too, underscores in names are
blanks, and a parent is the id of another class or, where that is unambiguous, its name.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError
from unseen.taxonomy.core import Taxonomy
from unseen.taxonomy.draft import Draft, tidy
from unseen.taxonomy.makers import maker
from unseen.taxonomy.wordnet import is_wordnet_id, wordnet

COLUMNS = {  # what a header may say -> what it means
    **{"id": "id", "definition": "definition"},
    **dict.fromkeys(("name", "names"), "name"),
    **dict.fromkeys(("parent", "parents"), "parent"),
}
HEADER = "The first line must name the columns: id,name,parent and, if you like, definition"


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


def _names(cell: str) -> tuple[str, ...]:
    if "|" not in cell:
        name = tidy(cell)
        return (name,) if name else ()
    return tuple(dict.fromkeys(filter(None, map(tidy, cell.split("|")))))


def _several(cell: str) -> list[str]:
    if "|" not in cell:
        part = cell.strip()
        return [part] if part else []
    return [part for part in map(str.strip, cell.split("|")) if part]


# --- CSV --------------------------------------------------------------------------------------------------------------


@maker
def read_csv(path: str | Path) -> Draft:
    """Columns id, name, parent and optionally definition, in any order; comma, semicolon or tab.

    Several parents: several rows with the same id, or `|`. No parent: a root. Without a column id, the name is the id.
    """
    text = read_text(path)
    draft = Draft(str(path), "csv")
    columns, delimiter, header_line = _read_header(draft, text)
    at_name, at_parent = columns["name"], columns["parent"]
    at_id, at_definition = columns.get("id"), columns.get("definition")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    width = 0
    line = 1  # in which the row begins: a quoted cell may run over several lines
    try:
        for cells in reader:
            if line == header_line:
                width = len(cells)
            elif any(map(str.strip, cells)):
                if len(cells) != width:
                    advice = "Is a delimiter missing, or one inside a cell not in quotes?"
                    raise draft.error(line, f"{len(cells)} cells, but the header has {width}. {advice}")
                names = _names(cells[at_name])
                id = cells[at_id].strip() if at_id is not None else cells[at_name].split("|")[0].strip()
                if not id:
                    raise draft.error(line, f"the {'name' if at_id is None else 'id'} is empty.")
                if "|" in id:
                    raise draft.error(line, f"the id {id!r} must not contain '|', which separates parents.")
                definition = " ".join(cells[at_definition].split()) if at_definition is not None else ""
                draft.add(line, id, names, _several(cells[at_parent]), definition)
            line = reader.line_num + 1
    except csv.Error as error:
        raise draft.error(line, f"{error}. Is a quotation mark left open, or not doubled inside quotes?") from error
    if not draft.ids:
        raise UnseenError(f"{path}: has a header but no classes.")
    return draft


def _read_header(draft: Draft, text: str) -> tuple[dict[str, int], str, int]:
    """Column -> position, the delimiter, and the header's line."""
    number, header = next((n, row) for n, row in enumerate(io.StringIO(text, newline=""), 1) if row.strip())
    found: dict[str, dict[str, int]] = {}
    for delimiter in ",;\t":
        cells = [cell.strip().lower() for cell in _split(draft, number, header, delimiter)]
        found[delimiter] = {COLUMNS[cell]: place for place, cell in enumerate(cells) if cell in COLUMNS}
        if sum(cell in COLUMNS for cell in cells) > len(found[delimiter]):
            raise draft.error(number, "a column is given twice in the header.")
    delimiter = max(found, key=lambda mark: len(found[mark]))
    missing = [name for name in ("name", "parent") if name not in found[delimiter]]
    if missing:
        hint = " If your ids are names, call the column 'name'." * (missing == ["name"] and "id" in found[delimiter])
        shown = header.strip() if len(header) < 80 else header.strip()[:77] + "..."
        what = " and ".join(f"'{name}'" for name in missing)
        raise draft.error(number, f"no column {what} in the header ({shown}). {HEADER}.{hint}")
    return found[delimiter], delimiter, number


def _split(draft: Draft, line: int, content: str, delimiter: str) -> list[str]:
    """The cells of a single line, which may be quoted."""
    try:
        return next(csv.reader([content], delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise draft.error(line, f"{error}.") from error


# --- edge lists -------------------------------------------------------------------------------------------------------


def read_edge_file(path: str | Path) -> Draft:
    """One `child<TAB>parent` or `child,parent` a line; blank lines and lines that begin with # are skipped."""
    draft = Draft(str(path), "edges", ids_are_names=True)
    for line, content in enumerate(read_text(path).split("\n"), 1):
        content = content.strip()
        if not content or content[0] == "#" or (not draft.ids and re.fullmatch(r"(?i)child\s*[\t,]\s*parent", content)):
            continue
        if "\t" in content:
            cells = content.split("\t")
        else:
            cells = _split(draft, line, content, ",") if '"' in content else content.split(",")
        cells = [cell.strip() for cell in cells]
        if len(cells) > 2 or not all(cells):
            raise draft.error(line, f"expected child<TAB>parent or child,parent, found {content!r}.")
        if len(cells) == 2:
            draft.add(line, cells[0], parents=cells[1:])
        draft.add(line, cells[-1])
    if not draft.children:
        raise UnseenError(f"{path}: no line has a tab or a comma between a child and its parent.")
    return draft


@maker
def read_edges(edges: Iterable[tuple[str, str]], names: Mapping[str, str | Sequence[str]]) -> Taxonomy:
    """(child, parent) pairs in memory."""
    parents: dict[str, list[str]] = {}
    for number, edge in enumerate(edges):
        if isinstance(edge, str) or len(edge) != 2:
            raise UnseenError(f"Edge {number}: expected a pair (child, parent), not {edge!r}.")
        parents.setdefault(edge[0], []).append(edge[1])
        parents.setdefault(edge[1], [])
    for id in names:
        parents.setdefault(id, [])
    lemmas = [_given_names(names.get(id)) or _names_of_id(id) for id in parents]
    return Taxonomy(parents, lemmas, list(parents.values()), source={"kind": "edges"})


@maker
def read_networkx(graph, direction: str) -> Taxonomy:
    """A directed networkx graph."""
    if direction not in ("child-to-parent", "parent-to-child"):
        raise UnseenError(f"direction must be 'child-to-parent' or 'parent-to-child', not {direction!r}.")
    if not graph.is_directed():
        raise UnseenError("The networkx graph is undirected: use a DiGraph, so that child and parent differ.")
    up = graph.successors if direction == "child-to-parent" else graph.predecessors
    attributes = dict(graph.nodes(data=True))
    lemmas = [_given_names(a.get("names", a.get("name"))) or _names_of_id(str(node)) for node, a in attributes.items()]
    parents = [[str(parent) for parent in up(node)] for node in attributes]
    definitions = {str(node): str(given.get("definition") or "") for node, given in attributes.items()}
    return Taxonomy(map(str, attributes), lemmas, parents, definitions, {"kind": "networkx"})


def _given_names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if not given else _names(given if isinstance(given, str) else "|".join(given))


def _names_of_id(id: str) -> tuple[str, ...]:
    return wordnet().lemmas[wordnet().index(id)] if is_wordnet_id(id) else (tidy(id),)


# --- JSON -------------------------------------------------------------------------------------------------------------


def read_json(path: str | Path) -> Draft:
    """A list of {"id", "name" or "names", "parent" or "parents", "definition"}, a tree of {"name", "children"}, or both
    mixed. Without "id" the first name is the id. A child may be a mere name."""
    return json_draft(path, *parse_json(path))


def json_draft(path: str | Path, value: Any, text: str) -> Draft:
    """The nodes of a JSON value in document order; `text` is what it was parsed from."""
    # `add` is given the count of objects so far; in which line that one begins is only sought when something is wrong.
    draft = Draft(str(path), "json", escaped=True, line_of=lambda count: _line_of_object(text, count))
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
            id = _add_object(draft, count, item, above) if is_node else None
            nested = [(key, one) for key, one in item.items() if isinstance(one, (list, dict))]
            stack.extend((one, id, is_node and key == "children") for key, one in reversed(nested))
        elif is_node:
            if not isinstance(item, str) or above is None:
                raise draft.error(max(count, 1), f"expected an object with a name, found {json.dumps(item)}.")
            draft.add(count, item.split("|")[0].strip(), _names(item), [above])
    return draft


def parse_json(path: str | Path) -> tuple[Any, str]:
    """The value in a JSON file, and the file's text."""
    text = read_text(path)
    try:
        return json.loads(text), text
    except json.JSONDecodeError as error:
        raise UnseenError(f"{path}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno}).") from error
    except ValueError as error:
        raise UnseenError(f"{path}: a number in it has thousands of digits. Put ids in quotation marks.") from error
    except RecursionError as error:
        raise UnseenError(f"{path}: nested too deeply. Use a list of nodes with parents instead.") from error


def _add_object(draft: Draft, count: int, item: dict, above: str | None) -> str:
    def texts(*keys: str) -> list[str]:
        given = next((item[key] for key in keys if item.get(key) is not None), [])
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, bool) or not isinstance(one, (str, int)):
                raise draft.error(count, f'"{keys[0]}" must be text or a list of texts, not {json.dumps(one)}.')
        return [str(one) for one in (given if isinstance(given, list) else [given])]

    names = texts("name", "names")
    id = "".join(texts("id")).strip() or (names[0].split("|")[0].strip() if names else "")
    if not id:
        raise draft.error(count, f'a node needs "id" or "name"; its keys are {", ".join(item) or "none"}.')
    if not isinstance(item.get("children", []), list):
        raise draft.error(count, f'{id!r}: "children" must be a list.')
    parents = [parent for cell in texts("parent", "parents") for parent in _several(cell)]
    definition = " ".join(" ".join(texts("definition")).split())
    draft.add(count, id, _names("|".join(names)), [*parents, *([above] if above is not None else [])], definition)
    return id


def _line_of_object(text: str, count: int) -> int:
    """The line in which the count-th object of a JSON text begins. Braces inside strings do not count."""
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|\{', text):
        count -= token[0] == "{"
        if count == 0:
            return text.count("\n", 0, token.start()) + 1
    return 1


@maker
def taxonomy_from_json(path: str | Path) -> Taxonomy:
    """A list of nodes, a tree of {"name", "children"}, or what `Taxonomy.to_json` gave."""
    value, text = parse_json(path)
    if isinstance(value, dict) and "parent_ptr" in value:
        try:
            saved = Taxonomy.from_dict(value)
            json.dumps([saved.ids, saved.lemmas, saved.own_definitions], ensure_ascii=False).encode()
        except UnseenError as error:
            raise UnseenError(f"{path}: {error}") from error
        except UnicodeEncodeError:
            raise UnseenError(f"{path}: a name contains half a character (a lone surrogate).") from None
        return saved
    return json_draft(path, value, text).taxonomy()
