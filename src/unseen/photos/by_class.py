"""Photos by class, before any is read: class folders, or an input that says the class of each photo.

DIR                  DIR/<class>/*
LIST.txt             after a tab the class; without one, the folder that the photo is in
TABLE.parquet        a column called class, class_id, label, wnid or synset; else the folder of its path
SHARD.tar            KEY.cls, or `class` (or `label`, ...) in KEY.json, beside KEY.jpg; else its folder in the tar
GLOB, scheme://...   any of these
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from unseen.photos import list_classes, photos_in
from unseen.photos.inputs import Item, is_glob, is_input, list_inputs, version_of
from unseen.util.errors import UnseenError
from unseen.util.names import list_some


class FileState(NamedTuple):
    """A file as it was when its features were made; any difference means that it has changed."""

    name: str
    size: int  # bytes; -1 where the file cannot be examined
    time: int  # of the last change, ns


class Listing(Protocol):
    """Which classes there are, their photos as a store remembers them, and what to read for each."""

    # Sorted by name, and why some cannot be examined; "" stands for the whole class.
    def sources(self, class_id: str) -> tuple[list[FileState], dict[str, str]]: ...
    def classes(self) -> list[str]: ...
    def place(self, class_id: str, name: str) -> Any: ...


def places(listing: Listing, class_id: str) -> list[Any]:
    """What to read for the photos of a class."""
    return [listing.place(class_id, source.name) for source in listing.sources(class_id)[0] if source.name]


class ClassFolders:
    """DIR/<class>/*."""

    def __init__(self, folder: Path):
        self.folder = folder

    def classes(self) -> list[str]:
        return list_classes(self.folder)

    def sources(self, class_id: str) -> tuple[list[FileState], dict[str, str]]:
        folder = self.folder / class_id
        try:
            names = photos_in(folder)
        except UnseenError as error:
            return [FileState("", -1, -1)], {"": str(error).removeprefix(f"{folder}: ")}
        sources, broken = [], {}
        for name in names:
            try:
                status = os.stat(os.path.join(folder, name))  # pathlib would take longer than the disk
                sources.append(FileState(name, status.st_size, status.st_mtime_ns))
            except OSError as error:  # a link that leads nowhere or in a circle
                sources.append(FileState(name, -1, -1))
                broken[name] = f"cannot be opened ({error.strerror})."
        return sources, broken

    def place(self, class_id: str, name: str) -> str:
        return os.path.join(self.folder, class_id, name)


class LabelledInput:
    """The photos of an input, by the class that it says they are of."""

    def __init__(self, where: str):
        self._items: dict[str, dict[str, Item]] = {}
        items = list_inputs([where])
        unknown = [item.name for item in items if not item.label]
        if unknown:
            raise UnseenError(
                f"{where}: says of {len(unknown):,} of {len(items):,} photos no class ({list_some(unknown, 3)}). In a "
                "list it follows the path, after a tab; in parquet it is a column called class; in a tar KEY.cls."
            )
        for item in items:
            if item.label.startswith(".") or any(sign in item.label for sign in "/\\\0"):
                raise UnseenError(f"{where}: the class of {item.name} is no id or name of a class: {item.label!r}")
            self._items.setdefault(item.label, {})[item.name] = item

    def classes(self) -> list[str]:
        return sorted(self._items)

    def sources(self, class_id: str) -> tuple[list[FileState], dict[str, str]]:
        return sorted(_as_source(item) for item in self._items[class_id].values()), {}

    def place(self, class_id: str, name: str) -> Any:
        return self._items[class_id][name].source


def _as_source(item: Item) -> FileState:
    """-1 where nobody says how large a photo is and when it changed: at a URL, or where it is missing."""
    size, _, time = version_of(item.source).partition("-")
    return (
        FileState(item.name, int(size), int(time))
        if size.isdecimal() and time.isdecimal()
        else FileState(item.name, -1, -1)
    )


def is_labelled_input(place: str | os.PathLike[str]) -> bool:
    """Whether this is a list, a table, shards or a glob, and not a folder."""
    return not os.path.isdir(place) and (is_input(place) or is_glob(place))


def list_by_class(place: str | os.PathLike[str]) -> Listing:
    return LabelledInput(os.fspath(place)) if is_labelled_input(place) else ClassFolders(Path(place))
