"""The first half of a photo's way: read -> transform -> features. It knows the network, but no classes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unseen.answers.answer import Unreadable
from unseen.bundle.teach import Photos
from unseen.networks.features import check_matrix, is_array_file
from unseen.photos import find_photos
from unseen.photos.inputs import is_glob, is_input, list_inputs
from unseen.photos.reading import Source, UnreadablePhoto, fingerprint, fingerprint_rows
from unseen.util.devices import count_workers, is_cpu, separate_threads, thread_count
from unseen.util.errors import UnseenError
from unseen.util.names import list_some
from unseen.util.run import progress

if TYPE_CHECKING:
    import torch

    from unseen.bundle import Bundle
    from unseen.networks.run import PhotoNetwork

BATCH = 32  # photos
T = TypeVar("T")


@dataclass(frozen=True)
class PhotoFeatures:
    """The features of a list of photos, without those that could not be read."""

    matrix: np.ndarray  # n x D, float32: a row for each photo that could be read
    unreadable: dict[int, Unreadable]  # the others, by their place in the list

    def __len__(self) -> int:
        return len(self.matrix) + len(self.unreadable)


def several_photos(photos: Any) -> Iterable[Source] | None:
    """What a user gives, as photos one by one: an iterable, an array or tensor of photos, a folder or an input; None
    for a single photo."""
    if isinstance(photos, (str, os.PathLike)):
        several = is_glob(photos) or is_input(photos) or os.path.isdir(photos)
        return [item.source for item in list_inputs([photos])] if several else None
    if hasattr(photos, "ndim"):
        return list(photos) if photos.ndim == 4 else None
    if (
        isinstance(photos, (bytes, bytearray, memoryview))
        or hasattr(photos, "read")
        or not isinstance(photos, Iterable)
    ):
        return None
    return photos if isinstance(photos, Sequence) else iter(photos)


def look_at(
    network: PhotoNetwork, photos: Iterable[Source], batch: int = BATCH, show_progress: bool = False
) -> PhotoFeatures:
    """Read photos, `batch` at a time, and take their features."""
    parts, unreadable, place = [np.zeros((0, network.num_features), np.float32)], {}, 0
    count = len(photos) if isinstance(photos, Sequence) else None
    with progress("Looking at photos", count, enabled=show_progress and (count is None or count > batch)) as bar:
        for part in work_through(photos, lambda some: read_batch(network, some), network.device, batch):
            unreadable |= {place + at: item for at, item in part.unreadable.items()}
            parts.append(part.matrix)
            place += len(part)
            bar.advance(len(part))
    return PhotoFeatures(np.concatenate(parts), unreadable)


def read_batch(network: PhotoNetwork, photos: Sequence[Source], least: int = 0) -> PhotoFeatures:
    """A few photos, one after the other, then all of them through the network; blank ones fill up a batch of `least`:
    networks may round differently for other batch sizes."""
    pixels, unreadable = [], {}
    for place, photo in enumerate(photos):
        try:
            pixels.append(network.transform.open_array(photo))
        except UnreadablePhoto as error:
            unreadable[place] = Unreadable(error.name, error.why)
    if not pixels:
        return PhotoFeatures(np.zeros((0, network.num_features), np.float32), unreadable)
    blank = [np.zeros_like(pixels[0])] * (least - len(pixels))
    return PhotoFeatures(network.features_of(np.stack(pixels + blank))[: len(pixels)], unreadable)


def work_through(
    photos: Iterable[Source],
    work: Callable[[Sequence[Source]], T],
    device: torch.device | None,
    batch: int = BATCH,
    even: bool = False,
) -> Iterator[T]:
    """`work` on each batch of photos, in their order; each thread reads and computes for a batch of its own.

    Only a few batches are under way, however many photos there are: they may come from a generator. With `even`, a
    batch is never shared by threads, however few photos there are: they would round differently.
    """
    threads = thread_count(device) if is_cpu(device) else count_workers(None)
    count = len(photos) if isinstance(photos, Sequence) else None
    size = batch if even or count is None else max(1, min(batch, -(-count // threads)))
    each = iter(photos)
    batches = iter(lambda: list(islice(each, size)), [])
    if count is not None and count <= size and not even:  # all threads share each operation
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


# -- photos that classes are taught with -----------------------------------------------------------------------------


@dataclass
class PhotosByClass:
    """The photos of several classes."""

    photos: dict[str, Photos] = field(default_factory=dict)  # by class id
    unreadable: list[Unreadable] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # folders or labels that no class of the bundle has

    def add(self, id: str, features: np.ndarray, checksums: Sequence[str]) -> None:
        if before := self.photos.get(id):
            features, checksums = np.concatenate([before.features, features]), [*before.checksums, *checksums]
        self.photos[id] = Photos(features, checksums)


def read_rows(bundle: Bundle, features: Any) -> Photos:
    """Rows of features (n x D) of one class."""
    matrix = check_matrix(features, width=bundle.network.num_features)
    return Photos(matrix, fingerprint_rows(matrix))


def read_one_class(network: PhotoNetwork, photos: Source | Iterable[Source]) -> Photos:
    """Photos of one class, all of which must be readable: one, several, or a folder."""
    several: list[Any] = []
    photo: Any
    given = several_photos(photos)
    for photo in [photos] if given is None else given:
        if isinstance(photo, (str, Path)):
            several += find_photos(photo)
        else:
            several.append(photo.read() if hasattr(photo, "read") else photo)  # a file can be read only once
    if not several:
        raise UnseenError("no photos were given")
    read = look_at(network, several)
    for first in read.unreadable.values():
        raise UnreadablePhoto(first.photo, first.why)
    return Photos(read.matrix, [fingerprint(photo) for photo in several])


def read_by_class(bundle: Bundle, network: Callable[[], PhotoNetwork], source: str | Path) -> PhotosByClass:
    """The photos source/<class id or name>/*, those of an input that says their classes (`features.listing`), or
    features with labels: a feature store, or .npz with `features` and `labels`. Refused where nothing is of a class of
    the bundle, or no photo can be read."""
    from unseen.networks.folders import match_photos  # here and below: a photo to be named does not need them
    from unseen.networks.store import FeatureStore
    from unseen.photos.by_class import places

    class_ids = {bundle.ids[row] for row in np.flatnonzero(bundle.is_class)}
    if is_array_file(source) or FeatureStore.is_store(source):
        return _read_features(bundle, network, source, class_ids)
    listing, matched = match_photos(source, bundle.hierarchy, class_ids, "the bundle's classes")
    result = PhotosByClass(skipped=sorted(set(listing.classes()) - set(matched)))
    for name, id in matched.items():
        photos = places(listing, name)
        read = look_at(network(), photos)
        result.unreadable += read.unreadable.values()
        readable = [photo for at, photo in enumerate(photos) if at not in read.unreadable]
        if readable:  # in a tar file a photo has the fingerprint that it would have as a file
            content = (photo.read() if hasattr(photo, "read") else photo for photo in readable)
            result.add(id, read.matrix, [fingerprint(photo) for photo in content])
    if not result.photos:
        first = result.unreadable[0] if result.unreadable else None
        why = f"{first.photo}: {first.why}" if first else "the folders are empty."
        raise UnseenError(f"{source}: no photo could be read, so nothing was taught. {why}")
    return result


def _read_features(
    bundle: Bundle, network: Callable[[], PhotoNetwork], source: str | Path, class_ids: set[str]
) -> PhotosByClass:
    from unseen.networks.folders import match_folders, open_stored

    store = open_stored(source, bundle.network.checksum, network)
    labels = list(store.classes())
    matched = match_folders(labels, bundle.hierarchy, class_ids)
    if not matched:
        some = list_some(labels, 3)
        raise UnseenError(f"{source}: no row is of a class of the bundle. The labels there: {some}")
    result = PhotosByClass(skipped=sorted(set(labels) - set(matched)))
    for features, names, _ in store.batches(classes=set(matched)):
        ids = np.array([matched[name] for name in names])
        for id in dict.fromkeys(ids.tolist()):
            rows = features[ids == id]
            result.add(id, rows, fingerprint_rows(rows))
    return result
