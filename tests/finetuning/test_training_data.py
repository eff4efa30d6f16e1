"""Which photo comes when, and what chance makes of it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.problems import SEEN
from support.tiny_network import SIZE, make_photos
from unseen.backbones import PhotoTransform
from unseen.finetuning.photo_sets import open_photo_set
from unseen.finetuning.training_data import (
    BatchPlan,
    EvaluationPhotos,
    TrainingPhotos,
    collate,
    load_batches,
    split_off_validation,
)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return open_photo_set(make_photos(tmp_path_factory.mktemp("photos") / "seen", a_class=4), SEEN)


def training(photos, seed=0) -> TrainingPhotos:
    return TrainingPhotos(photos, PhotoTransform(SIZE).for_training(), seed)


# -- the plan --------------------------------------------------------------------------------------------------------

PLANS = {
    "photos": st.integers(1, 60),
    "size": st.integers(1, 12),
    "world": st.integers(1, 4),
    "seed": st.integers(0, 9),
}


@given(**PLANS, epoch=st.integers(0, 3))
def test_an_epoch_uses_every_photo(photos, size, world, seed, epoch):
    plans = [BatchPlan(photos, size, rank, world, seed) for rank in range(world)]
    steps = plans[0].steps
    used = [i for plan in plans for batch in plan.batches(epoch * steps, (epoch + 1) * steps) for _, i in batch]
    assert set(used) == set(range(photos))
    assert len(used) == steps * size * world < photos + size * world


@given(**PLANS)
def test_processes_share_what_one_would_do(photos, size, world, seed):
    one = BatchPlan(photos, size * world, 0, 1, seed).batches(0, 4)
    many = [BatchPlan(photos, size, rank, world, seed).batches(0, 4) for rank in range(world)]
    for whole, *parts in zip(one, *many, strict=True):
        assert whole == [key for part in parts for key in part]


@given(**PLANS, first=st.integers(0, 20))
def test_a_plan_goes_on_anywhere(photos, size, world, seed, first):
    plan = BatchPlan(photos, size, 0, world, seed)
    assert list(plan.batches(first, 25)) == list(islice(plan.batches(0, 25), first, None))


def test_epochs_and_seeds_differ():
    plan = BatchPlan(50, 10, 0, 1, seed=0)
    orders = [plan.order(0), plan.order(1), BatchPlan(50, 10, 0, 1, seed=1).order(0)]
    assert len({tuple(order) for order in orders}) == 3


# -- the photos ------------------------------------------------------------------------------------------------------


def test_the_same_photo_differs_between_epochs_and_seeds_and_nowhere_else(photos):
    pixels, label, failed = training(photos)[0, 3]
    assert pixels.shape == (3, SIZE, SIZE) and label == photos.labels[3] and not failed
    assert torch.equal(pixels, training(photos)[0, 3][0])
    assert not torch.equal(pixels, training(photos)[1, 3][0])
    assert not torch.equal(pixels, training(photos, seed=1)[0, 3][0])


def test_an_unreadable_photo_gives_its_place_to_the_next(tmp_path):
    folder = make_photos(tmp_path / "seen", a_class=4)
    broken = open_photo_set(folder, SEEN)
    for i in (5, 6):
        broken.read(i).write_bytes(b"")
    pixels, label, failed = training(broken)[0, 5]
    assert torch.equal(pixels, training(broken)[0, 7][0]) and label == broken.labels[7]
    assert list(failed) == [5, 6] and all(broken.where(i) in why for i, why in failed.items())
    broken.read(19).unlink()
    assert torch.equal(training(broken)[0, 19][0], training(broken)[0, 0][0])  # after the last comes the first


def test_evaluation_leaves_unreadable_photos_out(tmp_path):
    photos = open_photo_set(make_photos(tmp_path / "seen", a_class=2), SEEN)
    photos.read(1).write_bytes(b"")
    photos.read(2).write_bytes(b"")
    batches = list(load_batches(EvaluationPhotos(photos, PhotoTransform(SIZE)), 0, batch_size=2))
    assert [len(labels) for _, labels, _ in batches] == [1, 1, 2, 2, 2]
    assert [list(failed) for _, _, failed in batches] == [[1], [2], [], [], []]


def test_a_batch_of_nothing_has_no_pixels():
    pixels, labels, failed = collate([(None, -1, {3: "why"}), (None, -1, {4: "also"})])
    assert pixels is None and len(labels) == 0 and failed == {3: "why", 4: "also"}


# -- validation ------------------------------------------------------------------------------------------------------


def test_validation_takes_a_share_of_each_class_and_never_all_of_one(photos):
    train, aside = split_off_validation(photos, 0.5, seed=0)
    assert np.bincount(aside.labels).tolist() == [2] * 5 and np.bincount(train.labels).tolist() == [2] * 5
    names = [{part.name(i) for i in range(len(part))} for part in (train, aside)]
    assert not names[0] & names[1] and len(names[0] | names[1]) == 20
    train, aside = split_off_validation(photos, 0.99, seed=0)
    assert np.bincount(train.labels).tolist() == [1] * 5
    train, aside = split_off_validation(photos, 0.0, seed=0)
    assert len(train) == 20 and len(aside) == 0


def test_validation_depends_on_the_seed_alone(photos):
    parts = [split_off_validation(photos, 0.25, seed)[1] for seed in (0, 0, 1)]
    assert parts[0].digest() == parts[1].digest() != parts[2].digest()
