"""What a feature store holds: every photo, exactly; damage is told.

A tiny network stands in for the real one, which has a test of its own: what is tested here does not depend on weights.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import tiny_network
from support.stores import QUIET, rows
from unseen.networks import Features, build_store
from unseen.networks.store import FeatureStore
from unseen.util import table
from unseen.util.errors import UnseenError

# -- what is in it ---------------------------------------------------------------------------------------------------


def test_every_photo_has_the_features_that_the_network_gives(tmp_path, folder, network):
    built = build_store(folder, tmp_path / "store", network, precision="fp32", **QUIET)
    assert (built.photos, built.new, built.unreadable, built.classes) == (14, 14, 1, 4)
    store = FeatureStore.open(tmp_path / "store", network)
    found = rows(store)
    assert sorted(found) == sorted(
        f"{p.parent.name}/{p.name}" for p in folder.glob("*/*") if p.name != "2.png" or p.parent.name == "nine"
    )
    for path, feature in found.items():
        alone = network.features(network.transform.open(folder / path)[None])[0].numpy()
        np.testing.assert_allclose(feature, alone, rtol=1e-4, atol=1e-5)
    assert store.classes() == {"five": 4, "nine": 9, "none": 0, "one": 1}
    assert len(store) == 14 and store.unreadable_count() == 1
    assert [item["photo"] for item in store.unreadable()] == ["five/2.png"]
    listed = [json.loads(line) for line in (tmp_path / "store" / "unreadable.jsonl").read_text().splitlines()]
    assert listed == list(store.unreadable()) and "not a picture" in listed[0]["why"]


@pytest.mark.parametrize("size", [1, 3, 14, 100])
def test_batches_of_any_size_give_the_same_rows(tmp_path, folder, network, size, monkeypatch):
    monkeypatch.setattr(table, "ROWS", 4)
    build_store(folder, tmp_path / "store", network, **QUIET)
    store = FeatureStore.open(tmp_path / "store")
    sizes = [len(batch.paths) for batch in store.batches(size)]
    assert sizes == [size] * (14 // size) + ([14 % size] if 14 % size else [])
    whole, parts = rows(store), rows(store, size)
    assert list(whole) == list(parts)
    for path in whole:
        np.testing.assert_array_equal(whole[path], parts[path])
    assert [p for b in store.batches(size, {"one", "nine"}) for p in b.class_ids] == ["nine"] * 9 + ["one"]


def test_seen_matrix_loads_the_classes_asked_for(tmp_path, folder, network):
    build_store(folder, tmp_path / "store", network, **QUIET)
    store = FeatureStore.open(tmp_path / "store")
    seen = store.seen_matrix(["absent", "one", "nine"])
    assert np.bincount(seen.labels).tolist() == [0, 1, 9]
    assert seen.matrix.dtype == np.float32 and seen.matrix.shape == (10, tiny_network.FEATURES)
    np.testing.assert_array_equal(seen.matrix[seen.labels == 1][0], rows(store)["one/0.png"])
    with pytest.raises(UnseenError, match="no photo of any"):
        store.seen_matrix(["absent", "none"])


SPREAD = 2_654_435_761  # hypothesis likes small numbers: times this, they are anywhere in a file

# -- damage --------------------------------------------------------------------------------------------------------


def test_a_missing_part_is_reported(tmp_path, folder, network, monkeypatch):
    """As in a copy that is not complete: neither fewer photos nor rows of whatever was in memory."""
    monkeypatch.setattr(table, "ROWS", 6)
    build_store(folder, tmp_path / "store", network, **QUIET)
    (tmp_path / "store" / "000001.safetensors").unlink()
    store = FeatureStore.open(tmp_path / "store")
    for read in (lambda: list(store.batches()), lambda: store.seen_matrix(["one", "nine"])):
        with pytest.raises(UnseenError, match=r"000001.safetensors: is damaged .*Run the same command again"):
            read()
    list(store.batches(classes=["five"]))


def test_relabelled_and_in_part(tmp_path, folder, network):
    build_store(folder, tmp_path / "store", network, **QUIET)
    store = FeatureStore.open(tmp_path / "store").relabel({"one": "nine", "five": "V"})
    assert isinstance(store, Features)
    assert store.classes() == {"V": 4, "nine": 10, "none": 0}
    assert [path for batch in store.batches(3, {"nine"}) for path in batch.paths][-2:] == ["nine/8.png", "one/0.png"]
    part = store.only({"V", "none"})
    assert part.classes() == {"V": 4, "none": 0} and part.unreadable_count() == 1 and len(store) == 14
    assert {id for batch in part.batches() for id in batch.class_ids} == {"V"}
    assert store.seen_matrix(["V", "nine"]).labels.tolist() == [0] * 4 + [1] * 10


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_changed_bit_is_reported_and_a_second_run_mends_it(tmp_path, folder, network, data):
    """In any file of the store."""
    store = tmp_path / "store"
    if not store.exists():
        build_store(folder, store, network, **QUIET)
    expected = rows(store)
    file = data.draw(st.sampled_from(sorted(store.glob("*.safetensors"))))
    content = bytearray(file.read_bytes())
    place = SPREAD * data.draw(st.integers(0, 10**6)) % (8 * len(content))
    content[place // 8] ^= 1 << place % 8
    file.write_bytes(content)
    with pytest.raises(UnseenError, match="is damaged"):
        rows(store)
    build_store(folder, store, network, **QUIET)
    mended = rows(store)
    assert mended.keys() == expected.keys()
    for path, row in mended.items():
        np.testing.assert_array_equal(row, expected[path])


def test_a_store_of_a_network_serves_every_head_over_it(tmp_path):
    from support.bundles import FEATURES, SEEN, small_bundle, small_network, small_photo
    from unseen.model import Model
    from unseen.networks import FeatureStore, build_store
    from unseen.networks.linear import from_linear

    for seed, id in enumerate(SEEN):
        (tmp_path / "photos" / id).mkdir(parents=True)
        small_photo(seed).save(tmp_path / "photos" / id / "a.png")
    below = small_network()
    build_store(tmp_path / "photos", tmp_path / "store", below, precision="fp32", **QUIET)
    head = from_linear(np.random.default_rng(0).normal(size=(len(SEEN), FEATURES)), None, SEEN, below)
    assert len(FeatureStore.open(tmp_path / "store", head)) == len(SEEN)
    model = Model(small_bundle("kin", network=head), head, device="cpu")
    stored = model.evaluate(tmp_path / "store", "seen", ks=[1, 2])
    assert stored.images == len(SEEN) and stored.image == model.evaluate(tmp_path / "photos", "seen", ks=[1, 2]).image
    other = from_linear(np.ones((len(SEEN), FEATURES)), None, SEEN, small_network(seed=3))
    with pytest.raises(UnseenError, match="Make another store for this network"):
        FeatureStore.open(tmp_path / "store", other)
