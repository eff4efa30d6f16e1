"""Photos from anywhere: files, bytes, pictures, arrays and tensors become upright RGB pictures, within limits.

At the end: where photos lie, in single files, globs, and folders with one subfolder a class.
"""

from __future__ import annotations

import glob
import hashlib
import io
import logging
import os
import stat
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from unseen.util.errors import UnseenError
from unseen.util.files import sha256

if TYPE_CHECKING:

    class Tensor(Protocol):
        """Of torch, which is not needed here."""

        def permute(self, *axes: int) -> Any: ...

    class Readable(Protocol):
        """A file, or what `photos.inputs` lists."""

        def read(self) -> bytes: ...

    Encoded = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable
    Source = Encoded | Image.Image | np.ndarray | Tensor
else:
    Source = Any

logger = logging.getLogger(__name__)
MAX_PIXELS = 178_956_970
"""The default limit of width x height: the number at which Pillow itself refuses a decompression bomb. 13,377 x 13,377
pixels pass, 20,000 x 20,000 do not. Decoding a JPEG or PNG takes at most 12 bytes a pixel, 8 unless the photo must be
turned; other formats may take more. `apps.web.decoder` limits the memory itself."""

MAX_SIDE = (
    65_535  # pixels, as in a JPEG; Pillow keeps a pointer for each row, so that 1 x 64,000,000 pixels take 0.8 GB
)
MAX_SCANS = 50  # of a progressive JPEG: the usual number is 10, and each scan visits every pixel

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "HEIF", "PPM")
"""Formats that are read, by Pillow's names; HEIF only with the plugin pillow-heif. Missing are formats that another
program draws (EPS, WMF), those with slow decoders in Python (DDS, QOI), those whose memory has little to do with their
pixels (JPEG 2000), icons, and rarities."""


PHOTO_ENDINGS = {"jpg", "jpeg", "jfif", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "avif", "heic", "heif"}
"""What a file's name ends in if it is taken for a photo in a folder; a name without an ending may be one too."""


class UnreadablePhoto(UnseenError):
    """A photo that cannot be read: the message begins with its name, `why` does not."""

    def __init__(self, name: str, why: str):
        super().__init__(f"{name}: {why}")
        self.name, self.why = name, why

    def __reduce__(self) -> tuple[Any, ...]:  # it may come from a worker process
        return type(self), (self.name, self.why)


@dataclass(frozen=True)
class Unreadable:
    """Stands in a list of answers for a photo that could not be read.

    >>> import unseen
    >>> unseen.Unreadable("notes.txt", "is not a picture.").photo
    'notes.txt'
    """

    photo: str  # its path; "the photo" where it has none
    why: str

    to_dict = asdict


def read_photo(source: Source, max_pixels: int = MAX_PIXELS, short_side: int | None = None) -> Image.Image:
    """A photo from anywhere, upright, as an RGB picture; raises UnreadablePhoto with the reason.

    `source`: a path; bytes or a binary file; a PIL picture; an array H x W or H x W x 1|3|4, or a tensor 1|3|4 x H x W,
    of integers (8 or 16 bit) or of floats within 0..1. Transparent pixels become white, an animation gives its first
    frame, 16 bits are scaled to 8. Colour profiles are not applied.

    `short_side` is the number of pixels needed: a much larger JPEG is decoded at 1/2, 1/4 or 1/8 scale, never below
    twice that number.
    """
    if isinstance(source, Image.Image):
        _check_size(source, "the picture", max_pixels)
        return _convert(source, "the picture")
    if isinstance(source, np.ndarray):
        return _from_array(source, "the array")
    if hasattr(source, "permute"):  # a torch tensor; torch itself is not needed here
        tensor: Any = source
        if tensor.ndim != 3 or tensor.shape[0] not in (1, 3, 4):
            raise UnreadablePhoto("the tensor", f"a photo is 3 x height x width, not {tuple(tensor.shape)}.")
        if tensor.is_floating_point():
            tensor = tensor.detach().float()  # numpy has no bfloat16
        return _from_array(tensor.cpu().numpy().transpose(1, 2, 0), "the tensor")
    read: Any = getattr(source, "read", None)
    data = read() if read is not None else source
    if read is not None and isinstance(data, str):
        raise UnreadablePhoto("the photo", "was opened as text: open it with mode 'rb'.")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _decode(io.BytesIO(data), str(getattr(source, "name", "the photo")), max_pixels, short_side)
    if isinstance(source, (str, os.PathLike)):
        path = os.fsdecode(source)
        with _open_file(path) as file:
            return _decode(file, path, max_pixels, short_side)
    why = f"must be a path, bytes, a file, a PIL picture, an array or a tensor, not {type(source).__name__}."
    raise UnreadablePhoto("the photo", why)


