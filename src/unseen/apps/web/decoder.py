"""Uploaded photos are decoded in a process of their own, which is killed if one takes too long.

A picture of a few MB can keep Pillow busy for minutes or make it take gigabytes, in more ways than can be checked
beforehand. Such a picture then costs this process and not the server. It is no sandbox: it runs as the same user.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from unseen.photos.reading import UnreadablePhoto, read_photo
from unseen.photos.transforms import PhotoTransform

try:
    import resource
except ImportError:  # Windows: time and pixels are limited, memory is not
    resource = None

READY = b"ready"
MAX_WHY = 1_000  # characters of the reason why a photo cannot be read


class Decoded(NamedTuple):
    size: tuple[int, int]  # of the photo: width, height, perhaps at a reduced scale
    pixels: np.ndarray  # what the network sees of it: size x size x 3, uint8


class TookTooLong(UnreadablePhoto): ...


class Decoder:
    """Decodes one photo at a time in a process that starts with the first one.

    A photo may take `seconds`, `max_pixels` and `memory` bytes. Only bytes cross the pipe, never pickles.
    """

    def __init__(self, transform: PhotoTransform, max_pixels: int, seconds: float = 10.0, memory: int = 2 << 30):
        self.transform, self.max_pixels, self.seconds, self.memory = transform, max_pixels, seconds, memory
        self._process: Any = None
        self._pipe: Any = None
        self._lock = threading.Lock()

    def decode(self, name: str, photo: bytes) -> Decoded:
        """The photo as the network sees it; raises UnreadablePhoto with the reason."""
        shape = (self.transform.size, self.transform.size, 3)
        with self._lock:
            process, pipe = self._started()
            started, killer = time.monotonic(), threading.Timer(self.seconds, process.kill)
            killer.start()
            try:
                pipe.send_bytes(photo)
                header = json.loads(pipe.recv_bytes(8 * MAX_WHY))
                if "why" in header:
                    raise UnreadablePhoto(name, str(header["why"]))
                width, height = map(int, header["size"])
                pixels = np.frombuffer(pipe.recv_bytes(int(np.prod(shape))), np.uint8).reshape(shape)
            except (OSError, EOFError, ValueError, KeyError, TypeError):  # it was killed, has crashed or sent nonsense
                self._end()
                if time.monotonic() - started < self.seconds:
                    raise UnreadablePhoto(name, "cannot be decoded: save it again as a plain JPEG or PNG.") from None
                why = f"takes longer than {self.seconds:g} s to decode: save it again as a plain JPEG or PNG."
                raise TookTooLong(name, why) from None
            finally:
                killer.cancel()
        return Decoded((width, height), pixels)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _started(self):
        if self._process is None:
            context = get_context("spawn")  # a fork would copy the server's threads in whatever state they are
            self._pipe, theirs = context.Pipe()
            arguments = (theirs, self.transform, self.max_pixels, self.memory)
            self._process = context.Process(target=_work, args=arguments, name="unseen-decoder", daemon=True)
            self._process.start()
            theirs.close()  # so that its end is the end of the pipe
            self._pipe.recv_bytes(len(READY))  # the time to start is not the photo's
        return self._process, self._pipe

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None


def _work(pipe: Connection, transform: PhotoTransform, max_pixels: int, memory: int) -> None:
    """Decode what comes through the pipe until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its decoder
    if resource is not None:
        with suppress(OSError, ValueError):  # not every system can
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    pipe.send_bytes(READY)
    while True:
        try:
            photo = pipe.recv_bytes()
        except EOFError:
            return
        try:
            picture = read_photo(photo, max_pixels, transform.resize)
            answer, pixels = {"size": picture.size}, transform.crop(picture).tobytes()
        except UnreadablePhoto as error:
            answer, pixels = {"why": error.why[:MAX_WHY]}, None
        except MemoryError:
            answer, pixels = {"why": "takes too much memory to decode. Make it smaller."}, None
        pipe.send_bytes(json.dumps(answer).encode())
        if pixels is not None:
            pipe.send_bytes(pixels)
