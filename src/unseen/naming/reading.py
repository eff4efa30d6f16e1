"""Lists of classes as people write them: files of ids or names, and names between commas."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TypeAlias

from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.files import parse_json, read_csv, read_header, read_json, read_text
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
    delimiter, header = read_header(lines[0])
    if "name" not in header or len(header) == 1:
        delimiter = "\t"  # a name may have a comma
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]
    if "name" in header:
        wanted = [header.index(column) for column in ("name", "looks") if column in header]
        rows = [[row[column] for column in wanted if column < len(row)] for row in rows[1:]]
    return [(row[0], row[1] if len(row) > 1 else "") for row in rows if row and row[0]]


def read_ids(path: Path, hierarchy: Hierarchy | None = None) -> list[str]:
    """A file with an id or a name on each line, a JSON list of them, or the ids of a hierarchy (CSV with a header,
    JSON). What follows a tab or a comma is ignored, unless the whole line is a name of the `hierarchy`."""
    if path.suffix == ".json":
        ids = parse_json(path)
        if isinstance(ids, list) and ids and all(isinstance(one, dict) for one in ids):
            return read_json(path).ids
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
            raise UnseenError(f"{path}: must hold a JSON list of ids")
    else:
        lines = [line.strip() for line in read_text(path).splitlines() if line.strip(" \t,")]
        if {"name", "parent"} <= set(read_header(lines[0])[1] if lines else ()):
            return read_csv(path).ids
        ids = [_first_cell(line, hierarchy) for line in lines]
    if not ids:
        raise UnseenError(f"{path}: holds no ids")
    return ids


def _first_cell(line: str, hierarchy: Hierarchy | None) -> str:
    """The id or name that a line begins with; lists of ImageNet's classes also have names after a blank."""
    if hierarchy is not None and (line in hierarchy or hierarchy.named(line)):
        return line
    cell = re.split(r"[\t,]", line)[0].strip(' "')
    return cell.split()[0] if re.match(r"n\d{8}\s", cell) else cell
