"""Photos -> features: one protocol (`Features`), implemented by a store on disk and by arrays."""

from unseen.features.base import Features, SeenFeatures
from unseen.features.build import Built, build_store
from unseen.features.store import FeatureStore

__all__ = ["Built", "FeatureStore", "Features", "SeenFeatures", "build_store"]
