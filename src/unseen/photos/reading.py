"""Photos as they come: files of the formats in `unseen.photos.limits`, bytes, arrays."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from unseen.errors import UnseenError
from unseen.photos.limits import MAX_PIXELS, UnreadablePhoto, check_size, open_photo

if TYPE_CHECKING:
    import torch

    Source = (
        str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | Image.Image | np.ndarray | torch.Tensor
    )
else:
    Source = Any

STRIP = 1 << 20  # pixels that are converted at a time


def read_photo(source: Source, max_pixels: int = MAX_PIXELS, short_side: int | None = None) -> Image.Image:
    """A photo from anywhere, upright, as an RGB picture.

    `source`: a path; bytes or a binary file; a PIL picture; an array H x W or H x W x 1|3|4, or a tensor 1|3|4 x H x W,
    of whole numbers (8 or 16 bit) or of floats within 0..1. Transparent pixels become white, of an animation the first
    frame is taken, 16 bits are scaled to 8. Colour profiles are not applied.

    `short_side` says how many pixels are wanted: a much larger JPEG is decoded at 1/2, 1/4 or 1/8 scale, as long as
    twice as many are left; so is whatever must be turned or converted, to hold it only once. `unseen.photos.limits`
    says what a photo may cost. Whatever cannot be read raises UnreadablePhoto.
    """
    if isinstance(source, Image.Image):
        with _telling("the picture"):
            check_size(source, "the picture", max_pixels)
            return _convert(source, "the picture")
    if isinstance(source, np.ndarray):
        return _from_array(source, "the array")
    if hasattr(source, "permute"):  # a torch tensor; torch itself is not needed here
        return _from_tensor(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _decode(io.BytesIO(source), "the photo", max_pixels, short_side)
    read: Any = getattr(source, "read", None)
    if read is not None:
        data = read()
        if isinstance(data, str):
            raise UnreadablePhoto("the photo", "was opened as text: open it with mode 'rb'.")
        return _decode(io.BytesIO(data), str(getattr(source, "name", "the photo")), max_pixels, short_side)
    if isinstance(source, (str, os.PathLike)):
        path = os.fsdecode(source)
        with _open_file(path) as file:
            return _decode(file, path, max_pixels, short_side)
    raise UnreadablePhoto(
        "the photo",
        f"must be a path, bytes, a file, a PIL picture, an array or a tensor, not {type(source).__name__}.",
    )


def _open_file(path: str) -> BinaryIO:
    if path.startswith(("http://", "https://")):
        raise UnreadablePhoto(path, "photos are read from disk, not from the web. Download it first.")
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise UnreadablePhoto(path, "is a folder, not a photo.")
        if not stat.S_ISREG(mode):  # a pipe or a device could block for ever
            raise UnreadablePhoto(path, "is not a regular file.")
        return open(path, "rb")
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        why = getattr(error, "strerror", None) or str(error)
        raise UnreadablePhoto(path, f"cannot be opened ({why}).") from None


def _decode(file: BinaryIO, name: str, max_pixels: int, short_side: int | None) -> Image.Image:
    if file.seek(0, io.SEEK_END) == 0:
        raise UnreadablePhoto(name, "is empty (0 bytes).")
    file.seek(0)
    with _telling(name), open_photo(file, name, max_pixels, short_side) as image:
        return _convert(image, name, short_side, own=True)


@contextmanager
def _telling(name: str) -> Iterator[None]:
    """Whatever a decoder raises, told as something that the user can understand."""
    try:
        yield
    except UnseenError:
        raise
    except UnidentifiedImageError:
        raise UnreadablePhoto(name, "is not a picture in any format that Pillow reads.") from None
    except Exception as error:  # a damaged file can make a decoder raise nearly anything
        raise UnreadablePhoto(name, f"cannot be decoded ({str(error) or type(error).__name__}).") from None


def _convert(image: Image.Image, name: str, short_side: int | None = None, own: bool = False) -> Image.Image:
    """Any mode -> RGB, upright. `own`: no one else has this picture, so that its pixels need not be copied."""
    image.load()  # Pillow turns some formats (TIFF) while it decodes them: only then is it known what is left to do
    orientation = _orientation(image)
    scale = min(image.size) // (2 * short_side) if short_side else 1
    plain = image.mode == "RGB" and "transparency" not in image.info
    if plain and own and orientation in (None, 1):
        image = image._new(image.im)  # without its file
    elif scale > 1 and image.mode not in ("I", "F"):
        image = _reduced(image, name, scale)
    else:
        image = _opaque(image, name)
    image.info = {}  # the metadata no longer apply: read again, the picture must not be turned a second time
    if orientation is not None:
        image.getexif()[ExifTags.Base.Orientation] = orientation  # alone: Pillow gives up where other tags are damaged
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _opaque(image: Image.Image, name: str) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return _from_array(np.asarray(image), name)
    if image.mode not in ("RGBA", "LA", "PA", "RGBa", "La") and "transparency" not in image.info:
        return image.convert("RGB")
    if image.mode != "RGBA":
        image = image.convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image)
    return white


def _reduced(image: Image.Image, name: str, scale: int) -> Image.Image:
    """The same at 1/scale, strip by strip: a second picture of all its pixels is never held."""
    width, height = image.size
    small = Image.new("RGB", (-(-width // scale), -(-height // scale)))
    rows = scale * max(1, STRIP // (width * scale))
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        small.paste(_opaque(strip, name).reduce(scale), (0, top // scale))
    return small


def _orientation(image: Image.Image) -> int | None:
    try:
        return image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # damaged metadata do not make the pixels unreadable
        return None


def _from_tensor(tensor) -> Image.Image:
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3, 4):
        raise UnreadablePhoto("the tensor", f"a photo is 3 x height x width, not {tuple(tensor.shape)}.")
    if tensor.is_floating_point():
        tensor = tensor.float()  # numpy has no bfloat16
    return _from_array(tensor.detach().cpu().numpy().transpose(1, 2, 0), "the tensor")


def _from_array(array: np.ndarray, name: str) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise UnreadablePhoto(name, f"a photo is height x width, or height x width x 3 (or 4), not {array.shape}.")
    return _convert(Image.fromarray(np.ascontiguousarray(_eight_bits(array, name))), name)


def _eight_bits(array: np.ndarray, name: str) -> np.ndarray:
    """Whole numbers up to 255 or 65,535, or floats within 0..1 -> uint8 with white at 255."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if array.dtype.kind not in "uif":
        raise UnreadablePhoto(name, f"pixels of type {array.dtype} are not understood.")
    low, high = array.min(), array.max()  # both are NaN if any pixel is
    if array.dtype.kind == "f":
        if not (low >= 0 and high <= 1):
            raise UnreadablePhoto(
                name, f"float pixels must lie within 0..1 (these: {low:g}..{high:g}). Divide by the white value."
            )
        return np.rint(array * 255).astype(np.uint8)
    if low < 0 or high > 65535:
        raise UnreadablePhoto(name, f"integer pixels must lie within 0..255 or 0..65535 (these: {low}..{high}).")
    if array.dtype.itemsize == 2 or high > 255:
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return array.astype(np.uint8)
