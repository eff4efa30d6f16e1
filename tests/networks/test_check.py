"""The photo transform is reported and tried on labelled photos, with a warning where another one does better."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from unseen.hierarchy.core import Hierarchy
from unseen.networks.base import Network
from unseen.networks.check import check_photos, describe_check
from unseen.networks.custom import from_module
from unseen.networks.folders import check_folders
from unseen.networks.linear import from_linear
from unseen.photos.by_class import list_by_class
from unseen.photos.transforms import PhotoTransform
from unseen.training.stage1 import train
from unseen.util.errors import UnseenError

# Shades of grey: a network that was trained on mean 0.5 and deviation 0.5 takes bright for dark otherwise.
SHADES = {"black": 10, "dim": 90, "bright": 170, "white": 245}
HIERARCHY = Hierarchy.from_edges([(name, "shade") for name in (*SHADES, "grey")], {"dim": "dim light"})
FOLDERS = {"Dim_Light" if name == "dim" else name: name for name in SHADES}
HALF = PhotoTransform(16, mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for place, level in enumerate(SHADES.values()):
        where = folder / list(FOLDERS)[place]
        where.mkdir()
        for number in range(12):
            rng = np.random.default_rng([place, number])
            pixels = np.clip(level + rng.normal(0, 5, (24, 30, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(where / f"{number:02d}.png")
    return folder


def by_class(folder, folders=FOLDERS):
    listing = list_by_class(folder)
    return {id: [item.source for item in listing.items({name})] for name, id in folders.items()}


def make_network(transform: PhotoTransform | None = None) -> Network:
    """Its class is the shade nearest to a photo's mean, in the units of HALF."""
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4))
    centres = (torch.tensor(list(SHADES.values())) / 255 - 0.5) / 0.5
    net[2].weight.data = 40 * centres[:, None].repeat(1, 3) / 3
    net[2].bias.data = -20 * centres**2
    return from_module(net, list(SHADES), transform)


def test_the_right_transform_needs_no_word(photos):
    check = check_photos(make_network(HALF), by_class(photos))
    assert (check["photos"], check["classes"], check["accuracy"], check["unreadable"]) == (48, 4, 100.0, 0)
    (line,) = describe_check(check)
    assert "On 48 photos of 4 seen classes the network is right for 100.0 %" in line


def test_classes_in_a_wrong_order_are_warned_of(photos):
    right = make_network(HALF)
    check = check_photos(from_module(right.module, list(SHADES)[::-1], HALF), by_class(photos))
    assert check["accuracy"] == 0 and "far below what it should have" in describe_check(check)[1]


def test_what_cannot_be_read_is_counted(photos, tmp_path):
    (tmp_path / "white").mkdir()
    (tmp_path / "white" / "notes.jpg").write_text("hello")
    with pytest.raises(UnseenError, match="No photo of a class that the network knows can be read"):
        check_photos(make_network(HALF), by_class(tmp_path, {"white": "white"}))
    Image.new("RGB", (20, 20), "white").save(tmp_path / "white" / "1.png")
    check = check_photos(make_network(HALF), by_class(tmp_path, {"white": "white"}))
    assert check["unreadable"] == 1 and "1 of the photos could not be read." in describe_check(check)[1]


def test_photos_of_other_classes_are_refused(tmp_path):
    (tmp_path / "grey").mkdir()
    with pytest.raises(UnseenError, match=r"1 of them are classes of .* not among the network's classes"):
        check_folders(tmp_path, HIERARCHY, set(SHADES), "the network's classes")
    with pytest.raises(UnseenError, match="takes features, no photos"):
        check_photos(from_linear(np.eye(4), None, list(SHADES)), {"white": []})


def test_an_assumption_is_a_warning(caplog):
    caplog.set_level("INFO", "unseen")
    train(HIERARCHY, make_network(), "structural", "glove")
    train(HIERARCHY, make_network(HALF), "structural", "glove")
    assumed, known = (record for record in caplog.records if record.message.startswith("Photos: "))
    assert assumed.levelname == "WARNING" and "This is an assumption" in assumed.message
    assert known.levelname == "INFO" and known.message == (
        "Photos: short side to 18 px (bicubic), centre 16 x 16, mean 0.5, deviation 0.5."
    )
