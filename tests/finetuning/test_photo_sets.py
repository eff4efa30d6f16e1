"""Folders and shards of photos to train on."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from support.problems import SEEN
from support.tiny_network import make_photos, make_shards
from unseen.errors import UnseenError
from unseen.finetuning.photo_sets import open_photo_set
from unseen.taxonomy import Taxonomy


def content(photos, i: int) -> bytes:
    source = photos.read(i)
    return source.read_bytes() if isinstance(source, Path) else source


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos") / "seen", a_class=3)


def test_a_folder_lists_every_photo_with_its_class(folder):
    photos = open_photo_set(folder, SEEN)
    files = sorted(folder.glob("*/*"))
    assert [photos.read(i) for i in range(len(photos))] == files
    assert [SEEN[label] for label in photos.labels] == [file.parent.name for file in files]
    assert photos.where(4) == str(files[4])


def test_folders_may_bear_the_names_of_classes(folder, tmp_path):
    names = {id: f"the {id}" for id in SEEN[:2]} | {"lynx": "wild cat"}
    taxonomy = Taxonomy.from_edges([(id, "thing") for id in [*SEEN, "lynx"]], names)
    named = tmp_path / "named"
    shutil.copytree(folder, named)
    (named / SEEN[0]).rename(named / f"The_{SEEN[0]}")
    photos, by_id = open_photo_set(named, SEEN, taxonomy=taxonomy), open_photo_set(folder, SEEN)
    assert sorted(photos.labels) == sorted(by_id.labels)
    assert {SEEN[photos.labels[i]] for i in range(len(photos)) if "The_" in photos.name(i)} == {SEEN[0]}
    (named / "wild cat").mkdir()  # a class of the hierarchy that the network never saw
    with pytest.raises(UnseenError, match="1 classes are not seen classes of this bundle: wild cat"):
        open_photo_set(named, SEEN, taxonomy=taxonomy)


@pytest.mark.parametrize("numbers", [False, True])
def test_shards_hold_the_same_photos_in_the_same_order(folder, tmp_path, numbers):
    shards = open_photo_set(make_shards(tmp_path / "shards", folder, 2, numbers), SEEN)
    photos = open_photo_set(folder, SEEN)
    assert [content(shards, i) for i in range(15)] == [content(photos, i) for i in range(15)]
    assert shards.labels.tolist() == photos.labels.tolist()
    assert "0001.tar at byte" in shards.where(14)


def test_numbers_in_shards_count_the_order_given(folder, tmp_path):
    """A network with one class more than the bundle: its numbers are not positions among the bundle's classes."""
    order = ["lynx", *SEEN]
    shards = make_shards(tmp_path / "shards", folder, numbers=True)
    with pytest.raises(UnseenError, match="1 classes are not seen classes of this bundle: lynx"):
        open_photo_set(shards, SEEN, order=order)
    shifted = open_photo_set(shards, SEEN, skip_unknown=True, order=order)
    right = open_photo_set(folder, SEEN)
    first = right.labels == 0
    assert shifted.labels.tolist() == (right.labels[~first] - 1).tolist()


def test_a_subset_keeps_names_places_and_classes(folder, tmp_path):
    for photos in (open_photo_set(folder, SEEN), open_photo_set(make_shards(tmp_path / "s", folder), SEEN)):
        chosen = np.array([7, 2, 11])
        part = photos.subset(chosen)
        assert [content(part, i) for i in range(3)] == [content(photos, i) for i in chosen]
        assert part.labels.tolist() == photos.labels[chosen].tolist()
    assert len(photos.subset(np.zeros(0, np.int64))) == 0


def test_the_digest_tells_lists_apart(folder, tmp_path):
    photos = open_photo_set(folder, SEEN)
    same = make_photos(tmp_path / "elsewhere", a_class=3)
    assert open_photo_set(same, SEEN).digest() == photos.digest()
    (same / "dog" / "00.png").rename(same / "dog" / "0.png")
    assert open_photo_set(same, SEEN).digest() != photos.digest()
    assert open_photo_set(folder, SEEN[::-1]).digest() != photos.digest()


def test_names_that_are_not_utf8_are_read(folder, tmp_path):
    os.makedirs(tmp_path / "photos" / "dog")
    name = os.fsdecode(b"caf\xe9.png")
    (tmp_path / "photos" / "dog" / name).write_bytes(b"pixels")
    photos = open_photo_set(tmp_path / "photos", SEEN)
    assert content(photos, 0) == b"pixels"
    assert content(photos.subset(np.array([0])), 0) == b"pixels"


def test_a_million_photos_stay_packed():
    """The columns of 1.28 million photos, with names as long as ImageNet's, in less than 100 MB."""
    from unseen.finetuning.photo_sets import _Table

    table = _Table(Path("imagenet"))
    for i in range(1000):
        table.add(f"n01440764/n01440764_{i:05d}.JPEG", 0, 0, 0)
    photos = table.photo_set()
    held = len(photos.names) + sum(
        column.nbytes for column in (photos.name_ends, photos.offsets, photos.sizes, photos.labels)
    )
    assert held / 1000 * 1.28e6 < 100e6


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(UnseenError, match="there is no such folder"):
        open_photo_set(tmp_path / "nowhere", SEEN)
    with pytest.raises(UnseenError, match="has no class folders"):
        open_photo_set(tmp_path, SEEN)
    (tmp_path / "dog").mkdir()
    with pytest.raises(UnseenError, match=r"holds no photo of a seen class\. 1 class folders hold no photo: dog"):
        open_photo_set(tmp_path, SEEN)


def test_unknown_classes_are_named_in_shards_too(folder, tmp_path):
    shards = make_shards(tmp_path / "shards", folder)
    with pytest.raises(UnseenError, match=r"1 classes are not seen.*: tabby\..*skip_unknown=True"):
        open_photo_set(shards, [id for id in SEEN if id != "tabby"])
    photos = open_photo_set(shards, [id for id in SEEN if id != "tabby"], skip_unknown=True)
    assert len(photos) == 12 and photos.skipped_classes == ("tabby",)


def test_a_damaged_shard_is_named(tmp_path):
    (tmp_path / "0000.tar").write_bytes(b"no tar at all")
    with pytest.raises(UnseenError, match=r"0000\.tar: cannot be read as an uncompressed tar file"):
        open_photo_set(tmp_path, SEEN)


def test_a_photo_without_its_class_is_named(folder, tmp_path):
    with tarfile.open(tmp_path / "0000.tar", "w") as tar:
        tar.add(folder / "dog" / "00.png", "a.png")
    with pytest.raises(UnseenError, match=r"1 photos have no \.cls file beside them, 'a' the first"):
        open_photo_set(tmp_path, SEEN)
