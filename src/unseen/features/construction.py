"""Photos -> features, into a store that can be interrupted at any point, added to, and filled by several processes.

Worker processes read and prepare photos while the network looks at the batch before. A batch is drawn from the stream
of all photos, across classes, and always has the same size (the last one is filled up), so that a photo's features do
not depend on which photos were there before. Under torchrun each process does every n-th class: nothing is shared but
the folder. See `unseen.features.store` for what lies on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.backbones import Backbone
from unseen.errors import UnseenError
from unseen.features.blocks import blocks_of, find_block
from unseen.features.builder import Builder
from unseen.features.recovery import recover, write_about
from unseen.features.store import PRECISIONS, FeatureStore, check_network, read_about
from unseen.photos import list_classes
from unseen.runtime.files import locked, write_atomically, writing
from unseen.runtime.processes import Processes
from unseen.runtime.progress import progress
from unseen.runtime.seals import Damaged, sealed

BATCH_ON_CPU, BATCH_ON_GPU = 16, 128


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
    unknown: Path | None = None  # where features are that nobody knows the network of, since store.json got damaged

    def as_dict(self) -> dict[str, Any]:
        rate = self.new / self.seconds if self.seconds else 0.0
        return {
            "store": str(self.store),
            "photos": self.photos,
            "new": self.new,
            "unreadable": self.unreadable,
            "classes": self.classes,
            "photos_per_s": round(rate, 1),
            "seconds": round(self.seconds, 2),
            "kept": len(self.kept),
            "pruned": len(self.pruned),
            "unlisted": len(self.unlisted),
        }


def build_store(
    images: str | Path,
    out: str | Path,
    backbone: Backbone,
    *,
    precision: str | None = None,
    batch: int | None = None,
    workers: int | None = None,
    retry_unreadable: bool = False,
    prune: bool = False,
    show_progress: bool = True,
) -> Built:
    """Features of all photos `images/<class id>/*` in the store `out`, which is made, finished or brought up to date.

    Only photos that are new or have changed are read. A photo that was removed from its class folder leaves the store;
    a class without a folder stays, unless `prune` drops it, and so does one whose folder cannot be read.

    Args:
        images: A folder with a folder of photos for each class.
        out: The folder of the store.
        backbone: The network, which makes D features of a photo.
        precision: fp16 (default) or fp32.
        batch: Photos that the network looks at together; on a CPU each thread has a batch of its own.
        workers: Processes that read photos, by default one for each CPU of this process, at most 8; 0 reads here.
        retry_unreadable: Give files that could not be read another chance though they have not changed.
        prune: Drop the classes of the store that have no folder in `images`.
        show_progress: Whether to show a progress bar.

    >>> from pathlib import Path
    >>> import unseen
    >>> from PIL import Image
    >>> from torch import nn
    >>> for id in ("dog", "cat"):
    ...     Path("photos", id).mkdir(parents=True)
    ...     Image.new("RGB", (320, 240), "orange").save(f"photos/{id}/1.jpg")
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"])
    >>> unseen.build_store("photos", "features", backbone, workers=0).new
    2
    >>> Image.new("RGB", (320, 240), "grey").save("photos/cat/2.jpg")
    >>> again = unseen.build_store("photos", "features", backbone, workers=0)
    >>> again.photos, again.new
    (3, 1)
    """
    images, out, started = Path(images), Path(out), time.monotonic()
    if not backbone.takes_photos:
        raise UnseenError(f"{backbone.name} is a layer over features that come from elsewhere: it takes no photos.")
    if batch is None:
        batch = BATCH_ON_CPU if backbone.device.type == "cpu" else BATCH_ON_GPU
    if batch < 1 or (workers is not None and workers < 0):
        raise UnseenError(
            f"batch must be an integer of at least 1, and workers of at least 0, not {batch} and {workers}.",
            "batch",
            "workers",
        )
    with Processes(str(backbone.device)) as processes, ExitStack() as held:
        classes, dtype, unknown = _first_does(processes, lambda: _prepare(images, out, backbone, precision, held))
        mine = classes[processes.rank :: processes.world]
        builder = Builder(images, out, backbone, PRECISIONS[dtype], batch, count_workers(workers), retry_unreadable)
        with progress("Reading photos", len(mine), show_progress) as bar:
            builder.run(mine, bar)
        parts = processes.gather((builder.counts, builder.new, builder.unlisted))
        made = {id: found for part, _, _ in parts for id, found in part.items()}
        counts, gone = _first_does(processes, lambda: _finish(out, {id: made[id] for id in classes}, prune))
    photos, unreadable = np.sum([*counts.values()], axis=0).tolist()
    return Built(
        out,
        photos,
        sum(new for _, new, _ in parts),
        unreadable,
        len(counts),
        time.monotonic() - started,
        kept=() if prune else gone,
        pruned=gone if prune else (),
        unlisted=tuple(sorted(id for _, _, unlisted in parts for id in unlisted)),
        unknown=unknown,
    )


def _first_does(processes: Processes, job: Callable[[], Any]) -> Any:
    """The result of a job that the first process does for all; what goes wrong there is raised everywhere."""
    result, trouble = None, None
    if processes.rank == 0:
        try:
            result = job()
        except UnseenError as error:
            trouble = str(error)
    result, trouble = processes.gather((result, trouble))[0]
    if trouble is not None:
        raise UnseenError(trouble)
    return result


def _prepare(
    images: Path, out: Path, backbone: Backbone, precision: str | None, held: ExitStack
) -> tuple[list[str], str, Path | None]:
    """A new or known store, from now on ours and unfinished; the classes of `images`, the store's precision, and where
    features are that are not known to be this network's."""
    classes = list_classes(images)
    if precision is not None and precision not in PRECISIONS:
        raise UnseenError(f"precision must be {' or '.join(PRECISIONS)}, not {precision!r}.", "precision")
    if out.resolve().parent == images.resolve():
        raise UnseenError(f"{out}: is one of the class folders of {images}. Choose a folder elsewhere.")
    _check_place(out)
    held.enter_context(locked(out / "lock", f"{out}: another process is writing to this feature store."))
    for leftover in out.glob(".*.tmp"):  # of a process that was killed
        leftover.unlink(missing_ok=True)
    about, unknown = _known(out, backbone)
    if about is not None:
        check_network(out, about, backbone)
        if precision not in (None, about["precision"]):
            raise UnseenError(
                f"{out}: contains {about['precision']}, not {precision}. Make another store or omit precision.",
                "precision",
            )
        (out / "contents.json").unlink(missing_ok=True)
    else:
        about = write_about(out, backbone, precision or "fp16")
    return classes, about["precision"], unknown


