"""Folders of small pictures, and what is in the feature stores that are made from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from unseen.backbones import PhotoTransform
from unseen.features.store import FeatureStore

QUIET = {"workers": 0, "batch": 4, "show_progress": False}


def picture(path: Path, seed: int, size: tuple[int, int] = (30, 26), **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return path


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its path."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


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
    read, whole = [], PhotoTransform.open

    def watched(self, path):
        read.append("/".join(Path(path).parts[-2:]))
        return whole(self, path)

    monkeypatch.setattr(PhotoTransform, "open", watched)
    return read
