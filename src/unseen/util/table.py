"""The resumable table: rows with a key each, written in parts, so that long work continues wherever it was killed.

    FOLDER/
      table.safetensors     what made the rows; once the table is finished, also which rows it has, in their order
      000000.safetensors    a part: keys, versions and JSON records of some rows, perhaps with a vector for each
      lock                  held by the process that writes

A part is written once, completely or not at all, and has a checksum. A part that is damaged or gone counts as never
written: the same command makes its rows again. Of two rows with one key the later one counts. Readers of a finished
table see the rows that it had when they opened it, while another process adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen.util.arrays import read_arrays, write_arrays
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE, locked

MANIFEST = "table.safetensors"
ROWS, SECONDS = 1024, 5.0  # a part is written when it has this number of rows, or after this time
RECENT = 8  # parts whose records are held
MAPPED = 200  # parts that are mapped at a time: each holds a file open


class Row(NamedTuple):
    """A row to keep."""

    key: str
    version: str  # of what the row was made from; "" where nobody knows
    record: Any  # JSON
    why: str = ""  # reason why the row could not be made; such a row can be tried again
    vector: np.ndarray | None = None


class Entry(NamedTuple):
    """Where a row is, and what a resumed run needs to know of it."""

    part: int
    row: int
    version: str
    why: str


class Table:
    """The rows of a folder. `open_table` opens it for writing, `read_table` opens a finished one for reading."""

    def __init__(self, folder: Path, kind: str):
        self.folder, self.kind = folder, kind
        self.made_by: Any = None  # JSON that the writer chose; None for a new table
        self.entries: dict[str, Entry] = {}
        self.records: list[Any] = []  # of a table that `read_table` opened, in the order of `entries`
        self.finished: dict[str, Any] = {}  # key -> record when it was last finished, of one that is open for writing
        self.summary: Any = None  # JSON that `finish` was given
        self._unwritten: list[Row] = []
        self._written_at, self._next = time.monotonic(), 0
        self._mapped: dict[int, np.ndarray] = {}  # vectors of parts
        self._verified: set[int] = set()

    # -- writing ---------------------------------------------------------------------------------------------------

    def start(self, made_by: Any) -> None:
        """Begin a new table; one that exists keeps its manifest until it is finished."""
        if self.made_by is None:
            self.made_by = made_by
            write_arrays(self.folder / MANIFEST, self.kind, {}, {"made_by": made_by})

    def is_current(self, key: str, version: str, retry: bool = False) -> bool:
        """Whether there is a row of this version; `retry` asks again for rows that could not be made."""
        entry = self.entries.get(key)
        return entry is not None and version in ("", entry.version) and not (retry and entry.why)

    def add(self, row: Row) -> None:
        self._unwritten.append(row)
        if len(self._unwritten) >= ROWS or time.monotonic() - self._written_at > SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the rows added so far as a part."""
        rows, self._unwritten = self._unwritten, []
        self._written_at = time.monotonic()
        if not rows:
            return
        vectors = [row.vector for row in rows if row.vector is not None]
        if vectors:  # a row without a vector gets zeros
            blank = np.zeros_like(vectors[0])
            arrays = {"vectors": np.stack([blank if row.vector is None else row.vector for row in rows])}
        else:
            arrays = {}
        columns = {name: [getattr(row, name) for row in rows] for name in ("key", "version", "record", "why")}
        write_arrays(self._path(self._next), self.kind, arrays, {"made_by": self.made_by, **columns})
        self._index(self._next, columns)
        self._next += 1

    def finish(self, records: Mapping[str, Any], summary: Any) -> None:
        """Say in the manifest which rows the table has, in their order, and delete the parts that it needs no more."""
        entries = [self.entries[key] for key in records]
        places = {name: np.array([getattr(entry, name) for entry in entries], np.int64) for name in ("part", "row")}
        about = {"made_by": self.made_by, "summary": summary, "key": list(records), "record": list(records.values())}
        about |= {name: [getattr(entry, name) for entry in entries] for name in ("version", "why")}
        write_arrays(self.folder / MANIFEST, self.kind, places, about)
        needed = {entry.part for entry in entries}
        for number in self._numbers():
            if number not in needed:
                self._path(number).unlink()

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, keys: Iterable[str]) -> Iterator[Any]:
        """The records of rows; the parts read last are kept for the next rows."""
        recent: dict[int, list[Any]] = {}
        for key in keys:
            part, row, *_ = self.entries[key]
            if part not in recent:
                if len(recent) >= RECENT:
                    recent.pop(next(iter(recent)))
                recent[part] = self._read_part(part)[0]["record"]
            yield recent[part][row]

    def vectors(self, entries: Sequence[Entry]) -> np.ndarray:
        """The vectors of rows, n x D, as they are stored."""
        parts, rows = np.array([(entry.part, entry.row) for entry in entries], np.int64).reshape(-1, 2).T
        result = None
        for number in np.unique(parts).tolist():
            vectors, chosen = self._map(number), parts == number
            if result is None:
                result = np.empty((len(parts), vectors.shape[1]), vectors.dtype)
            result[chosen] = vectors[rows[chosen]]
        assert result is not None  # callers ask for one row at least
        return result

    def _map(self, number: int) -> np.ndarray:
        """The vectors of a part; a large table need not fit memory."""
        if number not in self._mapped:
            if len(self._mapped) >= MAPPED:
                self._mapped.pop(next(iter(self._mapped)))
            self._mapped[number] = self._read_part(number)[1]["vectors"]
        return self._mapped[number]

    def _read_part(self, number: int) -> tuple[Any, dict[str, np.ndarray]]:
        path, verify = self._path(number), number not in self._verified
        self._verified.add(number)
        try:
            return read_arrays(path, self.kind, verify, map_from=0)
        except PermissionError:
            raise UnseenError(f"{path}: permission denied.") from None
        except DAMAGE as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UnseenError(
                f"{path}: is damaged ({why}). Run the same command again: it makes this part again."
            ) from None

    def _index(self, number: int, columns: dict[str, list[Any]]) -> None:
        facts = zip(columns["key"], columns["version"], columns["why"], strict=True)
        for row, (key, version, why) in enumerate(facts):
            self.entries[key] = Entry(number, row, version, why)

    def _load_parts(self) -> None:
        """Read and verify all parts."""
        for number in self._numbers():
            self._next = number + 1
            try:
                columns, _ = read_arrays(self._path(number), self.kind, map_from=0)
            except PermissionError:
                raise
            except DAMAGE:
                continue
            self.made_by = self.made_by or columns["made_by"]
            self._index(number, columns)

    def _load_manifest(self) -> None:
        about, places = read_arrays(self.folder / MANIFEST, self.kind)
        self.made_by = about["made_by"]
        if "key" in about:
            self.summary, self.records = about["summary"], about["record"]
            facts = zip(places["part"].tolist(), places["row"].tolist(), about["version"], about["why"], strict=True)
            self.entries = dict(zip(about["key"], map(Entry._make, facts), strict=True))

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("[0-9]*.safetensors") if path.stem.isdecimal())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.safetensors"


@contextmanager
def open_table(folder: Path, kind: str, name: str) -> Iterator[Table]:
    """Open a table for writing, new or not; `name` is what messages call it. Rows added so far are kept, whatever ends
    the work."""
    table = Table(folder, kind)
    with locked(folder / "lock", f"{name}: another process is writing to it."):
        if (folder / MANIFEST).exists():
            try:
                table._load_manifest()
                table.finished = dict(zip(table.entries, table.records, strict=True))
                table.entries.clear()
                table._load_parts()
            except PermissionError as error:
                raise UnseenError(f"{error.filename}: permission denied.") from None
            except DAMAGE:  # of the manifest: the parts know enough
                table._load_parts()
                table.finished = dict(zip(table.entries, table.read(table.entries), strict=True))
        try:
            yield table
        finally:
            table.flush()


def read_table(folder: Path, kind: str) -> Table:
    """A table as it was when it was last finished; ValueError, KeyError or OSError where it is damaged or missing. One
    that was never finished has no entries."""
    table = Table(folder, kind)
    table._load_manifest()
    return table
