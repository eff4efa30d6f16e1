from .base import Features, SeenFeatures
from .build import Built, build_store
from .store import FeatureStore

__all__ = ["Built", "FeatureStore", "Features", "SeenFeatures", "build_store"]
