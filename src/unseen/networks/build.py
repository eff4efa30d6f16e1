"""Photos -> features, into a store that can be interrupted at any point, added to, and filled by several processes.

Worker processes read and prepare photos while the network runs on the batch before. A batch is drawn from the stream
of all photos, across classes, and always has the same size (the last one is padded), so that a photo's features do not
depend on the photos around it. Under torchrun each process does every n-th class: nothing is shared but the folder.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from unseen.networks import store as stores
from unseen.networks.run import PhotoNetwork
from unseen.networks.store import PRECISIONS, Block, Damaged, FeatureStore, block_paths, find_block
from unseen.photos import UnreadablePhoto
from unseen.photos.by_class import ClassFolders, FileState, Listing, list_by_class
from unseen.photos.transforms import PhotoTransform
from unseen.util.devices import count_workers, is_cpu, separate_threads, thread_count
from unseen.util.errors import UnseenError
from unseen.util.files import locked, write_atomically
from unseen.util.processes import Processes, shared, watch_workers
from unseen.util.run import Bar, progress

BATCH_ON_CPU, BATCH_ON_GPU = 16, 128
Names = dict[str, list[str]]  # class -> the files of its blocks
KEEP_GOING = "What is done is kept: run it again with fewer workers, or with more (shared) memory."


@dataclass(frozen=True)
class Built:
    """What `build_store` did."""

    store: Path
    photos: int  # in the store
    new: int  # of these, made now
    unreadable: int
    classes: int  # empty ones too
    seconds: float
    kept: tuple[str, ...] = ()  # classes of the store that have no folder among the photos
    pruned: tuple[str, ...] = ()  # such classes that were dropped
    unlisted: tuple[str, ...] = ()  # classes whose folder could not be read; they keep the features they had

    def to_dict(self) -> dict[str, Any]:
        rate = round(self.new / self.seconds, 1) if self.seconds else 0.0
        facts = vars(self) | {"store": str(self.store), "seconds": round(self.seconds, 2), "photos_per_s": rate}
        return facts | {name: len(facts[name]) for name in ("kept", "pruned", "unlisted")}


def build_store(
    photos: str | Path,
    out: str | Path,
    network: PhotoNetwork,
    *,
    precision: str | None = None,
    batch: int | None = None,
    workers: int | None = None,
    retry_unreadable: bool = False,
    prune: bool = False,
) -> Built:
    """Features of all photos `photos/<class id>/*` in the store `out`, which is made, finished or brought up to date.

    Only photos that are new or have changed are read. A photo that was removed from its class folder leaves the store;
    a class without a folder stays, unless `prune` drops it, and so does one whose folder cannot be read.

    Args:
        photos: A folder with a folder of photos for each class; or a list, a parquet file, a tar file, a glob or a
            URL, where `unseen.photos.by_class` says how each photo has its class.
        out: The folder of the store.
        network: The network, which makes D features of a photo.
        precision: fp16 (default) or fp32.
        batch: Photos in one run of the network; on a CPU each thread has a batch of its own.
        workers: Processes that read photos, by default one for each CPU of this process, at most 8; 0 reads here.
        retry_unreadable: Retry the files that could not be read even if they have not changed.
        prune: Drop the classes of the store that have no folder in `photos`.

    >>> from pathlib import Path
    >>> from unseen.examples import fruit_network, photo
    >>> Path("photos", "lime").mkdir(parents=True)
    >>> photo("crimson").save("photos/lime/1.jpg")
    >>> build_store("photos", "features", fruit_network(), workers=0).new
    1
    >>> for features, class_ids, paths in FeatureStore.open("features").batches(1024):
    ...     print(features.shape, class_ids, paths)
    (1, 3) ['lime'] ['lime/1.jpg']
    """
    listing, out, started = list_by_class(photos), Path(out), time.monotonic()
    if not network.takes_photos:
        raise UnseenError(f"{network.name} is a layer over features that come from elsewhere: it takes no photos.")
    if batch is None:
        batch = BATCH_ON_CPU if is_cpu(network.device) else BATCH_ON_GPU
    if batch < 1 or (workers or 0) < 0:
        raise UnseenError(f"batch must be an integer of at least 1, and workers of at least 0: {batch}, {workers}.")
    with Processes(str(network.device or "cpu")) as processes, ExitStack() as stack:
        classes, kind, names = _on_first(processes, lambda: _prepare(listing, out, network, precision, stack))
        mine = classes[processes.rank :: processes.world]
        with progress("Reading photos", len(mine)) as bar:
            builder = _Builder(listing, out, network, kind, names, retry_unreadable)
            builder.run(mine, batch, count_workers(workers), bar)
        parts = processes.gather((builder.made, builder.new, builder.unlisted))
        made = {id: content for part, _, _ in parts for id, content in part.items()}
        counts, gone = _on_first(processes, lambda: _finish(out, network, kind, made, None if prune else names))
    readable, unreadable = np.sum([*counts.values()], axis=0).tolist()
    return Built(
        out, readable, sum(new for _, new, _ in parts), unreadable, len(counts), time.monotonic() - started,
        kept=() if prune else gone, pruned=gone if prune else (),
        unlisted=tuple(sorted(id for _, _, unlisted in parts for id in unlisted)),
    )  # fmt: skip


def _on_first(processes: Processes, job: Callable[[], Any]) -> Any:
    """The result of a job that the first process does for all; its error is raised everywhere."""
    result = None
    if processes.rank == 0:
        try:
            result = job()
        except UnseenError as error:
            result = UnseenError(str(error))
    result = processes.gather(result)[0]
    if isinstance(result, UnseenError):
        raise result
    return result


def _prepare(
    listing: Listing, out: Path, network: PhotoNetwork, precision: str | None, stack: ExitStack
) -> tuple[list[str], str, Names]:
    """Begin or reopen the store and lock it: the classes of the photos, the precision, and the blocks of the store."""
    classes = listing.classes()
    if precision not in (None, *PRECISIONS):
        raise UnseenError(f"precision must be {' or '.join(PRECISIONS)}, not {precision!r}.")
    if isinstance(listing, ClassFolders) and out.resolve().parent == listing.folder.resolve():
        raise UnseenError(f"{out}: is one of the class folders of {listing.folder}. Choose a folder elsewhere.")
    empty = out.is_dir() and all(item.name.startswith((".unseen-", "lock")) for item in out.iterdir())
    if out.exists() and not empty and not FeatureStore.is_store(out):  # asked last: another process may have made it
        raise UnseenError(f"{out}: is neither empty nor a feature store. Choose another folder.")
    stack.enter_context(locked(out / "lock", f"{out}: another process is writing to this feature store."))
    try:
        about = stores.read_about(out) if FeatureStore.is_store(out) else None
    except Damaged:
        about = _recover(out, network)
    if about is not None:
        stores.check_network(out, about, network)
        if precision not in (None, about["precision"]):
            raise UnseenError(f"{out}: contains {about['precision']}, not {precision}. Make another store.")
    kept = str(about["precision"]) if about else precision or "fp16"
    if about is None or about["classes"] is None:
        stores.write_about(out, network, kept, None, None)
    return classes, kept, (about or {}).get("blocks") or {}


def _recover(out: Path, network: PhotoNetwork) -> dict[str, Any] | None:
    """What a damaged store.json said, restored from the blocks, which name their network; None without blocks."""
    block = next(filter(None, map(find_block, out.glob("features/*/[0-9]*.safetensors"))), None)
    if block is None:
        return None
    if block.network != stores.mark_network(network):
        raise UnseenError(
            f"{out / 'store.json'}: is damaged, and the features were made with another network than {network.name}. "
            "Run `unseen features` with that one to mend it, or make another store."
        )
    precision = next(name for name, dtype in PRECISIONS.items() if block.features.dtype == dtype)
    return {"network": stores.describe_network(network), "precision": precision, "classes": None}


def _finish(
    out: Path, network: PhotoNetwork, precision: str, made: dict[str, Content], names: Names | None
) -> tuple[dict[str, list[int]], tuple[str, ...]]:
    """Write store.json, which says that the store is complete; then remove the blocks that it does not name.

    `names`: the blocks that the store had, of which those of classes without a folder of photos stay; None to drop
    them. Returns the photos and unreadable files of every class, and the classes without a folder.
    """
    gone = tuple(sorted(folder.name for folder in (out / "features").iterdir() if folder.name not in made))
    kept = {} if names is None else {id: _stored(out, id, names) for id in gone}
    contents = dict(sorted((made | kept).items()))
    counts = {id: [content.photos, content.unreadable] for id, content in contents.items()}
    blocks = {id: [content.blocks[number] for number in sorted(content.blocks)] for id, content in contents.items()}
    about = {"network": stores.describe_network(network), "precision": precision, "classes": counts, "blocks": blocks}
    lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in FeatureStore(out, about).unreadable()]
    stores.write_about(out, network, precision, counts, blocks)
    # A name that is not Unicode holds lone surrogates: escaped they are valid JSON, and valid UTF-8.
    write_atomically(out / "unreadable.jsonl", "".join(lines).encode("utf-8", "backslashreplace"))
    for folder in (out / "features").iterdir():
        for file in folder.glob("[0-9]*.safetensors"):
            if file.name not in blocks.get(folder.name, ()):
                file.unlink()
        if folder.name not in blocks:
            shutil.rmtree(folder, ignore_errors=True)
    return counts, gone


@dataclass
class Content:
    """What a store has of a class: numbers of photos and unreadable files, and the blocks that hold them."""

    photos: int = 0
    unreadable: int = 0
    blocks: dict[int, str] = field(default_factory=dict)  # number -> name of the file

    def add(self, path: Path, block: Block) -> None:
        self.photos += len(block.photos)
        self.unreadable += len(block.unreadable)
        self.blocks[_number(path)] = path.name


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[0])


def _stored(out: Path, folder: str, names: Names) -> Content:
    """What the store has of a class; damaged blocks raise when they are read for use."""
    content, all_blocks = Content(), block_paths(out, folder)
    chosen = names.get(folder, [path.name for path in all_blocks])
    for path in all_blocks:
        if path.name in chosen and _number(path) not in content.blocks and (block := find_block(path)) is not None:
            content.add(path, block)
    return content


@dataclass
class _Draft:
    """A block being made: rows arrive in any order, and with the last one it is written."""

    number: int
    class_id: str
    sources: list[FileState]
    rows: dict[int, np.ndarray | str]  # features, or why there are none


class _Builder:
    """One process's share of the classes."""

    def __init__(self, listing: Listing, out: Path, network: PhotoNetwork, precision: str, names: Names, retry: bool):
        self.listing, self.out, self.network, self.names, self.retry = listing, out, network, names, retry
        self.dtype, self.mark = PRECISIONS[precision], stores.mark_network(network)
        self.made: dict[str, Content] = {}
        self.unlisted: list[str] = []
        self.new = 0
        self._asked: deque[list[tuple[_Draft, int]]] = deque()  # where the rows of the batches under way belong

    def run(self, classes: list[str], batch: int, workers: int, bar: Bar) -> None:
        self.bar = bar
        batches, started = self._batches(classes, batch), time.monotonic()
        first = next(batches, None)
        if first is None:  # nothing to do: no need for workers
            return
        loader = DataLoader(
            _Reader(self.network.transform, batch),
            batch_sampler=chain([first], batches),
            num_workers=workers,
            collate_fn=tuple,  # a batch stays as it is
            pin_memory=not is_cpu(self.network.device),
        )

        def read() -> None:
            for features, reasons in _run_network(self.network, loader):
                self._take(features, reasons, self._asked.popleft())
                rate = self.new / (time.monotonic() - started)
                self.bar.advance(0, photos=f"{self.new:,}", rate=f"{rate:.0f}/s")

        watch_workers(read, KEEP_GOING)

    def _batches(self, classes: list[str], size: int) -> Iterator[list[Any]]:
        """The photos to read, paths or what reads them; planned one class at a time, as the workers need them."""
        rows = chain.from_iterable(map(self._plan, classes))
        while places := list(islice(rows, size)):
            self._asked.append(places)
            yield [self.listing.place(draft.class_id, draft.sources[row].name) for draft, row in places]

    def _plan(self, class_id: str) -> Iterator[tuple[_Draft, int]]:
        """Compare a class's photos with its blocks, keep what fits, and yield the photos to read."""
        self.bar.advance(1)
        content = self.made[class_id] = Content()
        sources, broken = self.listing.sources(class_id)
        if "" in broken and (had := _stored(self.out, class_id, self.names)).photos:  # the folder cannot be read
            self.made[class_id] = had
            self.unlisted.append(class_id)
            return
        starts = range(0, max(len(sources), 1), stores.BLOCK)
        todo = {number: sources[start : start + stores.BLOCK] for number, start in enumerate(starts)}
        known: dict[FileState, np.ndarray | str] = {}
        for path in block_paths(self.out, class_id):
            block = find_block(path)
            if block is None:
                continue
            if block.sources() == todo.get(_number(path)) and not (self.retry and block.unreadable):
                content.add(path, block)
                del todo[_number(path)]
                continue
            known |= dict(zip(block.photos, block.features, strict=True))
            known |= {} if self.retry else dict(block.unreadable)
        for number, files in todo.items():
            rows = {row: broken.get(source.name, known.get(source)) for row, source in enumerate(files)}
            draft = _Draft(number, class_id, files, {row: value for row, value in rows.items() if value is not None})
            self._write_if_complete(draft)
            yield from [(draft, row) for row, value in rows.items() if value is None]

    def _take(self, features: np.ndarray, reasons: list[str | None], places: list[tuple[_Draft, int]]) -> None:
        """Rows from the network, to their blocks."""
        with np.errstate(over="ignore"):
            rows = features.astype(self.dtype)
        for (draft, row), why, exact, rounded in zip(places, reasons, features, rows, strict=False):  # the rest pads
            if why is None and not np.isfinite(exact).all():
                why = "the network's features of this photo are not finite"
            if why is None and not np.isfinite(rounded).all():
                name = f"{draft.class_id}/{draft.sources[row].name}"
                raise UnseenError(f"{name}: its features are too large for fp16. Use the precision fp32.")
            self.new += why is None
            draft.rows[row] = rounded if why is None else why
            self._write_if_complete(draft)

    def _write_if_complete(self, draft: _Draft) -> None:
        if len(draft.rows) < len(draft.sources):
            return
        rows = [(source, draft.rows[row]) for row, source in enumerate(draft.sources)]
        readable = [(source, row) for source, row in rows if not isinstance(row, str)]
        unreadable = [(source, why) for source, why in rows if isinstance(why, str)]
        features = np.array([row for _, row in readable], self.dtype).reshape(-1, self.network.num_features)
        block = Block(features, [source for source, _ in readable], unreadable, self.mark)
        path = stores.write_block(self.out / "features" / draft.class_id, draft.number, block)
        self.made[draft.class_id].add(path, block)


