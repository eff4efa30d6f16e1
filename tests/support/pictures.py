"""Pictures that cost far more to decode than they look."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image


def photo(size: tuple[int, int] = (64, 48), kind: str = "JPEG") -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(buffer, kind)
    return buffer.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, colour_type: int = 0, before_pixels: bytes = b"") -> bytes:
    """Any number of pixels in a few kB: rows of zeros, compressed row by row so that making it costs nothing either."""
    channels = {0: 1, 2: 3, 6: 4}[colour_type]
    packer, row = zlib.compressobj(1), bytes(1 + channels * width)
    body = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + before_pixels + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def of_many_segments(count: int = 1_770_000) -> bytes:
    """A JPEG with that many EXIF segments of a byte each, 19.5 MB by default: Pillow joins them one by one."""
    jpeg = photo()
    return jpeg[:2] + b"\xff\xe1\x00\x09Exif\x00\x00x" * count + jpeg[2:]


def of_many_chunks(count: int = 1_600_000) -> bytes:
    """A PNG with that many empty chunks."""
    return png(8, 8, before_pixels=chunk(b"prVt", b"") * count)
