"""Single classes: what one adds to a hierarchy, and what a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Node:
    """A class to add to a hierarchy with `Taxonomy.extend`, or to a bundle with `unseen.add`.

    Args:
        id: An id that the hierarchy does not have yet.
        lemmas: Its name, or several; the first is the one to show.
        parents: Ids of its parents, in the hierarchy or among the other new nodes.
        definition: What it is, in a sentence.

    >>> import unseen
    >>> animals = unseen.Taxonomy.from_edges([("dog", "mammal"), ("cat", "mammal")])
    >>> puggle = unseen.Node("puggle", "puggle", "dog", "a cross of a pug and a beagle")
    >>> animals.extend([puggle]).path_to_root("puggle")
    ['puggle', 'dog', 'mammal']
    """

    id: str
    lemmas: str | Sequence[str]
    parents: str | Sequence[str] = ()
    definition: str = ""


class Sense(NamedTuple):
    """What a search finds: one class that a name may mean.

    >>> from unseen import Taxonomy
    >>> things = Taxonomy.from_edges([("c1", "bird"), ("c2", "machine")], names={"c1": "crane", "c2": "crane"})
    >>> [sense.id for sense in things.senses("crane")]
    ['c1', 'c2']
    """

    id: str
    name: str
    lemmas: tuple[str, ...]
    definition: str


def as_texts(given: str | Sequence[str]) -> tuple[str, ...]:
    """One text counts as a sequence of one, not as its letters."""
    return (given,) if isinstance(given, str) else tuple(given)
