"""Folders of small pictures, and what is in the feature stores that are made from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.networks.features import FeatureArrays, FeatureBatch
from unseen.networks.store import FeatureStore
from unseen.photos.transforms import PhotoTransform

QUIET = {"workers": 1}


def picture(path: Path, seed: int, size: tuple[int, int] = (30, 26), **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return path


def rows(store: FeatureStore | Path, size: int = 1024) -> dict[str, np.ndarray]:
    store = FeatureStore.open(store) if isinstance(store, Path) else store
    found = {}
    for batch in store.batches(size):
        assert batch.features.dtype == np.float32
        for feature, class_id, path in zip(*batch, strict=True):
            assert path.startswith(f"{class_id}/") and path not in found
            found[path] = feature
    return found


def watch_reading(monkeypatch) -> list[str]:
    read, whole = [], PhotoTransform.open_array

    def watched(self, path):
        read.append("/".join(Path(path).parts[-2:]))
        return whole(self, path)

    monkeypatch.setattr(PhotoTransform, "open_array", watched)
    return read


class FakeStore(FeatureArrays):
    """Features with class ids, and some photos that could not be read."""

    def __init__(self, features: np.ndarray, ids: Sequence[str], unreadable: int = 0):
        super().__init__(features, ids)
        self.features, self.ids, self.unreadable = self.matrix, list(ids), unreadable

    def batches(self, size: int = 1024, classes: Collection[str] | None = None) -> Iterator[FeatureBatch]:
        return super().batches(7, classes)  # batches of any size must do

    def unreadable_count(self) -> int:
        return self.unreadable
