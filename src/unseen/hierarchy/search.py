"""Finding a class by its name: an index built on first use, quick enough for type-ahead over all of WordNet."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unseen.hierarchy.core import Hierarchy

# Beyond this many names, spelling suggestions consider only names with the same first two letters.
MANY_NAMES = 20_000


def plain(text: str) -> str:
    """How names are compared: no case, and `_`, `-` and runs of blanks are one blank."""
    return " ".join(_fold(text).split())


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("_", " ").replace("-", " ")


class NameIndex:
    """All names of the classes, folded, in one list: a search is a scan of it."""

    def __init__(self, lemmas: Sequence[tuple[str, ...]]):
        text = _fold("\n".join("\n".join(synonyms) for synonyms in lemmas))
        self._names = re.sub(r" *\n *", "\n", re.sub(r"[^\S\n]+", " ", text)).strip(" ").split("\n")
        self._owners = [(position, row) for row, names in enumerate(lemmas) for position in range(len(names))]

    @cached_property
    def _ends(self) -> tuple[dict[str, int], dict[str, int]]:
        """Name -> its first and its last number in the list; quicker to make than all of them."""
        names, numbers = self._names, range(len(self._names))
        return dict(zip(reversed(names), reversed(numbers), strict=True)), dict(zip(names, numbers, strict=True))

    def exact(self, text: str) -> list[int]:
        """The rows with exactly this name, those whose first name it is before the others."""
        name, (first, last) = plain(text), self._ends
        if name not in first:
            return []
        start = first[name]
        between = enumerate(self._names[start : last[name] + 1], start)
        return self._rows([number for number, other in between if other == name])

    def search(self, text: str) -> Iterator[int]:
        """Rows, best first: the name itself, then names that begin with it, then words within, then any part."""
        part, names = plain(text), self._names
        if not part:
            return
        near = [number for number, name in enumerate(names) if part in name]
        begin = [number for number in near if names[number].startswith(part)]
        within = [number for number in near if f" {part}" in names[number]]
        given: set[int] = set()
        for rows in chain([self.exact(text)], map(self._rows, (begin, within, near))):
            yield from (row for row in rows if row not in given)
            given.update(rows)

    def _rows(self, numbers: list[int]) -> list[int]:
        """The rows of these names: short names first, then first names before synonyms, then the hierarchy's order."""
        order = sorted(numbers, key=lambda number: (len(self._names[number]), self._owners[number]))
        return list(dict.fromkeys(self._owners[number][1] for number in order))


def match_names(names: Sequence[str], hierarchy: Hierarchy, wanted: Collection[str]) -> dict[str, str]:
    """Name -> id, for the names, of folders for example, that mean exactly one of the classes `wanted`.

    >>> from unseen.hierarchy import Hierarchy
    >>> animals = Hierarchy.from_edges([("n1", "n0"), ("n2", "n0")], {"n1": "polar bear", "n2": "fox"})
    >>> match_names(["n2", "Polar_Bear", "mouse"], animals, {"n1", "n2"})
    {'n2': 'n2', 'Polar_Bear': 'n1'}
    """
    matched = {}
    for name in names:
        ids = [name] if name in hierarchy else hierarchy.named(name)
        ids = [id for id in ids if id in wanted]
        if len(ids) == 1:
            matched[name] = ids[0]
    return matched


def close_matches(text: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """Names spelt nearly like `text`, for error messages."""
    near: dict[str, str] = {}
    wanted = plain(text)
    names = list(names)
    for name in names:
        folded = plain(name)
        if abs(len(folded) - len(wanted)) <= 3 and (len(names) < MANY_NAMES or folded[:2] == wanted[:2]):
            near.setdefault(folded, name)
    return [near[folded] for folded in difflib.get_close_matches(wanted, near, limit, 0.7)]


def near_ids(unknown: Sequence[str], hierarchy: Hierarchy, most: int = 3) -> list[str]:
    """Suggestions for unknown ids: a class of that name, or an id with nearly that spelling."""
    near = [id for text in unknown[:most] for id in hierarchy.named(text)[:2] or _near_id(text, hierarchy)]
    return [describe(id, hierarchy) for id in dict.fromkeys(near)]


def _near_id(text: str, hierarchy: Hierarchy) -> list[str]:
    """The id with the most similar spelling; of several, the one with the longest common beginning."""
    close = close_matches(text, hierarchy.ids, 20)
    beginnings = [text[:length] for length in range(1, len(text) + 1)]
    return sorted(close, key=lambda id: -sum(map(id.startswith, beginnings)))[:1]


def describe(id: str, hierarchy: Hierarchy) -> str:
    """A class as messages suggest it: `id (name)`."""
    return id if hierarchy.name(id) == id else f"{id} ({hierarchy.name(id)})"


def did_you_mean(suggestions: Sequence[str]) -> str:
    """A sentence to append to an error; empty without suggestions."""
    return f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
