"""Word-vector files, parsed once: what was read stays in the cache folder and is only mapped into memory the next time.

table = load_vector_file("glove.6B.zip#glove.6B.300d.txt")     # a zip with several files: name one behind '#'
table.words, table.vectors                                     # V words, V x S float32
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.errors import UnseenError
from unseen.runtime.files import sha256
from unseen.runtime.folders import cache_folder
from unseen.runtime.progress import progress
from unseen.runtime.seals import read_sealed, sealed
from unseen.semantics.vector_files import open_vectors, read_blocks, read_layout

MEGABYTE = 1 << 20
VERSION = 2  # of the cache's layout and of what the readers make of a file: raise it when either changes

FILES = ("words.txt", "vectors.f32")


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


def load_vector_file(spec: str | Path, show_progress: bool = True) -> VectorTable:
    """The words and vectors of a file, from the cache folder if the file has not changed since it was parsed."""
    path, member = split_member(spec)
    path = path.absolute()
    source = f"{path}#{member}" if member else str(path)
    with open_vectors(path, member):  # refuses what cannot be opened, before the cache is asked
        state = path.stat()
    folder = cache_folder() / "word-vectors"
    place = hashlib.sha256(source.encode()).hexdigest()[:16]
    entry = folder / f"{place}-{state.st_size}-{state.st_mtime_ns}-v{VERSION}"
    table = _from_cache(entry, source)
    if table is None:
        _parse_into(entry, path, member, show_progress)
        for old in folder.glob(f"{place}-*"):  # what the file held before it changed
            if old != entry:
                shutil.rmtree(old, ignore_errors=True)
        table = _from_cache(entry, source)
    if table is None:
        raise UnseenError(f"{entry}: the cache could not be read back. Set UNSEEN_CACHE to another folder.")
    return table


def _from_cache(entry: Path, source: str) -> VectorTable | None:
    """The table kept there; None if there is none, or only a damaged one, which is then made again."""
    try:
        about = read_sealed(entry / "about.json", (), "")
        if any(sha256(entry / name) != about["files"][name] for name in FILES):
            return None
        words = (entry / "words.txt").read_bytes().decode("utf-8").split("\n")
        vectors = np.memmap(entry / "vectors.f32", "<f4", mode="r", shape=(about["words"], about["dim"]))
    except (UnseenError, OSError, ValueError):
        return None
    return VectorTable(words, vectors, about["format"], about["duplicates"], about["sha256"], source)


def _parse_into(entry: Path, path: Path, member: str | None, show_progress: bool) -> None:
    """Parse the file block by block into the folder `entry`, which appears only when it is complete."""
    folder = entry.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="part-") as part:
            made = Path(part) / "table"
            made.mkdir()
            about = _parse(made, path, member, show_progress)
            about = sealed(about | {"files": {name: sha256(made / name) for name in FILES}})
            (made / "about.json").write_text(json.dumps(about), encoding="utf-8")
            shutil.rmtree(entry, ignore_errors=True)  # a damaged one
            try:
                os.replace(made, entry)
            except OSError:
                if not entry.is_dir():  # else another process was faster
                    raise
    except OSError as error:
        raise UnseenError(
            f"{folder}: the parsed vectors cannot be kept ({error}). Set UNSEEN_CACHE to a folder with room."
        ) from error


def _parse(made: Path, path: Path, member: str | None, show_progress: bool) -> dict:
    seen: dict[str, None] = {}
    lines = 0
    with open_vectors(path, member) as stream, open(made / "vectors.f32", "wb") as vectors:
        layout = read_layout(stream)
        total = -(-stream.size // MEGABYTE)
        with progress(f"Reading {Path(stream.name).name} (MB)", total, show_progress) as bar:
            shown = 0
            for words, matrix in read_blocks(stream, layout):
                first = []
                for row, word in enumerate(words):
                    if word not in seen:
                        seen[word] = None
                        first.append(row)
                lines += len(words)
                vectors.write((matrix if len(first) == len(words) else matrix[first]).tobytes())
                done = min(stream.position() // MEGABYTE, total)
                bar.advance(done - shown, words=f"{len(seen):,}")
                shown = done
    if not seen:
        raise UnseenError(f"{stream.name}: the file contains no words.")
    (made / "words.txt").write_bytes("\n".join(seen).encode("utf-8"))
    return {
        "format": layout.format,
        "words": len(seen),
        "dim": layout.dim,
        "duplicates": lines - len(seen),
        "sha256": sha256(path),
    }
