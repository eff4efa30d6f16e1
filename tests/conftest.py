"""What holds for every test, and the data that lie beside the repository, if anywhere."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).resolve().parent
SHARED = TESTS.parents[1] / "shared" / "data"
# Workers of pytest-xdist and the processes that tests start share the cores; and sums are in one order everywhere.
os.environ["OMP_NUM_THREADS"] = "1"
# Those processes too find `support.tiny_network:build`.
os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
if (SHARED / "imagenet-split.json").exists():
    os.environ.setdefault("UNSEEN_ASSETS", str(SHARED))

settings.register_profile("quick", max_examples=20)  # for `make check`

# A test that asks for one of these fixtures has the markers of what it needs.
MARKERS = {
    "authors_lists": ["shared_data"],
    "shared_photos": ["shared_data"],
    "paper": ["shared_data"],
    "bundles": ["slow"],
    "timm": ["slow"],
    "transformers": ["slow"],
    "driver": ["browser", "slow"],
}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """One cache folder for all workers, empty at first: nothing of the user's is read or left behind."""
    if not hasattr(config, "workerinput"):
        folder = os.environ["UNSEEN_CACHE"] = tempfile.mkdtemp(prefix="unseen-tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in MARKERS.keys() & set(getattr(item, "fixturenames", ())):
            for marker in MARKERS[fixture]:
                item.add_marker(marker)
        if item.get_closest_marker("slow"):  # real processes and a real browser, which a busy machine can starve
            item.add_marker(pytest.mark.flaky(reruns=1))
    # First, so that no other worker steals some of them: one server and one browser are enough.
    items.sort(key=lambda item: "bundles" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def authors_lists() -> Path:
    """The folder with the authors' class lists."""
    folder = Path(os.environ.get("UNSEEN_ASSETS", SHARED))
    if not (folder / "imagenet-split.json").exists():
        pytest.skip("the authors' class lists are not here: set UNSEEN_ASSETS to the folder with imagenet-split.json")
    return folder


@pytest.fixture(scope="session")
def shared_photos() -> Path:
    """The folder with photos by wnid: unseen/, seen-train/ and seen-val/."""
    folder = Path(os.environ.get("UNSEEN_PHOTOS", SHARED / "photos"))
    if not (folder / "seen-val").is_dir():
        pytest.skip("the photos are not here: set UNSEEN_PHOTOS to a folder with unseen/, seen-train/, seen-val/")
    return folder


@pytest.fixture(scope="session")
def paper() -> str:
    """The paper's source, with its tables."""
    file = Path(os.environ.get("UNSEEN_PAPER", SHARED.parent / "paper.tex"))
    if not file.exists():
        pytest.skip("the paper's source is not here: set UNSEEN_PAPER to paper.tex")
    return file.read_text(encoding="utf-8")
