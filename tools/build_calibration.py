"""Fit the default bundle's calibration on photos of seen classes: a few numbers, which are all that is kept of them.

    python tools/build_calibration.py --photos DIR           DIR/<wnid>/*: writes default-calibration.json

The photos must not be among those that results are reported on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import common
from unseen import Bundle, TrainSettings
from unseen.training.calibrate import calibrate
from unseen.training.default import CALIBRATION, default_choices
from unseen.training.stage1 import train
from unseen.util.files import sha256


def fit(bundle: Bundle, images: Path, features: Path | None = None) -> dict[str, Any]:
    """The file's contents: choices, provenance and calibration. `features`: a store of the same photos."""
    files = sorted(path for path in images.glob("*/*") if path.is_file())
    marks = "\n".join(f"{path.parent.name} {sha256(path)}" for path in files)
    calibrated = calibrate(bundle, bundle.load_network(), features or images)
    assert calibrated.calibration is not None
    return {
        "choices": default_choices(),
        "photos": {
            "files": len(files),
            "classes": len({path.parent.name for path in files}),
            "sha256": hashlib.sha256(marks.encode()).hexdigest(),
            "what": "photos of ImageNet-1k classes, found by class; not redistributed",
        },
        "calibration": calibrated.calibration.to_json(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="photos of seen classes, DIR/<wnid>/*")
    parser.add_argument("--features", type=Path, help="the feature store of these photos, to save time")
    parser.add_argument("--out", type=Path, default=common.DATA, help="folder of the data files")
    options = parser.parse_args()
    bundle, path = train(settings=TrainSettings(precision="fp16")), options.out / CALIBRATION
    found = fit(bundle, options.photos, options.features)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8", newline="\n")
    source = common.Package("fitted", "photos of seen classes", "1", "", found["photos"]["sha256"])
    what = "the default bundle's calibration: numbers fitted on photos"
    common.record(path, what, source, "MIT (numbers of our own)", "tools/build_calibration.py")


if __name__ == "__main__":
    main()
