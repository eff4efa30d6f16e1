"""Files: written completely or not at all, locked, verified; the cache folder."""

from __future__ import annotations

import hashlib
import lzma
import os
import secrets
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from unseen.util.errors import UnseenError

DAMAGE = (OSError, EOFError, ValueError, OverflowError, KeyError, IndexError, MemoryError, SyntaxError, RuntimeError)
DAMAGE += (struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tokenize.TokenError, SafetensorError)
"""What reading a damaged file raises, whatever its format; nothing that a mistake of ours would raise."""


def cache_folder() -> Path:
    """Where downloads and things made on first use are kept: UNSEEN_CACHE, else the user's cache folder."""
    folder = os.environ.get("UNSEEN_CACHE")
    if not folder:
        import pooch

        folder = pooch.os_cache("unseen")
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnseenError(f"{path}: cannot create the cache folder ({error}). Set UNSEEN_CACHE to another.") from None
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into an error that says which."""
    try:
        yield
    except OSError as error:
        raise UnseenError(f"cannot write to {path}: {error.strerror or error}") from None


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing that takes the place of `path` at the end: a reader has the old file or the new one,
    never half of it, even if the power fails. A writer that is killed leaves a .tmp file."""
    with writing(path):
        final = path.resolve()  # of a link, what it leads to
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = _beside(final)
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_names(final.parent)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """The same for a new folder and what is put into it."""
    with writing(path):
        temporary = _beside(path.resolve())
        temporary.mkdir(parents=True)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of the content or keep the old file."""
    with replacing(path) as file:
        file.write(content)


def _beside(path: Path) -> Path:
    return path.with_name(f".unseen-{secrets.token_hex(8)}.tmp")


def _sync_names(folder: Path) -> None:
    """Let the names in a folder reach the disk; Windows cannot open a folder."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file, which ends with the process; where another process holds it, an error says `refusal`."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise UnseenError(refusal) from None
    try:
        yield
    finally:
        lock.release()


def sha256(path: Path | str) -> str:
    """The file's checksum, as hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def verified(path: Path, checksum: str, advice: str) -> Path:
    """The path of a file that comes from elsewhere, if it has this SHA-256; else an error that says what to do."""
    if sha256(path) != checksum:
        raise UnseenError(f"{path}: not the expected file (sha256 {sha256(path)}). {advice}")
    return path
