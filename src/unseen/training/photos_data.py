"""The photos of a finetuning, in class folders or tar shards: where they are, and batches of them as pixels.

    DIR/<class id or name>/<photo>  an image folder
    DIR/*.tar                       shards in webdataset's layout: KEY.jpg with KEY.cls beside it, which holds the class
                                    id, or its position in the network's class order

A list of 1.28 million photos takes less than 100 MB: worker processes share it.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from unseen.hierarchy.core import Hierarchy
from unseen.networks.folders import match_folders
from unseen.networks.processes import shared
from unseen.photos import PhotoTransform, list_classes, list_photos
from unseen.photos.inputs import read_shard
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

TRIES = 50  # unreadable photos in a row before training gives up


@dataclass(frozen=True)
class PhotoSet:
    """Photo i is `sizes[i]` bytes at `offsets[i]` of its file; offset 0 means the whole file."""

    root: Path
    files: np.ndarray  # n, bytes: names of files below root
    offsets: np.ndarray  # n, int64
    sizes: np.ndarray  # n, int64
    labels: np.ndarray  # n, int64: position of its class among the seen ones
    empty_classes: tuple[str, ...] = ()  # class folders without a photo
    skipped_classes: tuple[str, ...] = ()  # not seen classes of the bundle

    @classmethod
    def of(cls, root: Path, rows: Iterable[tuple[str, int, int, int]], **classes: tuple[str, ...]) -> PhotoSet:
        """From (file name, offset, size, label) of each photo."""
        rows = list(rows)
        files = np.array([os.fsencode(name) for name, *_ in rows], np.bytes_)
        offsets, sizes, labels = np.array([numbers for _, *numbers in rows], np.int64).reshape(-1, 3).T
        return cls(root, files, offsets, sizes, labels, **classes)

    def __len__(self) -> int:
        return len(self.labels)

    def path(self, i: int) -> Path:
        return self.root / os.fsdecode(self.files[i])

    def read(self, i: int) -> Path | bytes:
        """What a photo reader takes: a path, or the bytes within a shard."""
        if not self.offsets[i]:
            return self.path(i)
        with open(self.path(i), "rb") as file:
            file.seek(self.offsets[i])
            return file.read(self.sizes[i])

    def where(self, i: int) -> str:
        return f"{self.path(i)} at byte {self.offsets[i]}" if self.offsets[i] else str(self.path(i))

    def subset(self, chosen: np.ndarray) -> PhotoSet:
        return replace(self, **{key: getattr(self, key)[chosen] for key in ("files", "offsets", "sizes", "labels")})

    def digest(self) -> str:
        """A checksum of names, offsets and classes; it does not depend on where the folder is."""
        names = b"\0".join(self.files.tolist())
        return hashlib.sha256(names + self.offsets.tobytes() + self.labels.tobytes()).hexdigest()[:12]

    @property
    def remarks(self) -> list[str]:
        """What a person should know of the folder."""
        empty, skipped = self.empty_classes, self.skipped_classes
        remarks = [f"{len(empty)} class folders hold no photo: {list_some(empty)}"] if empty else []
        if skipped:
            remarks.append(f"{len(skipped)} classes are not seen ones and are left out: {list_some(skipped)}")
        return remarks


def open_photo_set(
    folder: str | Path,
    seen_ids: Sequence[str],
    skip_unknown: bool = False,
    order: Sequence[str] | None = None,
    hierarchy: Hierarchy | None = None,
) -> PhotoSet:
    """The photos of seen classes in a folder of class folders or tar shards.

    `order`: the class order that numbers in shards refer to, if it is not `seen_ids`. With the `hierarchy`, folders
    may bear names of classes instead of ids.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UnseenError(f"{folder}: there is no such folder of photos")
    labels = {id: label for label, id in enumerate(seen_ids)}
    shards = sorted(folder.glob("*.tar"))
    if shards:
        photos = _from_shards(folder, shards, labels, order or seen_ids)
    else:
        photos = _from_folder(folder, labels, hierarchy)
    unknown = photos.skipped_classes
    if unknown and not skip_unknown:
        raise UnseenError(
            f"{folder}: {len(unknown)} classes are not seen classes of this bundle: {list_some(unknown)}. "
            "Photos are sorted by class id or name; rename the folders, or skip unknown classes."
        )
    if not len(photos):
        raise UnseenError(f"{folder}: holds no photo of a seen class" + "".join(f". {it}" for it in photos.remarks))
    return photos


def _from_folder(folder: Path, seen: Mapping[str, int], hierarchy: Hierarchy | None) -> PhotoSet:
    classes = list_classes(folder)
    ids = {} if hierarchy is None else match_folders(classes, hierarchy, seen)
    labels = {name: seen[ids.get(name, name)] for name in classes if ids.get(name, name) in seen}
    rows = [(f"{p.class_id}/{p.path.name}", 0, 0, labels[p.class_id]) for p in list_photos(folder, labels)]
    filled = {label for *_, label in rows}
    empty = tuple(name for name, label in labels.items() if label not in filled)
    skipped = tuple(name for name in classes if name not in labels)
    return PhotoSet.of(folder, rows, empty_classes=empty, skipped_classes=skipped)


