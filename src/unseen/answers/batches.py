"""Labels for any number of photos, in a file that grows as they are done and that a later run completes.

    labels.jsonl   a JSON object a photo: "photo", the fields of an answer or "unreadable": why, and "version"
    labels.csv     a row a photo, with the columns of `csv_columns`

The version of a photo is the size of its file and the time of its last change. A photo that has another one by now, or
that could not be read, is labelled again. Beside the labels, `.labels.csv.json` keeps which bundle and settings they
come from: others would not fit into one file.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from unseen._util.files import locked, replacing, write_atomically, writing
from unseen._util.safe_text import csv_text, to_csv
from unseen.answers.answer import Answer, Unreadable
from unseen.answers.prior import Prior
from unseen.answers.probability import CONFIDENCE
from unseen.bundle.file import bundle_checksum
from unseen.errors import UnseenError
from unseen.photos.reading import Source

if TYPE_CHECKING:
    from unseen.model import Model

FORMATS = (".csv", ".jsonl")
TOGETHER = 32  # photos whose labels are written at once, and reach the disk before the next ones
FORMAT = 2  # of the rows
LONGEST = 1 << 20  # bytes of a row: more is damage, such as a quotation mark too many


@dataclass(frozen=True)
class Batch:
    """What `label_photos` did."""

    out: str
    labelled: int  # photos that got their labels now
    already: int  # that were in the file
    again: list[str]  # photos that were in the file, but had changed since or could not be read
    unreadable: list[Unreadable]  # of the photos of this run
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        rate = (self.labelled + len(self.unreadable)) / self.seconds if self.seconds else 0.0
        return asdict(self) | {"seconds": round(self.seconds, 2), "photos_per_s": round(rate, 1)}


def label_photos(
    model: Model,
    photos: Sequence[tuple[str, Source]],
    out: str | Path,
    k: int = 5,
    *,
    show_progress: bool = False,
    **settings: Any,
) -> Batch:
    """Append the labels of photos, given by name and source, to the file `out`, unless it has them.

    `settings` are those of `Model.stream`: candidates, seen_shift, confidence, prior.
    """
    out, started = Path(out), time.monotonic()
    check_format(out)
    model.stream([], k, **settings)  # or an error, before the file is touched
    prior, ids = settings.get("prior"), model.bundle.ids
    chosen = [ids[row] for row in model.candidates(settings.get("candidates", "any")).tolist()]
    made_by = {  # a bundle in memory that was never saved cannot be distinguished from another
        "format": FORMAT,
        "bundle": None if model.bundle.path is None else bundle_checksum(model.bundle.path),
        "candidates": hashlib.sha256(json.dumps(chosen).encode()).hexdigest(),
        "k": k,
        "sure": settings.get("confidence", CONFIDENCE),
        "seen_shift": settings.get("seen_shift"),
        "prior": (model.prior if prior is None else Prior.read(prior, model.bundle.hierarchy)).to_json(),
    }
    versions = {name: _version(source) for name, source in photos}  # now: a later change is noticed the next time
    with open_labels(out, made_by, k, versions) as (file, done, again):
        waiting = {name: source for name, source in photos if name not in done}
        answers = model.stream([*waiting.values()], k, **settings, show_progress=show_progress)
        labelled, unreadable, lines = 0, [], []
        for count, (name, answer) in enumerate(zip(waiting, answers, strict=True), 1):
            if isinstance(answer, Unreadable):
                unreadable.append(Unreadable(name, answer.why))
            else:
                labelled += 1
            lines.append(_line(out, name, answer, k, versions[name]))
            if len(lines) == TOGETHER or count == len(waiting):
                with writing(out):
                    file.write(b"".join(lines))
                    file.flush()
                    os.fsync(file.fileno())
                lines.clear()
    already = sum(name in done for name, _ in photos)
    return Batch(str(out), labelled, already, again, unreadable, time.monotonic() - started)


def _version(source: Source) -> str:
    """Size and time of a file, the checksum of bytes; "" where there is neither: the name must do."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return hashlib.sha256(source).hexdigest()[:16]
    try:
        status = os.stat(source) if isinstance(source, (str, os.PathLike)) else None
    except (OSError, ValueError):
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}" if status else ""


def check_format(out: Path) -> None:
    if out.suffix.lower() not in FORMATS:
        raise UnseenError(f"{out}: labels are written as {' or '.join(FORMATS)}: end the name in one of these")


# -- the file --------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What a run needs to know of a row in the file."""

    photo: str
    version: str
    is_unreadable: bool
    start: int  # bytes
    end: int


