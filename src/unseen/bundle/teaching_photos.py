"""Photos to teach classes with: of one class or of several, from folders, inputs, or as features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.bundle.bundle import Bundle
from unseen.bundle.teach import Photos
from unseen.networks.features import check_matrix, is_array_file, photo_features, read_features
from unseen.photos.inputs import several_photos
from unseen.photos.reading import Source, Unreadable, UnreadablePhoto, find_photos, fingerprint, fingerprint_rows
from unseen.util.errors import UnseenError
from unseen.util.names import list_some

if TYPE_CHECKING:
    from unseen.networks.run import PhotoNetwork


@dataclass
class PhotosByClass:
    """The photos of several classes."""

    photos: dict[str, Photos] = field(default_factory=dict)  # by class id
    unreadable: list[Unreadable] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # folders or labels that no class of the bundle has


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
    read = read_features(network, several)
    for first in read.unreadable.values():
        raise UnreadablePhoto(first.photo, first.why)
    return Photos(read.matrix, [fingerprint(photo) for photo in several])


def read_by_class(bundle: Bundle, network: Callable[[], PhotoNetwork], source: str | Path) -> PhotosByClass:
    """The photos source/<class id or name>/*, those of an input that says their classes (`photos.by_class`), or
    features with labels: a feature store, or .npz with `features` and `labels`. Refused where nothing is of a class of
    the bundle, or no photo can be read."""
    from unseen.networks.folders import match_photos  # here and below: a photo to be named does not need them
    from unseen.networks.store import FeatureStore

    class_ids = {bundle.ids[row] for row in np.flatnonzero(bundle.is_class)}
    if is_array_file(source) or FeatureStore.is_store(source):
        return _read_features(bundle, network, source, class_ids)
    listing, matched = match_photos(source, bundle.hierarchy, class_ids, "the bundle's classes")
    rows: dict[str, list[np.ndarray]] = {}
    checksums: dict[str, list[str]] = {}
    unreadable: list[Unreadable] = []
    for item, features in photo_features(network(), listing.items(matched)):
        if isinstance(features, Unreadable):
            unreadable.append(features)
            continue
        id = matched[item.label]
        photo: Any = item.source
        rows.setdefault(id, []).append(features)
        # In a tar file a photo has the fingerprint that it would have as a file.
        checksums.setdefault(id, []).append(fingerprint(photo.read() if hasattr(photo, "read") else photo))
    if not rows:
        why = f"{unreadable[0].photo}: {unreadable[0].why}" if unreadable else "the folders are empty."
        raise UnseenError(f"{source}: no photo could be read, so nothing was taught. {why}")
    photos = {id: Photos(np.stack(rows[id]), checksums[id]) for id in rows}
    return PhotosByClass(photos, unreadable, sorted(set(listing.classes) - set(matched)))


def _read_features(
    bundle: Bundle, network: Callable[[], PhotoNetwork], source: str | Path, class_ids: set[str]
) -> PhotosByClass:
    from unseen.networks.folders import match_folders, open_stored

    store = open_stored(source, bundle.network.checksum, network)
    labels = list(store.classes())
    matched = match_folders(labels, bundle.hierarchy, class_ids)
    if not matched:
        raise UnseenError(f"{source}: no row is of a class of the bundle. The labels there: {list_some(labels, 3)}")
    rows: dict[str, list[np.ndarray]] = {}
    for features, names, _ in store.batches(classes=set(matched)):
        for name, row in zip(names, features, strict=True):
            rows.setdefault(matched[name], []).append(row)
    photos = {id: read_rows(bundle, np.stack(some)) for id, some in rows.items()}
    return PhotosByClass(photos, skipped=sorted(set(labels) - set(matched)))
