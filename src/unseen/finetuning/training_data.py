"""Which photo comes when in a finetuning, and what chance makes of it: all of it follows from (seed, epoch, photo).

So neither the number of worker processes nor an interruption changes what a step computes.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from unseen.errors import UnseenError
from unseen.finetuning.photo_sets import PhotoSet
from unseen.runtime.workers import shared

TRIES = 50  # photos in a row that may be unreadable

Example = tuple[Tensor | None, int, dict[int, str]]  # pixels, label, unreadable photos met with their reasons
Batch = tuple[Tensor | None, Tensor, dict[int, str]]


class TrainingPhotos(Dataset):
    """(epoch, i) -> photo i, cropped and mirrored as (seed, epoch, i) decides.

    An unreadable photo gives its place to the next one that can be read, so that every step has its full size.
    """

    def __init__(self, photos: PhotoSet, transform, seed: int):
        self.photos, self.transform, self.seed = photos, transform, seed

    def __getitem__(self, key: tuple[int, int]) -> Example:
        epoch, first = key
        failed: dict[int, str] = {}
        for i in range(first, first + min(TRIES, len(self.photos))):
            i %= len(self.photos)
            try:
                pixels = self.transform.open(self.photos.read(i), np.random.default_rng([self.seed, epoch, i]))
                return pixels, int(self.photos.labels[i]), failed
            except (UnseenError, OSError) as error:
                failed[i] = _reason(self.photos, i, error)
        return None, -1, failed


class EvaluationPhotos(Dataset):
    """i -> photo i, as the network is evaluated; no pixels where it cannot be read."""

    def __init__(self, photos: PhotoSet, transform):
        self.photos, self.transform = photos, transform

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, i: int) -> Example:
        try:
            return self.transform.open(self.photos.read(i)), int(self.photos.labels[i]), {}
        except (UnseenError, OSError) as error:
            return None, -1, {i: _reason(self.photos, i, error)}


def collate(examples: list[Example]) -> Batch:
    """Pixels B x 3 x H x W (None where no photo could be read), labels B, and what was unreadable."""
    read = [(pixels, label) for pixels, label, _ in examples if pixels is not None]
    failed = {i: why for _, _, those in examples for i, why in those.items()}
    labels = shared(torch.tensor([label for _, label in read]))
    return shared(torch.stack([pixels for pixels, _ in read])) if read else None, labels, failed


def load_batches(dataset: Dataset, workers: int, **batching) -> DataLoader:
    """Batches decoded by worker processes ahead of their use; `batching` is what DataLoader takes."""
    ahead = {"prefetch_factor": 2} if workers else {}
    return DataLoader(
        dataset, num_workers=workers, collate_fn=collate, worker_init_fn=ignore_signals, **ahead, **batching
    )


def ignore_signals(worker: int) -> None:
    """Ctrl-C and SIGTERM reach a whole process group. The main process decides what they mean; workers end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _reason(photos: PhotoSet, i: int, error: Exception) -> str:
    where, why = photos.where(i), str(error)
    return why if where in why else f"{where}: {why}"


class BatchPlan:
    """The photos of an epoch in random order, cut into steps of `size` photos for each of `world` processes.

    Step t of all processes together takes the next size x world photos, so that two processes with half the size do
    what one does. The last step is filled up from the epoch's beginning: every photo is used at least once.
    """

    def __init__(self, photos: int, size: int, rank: int, world: int, seed: int):
        self.photos, self.size, self.rank, self.world, self.seed = photos, size, rank, world, seed
        self.steps = -(-photos // (size * world))  # an epoch

    def order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(self.photos)

    def batches(self, first: int, end: int) -> Iterator[list[tuple[int, int]]]:
        """This process's batches of (epoch, photo) for the steps first..end-1, counted from the first epoch's start."""
        epoch, order = -1, np.zeros(0, np.int64)
        for step in range(first, end):
            if step // self.steps != epoch:
                epoch = step // self.steps
                order = self.order(epoch)
            start = (step % self.steps * self.world + self.rank) * self.size
            chosen = order[np.arange(start, start + self.size) % self.photos]
            yield [(epoch, int(i)) for i in chosen]


def split_off_validation(photos: PhotoSet, share: float, seed: int) -> tuple[PhotoSet, PhotoSet]:
    """(photos to train on, photos kept aside): a share of each class, and never the last photo of one."""
    if not share:
        return photos, photos.subset(np.zeros(0, np.int64))
    aside = np.zeros(len(photos), bool)
    rng = np.random.default_rng([seed, 0x5EED])
    for label in np.unique(photos.labels):
        own = rng.permutation(np.flatnonzero(photos.labels == label))
        aside[own[: min(round(len(own) * share), len(own) - 1)]] = True
    if not aside.any():
        most = np.bincount(photos.labels).max()
        raise UnseenError(
            f"validation={share} keeps no photo aside: no class has more than {most} photos. Give a larger share.",
            f"validation={share}",
        )
    return photos.subset(np.flatnonzero(~aside)), photos.subset(np.flatnonzero(aside))
