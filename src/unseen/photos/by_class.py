"""Photos by class, before any is read: class folders, or an input that says the class of each photo.

DIR                  DIR/<class>/*
LIST.txt             after a tab the class; without one, the folder that the photo is in
TABLE.parquet        a column called class, class_id, label, wnid or synset; else the folder of its path
SHARD.tar            KEY.cls, or `class` (or `label`, ...) in KEY.json, beside KEY.jpg; else its folder in the tar
GLOB, scheme://...   any of these
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from unseen.photos.inputs import Item, is_glob, is_input, list_inputs
from unseen.photos.reading import list_classes, photos_in
from unseen.util.errors import UnseenError
from unseen.util.names import list_some


class ClassFolders:
    """DIR/<class>/*; a photo's name is <class>/<file>."""

    def __init__(self, folder: Path):
        self.folder, self.classes = folder, list_classes(folder)  # empty ones too
        self.unlisted: list[str] = []  # classes whose folder turned out to be unreadable

    def items(self, classes: Collection[str] | None = None) -> Iterator[Item]:
        """The photos of all classes, or of these, by class and name."""
        for name in self.classes:
            if classes is None or name in classes:
                folder = os.path.join(self.folder, name)
                try:
                    files = photos_in(folder)
                except UnseenError:
                    self.unlisted.append(name)
                    continue
                for file in files:
                    yield Item(f"{name}/{file}", os.path.join(folder, file), name)


class LabelledInput:
    """The photos of an input, in its order, with the class that it says they are of."""

    def __init__(self, where: str):
        self.where, self.unlisted = where, list[str]()
        labels: set[str] = set()
        unknown, count = [], 0
        for item in list_inputs([where], contents=False):
            count += 1
            if not item.label:
                unknown.append(item.name)
            elif item.label.startswith(".") or any(sign in item.label for sign in "/\\\0"):
                raise UnseenError(f"{where}: the class of {item.name} is no id or name of a class: {item.label!r}")
            labels.add(item.label)
        if unknown:
            raise UnseenError(
                f"{where}: says of {len(unknown):,} of {count:,} photos no class ({list_some(unknown, 3)}). In a "
                "list it follows the path, after a tab; in parquet it is a column called class; in a tar KEY.cls."
            )
        self.classes = sorted(labels)

    def items(self, classes: Collection[str] | None = None) -> Iterator[Item]:
        items: Iterable[Item] = list_inputs([self.where])
        return (item for item in items if classes is None or item.label in classes)


Listing = ClassFolders | LabelledInput


def is_labelled_input(place: str | os.PathLike[str]) -> bool:
    """Whether this is a list, a table, shards or a glob, and not a folder."""
    return not os.path.isdir(place) and (is_input(place) or is_glob(place))


def list_by_class(place: str | os.PathLike[str]) -> Listing:
    return LabelledInput(os.fspath(place)) if is_labelled_input(place) else ClassFolders(Path(place))
