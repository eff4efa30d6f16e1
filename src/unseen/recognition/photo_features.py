"""The first half of a photo's way: read -> transform -> features. It knows the network, but no classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unseen.photos.reading import Source, UnreadablePhoto
from unseen.recognition.answers import Answer, Unreadable
from unseen.runtime.progress import progress

if TYPE_CHECKING:
    from unseen.backbones import Backbone

BATCH = 32  # photos


@dataclass(frozen=True)
class PhotoFeatures:
    """The features of a list of photos, without those that could not be read."""

    matrix: np.ndarray  # n x D, float32: a row for each photo that could be read
    unreadable: dict[int, Unreadable]  # the others, by their place in the list

    def align(self, answers: Sequence[Answer]) -> list[Answer | Unreadable]:
        """An answer for each row -> an entry for each photo of the list."""
        waiting = iter(answers)
        return [
            self.unreadable[place] if place in self.unreadable else next(waiting)
            for place in range(len(answers) + len(self.unreadable))
        ]


def look_at(
    backbone: Backbone, photos: Sequence[Source], batch: int = BATCH, show_progress: bool = False
) -> PhotoFeatures:
    """Read photos, `batch` at a time, and take their features."""
    found, unreadable = [np.zeros((0, backbone.num_features), np.float32)], {}
    with progress("Looking at photos", len(photos), enabled=show_progress and len(photos) > batch) as bar:
        for start in range(0, len(photos), batch):
            pixels = []
            for place, photo in enumerate(photos[start : start + batch], start):
                try:
                    pixels.append(backbone.transform.open(photo))
                except UnreadablePhoto as error:
                    unreadable[place] = Unreadable(error.name, error.why)
                bar.advance()
            if pixels:
                found.append(extract_features(backbone, pixels))
    return PhotoFeatures(np.concatenate(found), unreadable)


def extract_features(backbone: Backbone, pixels: Sequence[Tensor]) -> np.ndarray:
    """Transformed photos (each 3 x H x W) -> features n x D, float32."""
    return backbone.features(torch.stack(list(pixels))).cpu().numpy()
