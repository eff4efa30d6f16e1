"""The default bundle: made from embedded data on first use, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unseen import __version__
from unseen.assets import data_file, manifest
from unseen.bundle import Bundle
from unseen.bundle.records import CalibrationRecord
from unseen.methods import get_method
from unseen.runtime.folders import cache_folder
from unseen.training.choices import DEFAULT_BACKBONE, DEFAULT_GRAPH, DEFAULT_METHOD, DEFAULT_VECTORS

CALIBRATION = "default-calibration.json"


def default_place() -> Path:
    """Where it is kept: another version, other settings or other embedded data make another bundle."""
    text = repr((default_choices(), sorted(entry["sha256"] for entry in manifest())))
    return cache_folder() / "bundles" / f"default-{__version__}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def default_choices() -> dict[str, Any]:
    """What the default bundle is made from; its calibration is for these choices only."""
    settings = asdict(get_method(DEFAULT_METHOD).Settings())
    return {
        "method": DEFAULT_METHOD,
        "settings": settings,
        "graph": DEFAULT_GRAPH,
        "vectors": DEFAULT_VECTORS,
        "backbone": DEFAULT_BACKBONE,
    }


def default_bundle(say: Callable[[str], None] = lambda message: None) -> Bundle:
    place = default_place()
    if (place / "bundle.json").exists():
        return Bundle.load(place)
    from unseen.training.stage1 import train  # with torch, which a bundle that is there does not need

    say(f"First use: predicting classifiers for every ImageNet class; they are kept in {place}")
    trained = train(precision="fp16")
    trained.change(calibration=shipped_calibration()).save(place, overwrite=True)  # another process may have made it
    return Bundle.load(place)


def shipped_calibration() -> CalibrationRecord:
    """What tools/build_calibration.py fitted for this bundle, on photos that are not part of the package."""
    return CalibrationRecord.from_json(json.loads(data_file(CALIBRATION).read_text())["calibration"])