def _from_shards(folder: Path, shards: Sequence[Path], labels: Mapping[str, int], order: Sequence[str]) -> PhotoSet:
    unknown: set[str] = set()

    def rows() -> Iterator[tuple[str, int, int, int]]:
        for shard in shards:
            photos, classes = read_shard(str(shard))
            without = [key for key in photos if key not in classes]
            if without:
                raise UnseenError(f"{shard}: {len(without)} photos have no .cls file beside them, first {without[0]!r}")
            for key, (offset, size, *_) in photos.items():
                id = classes[key]  # a class id, or a position in the class order
                if id not in labels and id.isdecimal() and int(id) < len(order):
                    id = order[int(id)]
                if id in labels:
                    yield shard.name, offset, size, labels[id]
                else:
                    unknown.add(id)

    return replace(PhotoSet.of(folder, rows()), skipped_classes=tuple(sorted(unknown)))


def split_off_validation(photos: PhotoSet, share: float, seed: int) -> tuple[PhotoSet, PhotoSet]:
    """(training photos, validation photos): a share of each class for validation, but never all of one."""
    if not share:
        return photos, photos.subset(np.zeros(0, np.int64))
    aside = np.zeros(len(photos), bool)
    rng = np.random.default_rng([seed, 0x5EED])
    for label in np.unique(photos.labels):
        of_class = rng.permutation(np.flatnonzero(photos.labels == label))
        aside[of_class[: min(round(len(of_class) * share), len(of_class) - 1)]] = True
    if not aside.any():
        most = np.bincount(photos.labels).max()
        raise UnseenError(f"a validation share of {share} keeps no photo aside: no class has more than {most} photos.")
    return photos.subset(np.flatnonzero(~aside)), photos.subset(np.flatnonzero(aside))


def epoch_batches(photos: int, size: int, rank: int, world: int, seed: int, epoch: int) -> np.ndarray:
    """One process's batches of an epoch (steps x size): positions in random order.

    Together the processes take the next size x world photos in each step, so that two processes with half the size do
    what one does. The last step is filled up from the epoch's beginning.
    """
    steps = -(-photos // (size * world))
    order = np.random.default_rng([seed, epoch]).permutation(photos)
    return np.resize(order, (steps, world, size))[:, rank]


Example = tuple[Tensor | None, int, dict[int, str]]  # pixels, label, unreadable photos -> reasons
Batch = tuple[Tensor | None, Tensor, dict[int, str]]


class Photos(Dataset):
    """i -> photo i as the network is evaluated, without pixels if it cannot be read.

    With `crop_seeds` (seed, epoch), for training: cropped and mirrored at random, as the seeds and i decide; the next
    readable photo replaces an unreadable one, so that every step has its full size.
    """

    def __init__(self, photos: PhotoSet, transform: PhotoTransform, crop_seeds: tuple[int, int] | None = None):
        self.photos, self.transform, self.crop_seeds = photos, transform, crop_seeds

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, first: int) -> Example:
        failed: dict[int, str] = {}
        tries = 1 if self.crop_seeds is None else min(TRIES, len(self))
        for i in (np.arange(first, first + tries) % len(self)).tolist():
            try:
                return self._open(i), int(self.photos.labels[i]), failed
            except (UnseenError, OSError) as error:
                where = self.photos.where(i)
                failed[i] = str(error) if where in str(error) else f"{where}: {error}"
        return None, -1, failed

    def _open(self, i: int) -> Tensor:
        source = self.photos.read(i)
        if self.crop_seeds is None:
            return self.transform.open(source)
        return self.transform.for_training().open(source, np.random.default_rng([*self.crop_seeds, i]))


def load_batches(dataset: Dataset, workers: int, **batching) -> DataLoader:
    """Batches decoded by worker processes ahead of their use; `batching` goes to DataLoader."""
    options: Any = {"collate_fn": collate, "worker_init_fn": ignore_signals, **batching}
    return DataLoader(dataset, num_workers=workers, **options)


def collate(examples: list[Example]) -> Batch:
    """Pixels B x 3 x H x W (None if no photo could be read), labels B, and why photos were unreadable."""
    read = [(pixels, label) for pixels, label, _ in examples if pixels is not None]
    failed = {i: why for _, _, unreadable in examples for i, why in unreadable.items()}
    labels = shared(torch.tensor([label for _, label in read]))
    return shared(torch.stack([pixels for pixels, _ in read])) if read else None, labels, failed


def ignore_signals(worker: int) -> None:
    """Ctrl-C and SIGTERM reach the whole process group: the main process handles them, and workers end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