def fingerprint(source: Source) -> str:
    """SHA-256 of a file, of encoded bytes, or of the pixels of a picture, an array or a tensor.

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
    """SHA-256 of each row of features, for examples without a photo."""
    return [hashlib.sha256(np.ascontiguousarray(row, "<f4").tobytes()).hexdigest() for row in features]


def _open_file(path: str) -> BinaryIO:
    if path.startswith(("http://", "https://")):
        raise UnreadablePhoto(path, "photos are read from disk, not from the web. Download it first.")
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # a pipe or a device could block for ever
            raise UnreadablePhoto(path, "is a folder, not a photo." if stat.S_ISDIR(mode) else "is not a regular file.")
        return open(path, "rb")
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        why = getattr(error, "strerror", None) or str(error)
        raise UnreadablePhoto(path, f"cannot be opened ({why}).") from None


def _decode(file: BinaryIO, name: str, max_pixels: int, short_side: int | None) -> Image.Image:
    """Read the header, refuse what would cost too much, then decode."""
    if file.seek(0, io.SEEK_END) == 0:
        raise UnreadablePhoto(name, "is empty (0 bytes).")
    file.seek(0)
    with _pillow(name), warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked here
        image = Image.open(file, formats=_installed_formats())
    with image:
        _check_size(image, name, max_pixels)
        _check_scans(image, file, name)
        if short_side and image.format in ("JPEG", "MPO"):
            image.draft(image.mode, (2 * short_side, 2 * short_side))
        return _convert(image, name)


@cache
def _installed_formats() -> tuple[str, ...]:
    Image.preinit()
    for plugin in ("WebP", "Tiff", "Avif"):  # the other forty take longer to import than a photo to decode
        with suppress(ImportError):
            import_module(f"PIL.{plugin}ImagePlugin")
    return tuple(name for name in FORMATS if name in Image.OPEN)


@contextmanager
def _pillow(name: str) -> Iterator[None]:
    """Around calls of Pillow alone: its decoders raise nearly anything for a damaged file."""
    try:
        yield
    except UnidentifiedImageError:
        raise UnreadablePhoto(name, f"is not a picture in one of these formats: {', '.join(FORMATS)}.") from None
    except Image.DecompressionBombError:
        raise UnreadablePhoto(name, f"has more than the limit of {MAX_PIXELS:,} pixels. Make it smaller.") from None
    except MemoryError:
        raise UnreadablePhoto(name, "takes too much memory to decode. Make it smaller.") from None
    except Exception as error:
        raise UnreadablePhoto(name, f"cannot be decoded ({str(error) or type(error).__name__}).") from None


def _check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    width, height = image.size
    if not width or not height:
        raise UnreadablePhoto(name, "has no pixels.")
    if max(width, height) > MAX_SIDE:
        raise UnreadablePhoto(name, f"{width} x {height} pixels: no side may be longer than {MAX_SIDE:,}.")
    if width * height > max_pixels:
        what = f"{width} x {height} pixels are more than the limit of {max_pixels:,}"
        raise UnreadablePhoto(name, f"{what}. Make it smaller.")


def _check_scans(image: Image.Image, file: BinaryIO, name: str) -> None:
    if not image.info.get("progressive"):
        return
    position = file.tell()  # where Pillow stopped reading the header
    file.seek(0)
    scans = file.read().count(b"\xff\xda")
    file.seek(position)
    if scans > MAX_SCANS:
        raise UnreadablePhoto(name, f"has {scans} scans, more than {MAX_SCANS}. Save it as a plain JPEG.")


def _convert(image: Image.Image, name: str) -> Image.Image:
    """Any mode to RGB, upright; always a new picture, without metadata."""
    with _pillow(name):
        image.load()  # before its orientation is read: Pillow turns a TIFF while it decodes it
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # Pillow's own: damaged metadata do not make the pixels unreadable
        orientation = None
    picture = _opaque(image, name)
    picture.info = {}
    if orientation is not None:
        picture.getexif()[ExifTags.Base.Orientation] = orientation  # alone: Pillow gives up where others are damaged
        ImageOps.exif_transpose(picture, in_place=True)
    return picture


def _opaque(image: Image.Image, name: str) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return _from_array(np.asarray(image), name)
    if image.mode not in ("RGBA", "LA", "PA", "RGBa", "La") and "transparency" not in image.info:
        return image.convert("RGB")
    image = image if image.mode == "RGBA" else image.convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image)
    return white


def _from_array(array: np.ndarray, name: str) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))) or not array.size:
        raise UnreadablePhoto(name, f"a photo is height x width, or height x width x 3 (or 4), not {array.shape}.")
    return _convert(Image.fromarray(np.ascontiguousarray(_eight_bits(array, name))), name)


def _eight_bits(array: np.ndarray, name: str) -> np.ndarray:
    """Integers up to 255 or 65,535, or floats within 0..1 -> uint8 with white at 255."""
    if array.dtype in (np.uint8, bool):
        return array if array.dtype == np.uint8 else array.astype(np.uint8) * 255
    if array.dtype.kind not in "uif":
        raise UnreadablePhoto(name, f"pixels of type {array.dtype} are not understood.")
    low, high = array.min(), array.max()  # both are NaN if any pixel is
    if array.dtype.kind == "f":
        if not (low >= 0 and high <= 1):
            raise UnreadablePhoto(name, f"float pixels must lie within 0..1 (these: {low:g}..{high:g}).")
        return np.rint(array * 255).astype(np.uint8)
    if low < 0 or high > 65535:
        raise UnreadablePhoto(name, f"integer pixels must lie within 0..255 or 0..65535 (these: {low}..{high}).")
    if array.dtype.itemsize == 2 or high > 255:
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return array.astype(np.uint8)


class Photo(NamedTuple):
    class_id: str
    path: Path


def find_photos(place: str | os.PathLike[str], also: Collection[str] = ()) -> list[Path]:
    """The photos that a user names: all pictures below a folder, all files that match a glob, or one file. Files with
    an ending in `also` count as pictures.

    A single file need not exist: reading it says what is wrong.
    """
    text, path = os.fspath(place), Path(place)
    if path.is_dir():
        files = sorted(path.rglob("*"))
        files = [file for file in files if file.is_file() and not file.name.startswith(".")]
        photos = [file for file in files if may_be_photo(file.name) or file.suffix.lower() in also]
        _tell_of_others(text, len(files) - len(photos))
        problem = "the folder contains no photos" if files else "the folder contains no files"
    elif any(sign in text for sign in "*?[") and not path.exists():
        photos, problem = [Path(file) for file in sorted(glob.glob(text, recursive=True))], "no file matches"
        photos = [file for file in photos if file.is_file()]
    else:
        return [path]
    if not photos:
        raise UnseenError(f"{text}: {problem}")
    return photos


def may_be_photo(name: str) -> bool:
    """Whether a file in a folder is taken for a photo: notes and records of other programs are passed over.

    >>> [name for name in ("a.JPG", "readme.txt", "scan_17", "labels.json") if may_be_photo(name)]
    ['a.JPG', 'scan_17']
    """
    ending = os.path.splitext(name)[1][1:].lower()
    return not ending or ending in PHOTO_ENDINGS


def _tell_of_others(folder: str, others: int) -> None:
    if others:
        logger.info("%s: %d file%s passed over: not pictures by their names", folder, others, "s" * (others > 1))


def list_classes(folder: str | os.PathLike[str]) -> list[str]:
    """The names of the class folders in `folder`, sorted, empty ones too. Hidden ones are left out."""
    names = _names(folder, folders=True)
    if not names:
        raise UnseenError(f"{folder}: has no class folders. Photos are expected as {folder}/<class id>/<photo>.")
    return names


def list_photos(folder: str | os.PathLike[str], classes: Collection[str] | None = None) -> Iterator[Photo]:
    """All photos `folder/<class id>/<photo>`, sorted by class id and name; of `classes` only, if given.

    A broken link counts as a photo: `read_photo` reports what it cannot read. Hidden files, files that are no pictures
    by their names, and folders within a class folder are left out. Names are read one class at a time.
    """
    names = [name for name in list_classes(folder) if classes is None or name in classes]
    return (Photo(name, Path(folder, name, file)) for name in names for file in photos_in(Path(folder, name)))


def photos_in(class_folder: str | os.PathLike[str]) -> list[str]:
    """The names of the photos in one class folder, sorted; by the rule of `list_photos`."""
    names = _names(class_folder, folders=False)
    photos = [name for name in names if may_be_photo(name)]
    _tell_of_others(os.fspath(class_folder), len(names) - len(photos))
    return photos


def _names(folder: str | os.PathLike[str], folders: bool) -> list[str]:
    """The sorted names of the folders in a folder, or of everything else."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise UnseenError(f"{folder}: cannot be read as a folder of photos ({error.strerror}).") from None
    return [name for name in names if os.path.isdir(os.path.join(folder, name)) == folders]
