"""Folders of photos by id or by name; a wrong one is found before anything is computed."""

from __future__ import annotations

import pytest

from support.stores import picture, rows, watch_reading
from unseen.hierarchy.core import Hierarchy
from unseen.networks.folders import check_folders, match_folders, open_features
from unseen.util.errors import UnseenError

NAMES = {"n1": ["polar bear", "ice bear"], "n2": "fox", "n3": "bat", "n4": "bat", "n5": "n2"}
HIERARCHY = Hierarchy.from_edges([(id, "n0") for id in NAMES], {"n0": "thing", **NAMES})


def make(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
    return folder


def test_ids_come_before_names():
    everything = set(HIERARCHY.ids)
    found = match_folders(["n2", "Ice_Bear", "polar-bear", "FOX", "bat", "mouse"], HIERARCHY, everything)
    assert found == {"n2": "n2", "Ice_Bear": "n1", "polar-bear": "n1", "FOX": "n2"}


def test_a_name_of_several_classes_means_the_one_that_is_wanted():
    assert match_folders(["bat"], HIERARCHY, {"n3", "n1"}) == {"bat": "n3"}
    assert match_folders(["bat", "n4"], HIERARCHY, {"n1"}) == {}


def test_a_folder_with_some_of_them_is_right(tmp_path):
    make(tmp_path, "fox", "mouse")
    assert check_folders(tmp_path, HIERARCHY, {"n2"}, "the candidates") == {"fox": "n2"}


@pytest.mark.parametrize(
    ("names", "wanted", "reason"),
    [
        (["n3"], {"n2"}, "1 of them are classes of the hierarchy, but not among the candidates"),
        (["mouse", "rat"], {"n2"}, r"the folders there: mouse, rat. None is the id or the name of a class"),
        (["polar baer"], {"n1"}, "None is the id or the name"),
        (["n22"], {"n2"}, "Did you mean n2"),
        (["val/fox"], {"n2"}, r"Did you mean .*val\?"),
    ],
)
def test_a_wrong_folder_is_refused(names, wanted, reason, tmp_path):
    make(tmp_path, *names)
    with pytest.raises(UnseenError, match=reason):
        check_folders(tmp_path, HIERARCHY, wanted, "the candidates")


def test_photos_are_looked_at_again_only_if_the_folder_changed(tmp_path, folder, network, monkeypatch):
    def read() -> dict:
        return rows(open_features(folder, lambda: network, workers=0, cache=tmp_path / "cache"))

    expected = read()
    looked = watch_reading(monkeypatch)
    assert read().keys() == expected.keys() and looked == []
    picture(folder / "one" / "more.png", 99)
    assert read().keys() == expected.keys() | {"one/more.png"} and looked == ["one/more.png"]


def test_a_damaged_store_in_the_cache_is_made_again(tmp_path, folder, network):
    def read() -> dict:
        return rows(open_features(folder, lambda: network, workers=0, cache=tmp_path / "cache"))

    expected = read()
    for name in ("000000.safetensors", "table.safetensors"):
        (file,) = (tmp_path / "cache").glob(f"*/{name}")
        file.write_bytes(file.read_bytes()[:-1])
        assert read().keys() == expected.keys()
