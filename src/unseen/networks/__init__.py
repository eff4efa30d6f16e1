"""Pretrained networks: photos -> features, and the classifiers of the seen classes."""

from unseen.networks.base import Network
from unseen.networks.custom import from_module
from unseen.networks.linear import from_linear
from unseen.networks.loading import BUILT_IN, load_network
from unseen.photos.transforms import PhotoTransform

__all__ = ["BUILT_IN", "Network", "PhotoTransform", "from_linear", "from_module", "load_network"]
