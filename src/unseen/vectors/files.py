"""Files of word vectors: GloVe text, word2vec text and binary, fastText .vec; plain, gzip or zip.

The content decides the format, not the name. Parsing a large file takes a minute: the cache folder keeps the result,
which is mapped into memory the next time.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from unseen.util.arrays import LARGE, read_arrays, write_arrays
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE, cache_folder, sha256
from unseen.util.names import list_some
from unseen.util.run import progress

KIND = "word-vectors"
VERSION = 4  # of the cache: raise it when its layout changes, or what the readers make of a file
BUFFER = 2 << 20  # bytes read at a time
NUMBERS = 1 << 20  # of a block of vectors
LONGEST_LINE = 4 << 20  # bytes
FORMATS = "GloVe text, word2vec text or binary, fastText .vec; plain, .gz or .zip"
FOREIGN = {  # first bytes of files that people take for word vectors
    b"\xba\x16\x4f\x2f": "a fastText model. Use the .vec file that is published beside it",
    b"\x80": "a Python pickle, which is never loaded. Save it with gensim's save_word2vec_format",
    b"\xff\xfe": "text in UTF-16. Save it as UTF-8",
    b"\x93NUMPY": "a bare numpy array, without words",
}
ONE_TOO_MANY = re.compile(r" [-+]?\.?\d[\d.]*(e[-+]?\d+)?$", re.I)  # a word that ends with a number

Block = tuple[list[str], np.ndarray]  # n words, n x S float32


@dataclass(frozen=True)
class VectorTable:
    """V distinct words and their vectors, V x S float32. If a word occurs twice, its first vector counts."""

    words: list[str]
    vectors: np.ndarray
    format: str
    duplicates: int  # lines that repeat a word
    sha256: str  # of the file on disk


def split_member(spec: str | Path) -> tuple[Path, str | None]:
    """'glove.6B.zip#glove.6B.300d.txt' -> the archive and the file in it. A path that exists is taken as it is."""
    path = Path(spec).expanduser()
    archive, mark, member = str(path).rpartition("#")
    return (path, None) if not mark or path.exists() else (Path(archive), member)


def load_vector_file(spec: str | Path, show_progress: bool = True) -> VectorTable:
    """The words and vectors of a file, from the cache folder if the file has not changed since it was parsed."""
    path, member = split_member(spec)
    try:
        state, is_file = path.stat(), path.is_file()
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise UnseenError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
    if not is_file:  # a pipe or a device could be without end
        raise UnseenError(f"{path}: not a file of word vectors ({FORMATS}).")
    folder = cache_folder() / KIND
    key = hashlib.sha256(f"{path.absolute()}#{member}".encode()).hexdigest()[:16]
    entry = folder / f"{key}-{state.st_size}-{state.st_mtime_ns}-v{VERSION}.safetensors"
    table = read_cached(entry)
    if table is None:
        table = parse(path, member, show_progress)
        for old in folder.glob(f"{key}-*"):  # what the file held before it changed
            old.unlink(missing_ok=True)
        facts = {"words": table.words, "format": table.format, "duplicates": table.duplicates, "sha256": table.sha256}
        write_arrays(entry, KIND, {"vectors": table.vectors}, facts)
    return table


def read_cached(entry: Path) -> VectorTable | None:
    """The table in the cache; None if there is none, or only a damaged one."""
    try:
        facts, arrays = read_arrays(entry, KIND, map_from=LARGE)
        return VectorTable(vectors=arrays["vectors"], **facts)
    except DAMAGE:
        return None


def parse(path: Path, member: str | None = None, show_progress: bool = False) -> VectorTable:
    """Read the file, or that file of a zip archive, block by block."""
    distinct: dict[str, int] = {}
    vectors = np.empty((0, 0), np.float32)
    lines = 0
    with _unpacked(path, member) as (label, file):
        layout, count, blocks = _read_layout(label, file)
        with progress(f"Reading {path.name}", count, show_progress) as bar:
            for words, block in blocks:
                if not np.isfinite(block).all():
                    bad = words[int(np.argmin(np.isfinite(block).all(axis=1)))]
                    raise UnseenError(f"{label}: the vector of {bad!r} has a NaN or infinite number.")
                new = block[[distinct.setdefault(word, at) == at for at, word in enumerate(words, lines)]]
                vectors.resize((len(distinct), block.shape[1]), refcheck=False)  # in place: a copy may not fit
                vectors[len(distinct) - len(new) :] = new
                lines += len(words)
                bar.advance(len(words))
        if not distinct:
            raise UnseenError(f"{label}: the file contains no words.")
        if count not in (None, lines):
            advice = "It seems to be cut short." if lines < count else "Correct the header."
            raise UnseenError(f"{label}:1: the header promises {count} words, the file has {lines}. {advice}")
    return VectorTable(list(distinct), vectors, layout, lines - len(distinct), sha256(path))


@contextmanager
def _unpacked(path: Path, member: str | None) -> Iterator[tuple[str, io.BufferedReader]]:
    """The name for messages and the decompressed bytes; damage is reported with the name."""
    label = f"{path}#{member}" if member else str(path)
    with ExitStack() as stack:
        try:
            file: Any = stack.enter_context(open(path, "rb"))
            magic = file.peek(4)
            if magic.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                archive = stack.enter_context(zipfile.ZipFile(file))
                label = f"{path}#{_choose_member(path, archive, member)}"
                file = archive.open(label.removeprefix(f"{path}#"))
            elif member is not None:
                raise UnseenError(f"{path}: not a zip archive, so it contains no {member!r}. Name it without '#'.")
            elif magic.startswith(b"\x1f\x8b"):
                file = gzip.GzipFile(fileobj=file)
            yield label, stack.enter_context(io.BufferedReader(file, BUFFER))
        except DAMAGE as error:
            why = str(error) or type(error).__name__
            raise UnseenError(f"{label}: damaged or cut short ({why}). Fetch the file again.") from error


def _choose_member(path: Path, archive: zipfile.ZipFile, member: str | None) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if member in names:
        return member
    if member is None and len(names) == 1:
        return names[0]
    choices = list_some([f"{path}#{name}" for name in names], 10)
    what = f"no {member!r}" if member else f"{len(names)} files"
    raise UnseenError(f"{path}: the archive contains {what}. Name one of these: {choices}.")


def _read_layout(label: str, file: io.BufferedReader) -> tuple[str, int | None, Iterator[Block]]:
    """The format, the number of words that a header promises, and the blocks in the file's order."""
    head = file.peek()
    if not head.strip():
        raise UnseenError(f"{label}: the file is empty.")
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise UnseenError(f"{label}: not a file of word vectors but {what}. Readable: {FORMATS}.")
    first = file.readline(LONGEST_LINE).removeprefix(b"\xef\xbb\xbf")
    fields = first.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) <= 12 for field in fields):
        count, dim = map(int, fields)
        if not count or not dim:
            raise UnseenError(f"{label}:1: the header promises {count} words of {dim} dimensions.")
        if _is_binary(file.peek()):
            return "word2vec binary", count, _read_binary(label, file, count, dim)
        return "word2vec text", count, _read_text(label, file, dim)
    if _is_binary(first):
        raise UnseenError(f"{label}: not text, and no word2vec header on its first line. Readable: {FORMATS}.")
    return "GloVe text", None, _read_text(label, file, max(1, len(fields) - 1), first)


