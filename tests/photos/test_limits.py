"""Photos that cost more to decode than their size suggests are refused before they are decoded."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from support.pictures import png
from unseen.photos import UnreadablePhoto, read_photo
from unseen.photos.reading import FORMATS, MAX_SCANS


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def refusal(source, **options) -> str:
    with pytest.raises(UnreadablePhoto) as caught:
        read_photo(source, **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM"])
def test_formats_that_are_read(kind):
    assert kind in FORMATS
    assert read_photo(encoded(Image.new("RGB", (32, 32), "teal"), kind)).size == (32, 32)


@pytest.mark.parametrize("kind", ["EPS", "DDS", "SGI", "ICNS", "ICO", "JPEG2000", "PCX", "TGA"])
def test_other_formats_are_not(kind):
    message = refusal(encoded(Image.new("RGB", (32, 32), "teal"), kind))
    assert "is not a picture in one of these formats: JPEG, PNG," in message


@pytest.mark.slow
def test_a_decompression_bomb_is_refused_before_it_is_decoded():
    bomb, started = png(20_000, 20_000), time.process_time()
    assert len(bomb) < 4_000_000
    assert "more than the limit of 178,956,970 pixels" in refusal(bomb)
    assert "13000 x 13000 pixels are more than the limit of 64,000,000" in refusal(
        png(13_000, 13_000), max_pixels=64_000_000
    )
    assert time.process_time() - started < 3


def test_the_limit_is_inclusive():
    photo = encoded(Image.new("L", (300, 200)), "PNG")
    assert read_photo(photo, max_pixels=60_000).size == (300, 200)
    assert "300 x 200 pixels are more than the limit of 59,999" in refusal(photo, max_pixels=59_999)


def test_a_strip_of_many_rows_is_refused():
    assert "1 x 70000 pixels: no side may be longer than 65,535" in refusal(png(1, 70_000))


def with_scans(count: int, side: int = 64) -> bytes:
    """A progressive JPEG whose last scan is repeated: decoders go through each of them."""
    jpeg = encoded(Image.new("RGB", (side, side), "grey"), "JPEG", progressive=True)
    usual = jpeg.count(b"\xff\xda")
    return jpeg[:-2] + jpeg[jpeg.rfind(b"\xff\xda") : -2] * (count - usual) + jpeg[-2:]


def test_a_jpeg_of_thousands_of_scans_is_refused():
    assert read_photo(with_scans(MAX_SCANS)).size == (64, 64)
    bomb, started = with_scans(20_000, 1000), time.process_time()
    assert "has 20000 scans, more than 50" in refusal(bomb)
    assert time.process_time() - started < 1  # decoding it takes most of a minute


PEAK = """
import sys
from pathlib import Path
from PIL import Image
from unseen.photos import PhotoTransform

def peak():  # of this process, since it was last reset; what getrusage reports includes its parent
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1000

Image.init()
transform = PhotoTransform(224)
transform(Image.new("RGB", (300, 300)))
for name in sys.argv[1:]:
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    assert transform.open(name).shape == (3, 224, 224)
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is read from /proc")
def test_memory_stays_within_twelve_bytes_a_pixel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for mode, colour_type in (("L", 0), ("RGB", 2), ("RGBA", 6)):
        Path(f"{mode}.png").write_bytes(png(4000, 4000, colour_type))
    large, exif = Image.new("RGB", (4000, 4000), "teal"), Image.Exif()
    exif[0x0112] = 6
    large.save("turned.png", exif=exif, compress_level=1)
    large.save("baseline.jpg")
    large.save("progressive.jpg", progressive=True)
    names = sorted(str(path) for path in Path().iterdir())
    done = subprocess.run([sys.executable, "-c", PEAK, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    peaks = dict(zip(names, map(float, done.stdout.split()), strict=True))
    assert len(peaks) == 6 and max(peaks.values()) < 192 + 16, peaks


PHOTOS = [encoded(Image.new("RGB", (40, 30), "teal"), kind) for kind in FORMATS if kind not in ("HEIF", "AVIF")]


@settings(deadline=None)
@given(st.sampled_from(PHOTOS), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=12), st.data())
def test_a_damaged_photo_of_any_format_is_read_or_refused(photo, changes, data):
    damaged = bytearray(photo)
    for place, value in changes:
        damaged[2_654_435_761 * place % len(damaged)] = value  # hypothesis likes small numbers; these are anywhere
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        picture = read_photo(bytes(damaged), max_pixels=100_000, short_side=data.draw(st.sampled_from([None, 4])))
        assert picture.mode == "RGB" and picture.width * picture.height <= 100_000
    except UnreadablePhoto as error:
        assert error.why
