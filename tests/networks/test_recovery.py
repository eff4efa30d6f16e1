"""A store whose store.json got damaged is mended by running again, and nothing that was finished is deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support import tiny_network
from support.stores import QUIET, contents, watch_reading
from unseen.networks import build_store
from unseen.networks.store import FeatureStore
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError


def damage(store: Path) -> None:
    content = bytearray((store / "store.json").read_bytes())
    content[len(content) // 2] ^= 1
    (store / "store.json").write_bytes(content)
    with pytest.raises(UnseenError, match=r"store\.json: is damaged\. Run the same command again"):
        FeatureStore.open(store)


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_it_is_written_again_and_no_photo_is_read(tmp_path, folder, network, monkeypatch, precision):
    store = tmp_path / "store"
    build_store(folder, store, network, precision=precision, **QUIET)
    before = contents(store)
    damage(store)
    shutil.rmtree(folder / "nine")  # a class that nothing could make again
    read = watch_reading(monkeypatch)
    built = build_store(folder, store, network, **QUIET)
    assert read == [] and built.kept == ("nine",)
    assert contents(store) == before


def test_features_of_another_network_are_left_alone(tmp_path, folder, network):
    store = tmp_path / "store"
    build_store(folder, store, network, **QUIET)
    damage(store)
    before = contents(store)
    other = tiny_network.from_module(
        tiny_network.TinyNetwork(), tiny_network.SEEN, PhotoTransform(tiny_network.SIZE + 1)
    )
    with pytest.raises(UnseenError, match="made with another network"):
        build_store(folder, store, other, **QUIET)
    assert contents(store) == before
