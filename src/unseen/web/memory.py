"""The features of recent photos, under tokens that tell nothing: a photo is ranked again without being sent again."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.web.limits import KEPT_PHOTOS


@dataclass(frozen=True)
class Remembered:
    """A photo as the server keeps it: its name and features, never its pixels."""

    name: str
    features: dict[str, np.ndarray]  # network -> D


class PhotoMemory:
    """The last `most` photos; the one not asked for the longest is forgotten first."""

    def __init__(self, most: int = KEPT_PHOTOS):
        self.most = most
        self._photos: OrderedDict[str, Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._photos)

    def keep(self, photo: Remembered) -> str:
        token = secrets.token_urlsafe(16)
        with self._lock:
            self._photos[token] = photo
            while len(self._photos) > self.most:
                self._photos.popitem(last=False)
        return token

    def get(self, token: str) -> Remembered | None:
        with self._lock:
            photo = self._photos.get(token)
            if photo is not None:
                self._photos.move_to_end(token)
            return photo


class SharedPhotoMemory(PhotoMemory):
    """The same for several processes, in a folder that they share: a photo sent to one is remembered by all.

    Each process forgets the oldest that it was sent itself, so `most` is its share.
    """

    def __init__(self, folder: Path, most: int = KEPT_PHOTOS):
        super().__init__(most)
        self.folder = folder
        self._own: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._own)

    def keep(self, photo: Remembered) -> str:
        token = secrets.token_urlsafe(16)
        named = {"name": photo.name, "networks": list(photo.features)}
        arrays: dict[str, Any] = {f"features.{at}": features for at, features in enumerate(photo.features.values())}
        with open(self.folder / token, "xb") as file:
            np.savez(file, about=np.frombuffer(json.dumps(named).encode(), np.uint8), **arrays)
        with self._lock:
            self._own.append(token)
            gone = [self._own.popleft() for _ in range(max(0, len(self._own) - self.most))]
        for old in gone:
            (self.folder / old).unlink(missing_ok=True)
        return token

    def get(self, token: str) -> Remembered | None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{22}", token):  # nothing else becomes the name of a file
            return None
        try:
            with np.load(self.folder / token, allow_pickle=False) as saved:
                about = json.loads(bytes(saved["about"]))
                features = {key: saved[f"features.{at}"] for at, key in enumerate(about["networks"])}
        except FileNotFoundError:
            return None
        return Remembered(about["name"], features)
