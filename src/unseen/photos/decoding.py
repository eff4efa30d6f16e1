"""Photos from strangers: decoded in processes that have a limit on memory and on time, and are killed beyond it.

A picture of a few MB can keep a decoder busy for minutes, or make it take gigabytes, in more ways than can be checked
beforehand. So a decoder is a process of its own, with Pillow and NumPy alone. One that a picture has taken over gets no
further: it has none of the server's environment, writes no file, and what it answers is a few numbers and pixels.

    question, answer    two lengths (8 bytes each), that many bytes of JSON, that many of a photo or of pixels
"""

from __future__ import annotations

import json
import os
import queue
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from unseen.photos.reading import UnreadablePhoto, read_photo
from unseen.photos.transforms import PhotoTransform

try:
    import resource
except ImportError:  # Windows: time is limited, memory by the number of pixels alone
    resource = None

LENGTHS = struct.Struct("<QQ")
MAX_HEADER = 1 << 16  # bytes of an answer's JSON
ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")  # all that Python needs to start
PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from unseen.photos.decoding import work; work()"


class Decoded(NamedTuple):
    size: tuple[int, int]  # of the photo: width, height, perhaps at a reduced scale
    pixels: np.ndarray  # what a network sees of it, size x size x 3 bytes


class TookTooLong(UnreadablePhoto):
    """A photo whose decoder was killed."""


class Decoders:
    """Up to `most` processes, each of which decodes a photo at a time, in `seconds` and with `memory` bytes at most.

    They are started when they are needed, the first in a fifth of a second. A client gets one as long as more are free
    than it has, so that it cannot keep them all busy; `wait` seconds without one raise `queue.Empty`.
    """

    def __init__(self, most: int, seconds: float, max_pixels: int, memory: int = 1 << 30, wait: float = 60.0):
        self.seconds, self.max_pixels, self.memory, self.wait = seconds, max_pixels, memory, wait
        self._idle: list[subprocess.Popen | None] = [None] * most  # None: to be started
        self._busy: Counter[str] = Counter()  # by client
        self._changed = threading.Condition()

    def decode(self, photo: bytes, transforms: Sequence[PhotoTransform], client: str = "") -> list[Decoded]:
        """The photo, prepared for each of the networks; raises UnreadablePhoto with the reason."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._busy[client] < len(self._idle), self.wait):
                raise queue.Empty
            self._busy[client] += 1
            process = self._idle.pop()
        try:
            process = process or self._start()
            answer = self._ask(process, photo, transforms)
        except BaseException:
            if process is not None:  # it may be anywhere in its work
                _end(process)
                process = None
            raise
        finally:
            with self._changed:
                self._idle.append(process)
                self._busy -= Counter([client])  # which drops a client that has none left
                self._changed.notify_all()
        if isinstance(answer, str):
            raise UnreadablePhoto("the photo", answer)
        return answer

    def close(self) -> None:
        while self._idle:
            process = self._idle.pop()
            if process is not None:
                _end(process)

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", PROGRAM, json.dumps([*filter(None, sys.path)]), str(self.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OMP_NUM_THREADS": "1"} | {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            start_new_session=True,  # Ctrl-C is for the server, which ends its decoders
        )

    def _ask(
        self, process: subprocess.Popen, photo: bytes, transforms: Sequence[PhotoTransform]
    ) -> list[Decoded] | str:
        """What the decoder makes of the photo, or why it cannot be read."""
        assert process.stdin is not None and process.stdout is not None
        started, killer = time.monotonic(), threading.Timer(self.seconds, process.kill)
        killer.start()
        try:
            question = {"max_pixels": self.max_pixels, "transforms": [transform.to_dict() for transform in transforms]}
            _send(process.stdin, question, photo)
            return _decoded(*_receive(process.stdout, sum(map(_bytes_of, transforms))), transforms)
        except (OSError, EOFError, ValueError, KeyError, TypeError):  # it has ended, or is not itself any more
            if time.monotonic() - started < self.seconds:
                raise UnreadablePhoto("the photo", "cannot be decoded: save it again as a plain JPEG or PNG.") from None
            why = f"takes longer than {self.seconds:g} s to decode: save it again as a plain JPEG or PNG."
            raise TookTooLong("the photo", why) from None
        finally:
            killer.cancel()


def _bytes_of(transform: PhotoTransform) -> int:
    return 3 * transform.size**2


def _decoded(header: dict[str, Any], content: bytes, transforms: Sequence[PhotoTransform]) -> list[Decoded] | str:
    """A decoder's answer, if it fits the question; ValueError, KeyError or TypeError if not."""
    if "why" in header:
        return str(header["why"])
    pixels = np.frombuffer(content, np.uint8)
    parts = np.split(pixels, np.cumsum([_bytes_of(transform) for transform in transforms]))
    return [
        Decoded((int(width), int(height)), part.reshape(transform.size, transform.size, 3))
        for (width, height), part, transform in zip(header["sizes"], parts[:-1], transforms, strict=True)
    ]


def _send(pipe: IO[bytes], header: dict[str, Any], *content: bytes) -> None:
    text = json.dumps(header).encode()
    pipe.write(LENGTHS.pack(len(text), sum(map(len, content))) + text)
    for part in content:
        pipe.write(part)
    pipe.flush()


def _receive(pipe: IO[bytes], most: int) -> tuple[dict[str, Any], bytes]:
    """Header and content, at most `most` bytes; EOFError where the other side has ended."""
    lengths = LENGTHS.unpack(_exactly(pipe, LENGTHS.size))
    if lengths[0] > MAX_HEADER or lengths[1] > most:
        raise ValueError("more than anybody asked for")
    header, content = (_exactly(pipe, length) for length in lengths)
    return json.loads(header), content


def _exactly(pipe: IO[bytes], length: int) -> bytes:
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()  # closes its pipes, and waits


def work() -> None:
    """Decode what comes on standard input until it ends, with as many bytes of memory as the arguments say."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else may get between the answers
    _limit(int(sys.argv[2]))
    while True:
        try:
            question, photo = _receive(source, sys.maxsize)
        except EOFError:
            return
        try:
            transforms = [PhotoTransform(**settings) for settings in question["transforms"]]
            pictures = [_decode(photo, question["max_pixels"], transform) for transform in transforms]
            answer, pixels = {"sizes": [size for size, _ in pictures]}, [pixels.tobytes() for _, pixels in pictures]
        except UnreadablePhoto as error:
            answer, pixels = {"why": error.why[:1000]}, []
        except MemoryError:
            answer, pixels = {"why": "takes too much memory to decode. Make it smaller."}, []
        _send(sink, answer, *pixels)


def _decode(photo: bytes, max_pixels: int, transform: PhotoTransform) -> tuple[tuple[int, int], np.ndarray]:
    picture = read_photo(photo, max_pixels, short_side=transform.resize)
    return picture.size, transform.crop(picture)


def _limit(memory: int) -> None:
    """The process to `memory` bytes more than it has now, and to writing no files."""
    if resource is None:
        return
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    with suppress(OSError):  # not Linux: time and pixels are limited
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + memory
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
