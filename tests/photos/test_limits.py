"""Photos that cost more to decode than their size suggests are refused before they are decoded."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unseen.photos import FORMATS, UnreadablePhoto, read_photo
from unseen.photos.limits import MAX_SCANS, _count_scans


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def refusal(source, **options) -> str:
    with pytest.raises(UnreadablePhoto) as caught:
        read_photo(source, **options)
    return str(caught.value)


def black_png(width: int, height: int, colour_type: int = 0) -> bytes:
    """Any number of pixels in a few kB: rows of zeros, compressed bit by bit so that making it costs nothing either."""
    channels = {0: 1, 2: 3, 6: 4}[colour_type]
    packer, row = zlib.compressobj(1), bytes(1 + channels * width)
    body = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def icon_of(png: bytes) -> bytes:
    """An icon whose directory says 256 x 256, whatever is in it."""
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 32, len(png), 22) + png


# -- formats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "JPEG2000", "PPM", "ICO", "PCX", "TGA"])
def test_formats_that_are_read(kind):
    assert kind in FORMATS
    assert read_photo(encoded(Image.new("RGB", (32, 32), "teal"), kind)).size == (32, 32)


@pytest.mark.parametrize("kind", ["EPS", "DDS", "SGI", "ICNS"])
def test_other_formats_are_not(kind):
    message = refusal(encoded(Image.new("RGB", (32, 32), "teal"), kind))
    assert f"is {kind}, which is not read. Save it as PNG or JPEG." in message


# -- pixels --------------------------------------------------------------------------------------------------------


def test_an_icon_is_no_way_around_the_limit():
    """Pillow decodes an icon while it opens it: the limit must hold by then."""
    bomb, started = icon_of(black_png(6000, 6000)), time.process_time()
    assert len(bomb) < 200_000
    assert "36,000,000 pixels are more than the limit of 1,048,576" in refusal(bomb)
    assert time.process_time() - started < 0.1  # decoding it takes longer
    assert read_photo(icon_of(black_png(300, 300))).size == (300, 300)
    assert "more than the limit of 10,000" in refusal(icon_of(black_png(300, 300)), max_pixels=10_000)


def test_formats_whose_decoders_need_more_may_have_fewer_pixels():
    picture = Image.new("RGB", (400, 300))
    for kind in ("WEBP", "JPEG2000"):
        message = refusal(encoded(picture, kind), max_pixels=200_000)
        assert f"400 x 300 pixels of this {kind} file need" in message and "limit of 0 MB" in message
        assert read_photo(encoded(picture, kind), max_pixels=1_000_000).size == (400, 300)
    assert read_photo(encoded(picture, "PNG"), max_pixels=120_000).size == (400, 300)
    assert read_photo(encoded(picture, "JPEG"), max_pixels=120_000).size == (400, 300)
    assert "need 0 MB" in refusal(encoded(picture, "JPEG", progressive=True), max_pixels=120_000)


# -- memory --------------------------------------------------------------------------------------------------------

PEAK = """
import sys
from pathlib import Path
from PIL import Image
from unseen.photos import PhotoTransform

def peak():  # of this process, since it was last reset; what getrusage tells is its parent's too
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1000

