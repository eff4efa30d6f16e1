"""The features of recent photos, under tokens that tell nothing: a photo is ranked again without being sent again."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

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