def _check_place(out: Path) -> None:
    """Refuse a place that holds anything but a store, or the beginnings of one."""
    if not out.exists():
        return
    try:
        foreign = not out.is_dir() or any(item.name != "lock" and not _is_leftover(item) for item in out.iterdir())
    except OSError as error:
        raise UnseenError(f"{out}: cannot be read ({error.strerror}).") from None
    if foreign and not FeatureStore.is_store(out):  # looked for last: another process may just have made it
        raise UnseenError(f"{out}: is neither empty nor a feature store. Choose another folder.")


def _is_leftover(path: Path) -> bool:
    """Whether it is a file that was being written when its process was killed."""
    return path.name.startswith(".store.json.") and path.suffix == ".tmp"


def _known(out: Path, backbone: Backbone) -> tuple[dict[str, Any] | None, Path | None]:
    """What store.json tells, None where there is none; and where features are that only a damaged one told of."""
    try:
        return (read_about(out) if FeatureStore.is_store(out) else None), None
    except Damaged:
        return recover(out, backbone)


def _finish(out: Path, made: dict[str, list[int]], prune: bool) -> tuple[dict[str, list[int]], tuple[str, ...]]:
    """Write what was found. contents.json comes last: it says that the store is whole.

    Returns what is in the store, and the classes that have no folder of photos: with `prune` they are dropped.
    """
    gone = tuple(sorted(folder.name for folder in (out / "features").iterdir() if folder.name not in made))
    kept = {} if prune else {id: _count(out, id) for id in gone}
    counts = dict(sorted((made | kept).items()))
    store, listed = FeatureStore(out, read_about(out), counts), out / "unreadable.jsonl"
    # A name that is not Unicode holds lone surrogates: escaped they are valid JSON, and valid UTF-8.
    with writing(listed):
        with open(out / ".unreadable.tmp", "w", encoding="utf-8", errors="backslashreplace") as file:
            for item in store.unreadable():
                file.write(json.dumps(item, ensure_ascii=False) + "\n")
        os.replace(file.name, listed)
    for folder in (out / "aside", *(out / "features" / id for id in gone if prune)):
        shutil.rmtree(folder, ignore_errors=True)
    write_atomically(out / "contents.json", json.dumps(sealed({"classes": counts}), indent=0).encode())
    return counts, gone


def _count(out: Path, class_id: str) -> list[int]:
    """Photos and unreadable files of a class in the store; a damaged block is told of when it is read."""
    indices = [index for block in blocks_of(out, class_id) if (index := find_block(block)) is not None]
    return [sum(len(index.photos) for index in indices), sum(len(index.unreadable) for index in indices)]


def count_workers(asked: int | None) -> int:
    """Processes that read photos: as many as asked for, else one for each CPU that this process may use, at most 8."""
    if asked is not None:
        return asked
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cpus // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
