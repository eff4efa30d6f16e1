"""A store whose store.json got damaged is mended by running again, and nothing that was finished is deleted."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import save

from support import tiny_network
from support.stores import QUIET, contents, rows, watch_reading
from unseen.backbones import PhotoTransform
from unseen.errors import UnseenError
from unseen.features import build_store, construction
from unseen.features.store import FeatureStore
from unseen.runtime.seals import sealed


def damage(store: Path) -> None:
    content = bytearray((store / "store.json").read_bytes())
    content[len(content) // 2] ^= 1
    (store / "store.json").write_bytes(content)
    with pytest.raises(UnseenError, match=r"store\.json: is damaged\. Run the same `unseen features` again"):
        FeatureStore.open(store)


def forget_network(store: Path) -> None:
    """The blocks as they were before they told which network made them."""
    for block in store.glob("features/*/*.safetensors"):
        with safe_open(block, framework="np") as file:
            index, features = json.loads(file.metadata()["index"]), file.get_tensor("features")
        index = {key: value for key, value in index.items() if key not in ("network", "checksum")}
        block.write_bytes(save({"features": features}, metadata={"index": json.dumps(sealed(index))}))


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_it_is_written_again_and_no_photo_is_read(tmp_path, folder, backbone, monkeypatch, precision):
    store = tmp_path / "store"
    build_store(folder, store, backbone, precision=precision, **QUIET)
    before = contents(store)
    damage(store)
    shutil.rmtree(folder / "nine")  # a class that nothing could make again
    read = watch_reading(monkeypatch)
    built = build_store(folder, store, backbone, **QUIET)
    assert read == [] and built.kept == ("nine",) and built.unknown is None
    assert contents(store) == before


def test_a_store_that_is_not_finished_is_mended_too(tmp_path, folder, backbone):
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
    before = contents(store)
    damage(store)
    (store / "contents.json").unlink()
    shutil.rmtree(store / "features" / "nine")
    assert build_store(folder, store, backbone, **QUIET).new == 9
    assert contents(store) == before


def test_features_of_another_network_are_left_alone(tmp_path, folder, backbone):
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
    damage(store)
    before = contents(store)
    other = tiny_network.from_module(
        tiny_network.TinyNetwork(), tiny_network.SEEN, PhotoTransform(tiny_network.SIZE + 1)
    )
    with pytest.raises(UnseenError, match="made with another network"):
        build_store(folder, store, other, **QUIET)
    assert contents(store) == before


def test_without_a_mark_photos_are_read_again_and_the_features_are_kept_elsewhere(tmp_path, folder, backbone):
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
    before, expected = contents(store), rows(store)
    forget_network(store)
    damage(store)
    shutil.copytree(store / "features" / "one", store / "aside" / "one")  # its rows must not be used again either
    unmarked = contents(store / "features")
    built = build_store(folder, store, backbone, prune=True, **QUIET)
    assert built.new == len(expected) and built.unknown == store / "unknown" / "0"
    assert contents(built.unknown / "features") == unmarked
    shutil.rmtree(store / "unknown")
    assert contents(store) == before


def test_killed_between_moving_and_writing_it_goes_on(tmp_path, folder, backbone, monkeypatch):
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
    before = contents(store)
    forget_network(store)
    damage(store)

    def die(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(construction, "write_about", die)
        build_store(folder, store, backbone, **QUIET)
    assert not (store / "features").exists() and len(os.listdir(store / "unknown")) == 1
    assert build_store(folder, store, backbone, **QUIET).new == 14
    shutil.rmtree(store / "unknown")
    assert contents(store) == before
