"""One process's share of a feature store: what is missing, who reads it, and where its rows belong."""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from unseen.backbones import Backbone, PhotoTransform
from unseen.errors import UnseenError
from unseen.features.blocks import (
    BLOCK,
    Index,
    Source,
    block_path,
    blocks_of,
    find_block,
    read_block,
    write_block,
)
from unseen.features.store import mark_network
from unseen.photos import UnreadablePhoto, photos_in
from unseen.runtime.progress import Bar
from unseen.runtime.threads import separate_threads, thread_count
from unseen.runtime.workers import shared, watch_workers

NO_FOLDER = Source("", -1, -1)  # stands for a class folder that cannot be read


class _Block:
    """A block that is being made: rows come in any order, and when the last is there it is written."""

    def __init__(self, path: Path, class_id: str, sources: list[Source], features: np.ndarray, network: str):
        self.path, self.class_id, self.sources, self.features, self.network = path, class_id, sources, features, network
        self.reasons: dict[int, str] = {}
        self.left = len(sources)

    def write(self) -> Index:
        readable = [row for row in range(len(self.sources)) if row not in self.reasons]
        index = Index(
            [self.sources[row] for row in readable],
            [(self.sources[row], why) for row, why in sorted(self.reasons.items())],
            self.network,
        )
        write_block(self.path, index, self.features[readable])
        return index


class Builder:
    def __init__(
        self, images: Path, store: Path, backbone: Backbone, dtype: type, batch: int, workers: int, retry: bool
    ):
        self.images, self.store, self.backbone, self.dtype = images, store, backbone, dtype
        self.batch, self.workers, self.retry = batch, workers, retry
        self.network = mark_network(backbone)
        self.counts: dict[str, list[int]] = {}  # class -> photos, unreadable
        self.unlisted: list[str] = []  # classes whose folder could not be read, and that keep the features they had
        self.new = 0
        self._asked: deque[list[tuple[_Block, int]]] = deque()  # what the batches on their way are for
        self._blocks_left: dict[str, int] = {}  # of classes that are not finished

    def run(self, classes: list[str], bar: Bar) -> None:
        self.bar, started = bar, time.monotonic()
        batches = self._batches(classes)
        first = next(batches, None)
        if first is None:  # nothing to do: no need for workers
            return
        loader = DataLoader(
            _Reader(self.backbone.transform, self.batch),
            batch_sampler=chain([first], batches),
            num_workers=self.workers,
            collate_fn=_as_it_is,
            pin_memory=self.backbone.device.type == "cuda",
        )

        def look() -> None:
            for features, reasons in _look(self.backbone, loader):
                self._take(features, reasons, self._asked.popleft())
                rate = self.new / (time.monotonic() - started)
                bar.advance(0, photos=f"{self.new:,}", rate=f"{rate:.0f}/s")

        watch_workers(look, "What is done is kept: run it again with fewer workers, or with more (shared) memory.")

    def _batches(self, classes: list[str]) -> Iterator[list[str]]:
        """Paths of the photos to read, in batches; planned one class at a time, as the workers need them."""
        paths, places = [], []
        for class_id in classes:
            for block, row in self._plan(class_id):
                paths.append(os.path.join(self.images, class_id, block.sources[row].name))
                places.append((block, row))
                if len(paths) == self.batch:
                    self._asked.append(places)
                    yield paths
                    paths, places = [], []
        if paths:
            self._asked.append(places)
            yield paths

    def _plan(self, class_id: str) -> Iterator[tuple[_Block, int]]:
        """Compare a class's photos with its blocks, keep what is right, and yield what the network must look at."""
        sources, broken = _list_sources(self.images / class_id)
        self.counts[class_id] = [0, 0]
        if sources == [NO_FOLDER] and self._keeps(class_id):
            return
        wanted = [sources[start : start + BLOCK] for start in range(0, len(sources), BLOCK)] or [[]]
        missing = []
        aside = _Aside(self.store / "aside" / class_id, self.retry)
        for number, chunk in enumerate(wanted):
            path = block_path(self.store, class_id, number)
            index = find_block(path)
            if index is not None and index.sources() == chunk and not (self.retry and index.unreadable):
                self._count(class_id, index)
            else:
                missing.append(number)
                aside.take(path)
        self._tidy(class_id, len(wanted), aside)
        self._blocks_left[class_id] = len(missing)
        aside.find_rows()
        for number in missing:
            path = block_path(self.store, class_id, number)
            features = np.zeros((len(wanted[number]), self.backbone.num_features), self.dtype)
            block = _Block(path, class_id, wanted[number], features, self.network)
            for row, source in enumerate(block.sources):
                if source.name in broken:
                    self._fill(block, row, broken[source.name])
                elif (known := aside.get(source)) is not None:
                    self._fill(block, row, known)
                else:
                    yield block, row
            if not block.sources:
                self._written(block)
        if not missing:
            self._class_done(class_id)

    def _keeps(self, class_id: str) -> bool:
        """Whether a class whose folder cannot be read has features from before: these stay as they are."""
        indices = [index for path in blocks_of(self.store, class_id) if (index := find_block(path)) is not None]
        if not any(index.photos for index in indices):
            return False
        for index in indices:
            self._count(class_id, index)
        self.unlisted.append(class_id)
        self.bar.advance(1)
        return True

    def _tidy(self, class_id: str, blocks: int, aside: _Aside) -> None:
        """Set blocks aside that are too many, and remove what an interrupted write left."""
        wanted = {block_path(self.store, class_id, number) for number in range(blocks)}
        for path in blocks_of(self.store, class_id):
            if path not in wanted:
                aside.take(path)
        folder = self.store / "features" / class_id
        for path in folder.iterdir() if folder.exists() else []:
            if path not in wanted:
                path.unlink()

    def _take(self, features: np.ndarray, reasons: list[str | None], places: list[tuple[_Block, int]]) -> None:
        """Rows that came from the network, to their blocks."""
        features = features[: len(places)]  # the last batch was filled up
        with np.errstate(over="ignore"):
            rows = features.astype(self.dtype)
        for row, (block, place), why, finite in zip(rows, places, reasons, np.isfinite(features), strict=True):
            if why is None and not finite.all():
                why = "the network's features of this photo are not finite"
            if why is None and not np.isfinite(row).all():
                raise UnseenError(
                    f"{block.class_id}/{block.sources[place].name}: its features are too large for fp16. "
                    "Make another store with precision='fp32'.",
                    "precision='fp32'",
                )
            self.new += why is None
            self._fill(block, place, row if why is None else why)

    def _fill(self, block: _Block, row: int, found: np.ndarray | str) -> None:
        """A row of features, or why there is none."""
        if isinstance(found, str):
            block.reasons[row] = found
        else:
            block.features[row] = found
        block.left -= 1
        if not block.left:
            self._written(block)

    def _written(self, block: _Block) -> None:
        self._count(block.class_id, block.write())
        self._blocks_left[block.class_id] -= 1
        if not self._blocks_left[block.class_id]:
            self._class_done(block.class_id)

    def _class_done(self, class_id: str) -> None:
        del self._blocks_left[class_id]
        shutil.rmtree(self.store / "aside" / class_id, ignore_errors=True)
        self.bar.advance(1)

    def _count(self, class_id: str, index: Index) -> None:
        self.counts[class_id][0] += len(index.photos)
        self.counts[class_id][1] += len(index.unreadable)


