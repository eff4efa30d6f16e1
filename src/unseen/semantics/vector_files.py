"""Readers of word-vector files: GloVe text, word2vec text and binary, fastText .vec; plain, gzip or zip.

    with open_vectors(Path("glove.6B.zip"), "glove.6B.300d.txt") as stream:
        layout = read_layout(stream)
        for words, matrix in read_blocks(stream, layout): ...          # n words, n x S float32

Formats are told apart by content, never by name. Whatever is wrong with a file is said with the line it is on.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from unseen.errors import UnseenError

BLOCK = 2 << 20  # bytes read at a time; their lines and numbers take a hundred times as much
HEAD = 1 << 16  # bytes that tell the format
LONGEST_LINE = 4 << 20  # room for 40 letters a number
MOST_DIMENSIONS = 100_000
LONGEST_COUNT = 12  # digits of a number in a header
MOST_NAMES = 10  # files of an archive that a message lists

FORMATS = "GloVe text, word2vec text or binary, fastText .vec; plain, .gz or .zip"
_FOREIGN = {  # first bytes of files that people take for word vectors
    (b"\xba\x16\x4f\x2f",): "a fastText model. Use the .vec file that is published beside it",
    (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"): (
        "a Python pickle, which is never loaded. Save it with gensim's save_word2vec_format"
    ),
    (b"\xff\xfe", b"\xfe\xff"): "text in UTF-16. Save it as UTF-8",
    (b"\x93NUMPY",): "a bare numpy array, without words",
}
_DAMAGE = (OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError, MemoryError)
_DAMAGE += (zlib.error, lzma.LZMAError, struct.error, zipfile.BadZipFile)
"""What unpacking a damaged archive can raise; RuntimeError for a password or a rare compression too."""
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


@dataclass
class Stream:
    """The decompressed bytes of one vector file, with what messages and the progress bar need to know of it."""

    name: str
    file: IO[bytes] | gzip.GzipFile
    size: int
    position: Callable[[], int]

    def read(self, count: int) -> bytes:
        try:
            return self.file.read(count)
        except _DAMAGE as error:
            raise _damaged(self.name, error) from error


def _damaged(name: object, error: BaseException) -> UnseenError:
    return UnseenError(f"{name}: damaged or cut short ({str(error) or type(error).__name__}). Fetch the file again.")


@contextmanager
def open_vectors(path: Path, member: str | None = None) -> Iterator[Stream]:
    """The file, or that file of a zip archive, decompressed."""
    with _open(path) as raw:
        magic = raw.read(4)
        raw.seek(0)
        if member is not None and magic not in _ZIP:
            raise UnseenError(f"{path}: not a zip archive, so there is no {member!r} in it. Name the file without '#'.")
        if magic in _ZIP:
            with _open_member(path, raw, member) as stream:
                yield stream
        elif magic[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as file:
                yield Stream(str(path), file, path.stat().st_size, raw.tell)
        else:
            yield Stream(str(path), raw, path.stat().st_size, raw.tell)


def _open(path: Path) -> IO[bytes]:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise UnseenError(f"{path}: a folder. Name the file of word vectors in it ({FORMATS}).")
        if not stat.S_ISREG(mode):  # a pipe or a device could be without end
            raise UnseenError(f"{path}: not a regular file.")
        return open(path, "rb")
    except FileNotFoundError:
        raise UnseenError(f"{path}: there is no such file of word vectors.") from None
    except PermissionError:
        raise UnseenError(f"{path}: permission denied.") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        why = getattr(error, "strerror", None) or str(error)
        raise UnseenError(f"{path}: cannot be opened ({why}).") from None


@contextmanager
def _open_member(path: Path, raw: IO[bytes], member: str | None) -> Iterator[Stream]:
    try:
        archive = zipfile.ZipFile(raw)
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    with archive:
        files = {
            item.filename: item
            for item in archive.infolist()
            if not item.filename.endswith("/") and not item.filename.startswith("__MACOSX/")  # is_dir() fails on ""
        }
        choices = ", ".join(f"{path}#{name}" for name in [*files][:MOST_NAMES]) + ", ..." * (len(files) > MOST_NAMES)
        if not files:
            raise UnseenError(f"{path}: the archive is empty.")
        if member is None and len(files) > 1:
            raise UnseenError(f"{path}: the archive contains {len(files)} files. Name one: {choices}.")
        if member is not None and member not in files:
            raise UnseenError(f"{path}: the archive contains no {member!r}. It contains: {choices}.")
        item = files[member] if member is not None else next(iter(files.values()))
        try:
            file = archive.open(item)
        except _DAMAGE as error:
            why = str(error) or type(error).__name__
            raise UnseenError(f"{path}#{item.filename}: cannot be unpacked ({why}).") from error
        with file:
            yield Stream(f"{path}#{item.filename}", file, item.file_size, file.tell)


@dataclass
class Layout:
    """What the head of a file tells. `count` is what a header promises, None in a file without one."""

    format: str
    dim: int
    count: int | None
    head: bytes  # bytes read so far, without byte-order mark and header
    first_line: int  # the number of the line that `head` begins with


def read_layout(stream: Stream) -> Layout:
    """The format, the dimensions, and what the header promises."""
    head = stream.read(HEAD)
    if not head.strip():
        raise UnseenError(f"{stream.name}: the file is empty.")
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise UnseenError(f"{stream.name}: not a file of word vectors but {what}. Readable: {FORMATS}.")
    head = head.removeprefix(b"\xef\xbb\xbf")
    while b"\n" not in head and len(head) <= LONGEST_LINE and (more := stream.read(BLOCK)):
        head += more
    first, _, rest = head.partition(b"\n")
    if len(first) > LONGEST_LINE:
        raise _too_long(stream, 1)
    fields = first.split(None, MOST_DIMENSIONS + 1)
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        if max(map(len, fields)) > LONGEST_COUNT:
            raise UnseenError(f"{stream.name}:1: the header has a number of {max(map(len, fields)):,} digits.")
        count, dim = map(int, fields)
        if not 0 < dim <= MOST_DIMENSIONS or count == 0:
            raise UnseenError(f"{stream.name}:1: the header promises {count} words of {dim} dimensions.")
        if not rest:
            rest = stream.read(HEAD)
        return Layout("word2vec binary" if _is_binary(rest) else "word2vec text", dim, count, rest, 2)
    if _is_binary(head):
        raise UnseenError(f"{stream.name}: not text, and no word2vec header on its first line. Readable: {FORMATS}.")
    dim = len(fields) - 1
    if dim < 1:
        raise UnseenError(f"{stream.name}:1: a word and its numbers were expected, not {_shown(first)}.")
    if dim > MOST_DIMENSIONS:
        raise UnseenError(f"{stream.name}:1: more than {MOST_DIMENSIONS:,} numbers in a line.")
    return Layout("GloVe text", dim, None, head, 1)


def _too_long(stream: Stream, line: int) -> UnseenError:
    return UnseenError(f"{stream.name}:{line}: a line of more than {LONGEST_LINE >> 20} MB. Is it text?")


def read_blocks(stream: Stream, layout: Layout) -> Iterator[tuple[list[str], np.ndarray]]:
    """Words and their n x S matrix, a few thousand at a time, in the file's order."""
    return _read_binary(stream, layout) if layout.format == "word2vec binary" else _read_text(stream, layout)


