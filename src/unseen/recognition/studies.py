"""Photos that classes are to be taught with, from wherever they come, in the numbers that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.bundle.teaching import Photos
from unseen.errors import UnseenError
from unseen.features.arrays import is_array_file, read_arrays
from unseen.features.store import FeatureStore
from unseen.photos import find_photos, photos_in
from unseen.photos.fingerprints import fingerprint, fingerprint_rows
from unseen.recognition.answers import Unreadable
from unseen.scoring.class_folders import check_folders, match_folders

if TYPE_CHECKING:
    from unseen.photos.reading import Source
    from unseen.recognition.recogniser import Recogniser


@dataclass
class Study:
    """The photos of several classes."""

    photos: dict[str, Photos] = field(default_factory=dict)  # by class id
    unreadable: list[Unreadable] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # folders or labels that no class of the bundle has


def study_photos(model: Recogniser, photos: Source | Sequence[Source]) -> Photos:
    """Photos of one class, all of which must be readable: one, several, or a folder."""
    several: list[Any] = list(photos) if isinstance(photos, (list, tuple)) else [photos]
    found: list[Any] = []
    for photo in several:
        if isinstance(photo, (str, Path)):
            found += find_photos(photo)
        else:
            found.append(photo.read() if hasattr(photo, "read") else photo)  # a file can be read only once
    if not found:
        raise UnseenError("no photos were given")
    return Photos(model.features(found), [fingerprint(photo) for photo in found])


def study_folder(model: Recogniser, folder: str | Path) -> Study:
    """The photos folder/<class id or name>/*. Refused where none shows a class of the bundle, or none can be read."""
    if FeatureStore.is_store(folder):
        return study_features(model, folder)
    class_ids = _class_ids(model)
    matched = check_folders(folder, model.bundle.taxonomy, class_ids, "the bundle's classes")
    found, place = Study(), Path(folder)
    found.skipped = sorted(item.name for item in place.iterdir() if item.is_dir() and item.name not in matched)
    gathered: dict[str, list[Photos]] = {}
    for name, id in matched.items():
        paths = [place / name / file for file in photos_in(place / name)]
        seen = model.look_at(paths)
        found.unreadable += seen.unreadable.values()
        read = [path for at, path in enumerate(paths) if at not in seen.unreadable]
        if read:
            gathered.setdefault(id, []).append(Photos(seen.matrix, [fingerprint(path) for path in read]))
    if not gathered:
        first = found.unreadable[0] if found.unreadable else None
        why = f"{first.photo}: {first.why}" if first else "the folders are empty."
        raise UnseenError(f"{folder}: no photo could be read, so nothing was taught. {why}")
    found.photos = {id: _joined(parts) for id, parts in gathered.items()}
    return found


def study_features(model: Recogniser, source: str | Path) -> Study:
    """Features with labels in place of photos: .npz with `features` and `labels`, or a feature store."""
    bundle = model.bundle
    if is_array_file(source):
        store: Any = read_arrays(source)
    else:
        store = FeatureStore.open(source)
        if store.network["checksum"] != bundle.backbone.checksum:
            raise UnseenError(
                f"{source}: holds features of another network ({store.network['name']}): the bundle is for "
                f"{bundle.backbone.name}"
            )
    labels = list(store.classes())
    matched = match_folders(labels, bundle.taxonomy, _class_ids(model))
    if not matched:
        some = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
        raise UnseenError(f"{source}: no row is of a class of the bundle. The labels there: {some}")
    gathered: dict[str, list[Photos]] = {}
    for features, names, _ in store.batches(classes=set(matched)):
        ids = np.array([matched[name] for name in names])
        for id in dict.fromkeys(ids.tolist()):
            rows = features[ids == id]
            gathered.setdefault(id, []).append(Photos(rows, fingerprint_rows(rows)))
    photos = {id: _joined(parts) for id, parts in gathered.items()}
    return Study(photos, [], sorted(set(labels) - set(matched)))


def _class_ids(model: Recogniser) -> set[str]:
    return {model.bundle.ids[row] for row in np.flatnonzero(model.bundle.is_class)}


def _joined(parts: Sequence[Photos]) -> Photos:
    checksums = [checksum for part in parts for checksum in part.checksums]
    return Photos(np.concatenate([part.features for part in parts]), checksums)
