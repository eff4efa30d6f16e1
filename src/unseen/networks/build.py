"""Photos -> features, into a store that can be interrupted at any point, and brought up to date."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.networks.features import photo_features
from unseen.networks.store import KIND, PRECISIONS, FeatureStore, check_network, describe_network
from unseen.photos.by_class import ClassFolders, Listing, list_by_class
from unseen.photos.inputs import Item
from unseen.photos.reading import Unreadable
from unseen.util.errors import UnseenError
from unseen.util.files import write_atomically
from unseen.util.run import progress
from unseen.util.table import Row, open_table

if TYPE_CHECKING:
    from unseen.networks.run import PhotoNetwork


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
    a class without a folder stays, unless `prune` drops it, and so does one whose folder cannot be read. Under torchrun
    the first process does it.

    Args:
        photos: A folder with a folder of photos for each class; or a list, a parquet file, a tar file, a glob or a
            URL, where `unseen.photos.by_class` says how each photo has its class.
        out: The folder of the store.
        network: The network, which makes D features of a photo.
        precision: fp16 (default) or fp32.
        batch: Photos in one run of the network on a GPU. On a CPU each photo runs alone.
        workers: Threads that read photos, by default one for each CPU of this process.
        retry_unreadable: Retry the files that could not be read even if they have not changed.
        prune: Drop the classes of the store that have no folder in `photos`.

    >>> from pathlib import Path
    >>> from unseen.examples import fruit_network, photo
    >>> Path("photos", "lime").mkdir(parents=True)
    >>> photo("crimson").save("photos/lime/1.jpg")
    >>> build_store("photos", "features", fruit_network()).new
    1
    >>> for features, class_ids, paths in FeatureStore.open("features").batches(1024):
    ...     print(features.shape, class_ids, paths)
    (1, 3) ['lime'] ['lime/1.jpg']
    """
    out, listing = Path(out), list_by_class(photos)
    if not network.takes_photos:
        raise UnseenError(f"{network.name} is a layer over features that come from elsewhere: it takes no photos.")
    if (batch is not None and batch < 1) or (workers or 0) < 0:
        raise UnseenError(f"batch must be an integer of at least 1, and workers of at least 0: {batch}, {workers}.")
    if precision not in (None, *PRECISIONS):
        raise UnseenError(f"precision must be {' or '.join(PRECISIONS)}, not {precision!r}.")
    if isinstance(listing, ClassFolders) and out.resolve().parent == listing.folder.resolve():
        raise UnseenError(f"{out}: is one of the class folders of {listing.folder}. Choose a folder elsewhere.")
    others = out.is_dir() and any(not item.name.startswith((".unseen-", "lock")) for item in out.iterdir())
    if others and not FeatureStore.is_store(out):
        raise UnseenError(f"{out}: is neither empty nor a feature store. Choose another folder.")
    return _on_first(
        lambda: _build(listing, str(photos), out, network, precision, workers, batch, retry_unreadable, prune)
    )


def _build(
    listing: Listing,
    photos: str,
    out: Path,
    network: PhotoNetwork,
    precision: str | None,
    workers: int | None,
    batch: int | None,
    retry_unreadable: bool,
    prune: bool,
) -> Built:
    started = time.monotonic()
    with open_table(out, KIND, str(out)) as table:
        if table.made_by is not None:
            check_network(out, table.made_by, network)
            if precision not in (None, table.made_by["precision"]):
                raise UnseenError(f"{out}: contains {table.made_by['precision']}, not {precision}.")
        kept_as = table.made_by["precision"] if table.made_by else precision or "fp16"
        table.start({"network": describe_network(network), "precision": kept_as})
        dtype, classes, new = PRECISIONS[kept_as], dict[str, str](), 0

        def waiting() -> Iterator[Item]:
            for item in listing.items():
                classes[item.name] = item.label
                if not table.is_current(item.name, item.version, retry_unreadable):
                    yield item

        with progress("Reading photos", None) as bar:
            for item, features in photo_features(network, waiting(), workers, batch):
                table.add(_row(item, features, dtype))
                new += not isinstance(features, Unreadable)
                bar.advance(1, rate=f"{new / (time.monotonic() - started):.0f}/s")
        table.flush()
        listed = set(listing.classes) - set(listing.unlisted)
        gone = {*table.finished.values(), *(table.summary or {"classes": ()})["classes"]} - set(listing.classes)
        dropped = gone if prune else set[str]()
        kept = {name: id for name, id in table.finished.items() if id not in listed | dropped}
        if lost := kept.keys() - table.entries.keys():
            raise UnseenError(
                f"{out}: features of {len(lost)} photos are damaged, and {photos} has no folder for their "
                "classes. Add these photos, or drop the classes (prune)."
            )
        classes |= kept
        ids = sorted({*listing.classes, *(gone - dropped)})
        order = sorted(classes, key=lambda name: (classes[name], name))
        table.finish({name: classes[name] for name in order}, {"classes": ids})
    store = FeatureStore.open(out)
    lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in store.unreadable()]
    # A name that is not Unicode holds lone surrogates: escaped they are valid JSON, and valid UTF-8.
    write_atomically(out / "unreadable.jsonl", "".join(lines).encode("utf-8", "backslashreplace"))
    counts = len(store), new, store.unreadable_count(), len(ids), time.monotonic() - started
    missing, unlisted = tuple(sorted(gone)), tuple(listing.unlisted)
    return Built(out, *counts, () if prune else missing, missing if prune else (), unlisted)


def _row(item: Item, features: np.ndarray | Unreadable, dtype: np.dtype) -> Row:
    if isinstance(features, Unreadable):
        return Row(item.name, item.version, item.label, features.why)
    with np.errstate(over="ignore"):
        rounded = features.astype(dtype)
    if not np.isfinite(rounded).all():
        raise UnseenError(f"{item.name}: its features are too large for fp16. Use the precision fp32.")
    return Row(item.name, item.version, item.label, vector=rounded)


def _on_first(job: Callable[[], Built]) -> Built:
    """The result of a job that the first of torchrun's processes does for all; its error is raised everywhere."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return job()
    from unseen.networks.processes import Processes

    with Processes("cpu") as processes:
        result: Any = None
        if processes.rank == 0:
            try:
                result = job()
            except UnseenError as error:
                result = error
        result = processes.gather(result)[0]
    if isinstance(result, UnseenError):
        raise result
    return result
