"""Which photo comes when in a finetuning, and what chance makes of it: all of it follows from (seed, epoch, photo)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from unseen.errors import UnseenError
from unseen.photo_sets import PhotoSet


class Photos(Dataset):
    """Photo i -> (pixels, label, None), or (None, label, reason) where it cannot be read."""

    def __init__(self, photos: PhotoSet, transform, seed: int | None = None):
        self.photos, self.transform, self.seed, self.epoch = photos, transform, seed, 0

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, i: int) -> tuple[Tensor | None, int, str | None]:
        label = int(self.photos.labels[i])
        try:
            source = self.photos.read(i)
            if self.seed is None:  # evaluation: nothing is left to chance
                return self.transform.open(source), label, None
            return self.transform.open(source, np.random.default_rng([self.seed, self.epoch, i])), label, None
        except (UnseenError, OSError) as error:
            return None, label, f"{self.photos.where(i)}: {error}"


class BatchPlan:
    """The photos of an epoch in random order, cut into steps of `size` photos for each of `world` processes.

    Step t of all processes together takes the next size x world photos, so that two processes with half the size do
    what one does. The last step is filled up from the epoch's beginning: every photo is used at least once.
    """

    def __init__(self, photos: int, size: int, rank: int, world: int, seed: int):
        self.photos, self.size, self.rank, self.world, self.seed = photos, size, rank, world, seed
        self.steps = -(-photos // (size * world))

    def order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(self.photos)

    def batches(self, epoch: int, first: int = 0) -> _Batches:
        """This process's batches from step `first` of the epoch on."""
        return _Batches(self, epoch, first)


class _Batches:
    def __init__(self, plan: BatchPlan, epoch: int, first: int):
        self.plan, self.epoch, self.first = plan, epoch, first

    def __len__(self) -> int:
        return self.plan.steps - self.first

    def __iter__(self) -> Iterator[list[int]]:
        plan = self.plan
        order = plan.order(self.epoch)
        for step in range(self.first, plan.steps):
            start = (step * plan.world + plan.rank) * plan.size
            yield order[np.arange(start, start + plan.size) % plan.photos].tolist()


def split_off_validation(photos: PhotoSet, share: float, seed: int) -> tuple[PhotoSet, PhotoSet]:
    """(photos to train on, photos kept aside): a share of each class, and never the last photo of one."""
    if not share:
        return photos, photos.subset(np.zeros(0, np.int64))
    aside = np.zeros(len(photos), bool)
    rng = np.random.default_rng([seed, 0x5EED])
    for label in np.unique(photos.labels):
        own = rng.permutation(np.flatnonzero(photos.labels == label))
        aside[own[: min(round(len(own) * share), len(own) - 1)]] = True
    return photos.subset(np.flatnonzero(~aside)), photos.subset(np.flatnonzero(aside))