def _is_binary(sample: bytes) -> bool:
    """Whether these are 32-bit floats: every tenth of their bytes is one that text has at most by accident."""
    return 50 * len(sample.translate(None, bytes(range(9, 14)) + bytes(range(32, 256)))) > len(sample)


def _read_text(label: str, file: io.BufferedReader, dim: int, first: bytes = b"") -> Iterator[Block]:
    number = 1 if first else 2  # of the next line
    lines = chain([first] if first else [], iter(lambda: file.readline(LONGEST_LINE), b""))
    while block := list(islice(lines, max(1, NUMBERS // dim))):
        yield _parse_quickly(block, dim) or _parse_carefully(block, dim, label, number)
        number += len(block)


def _parse_quickly(lines: list[bytes], dim: int) -> Block | None:
    """Words and matrix if every line is in perfect order; None if one is not, whatever the reason."""
    pairs = [line.split(None, 1) for line in lines]
    try:
        words = [word.decode() for word, _ in pairs]
        matrix = np.loadtxt([numbers.decode("ascii") for _, numbers in pairs], np.float32, comments=None, ndmin=2)
    except ValueError:  # UnicodeDecodeError is one
        return None
    return (words, matrix) if matrix.shape == (len(lines), dim) else None


def _parse_carefully(lines: list[bytes], dim: int, label: str, number: int) -> Block:
    """The same line by line: skips blank lines, takes words with spaces (GloVe 840B has some), names the bad line."""
    words, rows = [], []
    for at, line in enumerate(lines, number):
        fields = line.split()
        if not fields:
            continue
        try:
            rows.append([float(field) for field in fields[-dim:]])
            words.append(b" ".join(fields[:-dim]).decode())
            if not words[-1] or ONE_TOO_MANY.search(words[-1]):
                raise ValueError(f"{len(fields) - 1} numbers")
        except ValueError as error:
            shown = line.strip()[:40].decode(errors="replace")
            raise UnseenError(f"{label}:{at}: not a word and {dim} numbers: {shown!r} ({error}).") from None
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite
        return words, np.array(rows).astype(np.float32).reshape(-1, dim)


def _read_binary(label: str, file: io.BufferedReader, count: int, dim: int) -> Iterator[Block]:
    """word2vec's own format: for each word its bytes, a space, S little-endian floats, and at times a line end."""
    words, rows = [], []
    for number in range(1, count + 1):
        word = b"".join(iter(lambda: file.read(1).rstrip(b" "), b""))
        rows.append(file.read(4 * dim))
        if len(rows[-1]) < 4 * dim:
            promise = f"The header promises {count} words of {dim} dimensions"
            raise UnseenError(f"{label}: ends within word {number}. {promise}: the file is cut short.")
        try:
            words.append(word.decode().lstrip("\n"))
        except UnicodeDecodeError:
            raise UnseenError(f"{label}: word {number} is not in UTF-8. Are the header's dimensions right?") from None
        if number == count or len(rows) * dim >= NUMBERS:
            yield words, np.frombuffer(b"".join(rows), "<f4").reshape(-1, dim)
            words, rows = [], []
    if file.read(2).strip():
        raise UnseenError(f"{label}: goes on after the {count} words that its header promises.")
