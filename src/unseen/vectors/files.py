"""Files of word vectors: GloVe text, word2vec text and binary, fastText .vec; plain, gzip or zip.

The content decides the format, never the name. A file is parsed once, which takes a minute for a large one: the cache
folder keeps the result, and the next time it is only mapped into memory.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, count, islice, takewhile
from pathlib import Path
from typing import IO, Any

import numpy as np

from unseen._util.files import DAMAGE, cache_folder, replacing, sha256, write_atomically
from unseen._util.names import list_some
from unseen._util.run import progress
from unseen.errors import UnseenError

VERSION = 3  # of the cache: raise it when its layout changes, or what the readers make of a file
BUFFER = 2 << 20  # bytes read at a time
NUMBERS = 1 << 20  # of a block of vectors
LONGEST_LINE = 4 << 20  # bytes
LONGEST_WORD = 1 << 16
FORMATS = "GloVe text, word2vec text or binary, fastText .vec; plain, .gz or .zip"
FOREIGN = {  # first bytes of files that people take for word vectors
    b"\xba\x16\x4f\x2f": "a fastText model. Use the .vec file that is published beside it",
    b"\x80": "a Python pickle, which is never loaded. Save it with gensim's save_word2vec_format",
    b"\xff\xfe": "text in UTF-16. Save it as UTF-8",
    b"\x93NUMPY": "a bare numpy array, without words",
}
UNPACKING_DAMAGE = (*DAMAGE, lzma.LZMAError, struct.error, RuntimeError)  # RuntimeError: it has a password

Block = tuple[list[str], np.ndarray]  # n words, n x S float32


@dataclass(frozen=True)
class VectorTable:
    """V distinct words and their vectors, V x S float32. Of a word that came twice the first vector is kept."""

    words: list[str]
    vectors: np.ndarray
    format: str
    duplicates: int  # lines whose word had been there before
    sha256: str  # of the file as it lies on disk
    source: str


def split_member(spec: str | Path) -> tuple[Path, str | None]:
    """'glove.6B.zip#glove.6B.300d.txt' -> the archive and the file in it. A path that exists is taken as it is."""
    path = Path(spec).expanduser()
    if os.path.exists(path) or "#" not in str(path):
        return path, None
    archive, _, member = str(path).rpartition("#")
    return Path(archive), member


# --- unpacking --------------------------------------------------------------------------------------------------------


class _Unpacked(io.RawIOBase):
    """The decompressed bytes of a file; damage is reported with its name."""

    def __init__(self, label: str, file: Any):
        self.label, self._file = label, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        try:
            data = self._file.read(len(buffer))
        except UNPACKING_DAMAGE as error:
            raise _damaged(self.label, error) from error
        buffer[: len(data)] = data
        return len(data)


class Stream(io.BufferedReader):
    """The decompressed bytes of the file that messages call `label`."""

    def __init__(self, label: str, file: Any):
        super().__init__(_Unpacked(label, file), BUFFER)
        self.label = label


def _damaged(name: object, error: BaseException) -> UnseenError:
    return UnseenError(f"{name}: damaged or cut short ({str(error) or type(error).__name__}). Fetch the file again.")


@contextmanager
def open_vectors(path: Path, member: str | None = None) -> Iterator[Stream]:
    """The decompressed file, or that file of a zip archive."""
    if os.path.exists(path) and not path.is_file():  # a pipe or a device could be without end
        raise UnseenError(f"{path}: not a file of word vectors ({FORMATS}).")
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(open(path, "rb"))
        except (OSError, ValueError) as error:  # ValueError: a null character in the name
            raise UnseenError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
        label, file, magic = str(path), raw, raw.read(4)
        raw.seek(0)
        if magic in (b"PK\x03\x04", b"PK\x05\x06"):
            label, file = _open_member(stack, path, raw, member)
        elif member is not None:
            raise UnseenError(f"{path}: not a zip archive, so there is no {member!r} in it. Name the file without '#'.")
        elif magic[:2] == b"\x1f\x8b":
            file = stack.enter_context(gzip.GzipFile(fileobj=raw))
        yield Stream(label, file)


def _open_member(stack: ExitStack, path: Path, raw: IO[bytes], member: str | None) -> tuple[str, IO[bytes]]:
    try:
        archive = stack.enter_context(zipfile.ZipFile(raw))
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        choices = list_some([f"{path}#{name}" for name in names], 10)
        if not names:
            raise UnseenError(f"{path}: the archive is empty.")
        if member is None and len(names) > 1:
            raise UnseenError(f"{path}: the archive contains {len(names)} files. Name one: {choices}.")
        if member is not None and member not in names:
            raise UnseenError(f"{path}: the archive contains no {member!r}. It contains: {choices}.")
        name = names[0] if member is None else member
        return f"{path}#{name}", stack.enter_context(archive.open(name))
    except UNPACKING_DAMAGE as error:
        raise _damaged(path, error) from error


# --- parsing ----------------------------------------------------------------------------------------------------------


@dataclass
class Layout:
    """What the first line of a file says. `count` is what a header promises, None in a file without one."""

    format: str
    dim: int
    count: int | None
    first: bytes  # the first line, where it is not a header


def read_layout(file: Stream) -> Layout:
    """The format, the dimensions, and what the header promises."""
    label, head = file.label, file.peek()
    if not head.strip():
        raise UnseenError(f"{label}: the file is empty.")
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise UnseenError(f"{label}: not a file of word vectors but {what}. Readable: {FORMATS}.")
    first = _read_line(file, 1).removeprefix(b"\xef\xbb\xbf")
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) <= 12 for field in fields):
        promised, dim = map(int, fields)
        if not promised or not dim:
            raise UnseenError(f"{label}:1: the header promises {promised} words of {dim} dimensions.")
        return Layout("word2vec binary" if _is_binary(file.peek()) else "word2vec text", dim, promised, b"")
    if _is_binary(first):
        raise UnseenError(f"{label}: not text, and no word2vec header on its first line. Readable: {FORMATS}.")
    return Layout("GloVe text", max(1, len(fields) - 1), None, first)


def read_blocks(file: Stream, layout: Layout) -> Iterator[Block]:
    """Words and their matrix, in blocks of thousands, in the file's order."""
    return (_read_binary if layout.format == "word2vec binary" else _read_text)(file, layout)


