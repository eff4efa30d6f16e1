from .base import Config, ConvNet, Network, batch_norm
from .build import Built, build_store
from .custom import from_module
from .devices import choose_device
from .features import Features, SeenFeatures
from .folders import match_folders, open_features, photos_folder, register_folders
from .linear import from_linear
from .loading import BUILT_IN, load_network
from .processes import Processes
from .store import FeatureStore

__all__ = [
    "BUILT_IN",
    "Built",
    "Config",
    "ConvNet",
    "FeatureStore",
    "Features",
    "Network",
    "Processes",
    "SeenFeatures",
    "batch_norm",
    "build_store",
    "choose_device",
    "from_linear",
    "from_module",
    "load_network",
    "match_folders",
    "open_features",
    "photos_folder",
    "register_folders",
]
