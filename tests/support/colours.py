"""A world of colours for the server's tests: a network that sees only a photo's mean colour, and ten classes."""

from __future__ import annotations

import io

import torch
from PIL import Image
from torch import nn

from unseen.hierarchy.core import Hierarchy
from unseen.model import Model
from unseen.networks.base import Network
from unseen.photos.transforms import PhotoTransform
from unseen.training.stage1 import train

PARENTS = {
    "thing": [],
    "fruit": ["thing"],
    "plant": ["thing"],
    "water": ["thing"],
    "tomato": ["fruit"],
    "cherry": ["fruit"],
    "grass": ["plant"],
    "moss": ["plant"],
    "ocean": ["water"],
    "lake": ["water"],
}
SEEN = {"tomato": (1, 0, 0), "grass": (0, 1, 0), "ocean": (0, 0, 1)}


class MeanColour(nn.Module):
    """Photos B x 3 x H x W, a map as they are -> mean colours B x 3 -> logits B x 3, with timm's protocol for heads."""

    def __init__(self):
        super().__init__()
        self.classifier = nn.Linear(3, len(SEEN))
        self.classifier.weight.data = torch.tensor(list(SEEN.values()), dtype=torch.float32)
        self.classifier.bias.data.zero_()

    def forward_features(self, x):
        return x

    def forward_head(self, x, pre_logits: bool = False):
        x = x.mean((2, 3))
        return x if pre_logits else self.classifier(x)

    def get_classifier(self):
        return self.classifier


def make_network() -> Network:
    transform = PhotoTransform(8, resize=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    return Network(MeanColour(), tuple(SEEN), transform, "mean-colour")


def model() -> Model:
    """Near classes count for more than distant ones."""
    hierarchy = Hierarchy(list(PARENTS), [(name,) for name in PARENTS], list(PARENTS.values()))
    network = make_network()
    return Model(train(hierarchy, network, "structural", "glove", decay=1.5), network)


def photo(colour: str = "red", size: tuple[int, int] = (40, 30), format: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, format)
    return buffer.getvalue()