Read = tuple[torch.Tensor, list[str | None]]  # a batch of photos; for each, the reason if it could not be read


def _run_network(network: PhotoNetwork, batches: Iterable[Read]) -> Iterator[tuple[np.ndarray, list[str | None]]]:
    """Batches of photos -> features, in their order. On a CPU each thread has a batch of its own."""
    threads, waiting = thread_count(network.device), deque()
    with separate_threads(threads) as pool:
        for pixels, reasons in batches:
            waiting.append((pool.submit(lambda batch: network.features_of(batch.numpy()), pixels), reasons))
            if len(waiting) > threads:
                done, reasons = waiting.popleft()
                yield done.result(), reasons
        for done, reasons in waiting:
            yield done.result(), reasons


class _Reader(Dataset):
    """Photos -> a batch of prepared ones, and for each the reason if it could not be read; in a worker."""

    def __init__(self, transform: PhotoTransform, batch: int):
        self.transform, self.batch = transform, batch

    def __getitems__(self, photos: list[Any]) -> Read:
        # Always a whole batch: networks may round differently for other batch sizes.
        pixels = torch.zeros(self.batch, 3, self.transform.size, self.transform.size)
        reasons: list[str | None] = [None] * len(photos)
        for i, photo in enumerate(photos):
            try:
                pixels[i] = self.transform.open(photo)
            except Exception as error:  # one odd photo among millions must not end the work
                known = isinstance(error, UnreadablePhoto)
                reasons[i] = error.why if known else f"cannot be prepared ({type(error).__name__}: {error})."
        return shared(pixels), reasons
