"""A list of names -> the classes that they mean: of the hierarchy, of WordNet, or new ones predicted in memory.

An entry is an id, a name, or `name (parent)`, which says which of its senses is meant, or what a new class is a kind
of. Of several senses the commonest one counts that fits the rest of the list:

    argmax over the senses s of   FIT * mean over the other names of  kinship(s, other)  -  RARE * log2(number of s)
    kinship(s, other) = max over its senses t, and over the nodes v above both s and t, of  log10(N / nodes below v)
                        less how much less likely t is than its likeliest sense

where WordNet numbers the senses of a name by how often they are meant; senses that can be seen come first.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from unseen._util.names import slug
from unseen.answers.prior import sense_number
from unseen.bundle import Bundle
from unseen.bundle.grow import add
from unseen.data import imagenet_21k
from unseen.errors import UnseenError
from unseen.hierarchy.core import Hierarchy, Node, Sense
from unseen.hierarchy.files import read_text
from unseen.hierarchy.wordnet import is_wordnet_id
from unseen.vectors.placing import find_head, suggest

Entry: TypeAlias = "str | tuple[str, str]"  # a name, or a name and what it looks like
FIT, HINT, RARE = 2.0, 8.0, 0.5
THING, PHOTOS = 4.0, 1.5  # for a sense that is a thing and no person, and for one that ImageNet has photos of
PHYSICAL, PERSON = "n00001930", "n00007846"
KIN = 0.5  # to the parent in brackets; less of it, and a new class is meant
MENTIONED = 3  # other senses


@dataclass(frozen=True)
class Listed:
    """What an entry means."""

    name: str  # as it was given, without the parent in brackets
    id: str
    new: bool  # neither the hierarchy nor WordNet has it
    parents: tuple[Sense, ...]
    others: tuple[Sense, ...] = ()  # what the name may mean instead

    def as_dict(self) -> dict[str, Any]:
        parents, others = ([{"id": s.id, "name": s.name} for s in senses] for senses in (self.parents, self.others))
        return {"name": self.name, "id": self.id, "new": self.new, "parents": parents, "others": others}


def read_list(text: str) -> list[Entry]:
    """Names between commas; or a file with a name or an id on each line, and what it looks like behind a tab or in the
    column `looks` of a CSV."""
    if not Path(text).is_file():
        return [name for part in text.split(",") if (name := part.strip())]
    lines = [line for line in read_text(text).splitlines() if line.strip()]
    has_header = bool(lines) and re.search(r"(?i)(^|[\t;,])\"?name\"?($|[\t;,])", lines[0]) is not None
    mark = next((mark for mark in "\t;," if mark in lines[0]), "\t") if has_header else "\t"  # a name may have a comma
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark)]
    if has_header:
        header = [cell.lower() for cell in rows[0]]
        wanted = [header.index(column) for column in ("name", "looks") if column in header]
        rows = [[row[place] for place in wanted if place < len(row)] for row in rows[1:]]
    return [(row[0], row[1]) if len(row) > 1 and row[1] else row[0] for row in rows if row and row[0]]


def find_list(bundle: Bundle, entries: Iterable[Entry]) -> tuple[Bundle, list[Listed]]:
    """What each entry means, each class once; and the bundle, grown by what it lacks. `bundle` stays as it is."""
    looks = dict((entry.strip(), "") if isinstance(entry, str) else entry for entry in entries)
    if not looks:
        raise UnseenError("the list is empty: name some classes, as in 'okapi, quokka, wheelie bin'")
    finder = SenseFinder(bundle.hierarchy)
    senses = {text: finder.senses(text) for text in looks}
    placed = _place(finder, [text for text, ids in senses.items() if not ids])
    listed: dict[str, Listed] = {}
    new: list[Node] = []
    for text in senses:
        item = placed.get(text) or finder.best(text, senses)
        if item.id not in bundle.hierarchy and item.id not in listed:
            names, parents = ((item.name,), [parent.id for parent in item.parents]) if item.new else ((), ())
            new.append(Node(item.id, names, parents, looks=looks[text]))
        listed.setdefault(item.id, item)
    return (add(bundle, new) if new else bundle), list(listed.values())


class SenseFinder:
    """What names may mean in a hierarchy, and in WordNet if the hierarchy is made of it."""

    def __init__(self, hierarchy: Hierarchy):
        self.hierarchy = hierarchy
        self.wordnet = Hierarchy.wordnet() if any(map(is_wordnet_id, hierarchy.ids)) else hierarchy
        self._photographed, self._physical = frozenset(), frozenset(hierarchy.ids)
        if self.wordnet is not hierarchy:
            people = self.wordnet.descendants(PERSON)
            self._photographed = frozenset(imagenet_21k()).difference(people)
            self._physical = frozenset(self.wordnet.descendants(PHYSICAL)).difference(people)
        _, above, _ = hierarchy.ancestor_pairs()
        self._specific = np.log10(len(hierarchy) / np.bincount(above, minlength=len(hierarchy)))  # N, for each node

    def of(self, id: str) -> Hierarchy:
        return self.hierarchy if id in self.hierarchy else self.wordnet

    def senses(self, text: str) -> list[str]:
        """The ids that an entry may mean; none for a new name."""
        name, hint = split_hint(text)
        if text in self.hierarchy or text in self.wordnet:
            return [text]
        ids = self.named(name)
        if not ids:
            head = find_head(name, self.wordnet)  # a plural
            ids = list(head.ids) if head.is_name else []
        return ids if not hint or max((self.kinship(id, self.named(hint)) for id in ids), default=0) >= KIN else []

    def named(self, name: str) -> list[str]:
        return list(dict.fromkeys([*self.hierarchy.named(name), *self.wordnet.named(name)]))

    def best(self, text: str, senses: Mapping[str, Sequence[str]]) -> Listed:
        """The sense of an entry that is common and fits the others; `senses`: what each entry may mean."""
        name, hint = split_hint(text)
        ids = list(senses[text])
        if len(ids) > 1:
            hinted, likely = self.named(hint), self._likely(ids, name)
            others = [(meant, self._likely(meant, key)) for key, meant in senses.items() if meant and key != text]
            fits = [[self.kinship(id, *other) for other in others] or [0.0] for id in ids]
            worth = likely + FIT * np.mean(fits, axis=1) + HINT * np.array([self.kinship(id, hinted) for id in ids])
            ids = [ids[place] for place in np.argsort(-worth, kind="stable")]
        others = [self.of(id).sense(id) for id in ids[1:] if id in self._physical]
        return Listed(name, ids[0], False, self.parents(ids[0]), () if hint else tuple(others[:MENTIONED]))

    def _likely(self, ids: Sequence[str], text: str) -> np.ndarray:
        """How likely each sense is by itself, less than 0 but for the likeliest."""
        name = split_hint(text)[0]
        worth = np.array(
            [
                THING * (id in self._physical)
                + PHOTOS * (id in self._photographed)
                - RARE * math.log2(sense_number(id, name))
                for id in ids
            ]
        )
        return worth - worth.max()

    def parents(self, id: str) -> tuple[Sense, ...]:
        return tuple(map(self.of(id).sense, self.of(id).parents(id)))

    def kinship(self, id: str, others: Sequence[str], likely: np.ndarray | None = None) -> float:
        """How specific the lowest node above both is, for the best of the other senses."""
        above = {id, *self.of(id).ancestors(id)}
        best = 0.0
        for place, other in enumerate(others):
            shared = above.intersection((other, *self.of(other).ancestors(other)))
            specific = (self._specific[self.hierarchy.index(node)] for node in shared if node in self.hierarchy)
            best = max(best, max(specific, default=0.0) + (0.0 if likely is None else float(likely[place])))
        return best


def split_hint(text: str) -> tuple[str, str]:
    """
    >>> split_hint("crane (machine)"), split_hint("crane")
    (('crane', 'machine'), ('crane', ''))
    """
    match = re.fullmatch(r"(.+?)\s*\(([^()]+)\)", text.strip())
    return (match[1], match[2].strip()) if match else (text.strip(), "")


def _place(finder: SenseFinder, texts: Sequence[str]) -> dict[str, Listed]:
    """New classes: under the parent in brackets, else where `vectors.placing` puts the name."""
    placed: dict[str, Listed] = {}
    hints = {text: split_hint(text) for text in texts}
    proposed = [name for name, hint in hints.values() if not hint]
    if proposed and finder.wordnet is finder.hierarchy:
        what = "this hierarchy is your own: say what it is a kind of, as in"
        raise UnseenError(f"{proposed[0]!r} is no class of it, and {what} '{proposed[0]} (PARENT)'")
    parents = {item.name: item.parent for item in suggest(proposed, finder.wordnet)} if proposed else {}
    for text, (name, hint) in hints.items():
        parent = finder.of(hint).resolve(hint) if hint else parents.get(name, "")
        if not parent:
            raise UnseenError(f"nothing is known of {name!r}: say what it is a kind of, as in '{name} (bird)'")
        placed[text] = Listed(name, slug(name), True, (finder.of(parent).sense(parent),))
    return placed
