"""A feature store has the same content however it came about: killed, brought up to date, made afresh.

A tiny network stands in for the real one, which has a test of its own: what is tested here does not depend on weights.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support import tiny_network
from support.stores import QUIET, picture, rows, watch_reading
from unseen.networks import build_store
from unseen.networks.store import FeatureStore
from unseen.util import table
from unseen.util.errors import UnseenError


def same(one: Path, other: Path) -> bool:
    left, right = rows(one), rows(other)
    return list(left) == list(right) and all(np.array_equal(left[path], right[path]) for path in left)


def test_threads_change_nothing(tmp_path, folder, network):
    build_store(folder, tmp_path / "here", network, **QUIET)
    build_store(folder, tmp_path / "threads", network, workers=3)
    assert same(tmp_path / "here", tmp_path / "threads")


def change_everything(images: Path) -> set[str]:
    """Add, change, rename and remove photos and classes. Returns those that are new or changed."""
    picture(images / "nine" / "00 first.png", 501)
    picture(images / "nine" / "7.png", 502, size=(40, 40))
    (images / "nine" / "4.png").unlink()
    os.rename(images / "five" / "0.png", images / "five" / "z.png")
    picture(images / "five" / "2.png", 503)  # was unreadable
    picture(images / "none" / "was empty.png", 504)
    picture(images / "ninety" / "0.png", 505)
    shutil.rmtree(images / "one")
    return {"nine/00 first.png", "nine/7.png", "five/z.png", "five/2.png", "none/was empty.png", "ninety/0.png"}


@pytest.mark.parametrize("size", [3, 1024])
def test_only_new_and_changed_photos_are_read_and_the_store_is_as_if_made_afresh(
    tmp_path, folder, network, size, monkeypatch
):
    monkeypatch.setattr(table, "ROWS", size)
    build_store(folder, tmp_path / "store", network, **QUIET)
    before = FeatureStore.open(tmp_path / "store")
    read = watch_reading(monkeypatch)
    assert build_store(folder, tmp_path / "store", network, **QUIET).new == 0
    assert read == []
    changed = change_everything(folder)
    built = build_store(folder, tmp_path / "store", network, prune=True, **QUIET)
    assert sorted(read) == sorted(changed) and built.new == len(changed)
    build_store(folder, tmp_path / "afresh", network, **QUIET)
    assert same(tmp_path / "store", tmp_path / "afresh")  # without the removed class
    assert before.classes()["nine"] == 9  # who opened it has it as it was


SLOW = "support.tiny_network:build_slow"  # the same weights, slow enough to be caught
SCRIPT = "import sys; from unseen.util import table; table.ROWS = 4; from unseen.apps.cli import main; main()"


@pytest.mark.slow
def test_killed_it_continues_and_ends_with_the_same_content(tmp_path):
    images, store = tmp_path / "images", tmp_path / "store"
    for number in range(40):
        picture(images / f"class {number % 8}" / f"{number}.png", number)
    (images / "class 3" / "broken.jpg").write_bytes(b"")
    build_store(images, tmp_path / "undisturbed", tiny_network.build_slow())
    arguments = [
        "features",
        "--photos",
        str(images),
        "--out",
        str(store),
        "--network",
        SLOW,
        "--workers",
        "1",
        "--json",
    ]
    command = [sys.executable, "-c", SCRIPT, *arguments]
    first, deadline = subprocess.Popen(command), time.monotonic() + 300
    while len(list(store.glob("0*.safetensors"))) < 2:
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    with pytest.raises(UnseenError, match="not finished"):
        FeatureStore.open(store)
    done = subprocess.run(command, capture_output=True, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["photos"] == 40 > result["new"] and same(store, tmp_path / "undisturbed")


@pytest.mark.slow
def test_under_torchrun_the_first_process_makes_the_store_and_speaks(tmp_path, folder):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "unseen"]
    options = ["features", "--photos", folder, "--network", "support.tiny_network:build", "--out", tmp_path / "two"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*torchrun, *options, "--json"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["photos"] == 14 == len(rows(tmp_path / "two"))
