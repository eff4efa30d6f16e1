"""What a feature store holds: every photo, exactly; damage is told.

A tiny network stands in for the real one, which has a test of its own: what is tested here does not depend on weights.
"""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save

from support import tiny_network
from support.stores import QUIET, contents, rows
from unseen.errors import UnseenError
from unseen.features import blocks, build_store, builder
from unseen.features.blocks import block_path
from unseen.features.store import FeatureStore

# -- what is in it ---------------------------------------------------------------------------------------------------


def test_every_photo_has_the_features_that_the_network_gives(tmp_path, folder, backbone):
    built = build_store(folder, tmp_path / "store", backbone, precision="fp32", **QUIET)
    assert (built.photos, built.new, built.unreadable, built.classes) == (14, 14, 1, 4)
    store = FeatureStore.open(tmp_path / "store", backbone)
    found = rows(store)
    assert sorted(found) == sorted(
        f"{p.parent.name}/{p.name}" for p in folder.glob("*/*") if p.name != "2.png" or p.parent.name == "nine"
    )
    for path, feature in found.items():
        alone = backbone.features(backbone.transform.open(folder / path)[None])[0].numpy()
        np.testing.assert_allclose(feature, alone, rtol=1e-4, atol=1e-5)
    assert store.classes() == {"five": 4, "nine": 9, "none": 0, "one": 1}
    assert len(store) == 14 and store.unreadable_count() == 1
    assert [item["photo"] for item in store.unreadable()] == ["five/2.png"]
    listed = [json.loads(line) for line in (tmp_path / "store" / "unreadable.jsonl").read_text().splitlines()]
    assert listed == list(store.unreadable()) and "not a picture" in listed[0]["why"]


