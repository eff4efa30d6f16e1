"""What arrives within milliseconds is worked on together: photos go through the network, and through the ranking."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unseen.recognition.photo_features import extract_features
from unseen.web.limits import DECODERS, MAX_PIXELS

if TYPE_CHECKING:
    from unseen.backbones import Backbone


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


class NetworkWorker:
    """A network that serves many threads: photos are decoded side by side and run through it together."""

    def __init__(self, backbone: Backbone, most: int = 16, wait: float = 0.004):
        self.backbone = backbone
        self.batcher = Batcher("network", self._features, most, wait)
        # One core each: torch gives every thread that calls it helpers of its own, and they would fight for the cores.
        self._decoders = ThreadPoolExecutor(DECODERS, "unseen-decoder", _use_cores, (1,))

    def submit(self, photo: bytes) -> Future[np.ndarray]:
        """Decode a photo, and promise its features (D). An unreadable one raises UnreadablePhoto."""
        pixels = self._decoders.submit(self.backbone.transform.open, photo, max_pixels=MAX_PIXELS).result()
        return self.batcher.submit(pixels)

    def close(self) -> None:
        self._decoders.shutdown()
        self.batcher.close()

    def _features(self, photos: list[Tensor]) -> list[np.ndarray]:
        found = extract_features(self.backbone, photos)
        return [row.copy() for row in found]  # copies, so that a remembered photo does not hold its whole batch


@cache  # asked before any thread changes its own number, which is what threads begun later would start with
def _all_cores() -> int:
    return torch.get_num_threads()


def _use_cores(count: int) -> None:
    torch.set_num_threads(count)  # of the calling thread
