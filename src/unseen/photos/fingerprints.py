"""A photo's fingerprint: by it a photo that was given before is known again, though it is not kept."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import numpy as np

from unseen.photos.reading import read_photo
from unseen.runtime.files import sha256

if TYPE_CHECKING:
    from unseen.photos.reading import Source


def fingerprint(source: Source) -> str:
    """SHA-256 of a file's or of encoded bytes, or of the pixels of a picture, an array or a tensor.

    >>> from PIL import Image
    >>> red, same = Image.new("RGB", (2, 2), "red"), Image.new("RGB", (2, 2), "red")
    >>> fingerprint(red) == fingerprint(same), fingerprint(red) == fingerprint(b"something else")
    (True, False)
    """
    if isinstance(source, (str, os.PathLike)):
        return sha256(os.fspath(source))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return hashlib.sha256(source).hexdigest()
    picture = read_photo(source)
    return hashlib.sha256(repr(picture.size).encode() + picture.tobytes()).hexdigest()


def fingerprint_rows(features: np.ndarray) -> list[str]:
    """Of features without a photo: SHA-256 of each row's numbers."""
    return [hashlib.sha256(np.ascontiguousarray(row, "<f4").tobytes()).hexdigest() for row in features]
