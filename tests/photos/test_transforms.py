"""The photo transforms against the plain way of doing the same."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from unseen.photos.transforms import PhotoTransform, TrainingTransform
from unseen.util.errors import UnseenError


def noise(width: int, height: int) -> Image.Image:
    """Smooth noise, as photos are: on white noise every rounding of a filter shows."""
    small = np.random.default_rng(0).integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def plain(image: Image.Image, resize: int, size: int, interpolation: Image.Resampling) -> np.ndarray:
    """Resize the whole photo, then cut out the centre: 3 x size x size, 0..255."""
    width, height = image.size
    if width <= height:
        width, height = resize, int(resize * height / width)
    else:
        width, height = int(resize * width / height), resize
    image = image.resize((width, height), interpolation)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.asarray(image.crop((left, top, left + size, top + size)), np.float64).transpose(2, 0, 1)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("shape", [(500, 375), (375, 500), (256, 256), (100, 90), (901, 257), (224, 224), (30, 700)])
def test_it_equals_resize_then_crop(shape, interpolation):
    image = noise(*shape)
    transform = PhotoTransform(224, resize=256, mean=(0, 0, 0), std=(1, 1, 1), interpolation=interpolation)
    made = transform(image).numpy() * 255
    expected = plain(image, 256, 224, Image.Resampling[interpolation.upper()])
    assert made.shape == (3, 224, 224) and made.dtype == np.float32
    apart = np.abs(made - expected)  # Pillow keeps boxes in single precision, and rounds to whole levels twice
    assert apart.max() <= 2.01 and apart.mean() < 0.2


def test_normalisation_by_channel():
    image = Image.new("RGB", (50, 50), (255, 127, 0))
    made = PhotoTransform(8, mean=(0.5, 127 / 255, 0.25), std=(0.5, 0.1, 0.125))(image)
    assert made.mean((1, 2)).tolist() == pytest.approx([1.0, 0.0, -2.0], abs=1e-6)


def test_squash_shows_the_whole_photo():
    pixels = np.zeros((20, 100, 3), np.uint8)
    pixels[:, :10] = 255  # a white stripe that a centre crop would cut off
    image = Image.fromarray(pixels)
    options = {"resize": 20, "mean": (0, 0, 0), "std": (1, 1, 1), "interpolation": "bilinear"}
    assert PhotoTransform(20, **options, squash=True)(image)[:, :, 0].mean() > 0.9
    assert PhotoTransform(20, **options)(image).max() == 0


def test_a_strip_of_one_pixel_costs_no_memory():
    assert PhotoTransform(224)(Image.new("RGB", (60_000, 1))).shape == (3, 224, 224)


def test_it_pickles_compares_and_goes_to_json():
    transform = PhotoTransform(240, resize=272, mean=(0.1, 0.2, 0.3))
    assert pickle.loads(pickle.dumps(transform)) == transform
    assert PhotoTransform(**json.loads(json.dumps(transform.to_dict()))) == transform
    assert hash(transform) == hash(PhotoTransform(240, resize=272, mean=[0.1, 0.2, 0.3]))


def test_open_reads_and_transforms(tmp_path):
    noise(300, 200).save(tmp_path / "photo.png")
    transform = PhotoTransform(96)
    assert torch.equal(transform.open(tmp_path / "photo.png"), transform(Image.open(tmp_path / "photo.png")))


def test_impossible_settings_are_refused():
    for settings, reason in (
        ({"size": 0}, "positive size"),
        ({"size": 224, "resize": 200}, "must not be shorter"),
        ({"size": 224, "interpolation": "magic"}, "bicubic"),
        ({"size": 224, "std": (0, 1, 1)}, "deviations"),
    ):
        with pytest.raises(UnseenError, match=reason):
            PhotoTransform(**settings)


def test_training_is_reproducible_and_random():
    image, transform = noise(300, 200), PhotoTransform(64).for_training()
    first, again = (transform(image, np.random.default_rng(5)) for _ in range(2))
    assert first.shape == (3, 64, 64) and torch.equal(first, again)
    rng = np.random.default_rng(5)
    assert not torch.equal(transform(image, rng), transform(image, rng))


def test_training_crops_keep_their_bounds():
    transform, rng = TrainingTransform(64), np.random.default_rng(0)
    shares, ratios = [], []
    for _ in range(500):
        left, top, right, bottom = transform._box(300, 200, rng)
        assert 0 <= left < right <= 300 and 0 <= top < bottom <= 200
        shares.append((right - left) * (bottom - top) / 60_000)
        ratios.append((right - left) / (bottom - top))
    assert 0.07 < min(shares) < 0.12 and 0.85 < max(shares) <= 1.0
    assert 0.73 < min(ratios) < 0.8 and 1.25 < max(ratios) < 1.36
    for width, height in ((1, 1), (1000, 3), (3, 1000)):
        left, top, right, bottom = transform._box(width, height, rng)
        assert 0 <= left < right <= width and 0 <= top < bottom <= height


def test_half_of_the_training_photos_are_mirrored():
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:, 16:] = 255
    whole = TrainingTransform(32, scale=(1, 1), ratio=(1, 1), mean=(0, 0, 0), std=(1, 1, 1))
    rng = np.random.default_rng(0)
    mirrored = [bool(whole(Image.fromarray(pixels), rng)[0, 16, 0] > 0.5) for _ in range(200)]
    assert 70 < sum(mirrored) < 130
