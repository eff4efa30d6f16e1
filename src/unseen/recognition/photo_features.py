"""The first half of a photo's way: read -> transform -> features. It knows the network, but no classes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor

from unseen.features.construction import count_workers
from unseen.photos.reading import Source, UnreadablePhoto
from unseen.recognition.answers import Answer, Unreadable
from unseen.runtime.progress import progress
from unseen.runtime.threads import separate_threads

if TYPE_CHECKING:
    from unseen.backbones import Backbone

BATCH = 32  # photos
T = TypeVar("T")


@dataclass(frozen=True)
class PhotoFeatures:
    """The features of a list of photos, without those that could not be read."""

    matrix: np.ndarray  # n x D, float32: a row for each photo that could be read
    unreadable: dict[int, Unreadable]  # the others, by their place in the list

    def __len__(self) -> int:
        return len(self.matrix) + len(self.unreadable)

    def align(self, answers: Sequence[Answer]) -> list[Answer | Unreadable]:
        """An answer for each row -> an entry for each photo of the list."""
        waiting = iter(answers)
        return [self.unreadable[place] if place in self.unreadable else next(waiting) for place in range(len(self))]


def look_at(
    backbone: Backbone, photos: Sequence[Source], batch: int = BATCH, show_progress: bool = False
) -> PhotoFeatures:
    """Read photos, `batch` at a time, and take their features."""
    found, unreadable, place = [np.zeros((0, backbone.num_features), np.float32)], {}, 0
    with progress("Looking at photos", len(photos), enabled=show_progress and len(photos) > batch) as bar:
        for part in work_through(photos, lambda some: read_batch(backbone, some), backbone.device, batch):
            unreadable |= {place + at: item for at, item in part.unreadable.items()}
            found.append(part.matrix)
            place += len(part)
            bar.advance(len(part))
    return PhotoFeatures(np.concatenate(found), unreadable)


def read_batch(backbone: Backbone, photos: Sequence[Source]) -> PhotoFeatures:
    """A few photos, one after the other, then all of them through the network."""
    pixels, unreadable = [], {}
    for place, photo in enumerate(photos):
        try:
            pixels.append(backbone.transform.open(photo))
        except UnreadablePhoto as error:
            unreadable[place] = Unreadable(error.name, error.why)
    matrix = extract_features(backbone, pixels) if pixels else np.zeros((0, backbone.num_features), np.float32)
    return PhotoFeatures(matrix, unreadable)


def work_through(
    photos: Sequence[Source], work: Callable[[Sequence[Source]], T], device: torch.device, batch: int = BATCH
) -> Iterator[T]:
    """`work` on each batch of photos, in their order; each thread reads and computes for a batch of its own.

    Only a few batches are under way, however many photos there are.
    """
    threads = torch.get_num_threads() if device.type == "cpu" else count_workers(None)
    size = max(1, min(batch, -(-len(photos) // threads)))
    batches = (photos[start : start + size] for start in range(0, len(photos), size))
    if len(photos) <= size:  # one batch: all threads share each operation
        yield from map(work, batches)
        return
    waiting: deque[Future[T]] = deque()
    with separate_threads(threads) as pool:
        try:
            for some in batches:
                waiting.append(pool.submit(work, some))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # nobody waits for batches that were not begun when an error or Ctrl-C came
            for future in waiting:
                future.cancel()


def extract_features(backbone: Backbone, pixels: Sequence[Tensor]) -> np.ndarray:
    """Transformed photos (each 3 x H x W) -> features n x D, float32."""
    return backbone.features(torch.stack(list(pixels))).cpu().numpy()
