"""Where photos lie: single files, globs, and folders with one subfolder a class."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from unseen.errors import UnseenError


class Photo(NamedTuple):
    class_id: str
    path: Path


def find_photos(place: str | os.PathLike[str]) -> list[Path]:
    """The photos that a user names: all files below a folder but hidden ones, all that match a glob, or one file.

    A single file need not exist: whether it can be read is for the reader to tell.
    """
    text, path = os.fspath(place), Path(place)
    if path.is_dir():
        found = sorted(item for item in path.rglob("*") if item.is_file() and not item.name.startswith("."))
        if not found:
            raise UnseenError(f"{text}: the folder contains no files")
        return found
    if any(sign in text for sign in "*?[") and not path.exists():
        found = [Path(item) for item in sorted(glob.glob(text, recursive=True)) if os.path.isfile(item)]
        if not found:
            raise UnseenError(f"{text}: no file matches")
        return found
    return [path]


def list_classes(folder: str | os.PathLike) -> list[str]:
    """The names of the class folders in `folder`, sorted, empty ones too. Hidden ones are left out."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry))
    except OSError as error:
        raise UnseenError(f"{folder}: cannot be read as a folder of photos ({error.strerror}).") from None
    if not names:
        raise UnseenError(f"{folder}: has no class folders. Photos are expected as {folder}/<class id>/<photo>.")
    return names


def list_photos(folder: str | os.PathLike, classes: Collection[str] | None = None) -> Iterator[Photo]:
    """All photos `folder/<class id>/<photo>`, sorted by class id and name; of `classes` only, if given.

    Every file counts as a photo, whatever its name ends in, and so does a link that leads nowhere: what cannot be read
    is for the reader to report, not for the list to hide. Hidden files, and folders within a class folder, are left
    out. Names are read one class at a time, so that any number of classes and photos streams.
    """
    names = list_classes(folder)  # now, and not at the first photo, so that a wrong folder is refused where it is named
    return _stream(Path(folder), [name for name in names if classes is None or name in classes])


def photos_in(class_folder: str | os.PathLike) -> list[str]:
    """The names of the photos in one class folder, sorted; by the rule of `list_photos`."""
    try:
        with os.scandir(class_folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and not _is_folder(entry))
    except OSError as error:
        raise UnseenError(f"{class_folder}: cannot be read as a folder ({error.strerror}).") from None


def _stream(folder: Path, names: list[str]) -> Iterator[Photo]:
    for name in names:
        yield from (Photo(name, folder / name / file) for file in photos_in(folder / name))


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a circle
        return False
