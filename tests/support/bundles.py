"""A small hierarchy of WordNet's, a network of a few weights, and bundles made of them in well under a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from unseen.backbones import Backbone, PhotoTransform, from_module
from unseen.bundle import Bundle
from unseen.runtime.run import Run
from unseen.taxonomy import Taxonomy
from unseen.training.stage1 import train

ZEBRA, GIRAFFE, OKAPI, HORSE = "n02391049", "n02439033", "n02439398", "n02374451"
DOG, BEAGLE, POODLE, TABBY = "n02084071", "n02088364", "n02113335", "n02123045"
HAMMER, SAW, GUITAR = "n03481172", "n04140064", "n03467517"
SEEN = (ZEBRA, BEAGLE, TABBY, HAMMER, GUITAR, HORSE)
UNSEEN = (GIRAFFE, OKAPI, POODLE, SAW, DOG)
FEATURES = 8


class TinyNetwork(nn.Module):
    """Photos B x 3 x H x W -> B x 8 -> B x classes: an ordinary network that knows nothing of this package."""

    def __init__(self, classes: int, seed: int = 0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.stem = nn.Conv2d(3, FEATURES, 3, stride=2)
            self.head = nn.Linear(FEATURES, classes)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x)).mean((2, 3)))


def small_taxonomy() -> Taxonomy:
    """The seen and unseen classes with all that is above them; like ImageNet's, it has nodes that only connect."""
    taxonomy = Taxonomy.imagenet().subgraph([*SEEN, *UNSEEN])
    taxonomy.source = {"kind": "imagenet"}
    return taxonomy


def small_backbone(class_ids=SEEN, seed: int = 0) -> Backbone:
    return from_module(TinyNetwork(len(class_ids), seed), class_ids, PhotoTransform(32))


def small_bundle(method: str = "kin", vectors: str = "glove", **options: Any) -> Bundle:
    options = {"graph": small_taxonomy(), "backbone": small_backbone(), "run": Run(show_progress=False)} | options
    return train(method, vectors=vectors, **options)


def small_photo(seed: int = 0, size: tuple[int, int] = (48, 40)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (*reversed(size), 3), dtype=np.uint8)
    return Image.fromarray(pixels)