def _is_binary(sample: bytes) -> bool:
    """Whether these are 32-bit floats: every tenth of their bytes is one that text has at most by accident."""
    return 50 * len(sample.translate(None, bytes(range(9, 14)) + bytes(range(32, 256)))) > len(sample)


def _shown(line: bytes) -> str:
    text = line[:40].decode("utf-8", "replace")
    return repr(text + "..." if len(line) > 40 else text)


def _lines(stream: Stream, layout: Layout) -> Iterator[tuple[int, list[bytes]]]:
    """Blocks of whole lines, each with the number of its first one."""
    number, rest = layout.first_line, layout.head
    while block := stream.read(BLOCK):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            lines = whole.split(b"\n")
            if len(lines[0]) > LONGEST_LINE:  # others are shorter than a block
                raise _too_long(stream, number)
            yield number, lines
            number += len(lines)
        elif len(rest) > LONGEST_LINE:
            raise _too_long(stream, number)
    if rest:
        yield number, rest.removesuffix(b"\n").split(b"\n")


def _read_text(stream: Stream, layout: Layout) -> Iterator[tuple[list[str], np.ndarray]]:
    dim, found = layout.dim, 0
    separator = b"\t" if b"\t" in layout.head and b" " not in layout.head else b" "
    for number, lines in _lines(stream, layout):
        block = _fast_block(lines, dim, separator) or _careful_block(lines, dim, stream.name, number)
        found += len(block[0])
        yield block
    if layout.count is not None and found != layout.count:
        advice = "It seems to be cut short." if found < layout.count else "Correct the header."
        raise UnseenError(f"{stream.name}:1: the header promises {layout.count} words, the file has {found}. {advice}")


