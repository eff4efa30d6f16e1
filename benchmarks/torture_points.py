"""Processes that end or find the disk full at an exact point of their writing: for `torture.py`.

A point is a call that changes what lies on a disk. `Points` counts them in the process that it is used in, by putting
itself around functions of `os`; the package knows nothing of it.
"""

from __future__ import annotations

import errno
import faulthandler
import io
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CALLS = ("fsync", "replace", "rename", "link", "mkdir", "unlink", "rmdir")
NEED_ROOM = ("fsync", "link", "mkdir")  # what a full disk refuses
PATIENCE = 600  # seconds for one process, on a machine that has other work too
CRASH = 70  # exit status of a process that ended with a stack trace


@dataclass
class Points:
    """What happens at the point of number `at`: "kill" before or after the call, or "full" from there on."""

    at: int = -1
    blow: str = ""
    after: bool = False
    count: int = 0

    def wrap(self, name: str, call: Callable) -> Callable:
        def counted(*args, **kwargs):
            here, self.count = self.count, self.count + 1
            if self.blow == "full" and here >= self.at and name in NEED_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self.blow == "kill" and here == self.at and not self.after:
                _die()
            result = call(*args, **kwargs)
            if self.blow == "kill" and here == self.at:
                _die()
            return result

        return counted

    def install(self) -> None:
        """In this process from now on: meant for a process that is soon to end."""
        for name in CALLS:
            setattr(os, name, self.wrap(name, getattr(os, name)))

    def end(self) -> None:
        """The process has done its work."""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Ended:
    """How a process ended: its status (negative: the signal), what it said, the points it passed, its seconds."""

    status: int
    said: str
    points: int
    seconds: float


class Child:
    """A function in a process of its own, forked: nothing needs to be imported again."""

    def __init__(self, work: Callable, points: Points | None = None, file_size: int | None = None):
        self.begun = time.monotonic()
        # Pipes, since a limit to the size of files would cut what is said in one.
        self.counted, counted = os.pipe()
        self.said, said = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(work, points or Points(), file_size, counted, said)
        os.close(counted)
        os.close(said)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def is_running(self) -> bool:
        info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return info is None

    def wait(self) -> Ended:
        said, status = self._listen()
        with open(self.counted, "rb") as pipe:
            points = int(pipe.read() or b"0")
        return Ended(os.waitstatus_to_exitcode(status), said.decode(errors="replace"), points,
                     time.monotonic() - self.begun)  # fmt: skip

    def _listen(self) -> tuple[bytes, int]:
        """All that it says, or it would wait for ever with its pipe full; and its status."""
        said, ended = b"", (0, 0)
        os.set_blocking(self.said, False)
        with open(self.said, "rb") as pipe:
            while not ended[0]:
                select.select([pipe], [], [], 0.02)
                if time.monotonic() - self.begun > PATIENCE:
                    os.kill(self.pid, signal.SIGABRT)  # it then says where it hangs
                ended = os.waitpid(self.pid, os.WNOHANG)
                more = pipe.read()
                if more == b"":  # it has closed its end
                    ended = ended if ended[0] else os.waitpid(self.pid, 0)
                said += more or b""
        return said, ended[1]


def _run(work: Callable[[], None], points: Points, file_size: int | None, counted: int, said: int) -> None:
    """The life of a child. It never returns."""
    status = CRASH
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), write_through=True)
    faulthandler.enable()
    try:
        points.install()
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, resource.RLIM_INFINITY))
        work()
        status = 0
        points.end()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.write(counted, str(points.count).encode())
        os._exit(status)


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """TimeoutError in what takes longer."""

    def stop(number, frame):
        raise TimeoutError(f"{what} took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
