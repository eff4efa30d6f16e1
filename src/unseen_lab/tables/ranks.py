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

from unseen.evaluation.metrics import average_hits, class_hits, harmonic_mean
from unseen.evaluation.table import NEVER
from unseen.util.errors import UnseenError
from unseen.util.safe_text import csv_text, to_csv
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


def read_ranks(path: str | Path) -> list[dict[str, Any]]:
    """The rows of the comparison again, with all that its table and tests are made of but AUSUC and verdicts."""
    path = Path(path)
    try:
        lines = list(csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))
        heads, lines = lines[: len(HEAD)], lines[len(HEAD) :]
        if [line[0] for line in heads] != list(HEAD) or len({len(line) for line in (*heads, *lines)}) != 1:
            raise ValueError("its first lines are others")
        heads = {key: [kind(csv_text(cell)) if cell else None for cell in line[2:]]
                 for (key, kind), line in zip(HEAD.items(), heads, strict=True)}  # fmt: skip
        places: dict[str, list[int]] = defaultdict(list)
        for place, line in enumerate(lines):
            places[line[0]].append(place)
        classes = np.array([line[1] for line in lines])
        columns = [_ranks([line[2 + column] for line in lines]) for column in range(len(heads["method"]))]
    except OSError as error:
        if not isinstance(error, gzip.BadGzipFile):
            raise UnseenError(f"{path}: {error.strerror}") from None
        raise _no_ranks(path) from None
    except (ValueError, EOFError, IndexError, zlib.error, csv.Error):
        raise _no_ranks(path) from None
    lacking = {*LISTS} - places.keys()
    if lacking:
        raise UnseenError(f"{path} has no ranks on {', '.join(sorted(lacking))}")
    return [_row({key: values[column] for key, values in heads.items()}, places, classes, ranks)
            for column, ranks in enumerate(columns)]  # fmt: skip


def _no_ranks(path: Path) -> UnseenError:
    return UnseenError(f"{path}: not the ranks that `unseen compare --markdown` writes")


def _ranks(cells: Sequence[str]) -> np.ndarray:
    """n x 2: greater, equal."""
    parts = [cell.partition("+") for cell in cells]
    return np.array([(int(greater or NEVER), int(equal or 0)) for greater, _, equal in parts]).reshape(-1, 2)


def _row(head: dict[str, Any], places: dict[str, list[int]], classes: np.ndarray, ranks: np.ndarray) -> dict[str, Any]:
    row: dict[str, Any] = {**head, "coverage": {}, "by_class": {}}
    for spec, of in places.items():
        labels, photos, sums = class_hits(classes[of], ranks[of, 0], ranks[of, 1], KS)
        row[spec] = average_hits(photos, sums, KS)
        row["coverage"][spec] = [len(labels), None, int(photos.sum())]
        if spec in TESTED:
            shares, ids = 100 * sums / photos[:, None], labels.tolist()
            by_class: dict[str, Any] = {"photos": dict(zip(ids, photos.tolist(), strict=True))}
            row["by_class"][spec] = by_class | {
                hit: dict(zip(ids, shares[:, k].tolist(), strict=True)) for k, hit in enumerate(HITS)
            }
    if SEEN in places:
        seen, unseen = (row[spec]["class"]["hit@1"] for spec in (SEEN, BOTH))
        row["generalised"] = {"seen": seen, "unseen": unseen, "harmonic": harmonic_mean(seen, unseen)}
    return row
