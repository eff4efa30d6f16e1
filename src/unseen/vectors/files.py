"""Files of word vectors: on each line a word and its numbers, as GloVe and fastText's .vec have them; word2vec's text
format begins with a line of two counts. Plain, gzip or zip: the content decides, not the name.

Parsing a large file takes a minute: the cache folder keeps the result, which is mapped into memory the next time.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import re
import zipfile
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.util.arrays import LARGE, read_arrays, write_arrays
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE, cache_folder, sha256
from unseen.util.names import list_some
from unseen.util.run import progress

KIND = "word-vectors"
VERSION = 5  # of the cache: raise it when its layout changes, or what the reader makes of a file
BUFFER = 2 << 20  # bytes read at a time
LONGEST_LINE = 4 << 20  # bytes: a file of another format may have no line end
STEP = 10_000  # lines between two moves of the progress bar
FORMATS = "text with a word and its numbers on each line; plain, .gz or .zip"
ONE_TOO_MANY = re.compile(r" [-+]?\.?\d[\d.]*(e[-+]?\d+)?$", re.I)  # a word that ends with a number


@dataclass(frozen=True)
class VectorTable:
    """V distinct words and their vectors, V x S float32. If a word occurs twice, its first vector counts."""

    words: list[str]
    vectors: np.ndarray
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
        facts = {"words": table.words, "duplicates": table.duplicates, "sha256": table.sha256}
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
    """Read the file, or that file of a zip archive."""
    words: dict[str, None] = {}
    numbers, lines = array("f"), 0
    promised = dim = 0
    with _unpacked(path, member) as (label, file), progress(f"Reading {path.name}", None, show_progress) as bar:
        for at, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
            fields = line.removeprefix(b"\xef\xbb\xbf").split() if at == 1 else line.split()
            if at == 1 and len(fields) == 2 and all(field.isdigit() and len(field) <= 12 for field in fields):
                promised, dim = map(int, fields)
                if not promised or not dim:
                    raise UnseenError(f"{label}:1: the header promises {promised} words of {dim} dimensions.")
            elif fields:
                dim = dim or max(1, len(fields) - 1)
                word, vector = _parse_line(f"{label}:{at}", fields, dim)
                lines += 1
                if word not in words:
                    words[word] = None
                    numbers.extend(vector)
            if at % STEP == 0:
                bar.advance(STEP)
        if not words:
            raise UnseenError(f"{label}: the file is empty, without any words.")
        if promised not in (0, lines):
            advice = "It seems to be cut short." if lines < promised else "Correct the header."
            raise UnseenError(f"{label}:1: the header promises {promised} words, the file has {lines}. {advice}")
    return VectorTable(
        list(words), np.frombuffer(numbers, np.float32).reshape(-1, dim), lines - len(words), sha256(path)
    )


def _parse_line(where: str, fields: list[bytes], dim: int) -> tuple[str, array[float]]:
    """The word, in which GloVe 840B has blanks at times, and its numbers."""
    try:
        word, vector = b" ".join(fields[:-dim]).decode(), array("f", map(float, fields[-dim:]))
        if not word or ONE_TOO_MANY.search(word):
            raise ValueError(f"{len(fields) - 1} numbers")
    except ValueError as error:
        shown = b" ".join(fields)[:40].decode(errors="replace")
        raise UnseenError(f"{where}: not a word and {dim} numbers: {shown!r} ({error}). Readable: {FORMATS}.") from None
    if not math.isfinite(sum(vector)):
        raise UnseenError(f"{where}: the vector of {word!r} has a NaN or infinite number.")
    return word, vector


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
