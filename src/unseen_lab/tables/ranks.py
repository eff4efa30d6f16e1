"""The ranks behind a comparison, in a file small enough to share: its figures and tests again, without the photos.

A compressed CSV file. Its first lines name the rows of the comparison, one line for each of HEAD; every other line is a
photo on a list: list, class, and for each row how many candidates score higher than the photo's class, `+n` if n others
score the same, nothing if the row has no answer for that class. Photos are not named. SEEN holds the photos of seen
classes, among the candidates of BOTH.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unseen import UnseenError
from unseen.evaluation import NEVER, average_hits, class_hits, harmonic_mean
from unseen.util import csv_text, to_csv
from unseen_lab.tables.compare import BOTH, HITS, LISTS, SEEN, TESTED

HEAD = {"method": str, "vectors": str, "network": str, "epochs": int, "photos": int, "seconds": float}
KS = tuple(int(hit.removeprefix("hit@")) for hit in HITS)


def write_ranks(rows: Sequence[dict[str, Any]]) -> bytes:
    """The file, of the rows that `compare` measured. The same ranks give the same bytes."""
    measured = [row for row in rows if row.get("ranks")]
    lines: list[list[Any]] = [[key, "", *("" if row[key] is None else row[key] for row in measured)] for key in HEAD]
    for spec in measured[0]["ranks"] if measured else ():
        classes = measured[0]["ranks"][spec]["class"]
        if any(row["ranks"][spec]["class"] != classes for row in measured):
            raise UnseenError(f"the rows were measured on different photos of {spec}: their ranks cannot share a file")
        columns = [_cells(row["ranks"][spec]) for row in measured]
        lines += [[spec, *cells] for cells in zip(classes, *columns, strict=True)]
    return gzip.compress(to_csv(lines).encode(), mtime=0)


def _cells(ranks: dict[str, Any]) -> list[str]:
    pairs = zip(ranks["greater"], ranks["equal"], strict=True)
    return ["" if greater == NEVER else f"{greater}+{equal}" if equal else str(greater) for greater, equal in pairs]


def read_ranks(path: Path) -> list[dict[str, Any]]:
    """The rows of the comparison again, with all that its table and tests are made of but AUSUC and verdicts."""
    try:
        heads, classes, columns = _parse(gzip.decompress(path.read_bytes()).decode())
    except (ValueError, EOFError, IndexError, zlib.error, gzip.BadGzipFile, csv.Error):
        raise UnseenError(f"{path}: not the ranks that `unseen compare --markdown` writes") from None
    except OSError as error:
        raise UnseenError(f"{path}: {error.strerror}") from None
    if lacking := sorted({*LISTS} - classes.keys()):
        raise UnseenError(f"{path} has no ranks on {', '.join(lacking)}")
    return [_row(head, classes, ranks) for head, ranks in zip(heads, columns, strict=True)]


def _parse(text: str) -> tuple[list[dict[str, Any]], dict[str, tuple[list[int], np.ndarray]], list[np.ndarray]]:
    """The HEAD of each row of the comparison; the lines of each list and their classes; the ranks of each row."""
    lines = list(csv.reader(io.StringIO(text)))
    top, lines = lines[: len(HEAD)], lines[len(HEAD) :]
    if [line[0] for line in top] != list(HEAD) or len({len(line) for line in (*top, *lines)}) != 1:
        raise ValueError("its first lines are others")
    columns = list(zip(*top, strict=True))[2:]
    heads = [{key: HEAD[key](csv_text(cell)) if cell else None for key, cell in zip(HEAD, column, strict=True)}
             for column in columns]  # fmt: skip
    listed: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        listed[line[0]].append(number)
    classes = {spec: (of, np.array([lines[number][1] for number in of])) for spec, of in listed.items()}
    return heads, classes, [_ranks([line[2 + column] for line in lines]) for column in range(len(heads))]


def _ranks(cells: Sequence[str]) -> np.ndarray:
    """n x 2: greater, equal."""
    parts = [cell.partition("+") for cell in cells]
    return np.array([(int(greater or NEVER), int(equal or 0)) for greater, _, equal in parts]).reshape(-1, 2)


def _row(head: dict[str, Any], classes: dict[str, tuple[list[int], np.ndarray]], ranks: np.ndarray) -> dict[str, Any]:
    row: dict[str, Any] = {**head, "coverage": {}, "by_class": {}}
    for spec, (of, ids) in classes.items():
        labels, photos, sums = class_hits(ids, ranks[of, 0], ranks[of, 1], KS)
        row[spec] = average_hits(photos, sums, KS)
        row["coverage"][spec] = [len(labels), None, int(photos.sum())]
        if spec in TESTED:
            shares = 100 * sums / photos[:, None]
            figures = {"photos": photos, **{hit: shares[:, k] for k, hit in enumerate(HITS)}}
            row["by_class"][spec] = {
                key: dict(zip(labels.tolist(), values.tolist(), strict=True)) for key, values in figures.items()
            }
    if SEEN in classes:
        seen, unseen = (row[spec]["class"]["hit@1"] for spec in (SEEN, BOTH))
        row["generalised"] = {"seen": seen, "unseen": unseen, "harmonic": harmonic_mean(seen, unseen)}
    return row
