"""Methods that learn from more photos than memory holds: what stays on disk gives what an array gives."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from support.problems import make_world
from unseen.methods import get_method, make_method, method_names
from unseen.networks import store as stores
from unseen.networks.features import SeenFeatures
from unseen.networks.store import Block, FeatureStore, StoredRows, write_block
from unseen.photos.by_class import FileState
from unseen.util.run import Run
from unseen_lab.methods import photo_classes
from unseen_lab.methods.photo_classes import PhotoClasses

FEW = {"devise": {"epochs": 3}, "gaussian-ort": {"steps": 8}, "se-gzsl": {"steps": 8}, "sync": {"iterations": 3}}
LEARNERS = [name for name in method_names() if get_method(name).takes_features]


def write_store(place, features: SeenFeatures, ids: list[str], block: int = 3) -> FeatureStore:
    """A store of half precision, with some rows a block."""
    contents = {}
    for label, id in enumerate(ids):
        own = np.asarray(features.matrix)[features.labels == label].astype(np.float16)
        for number, start in enumerate(range(0, len(own), block)):
            part = own[start : start + block]
            block_of = Block(part, [FileState(f"{start + i}.jpg", 1, 1) for i in range(len(part))], [], "")
            write_block(place / "features" / id, number, block_of)
        contents[id] = [len(own), 0]
    network = {"name": "made-up", "checksum": "", "features": features.matrix.shape[1], "transform": {}}
    return FeatureStore(place, {"network": network, "precision": "fp16", "classes": contents})


@pytest.fixture
def world(tmp_path):
    problem, _ = make_world(seen=12, photos=7)
    ids = [problem.hierarchy.ids[row] for row in problem.seen]
    return problem, write_store(tmp_path / "store", problem.features, ids), ids


@pytest.fixture
def on_disk(world, monkeypatch) -> StoredRows:
    _, store, ids = world
    monkeypatch.setattr(stores, "IN_MEMORY", 0)
    return store.seen_matrix(ids).matrix


@pytest.mark.parametrize("method", LEARNERS)
def test_the_same_from_disk_and_from_memory(world, on_disk, monkeypatch, method):
    problem, store, ids = world
    monkeypatch.setattr(photo_classes, "CHUNK", 10)
    solutions = []
    for most in (2**28, 0):
        monkeypatch.setattr(stores, "IN_MEMORY", most)
        features = store.seen_matrix(ids)
        assert isinstance(features.matrix, np.ndarray if most else StoredRows)
        run = Run(show_progress=False, device="cpu")
        solutions.append(make_method(method, FEW.get(method, {})).fit(replace(problem, features=features), run))
    one, other = solutions
    np.testing.assert_array_equal(one.classifiers, other.classifiers)
    assert one.record.chosen == other.record.chosen


def test_rows_read_like_an_array(world, on_disk):
    whole = np.asarray(on_disk)
    assert whole.shape == on_disk.shape == (12 * 7, 16) and whole.dtype == np.float32
    random = np.random.default_rng(0)
    picks = [slice(5, 40), slice(None, None, 9), random.permutation(84)[:30], whole[:, 0] > 0, [3, 3, 80], slice(0)]
    for wanted in picks:
        np.testing.assert_array_equal(on_disk[wanted], whole[wanted])
    part = on_disk.only(whole[:, 0] > 0)
    np.testing.assert_array_equal(part[1:9], whole[whole[:, 0] > 0][1:9])


def test_statistics_hold_a_chunk_at_a_time(tmp_path, monkeypatch):
    """The mean, second moment and class means of 1 MB of features within a fifth of that."""
    monkeypatch.setattr(stores, "IN_MEMORY", 0)
    monkeypatch.setattr(photo_classes, "CHUNK", 32)
    random = np.random.default_rng(0)
    many = SeenFeatures(random.normal(size=(4_000, 64)).astype(np.float32), np.arange(4_000) % 4)
    store = write_store(tmp_path / "store", many, list("abcd"), block=64)
    rows = store.seen_matrix(list("abcd"))
    vectors = random.normal(size=(4, 3)).astype(np.float32)
    data = PhotoClasses(rows.matrix, np.arange(4_000), rows.labels, vectors, np.arange(4)).scaled()
    data.class_means()  # imports what it needs
    tracemalloc.start()
    data.mean(), data.second_moment(), data.class_means()
    data.accuracies(lambda photos: [photos[:, :4], photos[:, 4:8]])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * many.matrix.nbytes
