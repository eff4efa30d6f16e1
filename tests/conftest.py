"""Fixtures that several test files share. The authors' lists and real photos lie beside the repository, if anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SHARED = TESTS.parents[1] / "shared" / "data"
# Workers of pytest-xdist and the processes that tests start share the cores; and sums are in one order everywhere.
os.environ["OMP_NUM_THREADS"] = "1"
# Those processes too find `support.tiny_network:build`.
os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
if (SHARED / "imagenet-split.json").exists():
    os.environ.setdefault("UNSEEN_ASSETS", str(SHARED))


@pytest.fixture(scope="session")
def authors_lists() -> Path:
    """The folder with the authors' class lists."""
    folder = Path(os.environ.get("UNSEEN_ASSETS", SHARED))
    if not (folder / "imagenet-split.json").exists():
        pytest.skip("the authors' class lists are not here: set UNSEEN_ASSETS to the folder with imagenet-split.json")
    return folder


@pytest.fixture(scope="session")
def photos() -> Path:
    """The folder with photos by wnid: unseen/, seen-train/ and seen-val/."""
    folder = Path(os.environ.get("UNSEEN_PHOTOS", SHARED / "photos"))
    if not (folder / "seen-val").is_dir():
        pytest.skip("the photos are not here: set UNSEEN_PHOTOS to a folder with unseen/, seen-train/, seen-val/")
    return folder
