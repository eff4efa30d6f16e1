"""What a person calls a node: its spoken name with an article, whether anybody says it, and what was trained on.

The phrase book (`data/phrasebook.tsv`, written for this project) has a spoken name for many nodes of WordNet, and a
rank: 3 said exactly so, 2 a helpful answer, 1 vague or technical, 0 never said. A node that it lacks, or that the user
renamed, is called by its first name, rank 2. Answers are *sayable*: of rank 2 or 3.

Nodes of WordNet with the same spoken name are one thing to a person (a bowl to eat from, a bowl to mix in). So all that
is at or below one of them counts for each of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, cached_property, lru_cache

import numpy as np

from unseen.data import data_file
from unseen.hierarchy import paths
from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.wordnet import wordnet_rows
from unseen.util.names import count_of_photos

LEVELS = {"sure": "Sure", "likely": "Likely", "guess": "A guess"}  # how a verdict begins
SAYABLE = 2  # the least rank of an answer
UNLISTED = 2  # the rank of a node that the book lacks


@cache
def phrase_book() -> dict[str, tuple[str, str, int]]:
    """WordNet's id -> its name there, what a person says, and the rank of that."""
    lines = data_file("phrasebook.tsv").read_text(encoding="utf-8").splitlines()
    entries = (line.split("\t") for line in lines)
    return {id: (name, say, int(rank)) for id, name, say, rank in entries}