def _fast_block(lines: list[bytes], dim: int, separator: bytes) -> tuple[list[str], np.ndarray] | None:
    """Words and n x S matrix if every line is in perfect order; None if one is not, whatever the reason."""
    pairs = [line.partition(separator) for line in lines]
    if not all(rest for _, _, rest in pairs):
        return None
    try:
        matrix = np.loadtxt([rest.decode("ascii") for _, _, rest in pairs], np.float32, comments=None, ndmin=2)
        words = [word.decode("utf-8") for word, _, _ in pairs]
    except ValueError:  # UnicodeDecodeError is one
        return None
    in_order = matrix.shape == (len(lines), dim) and all(words) and np.isfinite(matrix).all()
    return (words, matrix) if in_order else None


def _careful_block(lines: list[bytes], dim: int, name: str, number: int) -> tuple[list[str], np.ndarray]:
    """The same line by line: skips blank lines, takes words with spaces (GloVe 840B has some), names the bad line."""
    words, rows = [], []
    for at, line in enumerate(lines, number):
        fields = line.split()
        if not fields:
            continue
        # With a space in the word there are more fields; but a number before the last S is a number too many.
        if len(fields) <= dim or (len(fields) > dim + 1 and _is_number(fields[-dim - 1])):
            raise UnseenError(
                f"{name}:{at}: {len(fields) - 1} numbers, but line 1 has {dim}: {_shown(line)}. "
                f"Every line needs a word and {dim} numbers."
            )
        bad = next((field for field in fields[-dim:] if not _is_number(field)), None)
        if bad is not None:
            raise UnseenError(f"{name}:{at}: {_shown(bad)} is not a number.")
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite
            row = np.array([float(field) for field in fields[-dim:]]).astype(np.float32)
        if not np.isfinite(row).all():
            raise UnseenError(f"{name}:{at}: the vector of {_shown(fields[0])} has a NaN or infinite number.")
        words.append(_decode(b" ".join(fields[:-dim]), f"{name}:{at}"))
        rows.append(row)
    return words, np.array(rows, np.float32).reshape(-1, dim)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field  # Python's float() takes 1_000


def _decode(word: bytes, where: str) -> str:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnseenError(f"{where}: the word {word[:40]!r} is not in UTF-8. Save the file as UTF-8.") from error


def _read_binary(stream: Stream, layout: Layout) -> Iterator[tuple[list[str], np.ndarray]]:
    """word2vec's own format: for each word its bytes, a space, S little-endian floats, and at times a line end."""
    dim, width = layout.dim, 4 * layout.dim
    buffer, at = layout.head, 0
    words, rows = [], []
    for number in range(1, (layout.count or 0) + 1):
        space = buffer.find(b" ", at)
        while space < 0 or len(buffer) < space + 1 + width:
            if space < 0 and len(buffer) - at > HEAD:
                raise UnseenError(f"{stream.name}: word {number} has no end. The header's dimensions may be wrong.")
            if words:  # hand over what is complete before the buffer moves on
                yield words, _finite(rows, words, dim, stream.name)
                words, rows = [], []
            more = stream.read(BLOCK)
            if not more:
                promise = f"The header promises {layout.count} words of {dim} dimensions"
                raise UnseenError(f"{stream.name}: ends within word {number}. {promise}: the file is cut short.")
            buffer, at = buffer[at:] + more, 0
            space = buffer.find(b" ")
        word = buffer[at:space].lstrip(b"\n")
        if not word or b"\n" in word:
            raise UnseenError(f"{stream.name}: word {number} is malformed. The header's dimensions may be wrong.")
        words.append(_decode(word, f"{stream.name}, word {number}"))
        rows.append(buffer[space + 1 : space + 1 + width])
        at = space + 1 + width
    yield words, _finite(rows, words, dim, stream.name)
    if (buffer[at:] + stream.read(HEAD)).strip():
        raise UnseenError(f"{stream.name}: goes on after the {layout.count} words that its header promises.")


def _finite(rows: list[bytes], words: list[str], dim: int, name: str) -> np.ndarray:
    matrix = np.frombuffer(b"".join(rows), "<f4").reshape(-1, dim)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise UnseenError(f"{name}: the vector of {words[bad[0]]!r} has a NaN or infinite number.")
    return matrix
