"""The photos of a finetuning: folders and shards alike, the same order and crops for the same seed."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.problems import SEEN
from support.tiny_network import SIZE, make_photos, make_shards
from unseen.hierarchy.core import Hierarchy
from unseen.photos.transforms import PhotoTransform
from unseen.training.photos_data import (
    Photos,
    epoch_batches,
    load_batches,
    open_photo_set,
    split_off_validation,
)
from unseen.util.errors import UnseenError


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
    hierarchy = Hierarchy.from_edges([(id, "thing") for id in [*SEEN, "lynx"]], names)
    named = tmp_path / "named"
    shutil.copytree(folder, named)
    (named / SEEN[0]).rename(named / f"The_{SEEN[0]}")
    photos, by_id = open_photo_set(named, SEEN, hierarchy=hierarchy), open_photo_set(folder, SEEN)
    assert sorted(photos.labels) == sorted(by_id.labels)
    assert {SEEN[photos.labels[i]] for i in range(len(photos)) if "The_" in photos.where(i)} == {SEEN[0]}
    (named / "wild cat").mkdir()  # a class of the hierarchy that the network never saw
    with pytest.raises(UnseenError, match="1 classes are not seen classes of this bundle: wild cat"):
        open_photo_set(named, SEEN, hierarchy=hierarchy)


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


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_reported(tmp_path):
    with pytest.raises(UnseenError, match="there is no such folder"):
        open_photo_set(tmp_path / "nowhere", SEEN)
    with pytest.raises(UnseenError, match="has no class folders"):
        open_photo_set(tmp_path, SEEN)
    (tmp_path / "dog").mkdir()
    with pytest.raises(UnseenError, match=r"holds no photo of a seen class\. 1 class folders hold no photo: dog"):
        open_photo_set(tmp_path, SEEN)


def test_unknown_classes_are_named_in_shards_too(folder, tmp_path):
    shards = make_shards(tmp_path / "shards", folder)
    with pytest.raises(UnseenError, match=r"1 classes are not seen.*: tabby\..*skip unknown classes"):
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
    with pytest.raises(UnseenError, match=r"1 photos have no \.cls file beside them, first 'a'"):
        open_photo_set(tmp_path, SEEN)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return open_photo_set(make_photos(tmp_path_factory.mktemp("photos") / "seen", a_class=4), SEEN)


def training(photos, seed=0, epoch=0) -> Photos:
    return Photos(photos, PhotoTransform(SIZE), (seed, epoch))


# -- the batches of an epoch -------------------------------------------------------------------------------------------

PLANS = {
    "photos": st.integers(1, 60),
    "size": st.integers(1, 12),
    "world": st.integers(1, 4),
    "seed": st.integers(0, 9),
    "epoch": st.integers(0, 3),
}


@given(**PLANS)
def test_an_epoch_uses_every_photo(photos, size, world, seed, epoch):
    batches = np.stack([epoch_batches(photos, size, rank, world, seed, epoch) for rank in range(world)])
    assert set(batches.ravel().tolist()) == set(range(photos))
    assert batches.size < photos + size * world


@given(**PLANS)
def test_processes_share_what_one_would_do(photos, size, world, seed, epoch):
    one = epoch_batches(photos, size * world, 0, 1, seed, epoch)
    many = [epoch_batches(photos, size, rank, world, seed, epoch) for rank in range(world)]
    assert np.array_equal(one, np.concatenate(many, axis=1))


# -- the photos ------------------------------------------------------------------------------------------------------


def test_the_same_photo_differs_between_epochs_and_seeds_and_nowhere_else(photos):
    pixels, label, failed = training(photos)[3]
    assert pixels.shape == (3, SIZE, SIZE) and label == photos.labels[3] and not failed
    assert torch.equal(pixels, training(photos)[3][0])
    assert not torch.equal(pixels, training(photos, epoch=1)[3][0])
    assert not torch.equal(pixels, training(photos, seed=1)[3][0])


def test_an_unreadable_photo_gives_its_place_to_the_next(tmp_path):
    folder = make_photos(tmp_path / "seen", a_class=4)
    broken = open_photo_set(folder, SEEN)
    for i in (5, 6):
        broken.read(i).write_bytes(b"")
    pixels, label, failed = training(broken)[5]
    assert torch.equal(pixels, training(broken)[7][0]) and label == broken.labels[7]
    assert list(failed) == [5, 6] and all(broken.where(i) in why for i, why in failed.items())
    broken.read(19).unlink()
    assert torch.equal(training(broken)[19][0], training(broken)[0][0])  # after the last comes the first


def test_evaluation_leaves_unreadable_photos_out(tmp_path):
    photos = open_photo_set(make_photos(tmp_path / "seen", a_class=2), SEEN)
    photos.read(1).write_bytes(b"")
    photos.read(2).write_bytes(b"")
    batches = list(load_batches(Photos(photos, PhotoTransform(SIZE)), 0, batch_size=2))
    assert [len(labels) for _, labels, _ in batches] == [1, 1, 2, 2, 2]
    assert [list(failed) for _, _, failed in batches] == [[1], [2], [], [], []]


# -- validation ------------------------------------------------------------------------------------------------------


def test_validation_takes_a_share_of_each_class_and_never_all_of_one(photos):
    train, aside = split_off_validation(photos, 0.5, seed=0)
    assert np.bincount(aside.labels).tolist() == [2] * 5 and np.bincount(train.labels).tolist() == [2] * 5
    names = [{part.where(i) for i in range(len(part))} for part in (train, aside)]
    assert not names[0] & names[1] and len(names[0] | names[1]) == 20
    train, aside = split_off_validation(photos, 0.99, seed=0)
    assert np.bincount(train.labels).tolist() == [1] * 5
    train, aside = split_off_validation(photos, 0.0, seed=0)
    assert len(train) == 20 and len(aside) == 0
