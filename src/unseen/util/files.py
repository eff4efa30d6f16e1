"""Files that are written completely or not at all, even if the power fails; locks, checksums, the cache folder."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import platform
import secrets
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from unseen.util.errors import UnseenError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

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
        make_folder(path)
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
    """A new file, open for writing, that takes the place of `path` at the end: all of it or the old one, never half,
    even if the power fails. File and name have reached the disk when this returns."""
    with _beside(path) as (_, descriptor), open(descriptor, "wb", closefd=False) as file:
        yield file


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """The same for a new folder with all that is put into it."""
    with _beside(path, is_folder=True) as (temporary, _):
        yield temporary
        for folder, _, files in os.walk(temporary):
            for item in [Path(folder), *(Path(folder, name) for name in files)]:
                if not item.is_symlink():
                    _sync(item)


def write_atomically(path: Path, content: bytes) -> None:
    """All of the content or the old file, never half."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def _beside(path: Path, is_folder: bool = False) -> Iterator[tuple[Path, int]]:
    """A new file or folder beside `path` that becomes `path` at the end: its name, and a descriptor.

    Its name says on which machine it is written, and its writer holds a lock on it. So whoever gets that lock, on the
    same machine, knows that the writer was killed, and removes it: the next writer in the same folder does.
    """
    with writing(path):
        place = path.resolve()  # of a link, what it leads to
        make_folder(place.parent)
        _remove_dead(place.parent)
        temporary, descriptor = _create(place.parent, is_folder)
        try:
            yield temporary, descriptor
            os.fsync(descriptor)
            os.replace(temporary, place)
            _sync(place.parent)
        except BaseException:
            _remove(temporary)
            raise
        finally:
            os.close(descriptor)


def _create(folder: Path, is_folder: bool) -> tuple[Path, int]:
    while True:
        temporary = folder / f".unseen-{_machine()}-{secrets.token_hex(8)}.tmp"
        if is_folder:
            temporary.mkdir()
        flags = os.O_RDONLY if is_folder else os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(temporary, flags, 0o666)
        except FileNotFoundError:
            if not is_folder:
                raise
            continue  # another process took it for dead before it was locked
        if _lock(descriptor) is not False and temporary.exists():
            return temporary, descriptor
        os.close(descriptor)  # so too here


def _remove_dead(folder: Path) -> None:
    """Remove what writers left that were killed on this machine."""
    for leftover in folder.glob(f".unseen-{_machine()}-*.tmp"):
        with suppress(OSError):  # already removed, or not ours to open
            descriptor = os.open(leftover, os.O_RDONLY)
            try:
                if _lock(descriptor):
                    _remove(leftover)
            finally:
                os.close(descriptor)


def _remove(temporary: Path) -> None:
    if temporary.is_dir():
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        temporary.unlink(missing_ok=True)


def _lock(descriptor: int) -> bool | None:
    """Whether this process now has the lock on an open file; None where the file system or the system has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@cache
def _machine() -> str:
    """Eight digits for this machine since it was started: the same in all of its containers, where locks hold."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        name = platform.node().encode()
    return hashlib.sha256(name).hexdigest()[:8]


def make_folder(path: Path) -> None:
    """A folder with those above it, whose names have reached the disk."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Let a file or the names in a folder reach the disk; Windows cannot open a folder."""
    if os.name == "posix" or path.is_file():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file, which ends with the process; where another process holds it, an error says `refusal`."""
    with writing(path):
        make_folder(path.parent)
        lock = FileLock(path, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise UnseenError(refusal) from None
    try:
        yield
    finally:
        lock.release()


def seal(facts: dict[str, Any]) -> bytes:
    """JSON with its checksum."""
    return json.dumps(facts | {"checksum": _digest(facts)}, indent=1, ensure_ascii=False).encode()


def unseal(content: bytes) -> dict[str, Any]:
    """What `seal` was given; ValueError where a byte has changed. Files of earlier versions have no checksum."""
    facts = json.loads(content)
    if not isinstance(facts, dict) or facts.pop("checksum", None) not in (None, _digest(facts)):
        raise ValueError("its checksum differs")
    return facts


def _digest(facts: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(facts))  # keys are texts
    plain.pop("checksum", None)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


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
