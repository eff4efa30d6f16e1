"""A bundle takes the place of another: whoever reads or is killed meanwhile finds the old one or the new one, whole.

A bundle is written into a folder beside its place, `.NAME.PID-TOKEN.saving`, which then changes places with the old one
in one step where the system has such a step (Linux, macOS), else in two renames: the old one becomes `.NAME....old`.
The writer holds a lock on its folder as long as it lives: what nobody holds was left by a process that died.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from unseen.bundle.files import read_header, verify_files
from unseen.errors import UnseenError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

T = TypeVar("T")
PATIENCE = 20.0  # seconds for which readers and writers wait for another writer
GAP = 2.0  # seconds for which readers without locks wait for a bundle that is between its two renames
_NO_GAP = 0.03  # and where no writer is seen: one may come and go between two looks
_PAUSE = 0.02
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A new folder to write into; at the end it takes `place`, and what was there is removed. On an error it goes."""
    place.parent.mkdir(parents=True, exist_ok=True)
    name = f".{place.name}.{os.getpid()}-{secrets.token_hex(4)}"
    fresh, old = place.with_name(f"{name}.saving"), place.with_name(f"{name}.old")
    with _only_writer(place.parent):
        _clear(place)
        fresh.mkdir()
        held, _ = _lock(fresh)
    try:
        yield fresh
        _sync(fresh)
        with _only_writer(place.parent):
            _put(fresh, place, old)
            _sync(place.parent)
    finally:
        if old.exists() and not place.exists():  # stopped between the two renames
            os.rename(old, place)
        shutil.rmtree(fresh, ignore_errors=True)  # what was not finished, or, after an exchange, the old one
        shutil.rmtree(old, ignore_errors=True)
        if held is not None:
            os.close(held)


def read_undisturbed(path: Path, read: Callable[[], T]) -> T:
    """What `read` gives of the bundle in `path`; read again where another one took its place meanwhile."""
    begun = time.monotonic()
    while True:
        before, found, problem = _generation(path), None, None
        try:
            found = read()
        except UnseenError as error:
            problem = error
        after = _generation(path)
        if before is not None and before == after:  # all files are of one bundle
            if problem is not None:
                raise problem
            return found  # pyright: ignore[reportReturnType]
        if problem is not None and before is None and after is None and _is_absent(path):
            raise _advice(path) or problem
        if time.monotonic() - begun > PATIENCE:
            raise problem or UnseenError(f"{path} is replaced again and again: try later")
        time.sleep(_PAUSE)


def _is_absent(path: Path) -> bool:
    """Whether there is no bundle at a moment at which no writer is between its two renames."""
    place = path.resolve()
    with _only_writer(place.parent) as certain:
        if _generation(path) is not None:
            return False
    if certain:
        return True
    begun, gap = time.monotonic(), _NO_GAP  # without locks only time tells
    while time.monotonic() - begun < gap:
        time.sleep(_PAUSE)
        if _generation(path) is not None:
            return False
        gap = GAP if _beside(place) else gap
    return True


def _generation(path: Path) -> bytes | None:
    """What tells a bundle from the one before it: its header has the checksums of all files."""
    try:
        return (path / "bundle.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:  # a problem that reading tells better
        return str(error).encode()


def _advice(path: Path) -> UnseenError | None:
    """Which folder to rename, where a process was killed between its two renames."""
    place = path.resolve()
    if place.exists():
        return None
    whole = [folder for folder in _beside(place) if _is_whole(folder)]
    if not whole:
        return None
    newest = max(whole, key=lambda folder: (folder / "bundle.json").stat().st_mtime)
    return UnseenError(f"{path} was moved by a process that was killed while saving: rename {newest} to it")


def _beside(place: Path) -> list[Path]:
    """The folders of writers to `place`, dead or alive."""
    ours = re.compile(rf"\.{re.escape(place.name)}\.\d+(-[0-9a-f]+)?\.(saving|old)")
    try:
        return sorted(item for item in place.parent.iterdir() if ours.fullmatch(item.name))
    except OSError:
        return []


def _is_whole(folder: Path) -> bool:
    try:
        verify_files(folder, read_header(folder)["files"])
    except (UnseenError, OSError):
        return False
    return True


def _clear(place: Path) -> None:
    """Remove what dead processes left, 100 MB each; if `place` is among it, put it back."""
    for folder in _beside(place):
        held, _ = _lock(folder)
        if held is None:  # its writer lives, or nobody knows
            continue
        try:
            if not place.exists() and _is_whole(folder):
                os.rename(folder, place)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)


def _put(fresh: Path, place: Path, old: Path) -> None:
    if not place.exists():
        os.rename(fresh, place)
    elif not exchange(fresh, place):
        os.rename(place, old)
        os.rename(fresh, place)


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where the system or its file system has no such step."""
    libc: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    paths = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(*paths, ctypes.c_uint(2))  # RENAME_SWAP
    elif sys.platform == "linux" and hasattr(libc, "renameat2"):
        here = ctypes.c_int(-100)  # AT_FDCWD
        failed = libc.renameat2(here, paths[0], here, paths[1], ctypes.c_uint(2))  # RENAME_EXCHANGE
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(other))


@contextmanager
def _only_writer(folder: Path) -> Iterator[bool]:
    """One process at a time changes what lies in a folder; False where the file system has no locks."""
    begun = time.monotonic()
    held, can_lock = _lock(folder)
    while held is None and can_lock:
        if time.monotonic() - begun > PATIENCE:
            raise UnseenError(f"another process has been replacing a bundle in {folder} for long: try later")
        time.sleep(_PAUSE)
        held, can_lock = _lock(folder)
    try:
        yield held is not None
    finally:
        if held is not None:
            os.close(held)


def _lock(folder: Path) -> tuple[int | None, bool]:
    """A lock on a folder until it is closed or the process ends, if nobody has it; and whether there are locks."""
    if fcntl is None:
        return None, False
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None, False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor, True
    except OSError as error:
        os.close(descriptor)
        return None, isinstance(error, BlockingIOError)


def _sync(folder: Path) -> None:
    """The names in a folder reach the disk, as the contents of its files did."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
