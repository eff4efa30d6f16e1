"""Labels for any number of photos, in a file that grows as they are done and that a later run goes on with.

    labels.jsonl   a JSON object a photo: "photo" and the fields of an answer, or "photo" and "unreadable": why
    labels.csv     a row a photo, with the columns of `csv_columns`

Beside it, `.labels.csv.json` keeps which bundle and settings the labels come from: others would not fit into one file.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from unseen.errors import UnseenError
from unseen.photos.reading import Source
from unseen.recognition.answers import Answer, Unreadable
from unseen.recognition.recogniser import SURE, Recogniser
from unseen.runtime.files import locked, sha256, write_atomically, writing

FORMATS = (".csv", ".jsonl")
TOGETHER = 32  # photos whose labels are written at once


@dataclass(frozen=True)
class Batch:
    """What `label_photos` did."""

    out: str
    labelled: int  # photos that got their labels now
    already: int  # that were in the file
    unreadable: list[Unreadable]  # of those looked at now
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        rate = (self.labelled + len(self.unreadable)) / self.seconds if self.seconds else 0.0
        return asdict(self) | {"seconds": round(self.seconds, 2), "photos_per_s": round(rate, 1)}


def label_photos(
    model: Recogniser,
    photos: Sequence[tuple[str, Source]],
    out: str | Path,
    k: int = 5,
    candidates: str | Sequence[str] = "any",
    seen_shift: float | None = None,
    sure: float = SURE,
    *,
    show_progress: bool = False,
) -> Batch:
    """Append the labels of photos, given by name and source, to the file `out`; names that it has are left out."""
    out, started = Path(out), time.monotonic()
    check_format(out)
    model.stream([], k, candidates, seen_shift, sure)  # or an error, before the file is touched
    made_by = _circumstances(model, k, candidates, seen_shift, sure)
    with open_labels(out, made_by, k) as (file, done):
        waiting = {name: source for name, source in photos if name not in done}
        answers = model.stream([*waiting.values()], k, candidates, seen_shift, sure, show_progress=show_progress)
        labelled, unreadable, lines = 0, [], []
        for count, (name, found) in enumerate(zip(waiting, answers, strict=True), 1):
            if isinstance(found, Unreadable):
                unreadable.append(Unreadable(name, found.why))
            else:
                labelled += 1
            lines.append(_line(out, name, found, k))
            if len(lines) == TOGETHER or count == len(waiting):
                with writing(out):
                    file.write(b"".join(lines))
                    file.flush()
                lines.clear()
    already = sum(name in done for name, _ in photos)
    return Batch(str(out), labelled, already, unreadable, time.monotonic() - started)


def check_format(out: Path) -> None:
    if out.suffix.lower() not in FORMATS:
        raise UnseenError(f"{out}: labels are written as {' or '.join(FORMATS)}: end the name in one of these")


def _circumstances(model: Recogniser, k: int, candidates: Any, seen_shift: float | None, sure: float) -> dict[str, Any]:
    """What labels depend on. A bundle in memory that was never saved cannot be told from another."""
    place = model.bundle.path
    return {
        "bundle": None if place is None else sha256(place / "bundle.json"),
        "candidates": candidates if isinstance(candidates, str) else list(candidates),
        "k": k,
        "sure": sure,
        "seen_shift": seen_shift,
    }


# -- the file --------------------------------------------------------------------------------------------------------


@contextmanager
def open_labels(out: Path, made_by: dict[str, Any], k: int) -> Iterator[tuple[BinaryIO, set[str]]]:
    """The file, ready to append to, and the names of the photos in it; what a kill left half-written is cut off."""
    with locked(out, f"{out}: another process is writing to this file.") as opened:
        file = opened.buffer
        file.seek(0)
        try:
            done, whole = _read_csv(file, k) if out.suffix.lower() == ".csv" else _read_jsonl(file)
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            raise UnseenError(f"{out}: is not a file of labels ({error}). Choose another file.") from None
        _check_same(out, made_by, fresh=not done)
        with writing(out):
            file.truncate(whole)
            file.seek(0, io.SEEK_END)
            if out.suffix.lower() == ".csv" and not whole:
                file.write(_row(csv_columns(k)))
                file.flush()
        yield file, done


def _check_same(out: Path, made_by: dict[str, Any], fresh: bool) -> None:
    """Refuse to go on with labels from another bundle or with other settings."""
    beside = out.with_name(f".{out.name}.json")
    try:
        before = None if fresh else json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        before = None
    if not isinstance(before, dict):
        write_atomically(beside, json.dumps(made_by).encode())
        return
    other = [key.replace("_", "-") for key, value in made_by.items() if before.get(key) != value]
    if other:
        raise UnseenError(
            f"{out}: holds labels made with another {' and another '.join(other)}. Choose another file, or delete it."
        )


def _read_jsonl(file: BinaryIO) -> tuple[set[str], int]:
    """Names of the photos, and how many bytes are whole lines."""
    done, whole = set(), 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            break
        try:
            done.add(json.loads(line)["photo"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"line {number}") from None
        whole += len(line)
    return done, whole


def _read_csv(file: BinaryIO, k: int) -> tuple[set[str], int]:
    """As `_read_jsonl`. A quoted name may hold a line break: a row ends where its quotes are closed."""
    columns, done, whole, row = csv_columns(k), set(), 0, b""
    for number, line in enumerate(file, 1):
        row += line
        if row.count(b'"') % 2 or not row.endswith(b"\n"):
            continue
        cells = next(csv.reader(io.StringIO(row.decode("utf-8", "surrogateescape"), newline="")))
        if not whole and cells != columns:
            raise ValueError(f"its columns are not those of k = {k}: {','.join(columns[:3])}, ...")
        if len(cells) != len(columns):
            raise ValueError(f"line {number}")
        if whole:
            done.add(cells[0])
        whole, row = whole + len(row), b""
    return done, whole


def csv_columns(k: int) -> list[str]:
    """What a row of a CSV holds.

    >>> csv_columns(1)[:5]
    ['photo', 'verdict_id', 'verdict_name', 'verdict_probability', 'verdict_level']
    >>> csv_columns(1)[5:]
    ['id_1', 'name_1', 'probability_1', 'unreadable']
    """
    verdict = [f"verdict_{field}" for field in ("id", "name", "probability", "level")]
    labels = [f"{field}_{place}" for place in range(1, k + 1) for field in ("id", "name", "probability")]
    return ["photo", *verdict, *labels, "unreadable"]


def _line(out: Path, name: str, found: Answer | Unreadable, k: int) -> bytes:
    if out.suffix.lower() == ".csv":
        return _row(_cells(name, found, k))
    record = {"unreadable": found.why} if isinstance(found, Unreadable) else found.as_dict()
    text = json.dumps({"photo": name} | record, ensure_ascii=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        return json.dumps({"photo": name} | record).encode() + b"\n"


def _cells(name: str, found: Answer | Unreadable, k: int) -> list[str]:
    if isinstance(found, Unreadable):
        return [name, *[""] * (4 + 3 * k), found.why]
    verdict = found.verdict
    labels = [cell for label in found for cell in (label.id, label.name, f"{label.probability:.6f}")]
    labels += [""] * (3 * k - len(labels))
    return [name, verdict.id or "", verdict.name or "", f"{verdict.probability:.6f}", verdict.level, *labels, ""]


def _row(cells: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # so that a name with either character is quoted
    return text.getvalue().removesuffix("\r\n").encode("utf-8", "surrogateescape") + b"\n"