@pytest.mark.parametrize("size", [1, 3, 14, 100])
def test_batches_of_any_size_give_the_same_rows(tmp_path, folder, backbone, size, monkeypatch):
    monkeypatch.setattr(builder, "BLOCK", 4)
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    store = FeatureStore.open(tmp_path / "store")
    sizes = [len(batch.paths) for batch in store.batches(size)]
    assert sizes == [size] * (14 // size) + ([14 % size] if 14 % size else [])
    whole, parts = rows(store), rows(store, size)
    assert list(whole) == list(parts)
    for path in whole:
        np.testing.assert_array_equal(whole[path], parts[path])
    assert [p for b in store.batches(size, {"one", "nine"}) for p in b.class_ids] == ["nine"] * 9 + ["one"]


def test_seen_matrix_loads_the_classes_asked_for(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    store = FeatureStore.open(tmp_path / "store")
    seen = store.seen_matrix(["absent", "one", "nine"])
    assert np.bincount(seen.labels).tolist() == [0, 1, 9]
    assert seen.matrix.dtype == np.float32 and seen.matrix.shape == (10, tiny_network.FEATURES)
    np.testing.assert_array_equal(seen.matrix[seen.labels == 1][0], rows(store)["one/0.png"])
    with pytest.raises(UnseenError, match="no photo of any"):
        store.seen_matrix(["absent", "none"])


def test_half_precision_is_the_rounded_single(tmp_path, folder, backbone):
    for precision in ("fp16", "fp32"):
        build_store(folder, tmp_path / precision, backbone, precision=precision, **QUIET)
    half, single = rows(tmp_path / "fp16"), rows(tmp_path / "fp32")
    assert FeatureStore.open(tmp_path / "fp16").precision == "fp16"
    for path in single:
        np.testing.assert_array_equal(half[path], single[path].astype(np.float16))


SPREAD = 2_654_435_761  # hypothesis likes small numbers: times this, they are anywhere in a file

# -- damage --------------------------------------------------------------------------------------------------------


def test_a_damaged_block_is_refused_and_made_anew(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    before = contents(tmp_path / "store")
    block = block_path(tmp_path / "store", "nine", 0)
    os.truncate(block, block.stat().st_size - 1)
    with pytest.raises(UnseenError, match="damaged"):
        list(FeatureStore.open(tmp_path / "store").batches())
    assert build_store(folder, tmp_path / "store", backbone, **QUIET).new == 9
    assert contents(tmp_path / "store") == before


def test_a_missing_block_is_told(tmp_path, folder, backbone):
    """As in a copy that is not complete: neither fewer photos nor rows of whatever was in memory."""
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    block_path(tmp_path / "store", "nine", 0).unlink()
    store = FeatureStore.open(tmp_path / "store")
    for read in (lambda: list(store.batches()), lambda: store.seen_matrix(["one", "nine"])):
        with pytest.raises(UnseenError, match=r"nine: is damaged\. Run the same `unseen features` again"):
            read()
    list(store.batches(classes=["one"]))


@pytest.mark.parametrize(
    ("name", "content"),
    [("contents.json", {}), ("contents.json", []), ("contents.json", {"classes": {"nine": 9}})]
    + [("store.json", []), ("store.json", {"format": 1, "precision": "fp16"})],
)
def test_damaged_lists_of_a_store_are_told(tmp_path, folder, backbone, name, content):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    (tmp_path / "store" / name).write_text(json.dumps(content))
    with pytest.raises(UnseenError, match=f"{name}: is damaged"):
        FeatureStore.open(tmp_path / "store", backbone)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_changed_bit_is_told_or_does_not_matter_and_a_second_run_mends_it(tmp_path, folder, backbone, data):
    """In any file of the store."""
    store = tmp_path / "store"
    if not store.exists():
        build_store(folder, store, backbone, **QUIET)
        shutil.copytree(store, tmp_path / "whole")
    before, expected = contents(tmp_path / "whole"), rows(tmp_path / "whole")
    name = data.draw(st.sampled_from(sorted(name for name in before if name not in ("lock", "unreadable.jsonl"))))
    place = SPREAD * data.draw(st.integers(0, 10**6)) % (8 * len(before[name]))
    changed = bytearray(before[name])
    changed[place // 8] ^= 1 << place % 8
    (store / name).write_bytes(changed)
    try:
        found = rows(store)
        assert found.keys() == expected.keys()
        assert all((found[path] == expected[path]).all() for path in expected)
    except UnseenError as error:
        assert name in str(error)
    build_store(folder, store, backbone, **QUIET)
    assert rows(store).keys() == expected.keys() and contents(store).keys() == before.keys()
    for path, row in rows(store).items():
        np.testing.assert_array_equal(row, expected[path])


def test_a_store_without_checksums_is_read_as_before(tmp_path, folder, backbone):
    """As version 0.1 wrote it."""
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
    expected = rows(store)
    for name in ("store.json", "contents.json"):
        facts = json.loads((store / name).read_text())
        assert facts.pop("checksum")
        (store / name).write_text(json.dumps(facts))
    for block in store.glob("features/*/*.safetensors"):
        with safe_open(block, framework="np") as file:
            index, features = json.loads(file.metadata()["index"]), file.get_tensor("features")
        index = json.dumps({key: index[key] for key in ("photos", "unreadable")})
        block.write_bytes(save({"features": features}, metadata={"index": index}))
    found = rows(store)
    assert found.keys() == expected.keys()
    assert build_store(folder, store, backbone, **QUIET).new == 0
    assert build_store(folder, store, backbone, **QUIET).photos == 14


def test_permission_is_not_told_as_damage(tmp_path, folder, backbone, monkeypatch):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    store, block = FeatureStore.open(tmp_path / "store"), block_path(tmp_path / "store", "nine", 0)

    def refuse(path, mode="r"):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(blocks, "open", refuse, raising=False)  # whoever runs the tests may be allowed everything
    with pytest.raises(UnseenError, match="permission denied"):
        list(store.batches(classes=["nine"]))
    with pytest.raises(UnseenError, match="permission denied"):
        build_store(folder, tmp_path / "store", backbone, **QUIET)
    assert block.exists()


def test_rubbish_in_a_store_is_cleared(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    before = contents(tmp_path / "store")
    (tmp_path / "store" / "features" / "nine" / ".000001.safetensors.123.tmp").write_bytes(b"half")
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    assert contents(tmp_path / "store") == before
