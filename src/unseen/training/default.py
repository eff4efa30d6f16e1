"""The default model: made from embedded data on first use, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unseen import __version__
from unseen.bundle import Bundle
from unseen.bundle.file import FORMAT, is_bundle
from unseen.bundle.records import CalibrationRecord
from unseen.data import data_file, manifest
from unseen.methods import get_method
from unseen.util.files import cache_folder

DEFAULT_HIERARCHY, DEFAULT_NETWORK = "imagenet", "efficientnet-lite0"
DEFAULT_METHOD, DEFAULT_VECTORS = "kin", "glove+text+looks"
logger = logging.getLogger(__name__)

CALIBRATION = "default-calibration.json"


def default_path() -> Path:
    """Its path, which depends on the version, the settings and the embedded data."""
    data = sorted(entry["sha256"] for entry in manifest() if entry["file"] != "map.npz")  # which is made from it
    text = repr((FORMAT, default_choices(), data))
    return cache_folder() / "bundles" / f"default-{__version__}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def default_choices() -> dict[str, Any]:
    """The parts of the default bundle; its calibration is for these alone."""
    settings = asdict(get_method(DEFAULT_METHOD).Settings())
    return {
        "method": DEFAULT_METHOD,
        "settings": settings,
        "hierarchy": DEFAULT_HIERARCHY,
        "vectors": DEFAULT_VECTORS,
        "network": DEFAULT_NETWORK,
    }


def default_bundle() -> Bundle:
    path = default_path()
    if is_bundle(path):
        return Bundle.load(path)
    from unseen.training.settings import TrainSettings
    from unseen.training.stage1 import train  # with torch, which a bundle that is there does not need

    logger.info("First use: predicting classifiers for every ImageNet class; they are kept in %s", path)
    bundle = train(settings=TrainSettings(precision="fp16"))
    bundle.change(calibration=shipped_calibration()).save(path, overwrite=True)  # another process may have made it
    return Bundle.load(path)


def shipped_calibration() -> CalibrationRecord:
    """The calibration that tools/build_calibration.py fitted for this bundle, on photos outside the package."""
    return CalibrationRecord.from_json(json.loads(data_file(CALIBRATION).read_text())["calibration"])
