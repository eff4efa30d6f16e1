"""Features of photos on disk: the store, how it is built, and a cache of stores."""

from unseen.features.construction import Built, build_store
from unseen.features.store import FeatureStore, SeenFeatures

__all__ = ["Built", "FeatureStore", "SeenFeatures", "build_store"]
