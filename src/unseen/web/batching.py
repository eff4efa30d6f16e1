"""What arrives within milliseconds is worked on together: photos go through the network, and through the ranking."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from starlette.exceptions import HTTPException
from torch import Tensor

from unseen.photos import UnreadablePhoto
from unseen.recognition.photo_features import extract_features
from unseen.web.limits import DECODE_SECONDS, DECODE_WAIT, DECODERS, MAX_LATE, MAX_PIXELS

if TYPE_CHECKING:
    from unseen.backbones import Backbone

T = TypeVar("T")


class Batcher:
    """One thread that answers all that waits, `most` items at a time; the first one waits `wait` seconds for others.

    `answer` turns a list of items into a list of answers; an answer that is an exception is raised where it is awaited.
    """

    def __init__(self, name: str, answer: Callable[[list[Any]], list[Any]], most: int = 16, wait: float = 0.0):
        self.answer, self.most, self.wait = answer, most, wait
        self.items = self.batches = self.largest = 0
        self._cores = _all_cores()
        self._queue: queue.SimpleQueue[tuple[Any, Future] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"unseen-{name}", daemon=True)
        self._thread.start()

    def submit(self, item: Any) -> Future:
        promise: Future = Future()
        self._queue.put((item, promise))
        return promise

    def close(self) -> None:
        """Answer what is waiting, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        _use_cores(self._cores)
        while (first := self._queue.get()) is not None:
            batch, ended = [first], False
            deadline = time.monotonic() + self.wait
            while len(batch) < self.most and not ended:
                try:
                    waiting = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    break
                if waiting is None:
                    ended = True
                else:
                    batch.append(waiting)
            self._settle(batch)
            if ended:
                return

    def _settle(self, batch: list[tuple[Any, Future]]) -> None:
        self.items += len(batch)
        self.batches += 1
        self.largest = max(self.largest, len(batch))
        try:
            answers = self.answer([item for item, _ in batch])
        except Exception as error:  # the requests must hear of it, and the thread must live on
            answers = [error] * len(batch)
        for (_, promise), answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                promise.set_exception(answer)
            else:
                promise.set_result(answer)


class Decoders:
    """Threads that decode photos. One that takes too long is given up: another takes its place, at most `MAX_LATE`
    times, so that a slow photo holds up nobody else. A thread cannot be stopped; it ends when it is done."""

    def __init__(self):
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future, threading.Event] | None] = queue.SimpleQueue()
        self._late: set[Future] = set()
        self._lock = threading.Lock()
        for _ in range(DECODERS):
            self._start()

    def run(self, decode: Callable[[], T]) -> T:
        """What `decode` returns or raises, as soon as a thread has time for it."""
        promise, begun = Future(), threading.Event()
        self._queue.put((decode, promise, begun))
        if not begun.wait(DECODE_WAIT) and promise.cancel():
            raise HTTPException(503, "The server is busy: send it again in some seconds.", {"retry-after": "5"})
        try:
            return promise.result(DECODE_SECONDS)
        except TookTooLong:
            self._give_up(promise)
            why = f"takes longer than {DECODE_SECONDS:g} s to decode: save it again as a plain JPEG or PNG."
            raise UnreadablePhoto("the photo", why) from None

    def close(self) -> None:
        for _ in range(DECODERS + MAX_LATE):
            self._queue.put(None)

    def _start(self) -> None:
        threading.Thread(target=self._run, name="unseen-decoder", daemon=True).start()

    def _give_up(self, promise: Future) -> None:
        with self._lock:
            if not promise.done() and len(self._late) < MAX_LATE:
                self._late.add(promise)
                self._start()

    def _run(self) -> None:
        _use_cores(1)  # torch gives every thread that calls it helpers of its own: they would fight for the cores
        while (job := self._queue.get()) is not None:
            decode, promise, begun = job
            if not promise.set_running_or_notify_cancel():
                continue
            begun.set()
            try:
                answer, error = decode(), None
            except Exception as raised:
                answer, error = None, raised
            with self._lock:
                promise.set_result(answer) if error is None else promise.set_exception(error)
                if promise in self._late:  # another thread has taken this one's place
                    self._late.discard(promise)
                    return


class NetworkWorker:
    """A network that serves many threads: photos are decoded side by side and run through it together."""

    def __init__(self, backbone: Backbone, most: int = 16, wait: float = 0.004):
        self.backbone = backbone
        self.batcher = Batcher("network", self._features, most, wait)
        self.decoders = Decoders()

    def submit(self, photo: bytes) -> Future[np.ndarray]:
        """Decode a photo, and promise its features (D). An unreadable one raises UnreadablePhoto."""
        pixels = self.decoders.run(lambda: self.backbone.transform.open(photo, max_pixels=MAX_PIXELS))
        return self.batcher.submit(pixels)

    def close(self) -> None:
        self.decoders.close()
        self.batcher.close()

    def _features(self, photos: list[Tensor]) -> list[np.ndarray]:
        found = extract_features(self.backbone, photos)
        return [row.copy() for row in found]  # copies, so that a remembered photo does not hold its whole batch


@cache  # asked before any thread changes its own number, which is what threads begun later would start with
def _all_cores() -> int:
    return torch.get_num_threads()


def _use_cores(count: int) -> None:
    torch.set_num_threads(count)  # of the calling thread
