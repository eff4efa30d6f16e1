"""Files written whole or not at all, locks, and checksums."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from unseen.errors import UnseenError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_BLOCK = 1 << 20


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into an error that says which."""
    try:
        yield
    except OSError as error:
        raise UnseenError(f"cannot write to {path}: {error.strerror or error}") from None


def write_atomically(path: Path, content: bytes) -> None:
    """All of the content or the old file, never half: a temporary file beside it, synced, then renamed."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_beside(path)
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def temporary_beside(path: Path) -> Path:
    """A name for what is to become `path`. What processes that were killed left under such names is removed."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.(\d+)\.tmp")
    for name in os.listdir(path.parent):
        left = ours.fullmatch(name)
        if left and _is_dead(int(left[1])):
            remove(path.with_name(name))
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def remove(path: Path) -> None:
    """A file or a folder; nothing where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_dead(process: int) -> bool:
    """Whether there is surely no such process."""
    if os.name != "posix":  # where asking would end it
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # another user's
        return False
    return False


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[TextIO]:
    """Hold a lock on a file, which is open for reading and appending; where another process holds it, an error says
    `refusal`. Closing the file ends the lock, even if it was opened once more: use this one.

    The lock ends with the process in any case. Where the system or the file system has no locks, nothing is checked.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    with file:
        try:
            if fcntl is not None:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise UnseenError(refusal) from None
        except OSError:
            pass
        yield file


def sha256(path: Path | str) -> str:
    """The file's checksum, as hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
