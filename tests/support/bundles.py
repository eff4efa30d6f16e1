"""A small hierarchy of WordNet's, a network of a few weights, and bundles made of them in well under a second."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from unseen.bundle import Bundle
from unseen.hierarchy.core import Hierarchy
from unseen.networks.base import Network
from unseen.networks.custom import from_module
from unseen.photos.transforms import PhotoTransform
from unseen.training.settings import TrainSettings
from unseen.training.stage1 import train
from unseen.util.run import Run

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


def small_hierarchy() -> Hierarchy:
    """The seen and unseen classes with all that is above them; like ImageNet's, it has nodes that only connect."""
    hierarchy = Hierarchy.imagenet().subgraph([*SEEN, *UNSEEN])
    hierarchy.source = {"kind": "imagenet"}
    return hierarchy


def small_network(class_ids=SEEN, seed: int = 0) -> Network:
    return from_module(TinyNetwork(len(class_ids), seed), class_ids, PhotoTransform(32))


def small_bundle(method: str = "kin", vectors: str = "glove", **options: Any) -> Bundle:
    """`train` with settings of the training among the options."""
    options = {"hierarchy": small_hierarchy(), "network": small_network(), "run": Run(show_progress=False)} | options
    names = [item.name for item in fields(TrainSettings)]
    settings = TrainSettings(**{name: options.pop(name) for name in names if name in options})
    return train(method=method, vectors=vectors, settings=settings, **options)


def small_photo(seed: int = 0, size: tuple[int, int] = (48, 40)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (*reversed(size), 3), dtype=np.uint8)
    return Image.fromarray(pixels)
