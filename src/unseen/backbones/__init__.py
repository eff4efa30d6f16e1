"""Pretrained networks: photos -> features, and the classifiers of the seen classes."""

from unseen.backbones.base import Backbone
from unseen.backbones.custom import from_module
from unseen.backbones.linear import from_linear
from unseen.backbones.loading import BUILT_IN, load_backbone
from unseen.photos.transforms import PhotoTransform

__all__ = ["BUILT_IN", "Backbone", "PhotoTransform", "from_linear", "from_module", "load_backbone"]
