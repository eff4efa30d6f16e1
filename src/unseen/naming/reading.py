"""Lists of classes as people write them: files of ids or names, and names between commas."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TypeAlias

from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.files import COLUMNS, read_csv, read_json, read_text
from unseen.util.errors import UnseenError

Entry: TypeAlias = "str | tuple[str, str]"  # a name, or a name and what it looks like


def read_list(text: str) -> list[Entry]:
    """Names between commas, or the name of a file for `read_names`."""
    if Path(text).is_file():
        return [(name, look) if look else name for name, look in read_names(text)]
    if Path(text).suffix in (".txt", ".csv", ".tsv"):
        raise UnseenError(f"there is no file {text}: give names between commas, or a file with a name on each line")
    return [name for part in text.split(",") if (name := part.strip())]


def read_names(path: str | Path) -> list[tuple[str, str]]:
    """A file with a name or an id on each line, and what it looks like ("" for nothing) behind a tab or in the column
    `looks` of a CSV."""
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    has_header = bool(lines) and re.search(r"(?i)(^|[\t;,])\"?name\"?($|[\t;,])", lines[0]) is not None
    mark = next((mark for mark in "\t;," if mark in lines[0]), "\t") if has_header else "\t"  # a name may have a comma
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark)]
    if has_header:
        header = [cell.lower() for cell in rows[0]]
        wanted = [header.index(column) for column in ("name", "looks") if column in header]
        rows = [[row[column] for column in wanted if column < len(row)] for row in rows[1:]]
    return [(row[0], row[1] if len(row) > 1 else "") for row in rows if row and row[0]]


def read_ids(path: Path, hierarchy: Hierarchy | None = None) -> list[str]:
    """A file with an id or a name on each line, a JSON list of them, or the ids of a hierarchy (CSV with a header,
    JSON). What follows a tab or a comma is ignored, unless the whole line is a name of the `hierarchy`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnseenError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    if path.suffix == ".json":
        try:
            ids = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnseenError(f"{path}: not JSON: {error}") from None
        if isinstance(ids, list) and ids and all(isinstance(i, dict) for i in ids):
            return read_json(path).ids
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
            raise UnseenError(f"{path}: must hold a JSON list of ids")
    elif _has_header(text):
        return read_csv(path).ids
    else:
        ids = [_first_cell(line.strip(), hierarchy) for line in text.splitlines() if line.strip(" \t,")]
    if not ids:
        raise UnseenError(f"{path}: holds no ids")
    return ids


def _first_cell(line: str, hierarchy: Hierarchy | None) -> str:
    """The id or name that a line begins with; lists of ImageNet's classes also have names after a blank."""
    if hierarchy is not None and (line in hierarchy or hierarchy.named(line)):
        return line
    cell = re.split(r"[\t,]", line)[0].strip(' "')
    return cell.split()[0] if re.match(r"n\d{8}\s", cell) else cell


def _has_header(text: str) -> bool:
    """Whether the first line names the columns of a hierarchy, as the CSV of `unseen add` does."""
    first = next((line for line in text.splitlines() if line.strip()), "").lower()
    cells = {cell.strip(' "') for cell in first.replace(";", ",").replace("\t", ",").split(",")}
    return {"name", "parent"} <= {COLUMNS.get(cell) for cell in cells}