def _read_line(file: Stream, number: int) -> bytes:
    line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise UnseenError(f"{file.label}:{number}: a line of more than {LONGEST_LINE >> 20} MB. Is it text?")
    return line


def _is_binary(sample: bytes) -> bool:
    """Whether these are 32-bit floats: every tenth of their bytes is one that text has at most by accident."""
    return 50 * len(sample.translate(None, bytes(range(9, 14)) + bytes(range(32, 256)))) > len(sample)


def _read_text(file: Stream, layout: Layout) -> Iterator[Block]:
    words, number = 0, 1 if layout.first else 2  # of the next line
    further = takewhile(bool, (_read_line(file, at) for at in count(2)))
    lines = chain([layout.first] if layout.first else [], further)
    while block := list(islice(lines, max(1, NUMBERS // layout.dim))):
        parsed = _parse_quickly(block, layout.dim) or _parse_carefully(block, layout.dim, file.label, number)
        words, number = words + len(parsed[0]), number + len(block)
        yield parsed
    if layout.count is not None and words != layout.count:
        advice = "It seems to be cut short." if words < layout.count else "Correct the header."
        raise UnseenError(f"{file.label}:1: the header promises {layout.count} words, the file has {words}. {advice}")


def _parse_quickly(lines: list[bytes], dim: int) -> Block | None:
    """Words and matrix if every line is in perfect order; None if one is not, whatever the reason."""
    pairs = [line.split(None, 1) for line in lines]
    try:
        words = [word.decode() for word, _ in pairs]
        matrix = np.loadtxt([numbers.decode("ascii") for _, numbers in pairs], np.float32, comments=None, ndmin=2)
    except ValueError:  # UnicodeDecodeError is one
        return None
    return (words, matrix) if matrix.shape == (len(lines), dim) and np.isfinite(matrix).all() else None


def _parse_carefully(lines: list[bytes], dim: int, label: str, number: int) -> Block:
    """The same line by line: skips blank lines, takes words with spaces (GloVe 840B has some), names the bad line."""
    words, rows = [], []
    for at, line in enumerate(lines, number):
        fields = line.split()
        if not fields:
            continue
        try:
            with np.errstate(over="ignore"):  # too large for float32 becomes infinite
                rows.append(np.array([float(field) for field in fields[-dim:]]).astype(np.float32))
            words.append(b" ".join(fields[:-dim]).decode())
            if not words[-1] or re.search(r" [-+]?\.?\d[\d.]*(e[-+]?\d+)?$", words[-1], re.I):  # one too many
                raise ValueError(f"{len(fields) - 1} numbers")
            if not np.isfinite(rows[-1]).all():
                raise ValueError("a number is NaN or infinite")
        except ValueError as error:
            shown = line.strip()[:40].decode(errors="replace")
            raise UnseenError(f"{label}:{at}: not a word and {dim} numbers: {shown!r} ({error}).") from None
    return words, np.array(rows, np.float32).reshape(-1, dim)


def _read_binary(file: Stream, layout: Layout) -> Iterator[Block]:
    """word2vec's own format: for each word its bytes, a space, S little-endian floats, and at times a line end."""
    label, dim, total, words, rows = file.label, layout.dim, layout.count or 0, [], []
    for number in range(1, total + 1):
        word = bytearray()
        while (letter := file.read(1)) not in (b" ", b"") and len(word) < LONGEST_WORD:
            word += letter
        if len(word) == LONGEST_WORD:
            raise UnseenError(f"{label}: word {number} has no end. Are the header's dimensions right?")
        rows.append(file.read(4 * dim))
        if len(rows[-1]) < 4 * dim:
            promise = f"The header promises {total} words of {dim} dimensions"
            raise UnseenError(f"{label}: ends within word {number}. {promise}: the file is cut short.")
        try:
            words.append(word.decode().lstrip("\n"))
        except UnicodeDecodeError:
            raise UnseenError(f"{label}: word {number} is not in UTF-8. Are the header's dimensions right?") from None
        if number == total or len(rows) * dim >= NUMBERS:
            matrix = np.frombuffer(b"".join(rows), "<f4").reshape(-1, dim)
            bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
            if len(bad):
                raise UnseenError(f"{label}: the vector of {words[bad[0]]!r} has a NaN or infinite number.")
            yield words, matrix
            words, rows = [], []
    if file.read(LONGEST_WORD).strip():
        raise UnseenError(f"{label}: goes on after the {total} words that its header promises.")


# --- the cache --------------------------------------------------------------------------------------------------------


def load_vector_file(spec: str | Path, show_progress: bool = True) -> VectorTable:
    """The words and vectors of a file, from the cache folder if the file has not changed since it was parsed."""
    path, member = split_member(spec)
    path = path.absolute()
    source = f"{path}#{member}" if member else str(path)
    with open_vectors(path, member):  # refuses what cannot be opened, whatever the cache holds
        state = path.stat()
    folder = cache_folder() / "word-vectors"
    key = hashlib.sha256(source.encode()).hexdigest()[:16]
    entry = folder / f"{key}-{state.st_size}-{state.st_mtime_ns}-v{VERSION}.json"
    table = read_cached(entry, source)
    if table is None:
        _parse_into(entry, path, member, show_progress)
        for old in folder.glob(f"{key}-*"):  # what the file held before it changed
            if old.stem != entry.stem:
                old.unlink(missing_ok=True)
        table = read_cached(entry, source)
    if table is None:
        raise UnseenError(f"{entry}: the cache could not be read back. Set UNSEEN_CACHE to another folder.")
    return table


def read_cached(entry: Path, source: str) -> VectorTable | None:
    """The table kept there; None if there is none, or only a damaged one."""
    try:
        saved = json.loads(entry.read_bytes())
        record, vectors = saved["record"], entry.with_suffix(".f32")
        if saved["checksum"] != _checksum(record) or sha256(vectors) != record["vectors"]:
            return None
    except DAMAGE:
        return None
    matrix = np.memmap(vectors, "<f4", mode="r", shape=(len(record["words"]), record["dim"]))
    return VectorTable(record["words"], matrix, record["format"], record["duplicates"], record["sha256"], source)


def _checksum(record: dict) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _parse_into(entry: Path, path: Path, member: str | None, show_progress: bool) -> None:
    """Parse the file block by block: the vectors go beside `entry`, then the words and checksums into it."""
    vectors = entry.with_suffix(".f32")
    distinct: dict[str, int] = {}
    lines = 0
    with open_vectors(path, member) as file, replacing(vectors) as out:
        layout = read_layout(file)
        with progress(f"Reading {path.name}", layout.count, show_progress) as bar:
            for words, matrix in read_blocks(file, layout):
                new = [distinct.setdefault(word, at) == at for at, word in enumerate(words, lines)]
                out.write(matrix[new].astype("<f4", copy=False).tobytes())
                lines += len(words)
                bar.advance(len(words))
        if not distinct:
            raise UnseenError(f"{file.label}: the file contains no words.")
    record = {"format": layout.format, "dim": layout.dim, "duplicates": lines - len(distinct), "sha256": sha256(path)}
    record |= {"words": list(distinct), "vectors": sha256(vectors)}
    write_atomically(entry, json.dumps({"checksum": _checksum(record), "record": record}).encode())
