"""A place in WordNet for names that come without a hierarchy: a proposal to read over, not a decision."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from unseen.advice.head_nouns import HeadNoun, find_head
from unseen.advice.places import Atlas, Places, make_atlas
from unseen.assets import imagenet_21k
from unseen.errors import UnseenError
from unseen.runtime.files import write_atomically
from unseen.runtime.text import slug
from unseen.taxonomy import Sense, Taxonomy
from unseen.taxonomy.draft import describe_parent
from unseen.taxonomy.readers import read_text
from unseen.taxonomy.search import plain

FIELDS = ("id", "name", "parent", "definition", "note")
OFFERED = 3  # places for a new class
STRANGE = 0.465  # a name without a noun in it, less like every class than this (in cosine), may mean anything


class Place(NamedTuple):
    """A class that a new one may be below, and how likely the right one is there or near, beyond those before."""

    sense: Sense
    score: float

    def as_dict(self) -> dict[str, Any]:
        sense = self.sense
        return {"id": sense.id, "name": sense.name, "definition": sense.definition, "score": round(self.score, 3)}


@dataclass(frozen=True)
class Suggestion:
    """Where a name goes. `known`: the name is a WordNet noun, so `id` is its wnid and no new class is needed.

    >>> from unseen import Suggestion
    >>> Suggestion("electric bicycle", "electric-bicycle", "n02834778", "", False, ()).note
    'new class'
    >>> Suggestion("qqxzv", "qqxzv", "", "", False, ()).note
    'no place found: fill in the parent'
    """

    name: str  # several of them, joined by "|", if several lines mean this class
    id: str
    parent: str  # id, or several joined by "|"; empty where no place was found
    definition: str
    known: bool
    others: tuple[Sense, ...]  # what a WordNet noun may mean instead
    places: tuple[Place, ...] = ()  # for a new class: the most likely parents, the first being `parent`
    dropped: tuple[str, ...] = ()  # names that were given before, or mean this class too

    def as_dict(self) -> dict[str, Any]:
        plain = {"name": self.name, "id": self.id, "parent": self.parent, "known": self.known, "note": self.note}
        return plain | {"places": [place.as_dict() for place in self.places], "dropped": list(self.dropped)}

    @property
    def note(self) -> str:
        if not self.parent and not self.known:
            return "no place found: fill in the parent"
        start, what = ("is in WordNet", "other senses") if self.known else ("new class", "or under")
        senses = self.others if self.known else tuple(place.sense for place in self.places[1:])
        listed = "; ".join(f"{sense.id} {sense.name} ({sense.definition})" for sense in senses)
        return f"{start}; {what}: {listed}" if listed else start


def suggest(names: Sequence[str], wordnet: Taxonomy | None = None) -> list[Suggestion]:
    """For each class named: its WordNet sense, else a new class under what it most likely is a kind of.

    That is judged by the meaning of the name, its last words ("head noun") and the other names of the list: "drill"
    among tools is a tool. Meanings are sentence encodings; without the extra `text`, word vectors.

    Args:
        names: Names of classes; several names of one class become its synonyms.
        wordnet: Where to look them up, by default all of WordNet.

    >>> import unseen
    >>> for item in unseen.suggest(["okapi", "electric bicycle"]):
    ...     print(item.id, "under", item.parent, "-", "in WordNet" if item.known else "new")
    n02439398 under n02439033 - in WordNet
    electric-bicycle under n02834778 - new
    """
    wordnet = wordnet or Taxonomy.wordnet()
    imagenet = set(imagenet_21k())
    given = list(dict.fromkeys(" ".join(name.replace("_", " ").split()) for name in names))
    heads = [find_head(name, wordnet) for name in given]
    new = [name for name, head in zip(given, heads, strict=True) if not head.whole]
    placed = _place(new, [head for head in heads if not head.whole], wordnet) if new else {}
    found: dict[str, Suggestion] = {}
    for name, head in zip(given, heads, strict=True):
        item = _known(name, head, wordnet, imagenet) if head.whole else placed[name]
        same = found.get(item.id)  # two names of one class are its synonyms
        if same is None:
            found[item.id] = item
        else:
            found[item.id] = replace(same, name=f"{same.name}|{name}", dropped=(*same.dropped, name))
    return [replace(item, dropped=(*_repeated(item, names), *item.dropped)) for item in found.values()]


def _repeated(item: Suggestion, names: Sequence[str]) -> list[str]:
    """Names of this class that were given more than once, once for each time too many."""
    own, count = set(item.name.split("|")), {}
    for name in (" ".join(name.replace("_", " ").split()) for name in names):
        count[name] = count.get(name, 0) + 1
    return [name for name, times in count.items() if name in own for _ in range(times - 1)]


def _known(name: str, head: HeadNoun, wordnet: Taxonomy, imagenet: set[str]) -> Suggestion:
    """A noun of WordNet. Senses that ImageNet has photos of come first: they are things one can see."""
    best, *others = (wordnet.sense(id) for id in sorted(head.ids, key=lambda id: id not in imagenet))
    parents = "|".join(wordnet.parents(best.id))
    return Suggestion(name, best.id, parents, best.definition, True, tuple(others[:4]))


def _place(names: Sequence[str], heads: Sequence[HeadNoun], wordnet: Taxonomy) -> dict[str, Suggestion]:
    atlas = make_atlas(wordnet, heads)
    found = {}
    for name, head, places in zip(names, heads, atlas.places(names, heads), strict=True):
        strange = not head.ids and places.facts[:, 0].max() < STRANGE
        offered = () if strange else _best(atlas, places)
        parent = offered[0].sense.id if offered else ""
        found[name] = Suggestion(name, slug(name), parent, "", False, (), offered)
    return found


def _best(atlas: Atlas, places: Places) -> tuple[Place, ...]:
    best = places.best(OFFERED)
    return tuple(Place(atlas.graph.sense(atlas.graph.ids[places.rows[at]]), score) for at, score in best)


def read_names(path: str | Path) -> list[str]:
    """A file of class names, one a line."""
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def write_csv(suggestions: Sequence[Suggestion], path: str | Path, wordnet: Taxonomy | None = None) -> None:
    """Write `to_csv` into a new file."""
    path = Path(path)
    if path.exists():
        raise UnseenError(f"{path} exists already: choose another name, so that your edits are not lost")
    write_atomically(path, to_csv(suggestions, wordnet).encode())


def to_csv(suggestions: Sequence[Suggestion], wordnet: Taxonomy | None = None) -> str:
    """The proposal as a CSV that `unseen taxonomy check`, `train --graph imagenet+FILE` and `add --csv` read.

    Parents are written as `id (name: definition)`, so that the table can be read over without looking ids up.
    """
    wordnet = wordnet or Taxonomy.wordnet()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for item in suggestions:
        parents = [describe_parent(wordnet.sense(id)) for id in item.parent.split("|") if id]
        writer.writerow([item.id, _own_names(item, wordnet), "|".join(parents), item.definition, item.note])
    return text.getvalue()


def _own_names(item: Suggestion, wordnet: Taxonomy) -> str:
    """Of a noun of WordNet only its own names, since a row may not rename a class: "okapis" is okapi."""
    if not item.known:
        return item.name
    own = set(map(plain, wordnet.sense(item.id).lemmas))
    return "|".join(name for name in item.name.split("|") if plain(name) in own) or wordnet.name(item.id)
