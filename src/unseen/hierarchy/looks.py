"""What classes look like in photos: the glossary that comes with the package, one line a class (docs/looks.md)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from unseen.data import data_file

if TYPE_CHECKING:
    from unseen.hierarchy.core import Hierarchy


class Look(NamedTuple):
    """What a class looks like, and the class that this was written for."""

    text: str
    id: str


@cache
def glossary() -> dict[str, str]:
    """Id -> what such a thing looks like, for the ImageNet classes that are described; read once, in hundredths of a
    second."""
    lines = data_file("looks.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


def described(hierarchy: Hierarchy, id: str) -> list[str]:
    """The class itself if it is described; else, on every way down, the first class that is, nearest first.

    A node that only connects others looks like what is below it: its vector is the mean of these classes' encodings.
    """
    found, level = [], {id: None}
    while level:
        found += [node for node in level if hierarchy.look(node) and node not in found]
        level = dict.fromkeys(below for node in level if not hierarchy.look(node) for below in hierarchy.children(node))
    return found


def find_look(hierarchy: Hierarchy, id: str) -> Look | None:
    """The class's own look; else that of the largest class `described` for it; None if nothing below it has one."""
    classes = described(hierarchy, id)
    if not classes:
        return None
    largest = max(classes, key=lambda node: len(hierarchy.descendants(node))) if len(classes) > 1 else classes[0]
    return Look(hierarchy.look(largest), largest)
