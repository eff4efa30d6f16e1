"""A model of four fruits, small enough for the examples of the documentation.

fruit ─┬─ berry ─┬─ strawberry (seen)        The network sees how red, green and blue a photo is, and knows two
       │         └─ raspberry                fruits: strawberries are red, limes are green.
       └─ citrus ┬─ lime (seen)
                 └─ lemon
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

    from unseen.model import Model
    from unseen.networks.base import Network


def fruits(method: str = "kin") -> Model:
    """A model trained in a moment, with `fruit_network`.

    >>> fruits().classify(photo("crimson"), k=1, candidates=["lemon", "raspberry"])[0].name
    'raspberry'
    """
    from unseen.hierarchy.core import Hierarchy
    from unseen.model import train

    kinds = [("strawberry", "berry"), ("raspberry", "berry"), ("lime", "citrus"), ("lemon", "citrus")]
    hierarchy = Hierarchy.from_edges([*kinds, ("berry", "fruit"), ("citrus", "fruit")])
    return train(hierarchy, fruit_network(), method, "glove")


def fruit_network() -> Network:
    """Features: the mean of red, of green and of blue. Two classes."""
    from torch import nn

    from unseen.networks.custom import from_module
    from unseen.photos.transforms import PhotoTransform

    layer = nn.Linear(3, 2, bias=False)
    nn.init.eye_(layer.weight)
    return from_module(
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), layer), ["strawberry", "lime"], PhotoTransform(224)
    )


def photo(colour: str) -> Image:
    """A photo of one colour."""
    from PIL import Image

    return Image.new("RGB", (320, 240), colour)
