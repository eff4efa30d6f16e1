"""Finding a class by its name: an index built on first use, quick enough for type-ahead over all of WordNet."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unseen.hierarchy.core import Hierarchy

# Beyond this many names, spelling suggestions consider only names with the same first two letters.
MANY_NAMES = 20_000
FEW_LOOKUPS = 100  # up to here scanning the text takes less time than an index of all names


def plain(text: str) -> str:
    """How names are compared: no case, and `_`, `-` and runs of blanks are one blank."""
    return " ".join(_fold(text).split())


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("_", " ").replace("-", " ")


class NameIndex:
    """All lemmas in one block of UTF-8 text, one a line, so that a search is a scan at memory speed."""

    def __init__(self, lemmas: Sequence[tuple[str, ...]]):
        text = _fold("\n".join("\n".join(synonyms) for synonyms in lemmas))
        text = re.sub(r" *\n *", "\n", re.sub(r"[^\S\n]+", " ", text)).strip(" ")
        self._text = b"\n" + text.encode() + b"\n"
        breaks = np.flatnonzero(np.frombuffer(self._text, np.uint8) == ord("\n"))
        self._start, self._length = breaks[:-1], np.diff(breaks)
        count = np.fromiter((len(synonyms) for synonyms in lemmas), np.int64, len(lemmas))
        self._row = np.repeat(np.arange(len(lemmas)), count)
        self._place = np.arange(len(self._row)) - np.repeat(np.cumsum(count) - count, count)
        self._lookups = 0

    @cached_property
    def _numbers(self) -> dict[str, list[int]]:
        """Name -> the numbers of the lines that hold it."""
        numbers: dict[str, list[int]] = {}
        for number, name in enumerate(self._text[1:-1].decode().split("\n")):
            numbers.setdefault(name, []).append(number)
        return numbers

    def exact(self, text: str) -> list[int]:
        """The rows with exactly this name, those whose first name it is before the others."""
        self._lookups += 1
        if self._lookups > FEW_LOOKUPS:
            return self._rows(np.array(self._numbers.get(plain(text), []), np.int64))
        line, places = b"\n" + plain(text).encode() + b"\n", []
        at = self._text.find(line)
        while at >= 0:
            places.append(at)
            at = self._text.find(line, at + 1)
        return self._rows(np.searchsorted(self._start, np.array(places, np.int64)))

    def search(self, text: str) -> Iterator[int]:
        """Rows, best first: the name itself, then names that begin with it, then words within, then any part."""
        part = plain(text).encode()
        if not part:
            return
        given = dict.fromkeys(self.exact(text))
        yield from given
        for pattern in (b"\n" + part, b" " + part, part):
            at = np.fromiter((match.start() for match in re.finditer(re.escape(pattern), self._text)), np.int64)
            for row in self._rows(np.unique(np.searchsorted(self._start, at, side="right") - 1)):
                if row not in given:
                    given[row] = None
                    yield row

    def _rows(self, numbers: np.ndarray) -> list[int]:
        """The rows of these lines: short names first, then first names before synonyms, then the hierarchy's order."""
        order = np.lexsort((self._row[numbers], self._place[numbers], self._length[numbers]))
        return list(dict.fromkeys(self._row[numbers[order]].tolist()))


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
    near: list[str] = []
    for text in unknown[:most]:
        near += [f"{id} ({hierarchy.name(id)})" for id in hierarchy.named(text)[:2]] or _near_id(text, hierarchy)
    return list(dict.fromkeys(near))


def _near_id(text: str, hierarchy: Hierarchy) -> list[str]:
    """The id with the most similar spelling; of several, the one with the longest common beginning."""
    close = close_matches(text, hierarchy.ids, 20)
    if not close:
        return []
    beginnings = [text[:length] for length in range(1, len(text) + 1)]
    id = max(close, key=lambda id: sum(map(id.startswith, beginnings)))
    return [id if hierarchy.name(id) == id else f"{id} ({hierarchy.name(id)})"]


def did_you_mean(suggestions: Sequence[str]) -> str:
    """A sentence to append to an error; empty without suggestions."""
    return f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
