"""The default bundle: made from embedded data on first use, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from unseen import __version__
from unseen.assets import manifest
from unseen.bundle import Bundle
from unseen.methods import get_method
from unseen.runtime.folders import cache_folder
from unseen.training.inputs import DEFAULT_BACKBONE, DEFAULT_GRAPH, DEFAULT_METHOD, DEFAULT_VECTORS
from unseen.training.stage1 import train


def default_place() -> Path:
    """Where it is kept: another version, other settings or other embedded data make another bundle."""
    settings = asdict(get_method(DEFAULT_METHOD).Settings())
    choices = (DEFAULT_METHOD, settings, DEFAULT_GRAPH, DEFAULT_VECTORS, DEFAULT_BACKBONE)
    text = repr((choices, sorted(entry["sha256"] for entry in manifest())))
    return cache_folder() / "bundles" / f"default-{__version__}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def default_bundle(say: Callable[[str], None] = lambda message: None) -> Bundle:
    place = default_place()
    if (place / "bundle.json").exists():
        return Bundle.load(place)
    say(f"First use: predicting classifiers for every ImageNet class; they are kept in {place}")
    return train(out=place, precision="fp16", resume=True)  # another process may have made it meanwhile
