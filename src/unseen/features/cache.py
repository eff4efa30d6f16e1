"""A folder of photos by way of a feature store in the cache, so that only new photos are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from unseen.errors import UnseenError
from unseen.features.construction import build_store
from unseen.features.store import FeatureStore, describe_network
from unseen.runtime.folders import cache_folder

if TYPE_CHECKING:
    from unseen.backbones import Backbone


def open_features(
    source: str | Path,
    backbone: Backbone,
    workers: int = 2,
    show_progress: bool = True,
    say: Callable[[str], None] = lambda message: None,
    folder: Path | None = None,
) -> FeatureStore:
    """A feature store as it is; of a folder of photos, the store in the cache (or in `folder`), brought up to date."""
    path = Path(source)
    if FeatureStore.is_store(path):
        return FeatureStore.open(path, backbone)
    if not path.is_dir():
        raise UnseenError(f"{path}: there is no such folder of photos or feature store")
    about = json.dumps([str(path.resolve()), describe_network(backbone)], sort_keys=True)
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    place = (cache_folder() / "features" if folder is None else folder) / key
    say(f"features of {path} are kept in {place}")
    build_store(path, place, backbone, workers=workers, prune=True, show_progress=show_progress)
    return FeatureStore.open(place, backbone)
