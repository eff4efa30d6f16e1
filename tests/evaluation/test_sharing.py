"""Evaluation shared among processes: two real ones, started by torchrun, count exactly what one counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support import tiny_network
from support.problems import SEEN
from support.stores import FakeStore
from unseen.evaluation import protocol
from unseen.evaluation.protocol import evaluate_lists
from unseen.model import Model

UNSEEN = ("cat", "poodle", "saw", "pet", "lonely")
LISTS = (["cat", "saw", "poodle"], ["cat", "pet", "saw", "lonely", "thing"])
TESTS = Path(__file__).resolve().parents[1]

SCRIPT = f"""
import json, sys
sys.path.insert(0, {str(TESTS)!r})
from evaluation.test_sharing import LISTS, figures, make_model, make_photos
from unseen.evaluation import protocol
from unseen.networks.processes import Processes

protocol.TAKEN = 10
with Processes("cpu") as processes:
    photos = make_photos()
    found = figures(make_model(), photos, processes)
    read = processes.gather(sorted(set(photos.read)))
    if processes.rank == 0:
        print(json.dumps([found, read]))
    assert processes.gather(found) == [found] * processes.world
"""


class WatchedStore(FakeStore):
    """Knows which classes were read."""

    def __init__(self, *args):
        super().__init__(*args)
        self.read: list[str] = []

    def batches(self, size, classes=None):
        for batch in super().batches(size, classes):
            self.read += batch.class_ids
            yield batch


def make_model() -> Model:
    return Model(tiny_network.make_bundle(), tiny_network.build(), device="cpu")


def make_photos() -> WatchedStore:
    random = np.random.default_rng(3)
    ids = random.choice([*SEEN, *UNSEEN, "elsewhere"], 150).tolist()
    return WatchedStore(random.normal(size=(150, tiny_network.FEATURES)), ids)


def figures(model, photos, processes=None) -> list[dict]:
    """All that an evaluation counts, over two lists."""
    options = {"with_seen": True, "photos_of": "both", "confidence": 0.6, "processes": processes}
    return [
        result.to_dict(per_class=True)
        for result in evaluate_lists(model.bundle, photos, LISTS, network=lambda: model.network, **options)
    ]


@pytest.mark.slow
def test_two_processes_count_what_one_counts(tmp_path, monkeypatch):
    script = tmp_path / "two.py"
    script.write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(torchrun, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found, (one, other) = json.loads(done.stdout.splitlines()[-1])
    monkeypatch.setattr(protocol, "SHARE", 10)
    alone = json.loads(json.dumps(figures(make_model(), make_photos())))
    assert found == alone  # to the last digit
    assert all(part["generalised"] and part["verdict"] for part in alone)
    assert one and other and not set(one) & set(other)  # each read classes of its own
    assert set(one) | set(other) == {*SEEN, *UNSEEN}


@pytest.mark.slow
def test_the_command_answers_once(tmp_path):
    """Under torchrun, `unseen evaluate` prints what it prints alone, and one process speaks."""
    photos = make_photos()
    make_model().bundle.save(tmp_path / "bundle")
    np.savez(tmp_path / "photos.npz", features=photos.features, labels=np.array(photos.ids))
    command = ["-m", "unseen", "evaluate", str(tmp_path / "bundle"), "--features", str(tmp_path / "photos.npz")]
    command += ["--candidates", "unseen", "--with-seen", "--device", "cpu", "--json"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    said = []
    for launcher in ([], torchrun):
        done = subprocess.run([sys.executable, *launcher, *command], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1] and said[0].count("\n") == 1


def test_lists_share_a_pass_and_give_what_each_gives_alone():
    model, photos = make_model(), make_photos()
    together = evaluate_lists(model.bundle, photos, LISTS, network=lambda: model.network)
    assert photos.read.count("cat") == photos.ids.count("cat")  # in both lists, read once
    assert "dog" not in photos.read  # in neither
    for listed, result in zip(LISTS, together, strict=True):
        assert result.to_dict(per_class=True) == model.evaluate(photos, listed).to_dict(per_class=True)
