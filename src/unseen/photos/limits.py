"""What a photo may cost to decode, told from its header: formats, pixels and their bytes, scans of a JPEG."""

from __future__ import annotations

import io
import re
import threading
import warnings
from functools import cache
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

from unseen.errors import UnseenError

MAX_PIXELS = 178_956_970
"""The largest photo that is decoded unless told otherwise, by its width x height: the point at which Pillow itself
refuses a decompression bomb. 13,377 x 13,377 pixels pass, 20,000 x 20,000 do not. Pillow holds 4 bytes for each pixel:
0.7 GB. Formats whose decoders need more than that may have fewer pixels."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "HEIF", "JPEG2000", "PPM", "ICO", "PCX", "TGA")
"""What is read, by Pillow's names; HEIF only with the plugin pillow-heif. Left out of what Pillow knows: formats that
are drawn by another program (EPS, WMF), those decoded in Python, which takes minutes (DDS, QOI), and rarities."""

MAX_SCANS = 100  # of a progressive JPEG; the usual number is 10
_WORK = 16  # scans x pixels may be so many times max_pixels: each scan visits every pixel
_ICON_PIXELS = 1 << 20  # Pillow decodes an icon while it reads its header, and others wait for that

# Bytes for each pixel while a photo is decoded, as measured; 4 for all others, which is what Pillow holds.
_BYTES = {"WEBP": 17, "HEIF": 17, "AVIF": 12, "JPEG2000": 25, "TIFF": 10}
_CHUNK = 1 << 20
_SMALLER = "Make it smaller, or raise max_pixels."
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # within a scan's data, the first byte of what comes after it
_opening = threading.Lock()


class UnreadablePhoto(UnseenError):
    """A photo that cannot be read: the message begins with its name, `why` does not."""

    def __init__(self, name: str, why: str):
        super().__init__(f"{name}: {why}")
        self.name, self.why = name, why

    def __reduce__(self) -> tuple:  # it may come from a worker process
        return type(self), (self.name, self.why)


@cache
def _known_formats() -> tuple[str, ...]:
    """Those that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _refused_format(file: BinaryIO) -> str | None:
    """The format that Pillow takes a file for, if it is not among those that are read."""
    file.seek(0)
    prefix = file.read(16)
    others = {name: accept for name, (_, accept) in Image.OPEN.items() if name not in FORMATS and accept is not None}
    return next((name for name, accept in others.items() if accept(prefix) is True), None)


def open_photo(file: BinaryIO, name: str, max_pixels: int, short_side: int | None = None) -> Image.Image:
    """Read the header, and refuse what would cost too much to decode; a JPEG is set to a reduced scale if that will do.

    Pillow's own limit is global: while the header is read it is ours, since an icon is decoded there and then.
    """
    icon = file.read(4) == b"\0\0\1\0"
    file.seek(0)
    most = min(max_pixels, _ICON_PIXELS) if icon else 8 * max_pixels  # else it is checked next, and told with its sides
    formats = _known_formats()
    with _opening:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, max(most // 2, 1)  # Pillow refuses twice as many
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                image = Image.open(file, formats=formats)
        except UnidentifiedImageError:
            if other := _refused_format(file):
                raise UnreadablePhoto(name, f"is {other}, which is not read. Save it as PNG or JPEG.") from None
            raise
        except Image.DecompressionBombError as error:
            found = re.search(r"\d+", str(error))
            count = f"{int(found[0]):,}" if found else "its"
            raise UnreadablePhoto(name, f"{count} pixels are more than the limit of {most:,}. {_SMALLER}") from None
        finally:
            Image.MAX_IMAGE_PIXELS = limit
    try:
        check_size(image, name, max_pixels)
        whole = image.size
        if image.format in ("JPEG", "MPO"):
            _check_scans(file, name, image, max_pixels)
            if short_side:
                image.draft(image.mode, (2 * short_side, 2 * short_side))
        _check_bytes(image, whole, name, max_pixels)
    except BaseException:
        image.close()
        raise
    return image


def check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    """Refuse a photo without pixels, or with too many."""
    width, height = image.size
    if not width or not height:
        raise UnreadablePhoto(name, "has no pixels.")
    if width * height > max_pixels:
        raise UnreadablePhoto(name, f"{width} x {height} pixels are more than the limit of {max_pixels:,}. {_SMALLER}")


def _check_bytes(image: Image.Image, whole: tuple[int, int], name: str, max_pixels: int) -> None:
    """Refuse what needs more memory than max_pixels of a format whose decoder needs none but for the pixels."""
    pixels = whole[0] * whole[1]
    needed = _BYTES.get(image.format or "", 4) * image.width * image.height
    if image.mode in ("I", "F"):  # 32 bits, whose range is looked at as a whole
        needed = 24 * pixels
    elif image.format == "TIFF" and image.info.get("compression") == "raw":
        needed = 4 * pixels
    elif image.info.get("progressive") and (layers := getattr(image, "layer", [])):
        # All coefficients, of 2 bytes each, are held until the last scan has been read, whatever the scale.
        full = max(across * down for _, across, down, _ in layers)
        needed += 2 * pixels * sum(across * down for _, across, down, _ in layers) // full
    if needed > 4 * max_pixels:
        raise UnreadablePhoto(
            name,
            f"{whole[0]} x {whole[1]} pixels of this {image.format} file need {needed // 1_000_000:,} MB to be "
            f"decoded, more than the limit of {4 * max_pixels // 1_000_000:,} MB. {_SMALLER}",
        )


def _check_scans(file: BinaryIO, name: str, image: Image.Image, max_pixels: int) -> None:
    most = min(MAX_SCANS, _WORK * max_pixels // (image.width * image.height))
    start = file.tell()  # where Pillow stopped reading the header
    try:
        if _count_starts(file) > most and _count_scans(file, most) > most:
            raise UnreadablePhoto(name, f"has more than {most} scans, the limit for its size. Save it as a plain JPEG.")
    finally:
        file.seek(start)


def _count_starts(file: BinaryIO) -> int:
    """Bytes that may begin a scan, anywhere in the file: never fewer than there are scans, and quickly counted."""
    file.seek(0)
    found, before = 0, b""
    while chunk := file.read(_CHUNK):
        found += (before + chunk).count(b"\xff\xda")
        before = chunk[-1:]
        if before != b"\xff":
            before = b""
    return found


def _count_scans(file: BinaryIO, most: int) -> int:
    """Scans of the first picture of the file: not those of the small one in its metadata, nor of others behind it.

    Counts up to most + 1.
    """
    file.seek(2)
    scans = 0
    while scans <= most and (marker := _next_marker(file)) not in (None, 0xD9):
        size = int.from_bytes(file.read(2), "big")
        file.seek(max(size - 2, 0), io.SEEK_CUR)
        scans += marker == 0xDA
    return scans


def _next_marker(file: BinaryIO) -> int | None:
    """The next marker; a scan's data before it are passed over. None at the end of the file."""
    while chunk := file.read(_CHUNK):
        found = _MARKER.search(chunk)
        if found:
            file.seek(found.end() - len(chunk), io.SEEK_CUR)
            return chunk[found.end() - 1]
        if chunk.endswith(b"\xff") and len(chunk) > 1:
            file.seek(-1, io.SEEK_CUR)
    return None
