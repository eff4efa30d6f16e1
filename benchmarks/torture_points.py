"""Processes that end, find the disk full or lose the power at an exact point of their writing: for `torture.py`.

A point is a call that changes what lies on a disk. `Points` counts them in the process that it is used in, by putting
itself around functions of `os`; the package knows nothing of it.
"""

from __future__ import annotations

import errno
import faulthandler
import io
import os
import pickle
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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


Image = dict[str, "bytes | None"]  # what is in a folder: path -> content, None for a folder


@dataclass
class PowerLoss(Points):
    """Records what a disk may hold in place of `root` if the power fails at a point, as ALICE and CrashMonkey do.

    Only what was synced is sure: of a file the content of its last fsync, of a folder the names of its last fsync. So
    there are three images of each point: *old names*, none that was not synced; *no data*, all names, but only content
    that was synced, since a file system may write names first; *torn data*, with half of the other content. The last
    point is the end of the process. They go to the file `images`, as (point, variant, image), each image once.
    """

    root: Path = Path()
    images: Path = Path()

    def install(self) -> None:
        self.recorded: list[tuple[int, str, Image]] = []
        self.folders: set[int] = set()  # inodes
        self.held: dict[int, int] = {}  # an open descriptor of each inode, so that no number is used twice
        self.synced_names, self.synced = self._scan()  # folder -> name -> inode; file -> content
        super().install()

    def wrap(self, name: str, call: Callable) -> Callable:
        def recorded(*args, **kwargs):
            self._record()
            self.count += 1
            result = call(*args, **kwargs)
            if name == "fsync":
                inode, (names, contents) = os.fstat(args[0]).st_ino, self._scan()
                self.synced_names |= {inode: names[inode]} if inode in names else {}
                self.synced |= {inode: contents[inode]} if inode in contents else {}
            return result

        return recorded

    def end(self) -> None:
        self._record(always=True)
        self.images.write_bytes(pickle.dumps(self.recorded))

    def _scan(self) -> tuple[dict[int, dict[str, int]], dict[int, bytes]]:
        """Names and contents as the process sees them."""
        names: dict[int, dict[str, int]] = {}
        contents: dict[int, bytes] = {}
        for folder, _, files in os.walk(self.root):
            for path in [folder, *(os.path.join(folder, file) for file in files)]:
                inode = os.stat(path).st_ino
                if inode not in self.held:
                    self.held[inode] = os.open(path, os.O_RDONLY)
                if path != folder:
                    contents[inode] = Path(path).read_bytes()
            with os.scandir(folder) as entries:
                names[os.stat(folder).st_ino] = {entry.name: entry.inode() for entry in entries}
        self.folders |= set(names)
        return names, contents

    def _record(self, always: bool = False) -> None:
        names, contents = self._scan()

        def torn(inode: int) -> bytes:
            content, sure = contents.get(inode, b""), self.synced.get(inode, b"")
            return content[: (len(content) + len(sure) * content.startswith(sure)) // 2]

        for variant, entries, content in (
            ("old names", self.synced_names, lambda inode: self.synced.get(inode, b"")),
            ("no data", names, lambda inode: self.synced.get(inode, b"")),
            ("torn data", names, torn),
        ):
            image = dict(self._walk(os.stat(self.root).st_ino, "", entries, content))
            if always or not any(image == other for _, _, other in self.recorded[-9:]):
                self.recorded.append((self.count, variant, image))

    def _walk(
        self, folder: int, prefix: str, names: dict[int, dict[str, int]], content: Callable[[int], bytes]
    ) -> Iterator[tuple[str, bytes | None]]:
        for name, inode in sorted(names.get(folder, {}).items()):
            if inode in self.folders:
                yield prefix + name, None
                yield from self._walk(inode, f"{prefix}{name}/", names, content)
            else:
                yield prefix + name, content(inode)


def lay_out(image: Image, place: Path) -> None:
    """Make a folder of an image."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for path, content in image.items():
        if content is None:
            (place / path).mkdir()
        else:
            (place / path).write_bytes(content)


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