class _Aside:
    """Blocks of a class that no longer fit its photos, kept for the rows in them that do."""

    def __init__(self, folder: Path, retry: bool):
        self.folder, self.retry = folder, retry
        self._found: dict[Source, tuple[Path, int] | str] = {}
        self._read: tuple[Path, np.ndarray] | None = None  # one block at a time

    def take(self, path: Path) -> None:
        """Move a block here, if there is one; a damaged one is worth nothing."""
        if not path.exists():
            return
        if find_block(path) is None:
            path.unlink()
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        os.replace(path, self.folder / f"{len(list(self.folder.iterdir())):06d}.safetensors")

    def find_rows(self) -> None:
        for path in sorted(self.folder.glob("*.safetensors")) if self.folder.exists() else []:
            index = find_block(path)
            if index is not None:
                self._found |= {source: (path, row) for row, source in enumerate(index.photos)}
                self._found |= {} if self.retry else dict(index.unreadable)

    def get(self, source: Source) -> np.ndarray | str | None:
        """The row of this very file, or why there is none; None if it is not known."""
        found = self._found.get(source)
        if not isinstance(found, tuple):
            return found
        path, row = found
        if self._read is None or self._read[0] != path:
            self._read = path, read_block(path)[1]
        return self._read[1][row]


def _list_sources(folder: Path) -> tuple[list[Source], dict[str, str]]:
    """The files of a class folder, sorted by name, and why some cannot even be looked at."""
    try:
        names = photos_in(folder)
    except UnseenError as error:
        return [NO_FOLDER], {"": str(error).removeprefix(f"{folder}: ")}
    sources, broken = [], {}
    for name in names:
        try:
            found = os.stat(os.path.join(folder, name))  # pathlib would take longer than the disk
            sources.append(Source(name, found.st_size, found.st_mtime_ns))
        except OSError as error:  # a link that leads nowhere or in a circle
            sources.append(Source(name, -1, -1))
            broken[name] = f"cannot be opened ({error.strerror})."
    return sources, broken


# -- the network -----------------------------------------------------------------------------------------------------

Read = tuple[torch.Tensor, list[str | None]]  # a batch of photos; for each, the reason if it could not be read


def _look(backbone: Backbone, batches: Iterable[Read]) -> Iterator[tuple[np.ndarray, list[str | None]]]:
    """Batches of photos -> features, in their order. On a CPU each thread looks at a batch of its own."""
    threads = thread_count(backbone.device)
    waiting: deque[tuple[Future, list[str | None]]] = deque()
    with separate_threads(threads) as pool:
        for pixels, reasons in batches:
            waiting.append((pool.submit(lambda batch: backbone.features(batch).cpu().numpy(), pixels), reasons))
            if len(waiting) > threads:
                done, reasons = waiting.popleft()
                yield done.result(), reasons
        while waiting:
            done, reasons = waiting.popleft()
            yield done.result(), reasons


# -- worker processes ------------------------------------------------------------------------------------------------


class _Reader(Dataset):
    """Paths -> a batch of prepared photos, and for each path the reason if it could not be read."""

    def __init__(self, transform: PhotoTransform, batch: int):
        self.transform, self.batch = transform, batch

    def __getitems__(self, paths: list[str]) -> Read:
        # Always a whole batch: networks may round differently for other batch sizes.
        pixels = torch.zeros(self.batch, 3, self.transform.size, self.transform.size)
        reasons: list[str | None] = [None] * len(paths)
        for i, path in enumerate(paths):
            try:
                pixels[i] = self.transform.open(path)
            except UnreadablePhoto as error:
                reasons[i] = error.why
            except Exception as error:  # one odd photo among millions must not end the work
                reasons[i] = f"cannot be prepared ({type(error).__name__}: {error})."
        return shared(pixels), reasons


def _as_it_is(batch):
    return batch
