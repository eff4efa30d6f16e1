"""A feature store is the same however it came about: stopped, killed, shared by processes, made afresh.

A tiny network stands in for the real one, which has a test of its own: what is tested here does not depend on weights.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import tiny_network
from support.stores import QUIET, contents, picture, rows, watch_reading
from unseen.networks import build_store
from unseen.networks import store as stores
from unseen.networks.store import FeatureStore
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError


def test_workers_change_nothing(tmp_path, folder, network):
    build_store(folder, tmp_path / "here", network, **QUIET)
    build_store(folder, tmp_path / "workers", network, workers=2, batch=4)
    assert contents(tmp_path / "here") == contents(tmp_path / "workers")


def test_the_death_of_a_worker_is_reported_and_what_is_done_is_kept(tmp_path, folder, network, monkeypatch):
    """As the kernel does when memory runs out: here once the class `five` is written, at the last photo of all."""
    here, open_photo, kept = os.getpid(), PhotoTransform.open, tmp_path / "store" / "features" / "five"

    def open_or_die(self, source):
        if os.getpid() != here and Path(source).parent.name == "one":
            patience = time.monotonic() + 300
            while not list(kept.glob("*.safetensors")) and time.monotonic() < patience:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return open_photo(self, source)

    options = {"batch": 2}
    with monkeypatch.context() as patch, pytest.raises(UnseenError, match=r"ended unexpectedly: .* run it again"):
        patch.setattr(PhotoTransform, "open", open_or_die)
        build_store(folder, tmp_path / "store", network, workers=1, **options)
    assert kept.is_dir()
    read = watch_reading(monkeypatch)
    built = build_store(folder, tmp_path / "store", network, workers=0, **options)
    assert "one/0.png" in read and not any(path.startswith("five/") for path in read)
    assert built.photos == 14 and built.new == len(read) < 14
    build_store(folder, tmp_path / "plain", network, workers=0, **options)
    assert contents(tmp_path / "store") == contents(tmp_path / "plain")


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


@pytest.mark.parametrize("block", [3, 1024])
def test_only_new_and_changed_photos_are_read_and_the_store_is_as_if_made_afresh(
    tmp_path, folder, network, block, monkeypatch
):
    monkeypatch.setattr(stores, "BLOCK", block)
    build_store(folder, tmp_path / "store", network, **QUIET)
    read = watch_reading(monkeypatch)
    assert build_store(folder, tmp_path / "store", network, **QUIET).new == 0
    assert read == []
    changed = change_everything(folder)
    built = build_store(folder, tmp_path / "store", network, prune=True, **QUIET)
    assert sorted(read) == sorted(changed) and built.new == len(changed)
    monkeypatch.undo()
    monkeypatch.setattr(stores, "BLOCK", block)
    build_store(folder, tmp_path / "afresh", network, **QUIET)
    assert contents(tmp_path / "store") == contents(tmp_path / "afresh")  # without the removed class


class Stop(BaseException):
    """As good as a kill: nothing in the code may catch it."""


@pytest.mark.slow
def test_stopped_at_any_step_it_goes_on_to_the_same_store(tmp_path, folder, network, monkeypatch):
    """Every change to the disk, in its turn, is where an update stops. Until it is done the store is the old one,
    finished and complete; the next run finishes it as if nothing had happened."""
    monkeypatch.setattr(stores, "BLOCK", 3)
    original = tmp_path / "original"
    build_store(folder, original, network, **QUIET)
    change_everything(folder)
    build_store(folder, tmp_path / "afresh", network, **QUIET)
    wanted = contents(tmp_path / "afresh")
    old, new = ({path: row.tobytes() for path, row in rows(place).items()} for place in (original, tmp_path / "afresh"))
    steps, states = 0, set()
    while True:
        steps += 1
        store = tmp_path / f"store{steps}"
        shutil.copytree(original, store)
        if not run_until_step(steps, monkeypatch, folder, store, network):
            break
        found = {path: row.tobytes() for path, row in rows(store).items()}
        assert found in (old, new), f"stopped at step {steps}"
        states.add(found == new)
        build_store(folder, store, network, prune=True, **QUIET)
        found = contents(store)
        assert {path: found[path] for path in found if "features/one/" not in path} == wanted, (
            f"stopped at step {steps}"
        )
    assert steps > 20 and states == {False, True}


def run_until_step(step: int, monkeypatch, folder: Path, store: Path, network) -> bool:
    """Whether the run was stopped just before its n-th change to the disk."""
    count = 0

    def counted(change):
        def stopping(*args, **kwargs):
            nonlocal count
            count += 1
            if count == step:
                raise Stop
            return change(*args, **kwargs)

        return stopping

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)  # slow, and of no matter while the machine itself runs on
        for owner, name in (
            (os, "replace"),
            (os, "unlink"),
            (os, "mkdir"),
            (os, "rmdir"),
            (Path, "unlink"),
        ):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            build_store(folder, store, network, prune=True, **QUIET)
        except Stop:
            return True
    return False


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "unseen", "features", *map(str, arguments), "--json"]


def environment() -> dict[str, str]:
    return os.environ | {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_bytes(tmp_path):
    images = tmp_path / "images"
    for class_id in range(30):
        for number in range(1 + class_id % 4):
            picture(images / f"class {class_id:02d}" / f"{number}.png", 10 * class_id + number)
    (images / "class 03" / "broken.jpg").write_bytes(b"")
    slow = tiny_network.build_slow()  # the same weights, slow enough to be caught
    build_store(images, tmp_path / "undisturbed", slow, batch=2, workers=0)
    store, kills, moments = tmp_path / "store", 0, random.Random(0)
    arguments = ("--photos", images, "--out", store, "--network", "support.tiny_network:build_slow", "--batch", 2)
    said = (tmp_path / "said").open("w+")
    while True:
        wanted = len(list(store.glob("features/*/*.safetensors"))) + moments.randint(1, 6)
        process = subprocess.Popen(
            command(*arguments, "--workers", 2), env=environment(), stdout=said, stderr=subprocess.STDOUT
        )
        while process.poll() is None and len(list(store.glob("features/*/*.safetensors"))) < wanted:
            time.sleep(0.01)
        if process.poll() is not None or kills == 3:
            break
        time.sleep(moments.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()  # its workers live on for a moment: they must not be in the way of the next run
        kills += 1
        with pytest.raises(UnseenError, match="not finished"):
            FeatureStore.open(store)
    assert process.wait(timeout=300) == 0, said.seek(0) or said.read()
    assert kills == 3
    said.seek(0)
    result = json.loads(said.readlines()[-1])
    assert result["photos"] == len(list(images.glob("*/*.png"))) > result["new"]
    assert contents(store) == contents(tmp_path / "undisturbed")


@pytest.mark.slow
def test_two_processes_under_torchrun_make_the_store_of_one(tmp_path, folder):
    """Twice in the same processes, as an evaluation of two folders does."""
    for class_id in range(9):
        for number in range(3):
            picture(folder / f"more {class_id}" / f"{number}.png", 20 * class_id + number)
    build_store(folder, tmp_path / "one", tiny_network.build(), **QUIET)
    (tmp_path / "twice.py").write_text(
        "import sys\n"
        "from unseen.apps.cli import main\n"
        "for out in sys.argv.pop(1), sys.argv.pop(1):\n"
        "    sys.argv[1:] = ['features', '--out', out, *sys.argv[sys.argv.index('--photos'):]]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ["--photos", folder, "--network", "support.tiny_network:build", "--batch", "4", "--workers", "1"]
    done = subprocess.run(
        [*torchrun, tmp_path / "twice.py", tmp_path / "two", tmp_path / "again", *options, "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == 2  # of the processes one speaks
    for result in results:
        assert (result["photos"], result["new"], result["unreadable"], result["classes"]) == (41, 41, 1, 13)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "again")
