"""Photos from strangers: decoded in processes that have a limit on memory and on time, and are killed beyond it.

A picture of a few MB can keep a decoder busy for minutes, or make it take gigabytes, in more ways than can be checked
beforehand. So a decoder is a process of its own, with Pillow and NumPy alone. Run as a program, this file is one.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.photos.reading import UnreadablePhoto, read_photo
from unseen.photos.transforms import PhotoTransform

try:
    import resource
except ImportError:  # Windows: time is limited, memory by the number of pixels alone
    resource = None


class Decoded(NamedTuple):
    size: tuple[int, int]  # of the photo: width, height, perhaps at a reduced scale
    pixels: np.ndarray  # what a network sees of it, size x size x 3 bytes


class TookTooLong(UnreadablePhoto):
    """A photo whose decoder was killed."""


class Decoders:
    """Up to `most` processes, each of which decodes a photo at a time, in `seconds` and with `memory` bytes at most.

    They are started when they are needed, the first in a fifth of a second. `wait` seconds without a free one raise
    `queue.Empty`.
    """

    def __init__(self, most: int, seconds: float, max_pixels: int, memory: int = 1 << 30, wait: float = 60.0):
        self.seconds, self.max_pixels, self.memory, self.wait = seconds, max_pixels, memory, wait
        self._idle: queue.LifoQueue[subprocess.Popen | None] = queue.LifoQueue()  # None: to be started
        for _ in range(most):
            self._idle.put(None)

    def decode(self, photo: bytes, transforms: Sequence[PhotoTransform]) -> list[Decoded]:
        """The photo, prepared for each of the networks; raises UnreadablePhoto with the reason."""
        process: subprocess.Popen | None = self._idle.get(timeout=self.wait)
        try:
            process = process or self._start()
            answer = self._ask(process, (photo, self.max_pixels, list(transforms)))
        except BaseException:
            if process is not None:  # it may be anywhere in its work
                _end(process)
                process = None
            raise
        finally:
            self._idle.put(process)
        if isinstance(answer, UnreadablePhoto):
            raise answer
        return [Decoded(*parts) for parts in answer]

    def close(self) -> None:
        while not self._idle.empty():
            process = self._idle.get()
            if process is not None:
                _end(process)

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, __file__, str(self.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the server, which ends its decoders
        )

    def _ask(self, process: subprocess.Popen, question: tuple) -> list[tuple] | UnreadablePhoto:
        assert process.stdin is not None and process.stdout is not None
        started, killer = time.monotonic(), threading.Timer(self.seconds, process.kill)
        killer.start()
        try:
            pickle.dump(question, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):  # it has ended
            if time.monotonic() - started < self.seconds:
                raise UnreadablePhoto("the photo", "cannot be decoded: save it again as a plain JPEG or PNG.") from None
            why = f"takes longer than {self.seconds:g} s to decode: save it again as a plain JPEG or PNG."
            raise TookTooLong("the photo", why) from None
        finally:
            killer.cancel()


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()  # closes its pipes, and waits


def work(memory: int) -> None:
    """Decode what comes on standard input until it ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else may get between the answers
    _limit_memory(memory)
    while True:
        try:
            photo, max_pixels, transforms = pickle.load(source)
        except EOFError:
            return
        try:
            answer = [_decode(photo, max_pixels, transform) for transform in transforms]
        except UnreadablePhoto as error:
            answer = error
        except MemoryError:
            answer = UnreadablePhoto("the photo", "takes too much memory to decode. Make it smaller.")
        pickle.dump(answer, sink)
        sink.flush()


def _decode(photo: bytes, max_pixels: int, transform: PhotoTransform) -> tuple:
    picture = read_photo(photo, max_pixels, short_side=transform.resize)
    return picture.size, transform.crop(picture)


def _limit_memory(memory: int) -> None:
    """To `memory` bytes more than the process has now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux
        return
    if resource is not None:
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    work(int(sys.argv[1]))