class Words:
    """The spoken names of a hierarchy's N nodes. Nodes are rows of the hierarchy.

    >>> words = words_of(Hierarchy.imagenet())
    >>> ungulate = words.hierarchy.index("n02370806")
    >>> words.says[ungulate], bool(words.sayable[ungulate]), words.path(ungulate)
    ('hoofed animal', True, ('animal', 'mammal', 'hoofed animal'))
    """

    def __init__(self, hierarchy: Hierarchy):
        self.hierarchy, book, names = hierarchy, phrase_book(), hierarchy.names
        self.says, self.ranks = list(names), np.full(len(names), UNLISTED, np.int8)
        for row, id in enumerate(hierarchy.ids):
            entry = book.get(id)
            if entry is not None and entry[0] == names[row]:  # else the user calls it otherwise
                self.says[row], self.ranks[row] = entry[1:]
        self.sayable = self.ranks >= SAYABLE  # N

    @cached_property
    def groups(self) -> np.ndarray:
        """N: for each node the first one of its spoken name; itself where no other is called so."""
        groups, called = np.arange(len(self.says)), defaultdict(list)
        for row in np.flatnonzero(self.sayable).tolist():
            called[self.says[row].lower()].append(row)
        from_wordnet = wordnet_rows(self.hierarchy.ids) >= 0
        for rows in called.values():
            if len(rows) > 1:
                rows = [row for row in rows if from_wordnet[row]]
                groups[rows] = rows[:1]
        return groups

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(node, named), each pair once: the node is at or below one of those that are called what `named` is."""
        node, ancestor, _ = self.hierarchy.ancestor_pairs()
        size, members = len(self.groups), np.bincount(self.groups, minlength=len(self.groups))
        shared = members[self.groups[ancestor]] > 1
        pairs = np.unique(node[shared].astype(np.int64) * size + self.groups[ancestor[shared]])
        below, first = np.divmod(pairs, size)
        order = np.argsort(self.groups, kind="stable")  # the members of a group one after the other
        start = np.searchsorted(self.groups[order], first)
        within = np.arange(members[first].sum()) - np.repeat(np.cumsum(members[first]) - members[first], members[first])
        named = order[np.repeat(start, members[first]) + within]
        return np.append(node[~shared], np.repeat(below, members[first])), np.append(ancestor[~shared], named)

    @cached_property
    def _keys(self) -> np.ndarray:
        """The pairs as sorted numbers, to look them up."""
        node, named = self.pairs
        return np.sort(node.astype(np.int64) * len(self.says) + named)

    def are_true(self, nodes: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """n, bool: whether each photo's class is what the node is called: at or below it or another one of its spoken
        name. -1, no node, is never true."""
        wanted = np.asarray(classes, np.int64) * len(self.says) + nodes
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return (nodes >= 0) & (self._keys[place] == wanted)

    def path(self, row: int) -> tuple[str, ...]:
        """Spoken names from the top of the hierarchy down to a node: sayable ones, each once."""
        way = paths.way_up((self.hierarchy.parent_ptr, self.hierarchy.parent_idx), row)
        steps = dict.fromkeys(self.says[step] for step in reversed(way) if self.sayable[step] or step == row)
        names = list(steps)
        return tuple(names[: names.index(self.says[row]) + 1])


@lru_cache(maxsize=8)  # and not for as long as there is the hierarchy, since its words hold it
def words_of(hierarchy: Hierarchy) -> Words:
    """The words of a hierarchy; those of the last few are kept."""
    return Words(hierarchy)


# -- articles --------------------------------------------------------------------------------------------------------

VOWEL = re.compile(r"[aeiouAEIOU]|hour|honest|heir|x-|[FHLMNRSX](-|[A-Z0-9]+\b)")  # an X-ray, an MP3 player
SOUNDS_LIKE_YOU = re.compile(r"[Uu]ni(?!n|m)|[Uu][krst][aeiu]|U[A-Z]|[Ee]u|[Ee]we|[Oo]ne(\b|s)|[Oo]uija")  # no vowel
PLURAL = re.compile(r"(?<![aious])s$|(people|cattle|men|women|bacteria|fungi|algae|teeth|feet|pajamas)$")
SINGULAR = re.compile(r"(lens|longlegs|thrips|series|species|biceps|triceps|gallows|pyrenees|triceratops)$")
BEFORE_HEAD = re.compile(r" (?:of|with|without|in|for|from|on|to|that) .*")  # a chest of drawers is a chest
ALTERNATIVE = re.compile(r".*(?:,| or | and ) *")  # the last one decides
COUNTED = frozenset(["comb jelly"])  # though their last word is not


@cache
def mass_nouns() -> frozenset[str]:
    """Last words of what cannot be counted."""
    return frozenset(data_file("mass-nouns.txt").read_text(encoding="ascii").split())


def with_article(say: str) -> str:
    """A spoken name as a sentence needs it: plurals and what cannot be counted have no article.

    >>> [with_article(say) for say in ("hoofed animal", "owl", "sunglasses", "ice cream", "unicycle", "lens cap")]
    ['a hoofed animal', 'an owl', 'sunglasses', 'ice cream', 'a unicycle', 'a lens cap']
    >>> [with_article(say) for say in ("piece of clothing", "duck or goose", "MP3 player", "chest of drawers", "bus")]
    ['a piece of clothing', 'a duck or goose', 'an MP3 player', 'a chest of drawers', 'a bus']
    """
    last = ALTERNATIVE.sub("", BEFORE_HEAD.sub("", say)).rpartition(" ")[2].lower()
    if say not in COUNTED and (last in mass_nouns() or (PLURAL.search(last) and not SINGULAR.match(last))):
        return say
    return f"{'an' if VOWEL.match(say) and not SOUNDS_LIKE_YOU.match(say) else 'a'} {say}"


# -- what was trained on ---------------------------------------------------------------------------------------------


def training_in_words(seen: bool, novel: bool, photos: int = 0) -> str:
    """What a model was shown of a class; `photos`: those that it was taught with.

    >>> training_in_words(seen=False, novel=True, photos=1), training_in_words(seen=False, novel=False)
    ('learned from 1 photo', 'trained on kinds of it')
    """
    if photos:
        return f"learned from {count_of_photos(photos)}"
    return "trained on it" if seen else "never shown" if novel else "trained on kinds of it"
