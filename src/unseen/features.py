"""Photos -> features on disk. PROVISIONAL: the resumable, sharded store replaces this file behind the same functions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from unseen.errors import UnseenError
from unseen.photos import list_photos
from unseen.problem import SeenFeatures
from unseen.progress import progress


class FeatureStore:
    def __init__(self, path: Path):
        self.path = path
        self.index = json.loads((path / "store.json").read_text())
        self.features = np.load(path / "features.npy", mmap_mode="r")

    @staticmethod
    def is_store(path: Path) -> bool:
        return (Path(path) / "store.json").exists()

    @classmethod
    def open(cls, path, backbone=None) -> FeatureStore:
        store = cls(Path(path))
        if backbone is not None and store.index["checksum"] != backbone.checksum:
            raise UnseenError(f"{path} was made with another network: make a new store")
        return store

    def unreadable_count(self) -> int:
        return len(self.index["unreadable"])

    def batches(self, size: int = 1024) -> Iterator[tuple[np.ndarray, list[str], list[str]]]:
        for start in range(0, len(self.features), size):
            part = slice(start, start + size)
            yield np.asarray(self.features[part], np.float32), self.index["ids"][part], self.index["paths"][part]

    def seen_matrix(self, ids: Sequence[str]) -> SeenFeatures:
        position = {id: place for place, id in enumerate(ids)}
        labels = np.array([position.get(id, -1) for id in self.index["ids"]])
        return SeenFeatures(np.asarray(self.features[labels >= 0], np.float32), labels[labels >= 0])


def build_store(images, out, backbone, workers: int = 2, batch: int = 32, show_progress: bool = True) -> dict:
    out = Path(out)
    if FeatureStore.is_store(out):
        return FeatureStore.open(out, backbone).index
    photos, rows, unreadable = list(list_photos(images)), [], []
    kept = []
    with progress("Reading photos", len(photos), show_progress) as bar:
        for start in range(0, len(photos), batch):
            pixels = []
            for photo in photos[start : start + batch]:
                try:
                    pixels.append(backbone.transform.open(photo.path))
                    kept.append(photo)
                except UnseenError as error:
                    unreadable.append({"photo": str(photo.path), "why": str(error)})
            if pixels:
                rows.append(backbone.features(torch.stack(pixels)).cpu().numpy())
            bar.advance(len(photos[start : start + batch]))
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "features.npy", np.concatenate(rows))
    index = {"checksum": backbone.checksum, "ids": [p.class_id for p in kept], "paths": [str(p.path) for p in kept],
             "unreadable": unreadable}  # fmt: skip
    (out / "store.json").write_text(json.dumps(index))
    return index
