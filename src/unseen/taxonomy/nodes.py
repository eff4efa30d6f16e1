"""Single classes: what one adds to a hierarchy, and what a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Node:
    """A class to add with `Taxonomy.extend`. `parents` are ids, of the taxonomy or of other new nodes."""

    id: str
    lemmas: str | Sequence[str]
    parents: str | Sequence[str] = ()
    definition: str = ""


class Sense(NamedTuple):
    """What a search finds: one class that a name may mean."""

    id: str
    name: str
    lemmas: tuple[str, ...]
    definition: str


def as_texts(given: str | Sequence[str]) -> tuple[str, ...]:
    """One text counts as a sequence of one, not as its letters."""
    return (given,) if isinstance(given, str) else tuple(given)
