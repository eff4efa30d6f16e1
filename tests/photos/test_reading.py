"""Photos in every shape that a user's folder may hold, good and bad."""

from __future__ import annotations

import io
import os
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from unseen.photos import read_photo
from unseen.util.errors import UnseenError


def gradient(height: int = 40, width: int = 60) -> np.ndarray:
    """A picture whose corners all differ: red grows to the right, green downwards."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return np.stack([x, y, 255 - x], axis=2).astype(np.uint8)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def close(image: Image.Image, expected: np.ndarray, within: float = 2) -> bool:
    assert image.mode == "RGB"
    return bool(np.abs(np.asarray(image, np.float64) - expected).max() <= within)


@pytest.mark.parametrize(
    "form", ["path", "text path", "bytes", "file", "PIL", "array", "float array", "tensor", "float tensor"]
)
def test_every_source_gives_the_same_picture(form, tmp_path):
    pixels = gradient()
    picture = Image.fromarray(pixels)
    path = tmp_path / "фото ü.png"
    picture.save(path)
    source = {
        "path": path,
        "text path": str(path),
        "bytes": path.read_bytes(),
        "file": io.BytesIO(path.read_bytes()),
        "PIL": picture,
        "array": pixels,
        "float array": pixels / 255,
        "tensor": torch.from_numpy(pixels).permute(2, 0, 1),
        "float tensor": torch.from_numpy(pixels).permute(2, 0, 1) / 255,
    }[form]
    assert close(read_photo(source), pixels, within=0)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])  # Pillow itself turns a TIFF
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_honoured_and_only_once(orientation, kind):
    upright = gradient()
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright),  # the camera says: turn me 90 degrees clockwise
        7: np.rot90(upright, 2).transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(np.ascontiguousarray(stored)), kind, exif=exif)
    photo = read_photo(data)
    assert close(photo, upright, within=0)
    assert close(read_photo(photo), upright, within=0)
    assert close(read_photo(Image.open(io.BytesIO(data))), upright, within=0)


def test_damaged_metadata_do_not_hide_the_pixels():
    data = encoded(Image.fromarray(gradient()), "JPEG", quality=95, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff broken")
    assert read_photo(data).size == (60, 40)


def test_a_picture_that_is_given_stays_as_it_is():
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.open(io.BytesIO(encoded(Image.fromarray(gradient()), "PNG", exif=exif)))
    assert read_photo(picture).size == (40, 60)
    assert picture.size == (60, 40) and picture.getexif()[0x0112] == 6 and picture.info


@pytest.mark.parametrize("mode", ["L", "1", "CMYK", "YCbCr", "HSV"])
def test_colour_modes(mode):
    picture = Image.fromarray(gradient()).convert(mode)
    kind = {"L": "JPEG", "1": "PNG", "CMYK": "JPEG", "YCbCr": "JPEG", "HSV": None}[mode]
    source = picture if kind is None else encoded(picture, kind, **({"quality": 100} if kind == "JPEG" else {}))
    assert close(read_photo(source), np.asarray(picture.convert("RGB"), np.float64), within=8)


def test_transparent_pixels_become_white():
    colour = np.zeros((4, 4, 4), np.uint8)
    colour[:2, :, 0], colour[:2, :, 3] = 255, 255  # the upper half red, the lower half black and transparent
    expected = np.full((4, 4, 3), 255)
    expected[:2, :, 1:] = 0
    picture = Image.fromarray(colour)
    assert close(read_photo(encoded(picture, "PNG")), expected, within=0)
    assert close(read_photo(colour), expected, within=0)
    palette = Image.fromarray((colour[:, :, 0] > 0).astype(np.uint8)).convert("P")
    palette.putpalette([0, 0, 0, 255, 0, 0])
    assert close(read_photo(encoded(palette, "PNG", transparency=0)), expected, within=0)
    assert close(read_photo(encoded(palette, "GIF", transparency=0)), expected, within=0)
    half = Image.merge("LA", [Image.new("L", (1, 1), 0), Image.new("L", (1, 1), 128)])
    assert close(read_photo(half), np.full((1, 1, 3), 127), within=1)


def png_of_16_bits(pixels: np.ndarray) -> bytes:
    """A PNG of 16-bit RGB, which Pillow reads but does not write."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_16_bits_are_scaled_to_8():
    grey = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    expected = np.repeat((grey / 257)[:, :, None], 3, axis=2)
    assert close(read_photo(encoded(Image.fromarray(grey), "PNG")), expected, within=0.51)
    assert close(read_photo(grey), expected, within=0.51)
    assert close(read_photo(Image.fromarray(grey.astype(np.int32))), expected, within=0.51)
    colour = np.stack([grey, grey[::-1], grey.T], axis=2)
    assert close(read_photo(png_of_16_bits(colour)), colour / 257, within=1)


def test_an_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert close(read_photo(data), np.full((8, 8, 3), [255, 0, 0]), within=0)


def test_a_large_jpeg_is_decoded_at_reduced_scale_only_where_that_is_asked_for():
    data = encoded(Image.fromarray(gradient(1200, 1600)), "JPEG", quality=90)
    assert read_photo(data).size == (1600, 1200)
    reduced = read_photo(data, short_side=256)
    assert reduced.size == (800, 600)  # never below twice what is wanted
    exact = np.asarray(read_photo(data).resize((800, 600), Image.Resampling.BOX), np.float64)
    assert close(reduced, exact, within=4)
    assert read_photo(data, short_side=1000).size == (1600, 1200)


def test_unreadable_files_say_why(tmp_path):
    jpeg = encoded(Image.fromarray(gradient(200, 300)), "JPEG")
    (tmp_path / "cut.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    (tmp_path / "zero.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("not a photo at all\n")
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "nowhere.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    reasons = {
        "cut.jpg": "truncated",
        "zero.jpg": "empty",
        "text.jpg": "not a picture",
        "folder.jpg": "is a folder",
        "loop.jpg": "symbolic links",
        "broken.jpg": "No such file",
        "missing.jpg": "No such file",
        "pipe.jpg": "not a regular file",
        "\0.jpg": "null",
    }
    for name, reason in reasons.items():
        with pytest.raises(UnseenError, match=reason) as caught:
            read_photo(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (np.zeros((3, 4, 5)), "not \\(3, 4, 5\\)"),
        (np.zeros((0, 4, 3), np.uint8), "not \\(0, 4, 3\\)"),
        (np.full((4, 4, 3), 200.0), "within 0..1"),
        (np.full((4, 4, 3), np.nan), "within 0..1"),
        (np.full((4, 4), -1), "within 0..255"),
        (np.full((4, 4), "x"), "not understood"),
        (torch.zeros(5, 4, 3), "3 x height x width"),
        (torch.zeros(2, 3, 4, 4), "3 x height x width"),
        (io.StringIO("text"), "mode 'rb'"),
        ("https://example.org/photo.jpg", "Download"),
        (b"", "empty"),
        (7, "not int"),
        (None, "not NoneType"),
        (Image.new("RGB", (0, 5)), "no pixels"),
    ],
)
def test_unusable_sources_say_why(source, reason):
    with pytest.raises(UnseenError, match=reason):
        read_photo(source)
