"""Photos of several requests go through the network together: one thread gathers what arrives within milliseconds."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from unseen.web.limits import DECODERS, MAX_PIXELS

if TYPE_CHECKING:
    from torch import Tensor

    from unseen.backbones import Backbone

_decoding = threading.BoundedSemaphore(DECODERS)


class NetworkWorker:
    """A network that serves many threads. `most` photos at a time; the first one waits `wait` seconds for others."""

    def __init__(self, backbone: Backbone, most: int = 16, wait: float = 0.004):
        self.backbone, self.most, self.wait = backbone, most, wait
        self.photos = self.batches = self.largest = 0
        self._queue: queue.SimpleQueue[tuple[Tensor, Future] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="unseen-network", daemon=True)
        self._thread.start()

    def submit(self, photo: bytes) -> Future[np.ndarray]:
        """Decode a photo in the calling thread, and promise its features (D). An unreadable one raises UnseenError."""
        with _decoding:
            pixels = self.backbone.transform.open(photo, max_pixels=MAX_PIXELS)
        promise: Future[np.ndarray] = Future()
        self._queue.put((pixels, promise))
        return promise

    def close(self) -> None:
        """Answer what is waiting, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, ended = [first], False
            deadline = time.monotonic() + self.wait
            while len(batch) < self.most and not ended:
                try:
                    item = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    break
                ended = item is None
                batch += [] if ended else [item]
            self._answer(batch)
            if ended:
                return

    def _answer(self, batch: list[tuple[Tensor, Future]]) -> None:
        import torch

        self.photos += len(batch)
        self.batches += 1
        self.largest = max(self.largest, len(batch))
        try:
            found = self.backbone.features(torch.stack([pixels for pixels, _ in batch])).float().cpu().numpy()
        except Exception as error:  # the requests must hear of it, and the thread must live on
            for _, promise in batch:
                promise.set_exception(error)
            return
        for (_, promise), row in zip(batch, found, strict=True):
            promise.set_result(row.copy())  # a copy, so that a remembered photo does not hold its whole batch
