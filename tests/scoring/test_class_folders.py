"""Folders of photos by id or by name; a wrong one is found before anything is computed."""

from __future__ import annotations

import pytest

from unseen.errors import UnseenError
from unseen.scoring.class_folders import check_folders, match_folders
from unseen.taxonomy import Taxonomy

NAMES = {"n1": ["polar bear", "ice bear"], "n2": "fox", "n3": "bat", "n4": "bat", "n5": "n2"}
TAXONOMY = Taxonomy.from_edges([(id, "n0") for id in NAMES], {"n0": "thing", **NAMES})


def make(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
    return folder


def test_ids_come_before_names():
    everything = set(TAXONOMY.ids)
    found = match_folders(["n2", "Ice_Bear", "polar-bear", "FOX", "bat", "mouse"], TAXONOMY, everything)
    assert found == {"n2": "n2", "Ice_Bear": "n1", "polar-bear": "n1", "FOX": "n2"}


def test_a_name_of_several_classes_means_the_one_that_is_wanted():
    assert match_folders(["bat"], TAXONOMY, {"n3", "n1"}) == {"bat": "n3"}
    assert match_folders(["bat", "n4"], TAXONOMY, {"n1"}) == {}


def test_a_folder_with_some_of_them_is_right(tmp_path):
    make(tmp_path, "fox", "mouse")
    assert check_folders(tmp_path, TAXONOMY, {"n2"}, "the candidates") == {"fox": "n2"}


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
        check_folders(tmp_path, TAXONOMY, wanted, "the candidates")
