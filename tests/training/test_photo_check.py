"""The photo transform is told, tried on labelled photos, and warned of where another one does better."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from unseen.backbones import Backbone, PhotoTransform, from_linear, from_module
from unseen.errors import UnseenError
from unseen.taxonomy import Taxonomy
from unseen.training.photo_check import check_photos, describe_check, describe_photos, is_low
from unseen.training.stage1 import train

# Shades of grey: a network that was trained on mean 0.5 and deviation 0.5 takes bright for dark otherwise.
SHADES = {"black": 10, "dim": 90, "bright": 170, "white": 245}
TAXONOMY = Taxonomy.from_edges([(name, "shade") for name in (*SHADES, "grey")], {"dim": "dim light"})
HALF = PhotoTransform(16, mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for place, (name, level) in enumerate(SHADES.items()):
        where = folder / ("Dim_Light" if name == "dim" else name)
        where.mkdir()
        for number in range(12):
            rng = np.random.default_rng([place, number])
            pixels = np.clip(level + rng.normal(0, 5, (24, 30, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(where / f"{number:02d}.png")
    return folder


def network(transform: PhotoTransform | None = None) -> Backbone:
    """Its class is the shade nearest to a photo's mean, in the units of HALF."""
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4))
    centres = (torch.tensor(list(SHADES.values())) / 255 - 0.5) / 0.5
    net[2].weight.data = 40 * centres[:, None].repeat(1, 3) / 3
    net[2].bias.data = -20 * centres**2
    return from_module(net, list(SHADES), transform)


def test_the_right_transform_needs_no_word(photos):
    found = check_photos(network(HALF), photos, TAXONOMY)
    assert (found.photos, found.classes, found.accuracy, found.unreadable) == (48, 4, 100.0, 0)
    assert found.better is None and not is_low(found)
    (line,) = describe_check(found)
    assert "On 48 photos of 4 seen classes the network is right for 100.0 %" in line


def test_a_wrong_assumption_is_found(photos):
    backbone = network()
    assert backbone.transform_assumed and "This is an assumption" in describe_photos(backbone)
    found = check_photos(backbone, photos, TAXONOMY)
    assert found.accuracy < 90 and found.better_accuracy == 100.0
    assert PhotoTransform(**found.better) == PhotoTransform(224, mean=(0.5,) * 3, std=(0.5,) * 3)
    assert "warning: with mean 0.5 and deviation 0.5 it is right for 100.0 %" in describe_check(found)[1]


def test_classes_in_a_wrong_order_are_warned_of(photos):
    right = network(HALF)
    wrong = from_module(right.module, list(SHADES)[::-1], HALF)
    found = check_photos(wrong, photos, TAXONOMY)
    assert found.accuracy == 0 and found.better is None and is_low(found)
    assert "far below what it should have" in describe_check(found)[1]


def test_few_photos_of_every_class_are_enough(photos):
    found = check_photos(network(HALF), photos, TAXONOMY, most=8)
    assert (found.photos, found.classes) == (8, 4)


def test_what_cannot_be_read_is_counted(photos, tmp_path):
    (tmp_path / "white").mkdir()
    (tmp_path / "white" / "notes.txt").write_text("hello")
    with pytest.raises(UnseenError, match="no readable photo"):
        check_photos(network(HALF), tmp_path, TAXONOMY)
    Image.new("RGB", (20, 20), "white").save(tmp_path / "white" / "1.png")
    found = check_photos(network(HALF), tmp_path, TAXONOMY)
    assert found.unreadable == 1 and "1 of the photos could not be read." in describe_check(found)[-1]


def test_photos_of_other_classes_are_refused(tmp_path):
    (tmp_path / "grey").mkdir()
    with pytest.raises(UnseenError, match=r"1 of them are classes of .* not among the network's classes"):
        check_photos(network(HALF), tmp_path, TAXONOMY)
    with pytest.raises(UnseenError, match="omit check_photos"):
        check_photos(from_linear(np.eye(4), None, list(SHADES)), tmp_path, TAXONOMY)


def test_training_tells_and_keeps_it(photos, tmp_path):
    told = []
    bundle = train("structural", TAXONOMY, "glove", network(HALF), check_photos=photos, say=told.append)
    assert told[0] == "Photos: short side to 18 px (bicubic), centre 16 x 16, mean 0.5, deviation 0.5."
    assert "right for 100.0 %" in told[1]
    bundle.save(tmp_path / "bundle")
    assert type(bundle).load(tmp_path / "bundle").training.photo_check.accuracy == 100.0


def test_an_assumption_is_never_silent():
    with pytest.warns(UserWarning, match="mean 0.485 0.456 0.406.*This is an assumption"):
        train("structural", TAXONOMY, "glove", network())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train("structural", TAXONOMY, "glove", network(HALF))