Image.init()
transform = PhotoTransform(224)
transform(Image.new("RGB", (300, 300)))
for name in sys.argv[1:]:
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    assert transform.open(name, max_pixels=16_000_000).shape == (3, 224, 224)
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is read from /proc")
def test_memory_stays_within_four_bytes_a_pixel(tmp_path, monkeypatch):
    """As many pixels as are allowed, in every mode: 64 MB, and a little for decoder and file."""
    monkeypatch.chdir(tmp_path)
    for mode, colour_type in (("L", 0), ("RGB", 2), ("RGBA", 6)):
        Path(f"{mode}.png").write_bytes(black_png(4000, 4000, colour_type))
    large, exif = Image.new("RGB", (4000, 4000), "teal"), Image.Exif()
    exif[0x0112] = 6
    large.save("turned.png", exif=exif, compress_level=1)
    large.save("baseline.jpg")
    large.save("progressive.jpg", progressive=True)
    names = sorted(str(path) for path in Path().iterdir())
    done = subprocess.run([sys.executable, "-c", PEAK, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    peaks = dict(zip(names, map(float, done.stdout.split()), strict=True))
    assert len(peaks) == 6 and max(peaks.values()) < 64 + 16, peaks


def test_a_large_photo_that_is_converted_is_reduced_like_a_jpeg():
    x, y = np.meshgrid(np.linspace(0, 255, 400), np.linspace(0, 255, 301))
    pixels = np.stack([x, y, 255 - x, np.full_like(x, 128)], axis=2).astype(np.uint8)
    see_through = Image.fromarray(pixels)
    whole = read_photo(encoded(see_through, "PNG", compress_level=1))
    small = read_photo(encoded(see_through, "PNG", compress_level=1), short_side=64)
    assert whole.size == (400, 301) and small.size == (200, 151)
    np.testing.assert_array_equal(np.asarray(small), np.asarray(whole.reduce(2)))  # the seams of strips do not show
    for mode in ("L", "P", "LA", "CMYK", "I;16"):
        picture = see_through.convert("RGB").convert("L").convert(mode)
        reduced = read_photo(encoded(picture, "TIFF" if mode == "CMYK" else "PNG"), short_side=64)
        assert reduced.size == (200, 151)
        np.testing.assert_array_equal(np.asarray(reduced), np.asarray(read_photo(picture).reduce(2)))
    opaque = read_photo(encoded(see_through.convert("RGB"), "PNG", compress_level=1), short_side=64)
    assert opaque.size == (400, 301)  # what is RGB already is taken as it is


# -- scans ---------------------------------------------------------------------------------------------------------


def with_scans(count: int, side: int = 64) -> bytes:
    """A progressive JPEG whose last scan is repeated: decoders go through each of them."""
    whole = encoded(Image.new("RGB", (side, side), "grey"), "JPEG", progressive=True)
    usual = whole.count(b"\xff\xda")
    return whole[:-2] + whole[whole.rfind(b"\xff\xda") : -2] * (count - usual) + whole[-2:]


def test_a_jpeg_of_thousands_of_scans_is_refused():
    assert read_photo(with_scans(MAX_SCANS)).size == (64, 64)
    bomb, started = with_scans(20_000, 1000), time.process_time()
    assert "has more than 100 scans, the limit for its size" in refusal(bomb)
    assert time.process_time() - started < 1  # decoding it takes most of a minute


def test_a_large_jpeg_may_have_fewer_scans():
    assert "more than 26 scans" in refusal(with_scans(60, 600), max_pixels=600_000)
    assert read_photo(with_scans(20, 600), max_pixels=700_000).size == (600, 600)


def test_scans_of_the_small_picture_in_the_metadata_do_not_count():
    thumbnail = b"Exif\0\0" + with_scans(3 * MAX_SCANS)
    assert thumbnail.count(b"\xff\xda") == 3 * MAX_SCANS
    photo = encoded(Image.new("RGB", (64, 64)), "JPEG", exif=thumbnail)
    assert photo.count(b"\xff\xda") > MAX_SCANS
    assert read_photo(photo).size == (64, 64)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 3))
def test_scans_are_counted_in_any_bytes(rubbish, jpegs):
    whole = encoded(Image.new("RGB", (8, 8)), "JPEG")
    file = io.BytesIO(whole[: len(whole) - 2 * (jpegs % 2)] + rubbish + jpegs * whole)
    assert 0 <= _count_scans(file, 1000) <= file.getvalue().count(b"\xff\xda")


# -- anything ------------------------------------------------------------------------------------------------------

WHOLE = [encoded(Image.new("RGB", (40, 30), "teal"), kind) for kind in FORMATS if kind not in ("HEIF", "AVIF")]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(WHOLE), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=12), st.data())
def test_any_damage_to_any_format_is_told_or_does_not_matter(whole, changes, data):
    damaged = bytearray(whole)
    for place, value in changes:
        damaged[2_654_435_761 * place % len(damaged)] = value  # hypothesis likes small numbers; these are anywhere
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        photo = read_photo(bytes(damaged), max_pixels=100_000, short_side=data.draw(st.sampled_from([None, 4])))
        assert photo.mode == "RGB" and photo.width * photo.height <= 100_000
    except UnreadablePhoto as error:
        assert error.why
