"""A list of names -> the classes that they mean: of the hierarchy, of WordNet, or new ones predicted in memory.

An entry is an id, a name, or `name (parent)`, which picks one of its senses or says what a new class is a kind of. Of
several senses, the best is common and fits the rest of the list:

    argmax over the senses s of   FIT * mean over the other names of  kinship(s, other)  -  RARE * log2(number of s)
    kinship(s, other) = max over its senses t, and over the nodes v above both s and t, of  log10(N / nodes below v)
                        minus the log-likelihood gap between t and the likeliest sense

WordNet numbers the senses of a name by how often they are meant; visible things come first. `Listed.note` says in a
sentence what a name was taken for.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from unseen.bundle import Bundle
from unseen.bundle.grow import add
from unseen.data import data_file, imagenet_21k
from unseen.hierarchy.core import Hierarchy, Node, Sense
from unseen.hierarchy.search import close_matches, did_you_mean, plain
from unseen.hierarchy.wordnet import has_wordnet_ids, wordnet_row
from unseen.naming.meaning import find_class, find_head_noun
from unseen.naming.placing import CHECK, suggest
from unseen.naming.reading import Entry
from unseen.util.errors import UnseenError
from unseen.util.names import slug

FIT, HINT, RARE = 2.5, 8.0, 1.0
THING, PHOTOS = 4.0, 1.25  # for a sense that is a thing and no person, and for one that ImageNet has photos of
PHYSICAL, PERSON = "n00001930", "n00007846"
KIN = 0.5  # least kinship to the parent in brackets; below it, a new class is meant
MENTIONED = 3  # other senses at most
FEW = 1.0  # added to the number of other names: that a sense fits one or two says little
CLOSE = 1.5  # a smaller gap to the second sense makes a name doubtful


@dataclass(frozen=True)
class Listed:
    """What an entry means."""

    name: str  # as it was given, without the parent in brackets
    id: str
    new: bool  # neither the hierarchy nor WordNet has it
    parents: tuple[Sense, ...]
    others: tuple[Meaning, ...] = ()  # what the name may mean instead
    definition: str = ""
    score: float | None = None  # of a new class: how likely its place is right, or near
    close: bool = False  # one of the others is nearly as likely
    also: tuple[str, ...] = ()  # other entries of the list that mean this class

    def to_dict(self) -> dict[str, Any]:
        listed = {"name": self.name, "id": self.id, "new": self.new, "score": self.score, "note": self.note}
        parents = [{"id": sense.id, "name": sense.name} for sense in self.parents]
        return listed | {"parents": parents, "others": [other._asdict() for other in self.others]}

    @property
    def certain(self) -> bool:
        """Whether the note need not be read."""
        return not self.close and (self.score is None or self.score >= CHECK)

    @property
    def note(self) -> str:
        """What the name was taken for, and how to say that something else is meant."""
        above = " and ".join(parent.name for parent in self.parents)
        also = f" Also named: {', '.join(self.also)}." if self.also else ""
        if not self.new:
            meaning = _short(self.definition) or (f"a kind of {above}" if above else "a class of the hierarchy")
            ways = [f"{one.id}{f' or {self.name} ({one.parent})' if one.parent else ''}" for one in self.others]
            pairs = zip(ways, self.others, strict=True)
            instead = "; ".join(f"write {way} for: {_short(other.definition)}" for way, other in pairs)
            return f"{self.name}: {meaning} ({self.id}). {f'Or {instead}.' if instead else ''}{also}".strip()
        text = f"{self.name}: a new class, taken as a kind of {above}."
        if not self.certain:
            text += f" That is a guess: check it, or say what it is, as in '{self.name} (bird)'."
        return text + also


class Meaning(NamedTuple):
    """What a name may mean instead."""

    id: str
    name: str
    parent: str  # in brackets behind the name, it settles that this is meant; "" where only the id does
    definition: str


def _short(definition: str) -> str:
    """Up to the first semicolon."""
    return definition.split(";")[0].strip()


def find_list(bundle: Bundle, entries: Iterable[Entry]) -> tuple[Bundle, list[Listed]]:
    """The classes that the entries mean, each once, and a copy of the bundle with the new ones."""
    looks = dict((entry.strip(), "") if isinstance(entry, str) else entry for entry in entries)
    looks = {text: look for text, look in looks.items() if text}
    if not looks:
        raise UnseenError("the list is empty: name some classes, as in 'okapi, quokka, wheelie bin'")
    finder = _finder(bundle.hierarchy)
    senses = {text: finder.senses(text) for text in looks}
    placed = _place(finder, {text: looks[text] for text, ids in senses.items() if not ids})
    listed: dict[str, Listed] = {}
    new: list[Node] = []
    for text in senses:
        item = placed.get(text) or finder.best(text, senses)
        if item.id in listed:
            also = (*listed[item.id].also, item.name)
            listed[item.id] = replace(listed[item.id], also=tuple(dict.fromkeys(also)))
            continue
        listed[item.id] = item
        if item.id not in bundle.hierarchy:
            names, parents = ((item.name,), [parent.id for parent in item.parents]) if item.new else ((), ())
            new.append(Node(item.id, names, parents, looks=looks[text]))
    return (add(bundle, new) if new else bundle), list(listed.values())


class SenseFinder:
    """What names may mean in a hierarchy, and in WordNet if the hierarchy is made of it."""

    def __init__(self, hierarchy: Hierarchy):
        self.hierarchy = hierarchy
        self.wordnet = Hierarchy.wordnet() if has_wordnet_ids(hierarchy) else hierarchy
        self._photographed, self._physical = frozenset(), frozenset(hierarchy.ids)
        if self.wordnet is not hierarchy:
            people = self.wordnet.descendants(PERSON)
            self._photographed = frozenset(imagenet_21k()).difference(people)
            self._physical = frozenset(self.wordnet.descendants(PHYSICAL)).difference(people)
        _, above, _ = hierarchy.ancestor_pairs()
        specific = np.log10(len(hierarchy) / np.bincount(above, minlength=len(hierarchy)))
        self._specific = dict(zip(hierarchy.ids, specific.tolist(), strict=True))
        self._above: dict[str, frozenset[str]] = {}  # id -> itself and what is above it in the hierarchy

    def where(self, id: str) -> Hierarchy:
        """The hierarchy that has this id."""
        return self.hierarchy if id in self.hierarchy else self.wordnet

    def senses(self, text: str) -> list[str]:
        """The ids that an entry may mean; none for a new name."""
        name, hint = split_hint(text)
        if text in self.hierarchy or text in self.wordnet:
            return [text]
        ids = self.named(name)
        if not ids:
            head = find_head_noun(name, self.wordnet)  # a plural
            ids = list(head.ids) if head.is_name else []
        return ids if not hint or max((self.kinship(id, self.named(hint)) for id in ids), default=0) >= KIN else []

    def named(self, name: str) -> list[str]:
        return list(dict.fromkeys([*self.hierarchy.named(name), *self.wordnet.named(name)]))

    def best(self, text: str, senses: Mapping[str, Sequence[str]]) -> Listed:
        """The best sense of an entry; `senses` holds the possible ids of every entry."""
        name, hint = split_hint(text)
        ids, close = list(senses[text]), False
        if len(ids) > 1:
            hinted, likely = self.named(hint), self._likely(ids, name)
            others = [(meant, self._likely(meant, key)) for key, meant in senses.items() if meant and key != text]
            fits = [[self.kinship(id, *other) for other in others] or [0.0] for id in ids]
            worth = (
                likely
                + FIT * np.sum(fits, axis=1) / (len(others) + FEW)
                + HINT * np.array([self.kinship(id, hinted) for id in ids])
            )
            order = np.argsort(-worth, kind="stable")
            ids, close = [ids[at] for at in order], bool(worth[order[0]] - worth[order[1]] < CLOSE and not hint)
        above = Counter(parent.name for id in ids for parent in self.parents(id)[:1])
        others = [self._meaning(id, above) for id in ids[1:] if id in self._physical][:MENTIONED]
        parents, definition = self.parents(ids[0]), self.where(ids[0]).definition(ids[0])
        return Listed(name, ids[0], False, parents, () if hint else tuple(others), definition, close=close)

    def _meaning(self, id: str, above: Mapping[str, int]) -> Meaning:
        parent = next((parent.name for parent in self.parents(id)[:1] if above[parent.name] == 1), "")
        return Meaning(id, self.where(id).name(id), parent, self.where(id).definition(id))

    def _likely(self, ids: Sequence[str], text: str) -> np.ndarray:
        """The log-likelihood of each sense by itself; 0 for the likeliest."""
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
        return tuple(map(self.where(id).sense, self.where(id).parents(id)))

    def kinship(self, id: str, others: Sequence[str], likely: np.ndarray | None = None) -> float:
        """How specific the lowest common ancestor is, for the best of the other senses."""
        above, best = self._up(id), 0.0
        for at, other in enumerate(others):
            specific = max((self._specific[node] for node in above & self._up(other)), default=0.0)
            best = max(best, specific + (0.0 if likely is None else float(likely[at])))
        return best

    def _up(self, id: str) -> frozenset[str]:
        if id not in self._above:
            self._above[id] = frozenset((id, *self.where(id).ancestors(id))) & self._specific.keys()
        return self._above[id]


@lru_cache(maxsize=4)
def _finder(hierarchy: Hierarchy) -> SenseFinder:
    return SenseFinder(hierarchy)


def split_hint(text: str) -> tuple[str, str]:
    """
    >>> split_hint("crane (machine)"), split_hint("crane")
    (('crane', 'machine'), ('crane', ''))
    """
    match = re.fullmatch(r"(.+?)\s*\(([^()]+)\)", text.strip())
    return (match[1], match[2].strip()) if match else (text.strip(), "")


def _place(finder: SenseFinder, looks: Mapping[str, str]) -> dict[str, Listed]:
    """New classes: under the parent in brackets, else where `naming.placing` puts the name."""
    placed: dict[str, Listed] = {}
    hints = {text: split_hint(text) for text in looks}
    proposed = {name: looks[text] for text, (name, hint) in hints.items() if not hint}
    if proposed and finder.wordnet is finder.hierarchy:
        unknown = next(iter(proposed))
        near = did_you_mean(close_matches(unknown, finder.hierarchy.names))
        raise UnseenError(
            f"{unknown!r} is not in this hierarchy, which is your own.{near} For a new class, say what it is a kind "
            f"of: '{unknown} (PARENT)'"
        )
    places = {item.name: item.places[0] for item in suggest(list(proposed), finder.wordnet, proposed) if item.places}
    for text, (name, hint) in hints.items():
        if not hint and name not in places:
            raise UnseenError(f"nothing is known of {name!r}: say what it is a kind of, as in '{name} (bird)'")
        parent = find_class(hint, finder.where(hint)) if hint else places[name].sense.id
        score = None if hint else round(places[name].score, 3)
        placed[text] = Listed(name, slug(name), True, (finder.where(parent).sense(parent),), score=score)
    return placed


def sense_number(id: str, name: str) -> int:
    """WordNet's number of a noun among the senses of its name, by how often it is meant; 1 for anything else.

    >>> sense_number("n02139199", "bat"), sense_number("n02806379", "bat")
    (1, 5)
    """
    row = wordnet_row(id)
    lemmas = [] if row < 0 else list(map(plain, Hierarchy.wordnet().lemmas[row]))
    if plain(name) not in lemmas:
        return 1
    numbers, start = _senses()
    return int(numbers[start[row] + lemmas.index(plain(name))])


@cache
def _senses() -> tuple[np.ndarray, np.ndarray]:
    """The sense numbers of all lemmas, and the position of each WordNet row's first one."""
    with np.load(data_file("commonness.npz"), allow_pickle=False) as file:
        return file["senses"], np.cumsum([0, *map(len, Hierarchy.wordnet().lemmas)])