@contextmanager
def open_labels(
    out: Path, made_by: Mapping[str, Any], k: int, versions: Mapping[str, str]
) -> Iterator[tuple[BinaryIO, set[str], list[str]]]:
    """The file, ready to append to; the photos in it; and those to label again, whose rows are taken out, as is what
    a kill or a loss of power left torn."""
    with locked(out.with_name(f".{out.name}.lock"), f"{out}: another process is writing to this file."):
        columns = csv_columns(k) if out.suffix.lower() == ".csv" else None
        with writing(out), open(out, "rb") if out.exists() else io.BytesIO() as file:
            rows = list(_read(file, out, columns))
            size = file.seek(0, io.SEEK_END)
            _check_same(out, made_by, fresh=not rows, empty=not size)
            done = {row.photo for row in rows if not _is_stale(row, versions)}
            header = to_csv([columns]).encode() if columns else b""
            if not out.exists() or len(header) + sum(row.end - row.start for row in rows if row.photo in done) != size:
                with replacing(out) as fresh:
                    fresh.write(header)
                    for row in rows:
                        file.seek(row.start)
                        fresh.write(file.read(row.end - row.start) if row.photo in done else b"")
        with writing(out), open(out, "ab") as file:
            yield file, done, [row.photo for row in rows if row.photo not in done]


def _is_stale(row: Row, versions: Mapping[str, str]) -> bool:
    """Whether the photo, if this run has it, could not be read or has changed. One that is gone keeps its label."""
    if row.photo not in versions:
        return False
    now = versions[row.photo]
    return row.is_unreadable or (now != "" and now != row.version)


def _check_same(out: Path, made_by: Mapping[str, Any], fresh: bool, empty: bool) -> None:
    """Refuse to continue labels from another bundle or with other settings, and what may be no labels at all."""
    beside = out.with_name(f".{out.name}.json")
    try:
        before = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        before = None
    before = before if isinstance(before, dict) else {}
    if not before and not empty:
        raise UnseenError(f"{out}: is not a file of labels, or {beside.name} beside it is gone. Choose another file.")
    if fresh:
        write_atomically(beside, json.dumps(made_by).encode())
        return
    other = [key.replace("_", "-") for key, value in made_by.items() if before.get(key) != value]
    if other:
        what = " and another ".join(other)
        raise UnseenError(f"{out}: holds labels made with another {what}. Choose another file, or delete it.")


def _read(file: BinaryIO, out: Path, columns: list[str] | None) -> Iterator[Row]:
    """The rows, up to one that is torn. A quoted name may hold a line break: a row ends where its quotes are closed."""
    start, row = 0, b""
    for line in file:
        row += line
        if columns and row.count(b'"') % 2 and len(row) < LONGEST:
            continue
        end = start + len(row)
        try:
            fields = _fields(row, columns)
        except (ValueError, KeyError, TypeError, RecursionError, csv.Error):
            return
        if columns and not start:
            if list(fields) != list(fields.values()):
                raise UnseenError(f"{out}: is not a file of labels: its columns are not {','.join(columns[:3])}, ...")
        else:
            yield Row(fields["photo"], fields["version"], bool(fields.get("unreadable")), start, end)
        start, row = end, b""


def _fields(row: bytes, columns: list[str] | None) -> dict[str, str]:
    if not row.endswith(b"\n") or b"\0" in row:  # a page that never reached the disk is all zeros
        raise ValueError("torn")
    if columns is None:
        fields = json.loads(row)
        if not isinstance(fields["photo"], str) or not isinstance(fields["version"], str):
            raise ValueError("not of labels")
        return fields
    cells = next(csv.reader(io.StringIO(row.decode("utf-8", "surrogateescape"), newline="")))
    return dict(zip(columns, map(csv_text, cells), strict=True))


def csv_columns(k: int) -> list[str]:
    """What a row of a CSV holds.

    >>> csv_columns(1)[4:]
    ['verdict_level', 'id_1', 'name_1', 'probability_1', 'unreadable', 'version']
    """
    verdict = [f"verdict_{field}" for field in ("id", "name", "probability", "level")]
    labels = [f"{field}_{place}" for place in range(1, k + 1) for field in ("id", "name", "probability")]
    return ["photo", *verdict, *labels, "unreadable", "version"]


def _line(out: Path, name: str, answer: Answer | Unreadable, k: int, version: str) -> bytes:
    if out.suffix.lower() == ".csv":
        if isinstance(answer, Unreadable):
            return _row([name, *[""] * (4 + 3 * k), answer.why, version])
        verdict = answer.verdict
        probability = "" if verdict.probability is None else f"{verdict.probability:.6f}"
        cells = [name, verdict.id or "", verdict.name or "", probability, verdict.level]
        cells += [cell for label in answer for cell in (label.id, label.name, f"{label.probability:.6f}")]
        return _row([*cells, *[""] * (6 + 3 * k - len(cells)), version])
    record = {"unreadable": answer.why} if isinstance(answer, Unreadable) else answer.as_dict()
    record["version"] = version
    text = json.dumps({"photo": name} | record, ensure_ascii=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        return json.dumps({"photo": name} | record).encode() + b"\n"


def _row(cells: Sequence[str]) -> bytes:
    return to_csv([cells]).encode("utf-8", "surrogateescape")
