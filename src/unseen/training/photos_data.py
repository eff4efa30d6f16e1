"""The photos of a finetuning: where they are, which comes when, and how it is cropped. Folders and tar shards alike.

    DIR/<class id or name>/<photo>  an image folder
    DIR/*.tar                       shards in webdataset's layout: KEY.jpg with KEY.cls beside it, which holds the class
                                    id, or its position in the network's class order

Only names and places are held, packed: 1.28 million photos take about 100 MB, and worker processes share them.
"""

from __future__ import annotations

import hashlib
import os
import signal
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from unseen.hierarchy.core import Hierarchy
from unseen.networks.folders import match_folders
from unseen.photos import list_classes, list_photos
from unseen.photos.inputs import read_shard
from unseen.util.errors import UnseenError
from unseen.util.names import list_some
from unseen.util.processes import shared


@dataclass(frozen=True)
class PhotoSet:
    """Photo i is `sizes[i]` bytes from `offsets[i]` of its file. An offset of 0 means all of the file: no photo in a
    shard begins there."""

    names: bytes  # file names, joined
    name_ends: np.ndarray  # n, int64: where each photo's file name ends in `names`
    offsets: np.ndarray  # n, int64
    sizes: np.ndarray  # n, int64
    labels: np.ndarray  # n, int32: position of its class among the seen ones
    root: str
    empty_classes: tuple[str, ...] = ()  # class folders without a photo
    skipped_classes: tuple[str, ...] = ()  # not seen classes of the bundle

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, i: int) -> str:
        start = self.name_ends[i - 1] if i else 0
        return os.fsdecode(self.names[start : self.name_ends[i]])

    def read(self, i: int) -> Path | bytes:
        """What a photo reader takes: a path, or the bytes within a shard."""
        path = Path(self.root) / self.name(i)
        if not self.offsets[i]:
            return path
        with open(path, "rb") as file:
            file.seek(self.offsets[i])
            return file.read(self.sizes[i])

    def where(self, i: int) -> str:
        name = str(Path(self.root) / self.name(i))
        return f"{name} at byte {self.offsets[i]}" if self.offsets[i] else name

    def subset(self, chosen: np.ndarray) -> PhotoSet:
        names = [os.fsencode(self.name(int(i))) for i in chosen]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        columns = {key: getattr(self, key)[chosen] for key in ("offsets", "sizes", "labels")}
        return replace(self, names=b"".join(names), name_ends=ends, **columns)

    def digest(self) -> str:
        """Of names, places and classes: lists of photos differ in it, wherever their folder is."""
        columns = (self.name_ends, self.offsets, self.labels)
        return hashlib.sha256(self.names + b"".join(column.tobytes() for column in columns)).hexdigest()[:12]

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
    """The photos of seen classes in a folder of class folders, or of tar shards.

    `order`: the classes that numbers in shards count, where it is not that of `seen_ids`. With the `hierarchy`, folders
    may be called by names of classes instead of ids.
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
    listed = list_photos(folder, labels)
    photos = pack(folder, ((f"{p.class_id}/{p.path.name}", 0, 0, labels[p.class_id]) for p in listed))
    filled = set(photos.labels.tolist())
    empty = tuple(name for name, label in labels.items() if label not in filled)
    return replace(photos, empty_classes=empty, skipped_classes=tuple(name for name in classes if name not in labels))


def _from_shards(folder: Path, shards: Sequence[Path], labels: Mapping[str, int], order: Sequence[str]) -> PhotoSet:
    unknown: set[str] = set()

    def rows() -> Iterator[tuple[str, int, int, int]]:
        for shard in shards:
            photos, classes = read_shard(str(shard))
            without = [key for key in photos if key not in classes]
            if without:
                raise UnseenError(f"{shard}: {len(without)} photos have no .cls file beside them, first {without[0]!r}")
            for key, place in photos.items():
                id = classes[key]  # a class id, or a position in the class order
                if id not in labels and id.isdecimal() and int(id) < len(order):
                    id = order[int(id)]
                if id in labels:
                    yield shard.name, *place[:2], labels[id]
                else:
                    unknown.add(id)

    return replace(pack(folder, rows()), skipped_classes=tuple(sorted(unknown)))


def pack(root: Path, rows: Iterable[tuple[str, int, int, int]]) -> PhotoSet:
    """A PhotoSet of (file name, offset, size, label), packed from the first row on."""
    names, columns = bytearray(), [array("q"), array("q"), array("q"), array("i")]
    for name, *numbers in rows:
        names += os.fsencode(name)
        for column, number in zip(columns, (len(names), *numbers), strict=True):
            column.append(number)
    return PhotoSet(bytes(names), *map(np.array, columns), root=str(root))


TRIES = 50  # photos in a row that may be unreadable

Example = tuple[Tensor | None, int, dict[int, str]]  # pixels, label, unreadable photos -> reasons
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
    failed = {i: why for _, _, unreadable in examples for i, why in unreadable.items()}
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
        of_class = rng.permutation(np.flatnonzero(photos.labels == label))
        aside[of_class[: min(round(len(of_class) * share), len(of_class) - 1)]] = True
    if not aside.any():
        most = np.bincount(photos.labels).max()
        raise UnseenError(f"a validation share of {share} keeps no photo aside: no class has more than {most} photos.")
    return photos.subset(np.flatnonzero(~aside)), photos.subset(np.flatnonzero(aside))
