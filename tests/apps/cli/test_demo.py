"""`unseen demo`, the first command of the README, as a newcomer runs it: in a process of its own, nothing prepared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run_demo(cache: Path, *options: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"UNSEEN_CACHE": str(cache)}
    command = [sys.executable, "-m", "unseen", "demo", *options]
    done = subprocess.run(command, env=environment, cwd=cache.parent, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done


def test_first_as_json_then_for_people(cache):
    done = run_demo(cache, "--json")
    assert "First use: predicting classifiers for every ImageNet class" in done.stderr
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert (result["method"], result["classes"], result["seen"]) == ("kin", 21842, 1000)
    assert Path(result["bundle"]).is_relative_to(cache) and Path(result["bundle"]).exists()
    assert result["holdout"]["classes"] == 200
    assert 0 < result["holdout"]["hit@1"] < result["holdout"]["hit@5"] <= 100
    photos = {photo["photo"]: photo for photo in result["photos"]}
    assert len(photos) == len(result["photos"]) > 1
    for photo in photos.values():
        assert len(photo["labels"]) == len(photo["unseen"]) == 3
        shares = [label["probability"] for label in photo["labels"]]
        assert shares == sorted(shares, reverse=True) and photo["calibrated"]
        assert not any(label["seen"] for label in photo["unseen"])

    story = result["story"]  # first a success, with its proof
    assert story["photo"] == result["photos"][0]["photo"] and story["say"] == result["photos"][0]["guesses"][0]["say"]
    assert story["training"] == "never shown" and story["alone"] != story["say"] and len(story["relatives"]) == 3

    made = Path(result["bundle"]).stat().st_mtime_ns
    done = run_demo(cache)
    assert "First use" not in done.stderr
    assert Path(result["bundle"]).stat().st_mtime_ns == made  # what is there is used
    shown = " ".join(done.stdout.split())
    for name, photo in photos.items():
        assert name in shown
        for label in (photo["labels"][0], photo["unseen"][0]):
            assert label["say"] in shown
    assert f"the network alone says {story['alone']}" in shown and "never shown" in shown and "█" in shown
    assert "unseen classify photo.jpg" in shown and "{" not in shown
