"""A place in WordNet for names that come without a hierarchy: a proposal to read over, not a decision."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unseen.assets import imagenet_21k
from unseen.taxonomy import Sense, Taxonomy

FIELDS = ("id", "name", "parent", "definition", "note")


@dataclass(frozen=True)
class Suggestion:
    """Where a name goes. `known`: the name is a WordNet noun, so `id` is its wnid and no new class is needed."""

    name: str  # several of them, joined by "|", if several lines mean this class
    id: str
    parent: str  # id, or several joined by "|"; empty where no place was found
    definition: str
    known: bool
    others: tuple[Sense, ...]  # what the name, or its head noun, may mean instead

    @property
    def note(self) -> str:
        if not self.parent and not self.known:
            return "no place found: fill in the parent"
        start = "is in WordNet" if self.known else "new class"
        listed = "; ".join(f"{sense.id} {sense.name} ({sense.definition})" for sense in self.others)
        return f"{start}; other senses: {listed}" if listed else start


def suggest(names: Sequence[str], wordnet: Taxonomy | None = None) -> list[Suggestion]:
    """For each class named: its WordNet sense, else a new class under the sense of its last words ("head noun")."""
    wordnet = wordnet or Taxonomy.wordnet()
    imagenet = set(imagenet_21k())
    found: dict[str, Suggestion] = {}
    for name in names:
        item = _place(" ".join(name.replace("_", " ").split()), wordnet, imagenet)
        same = found.get(item.id)  # two names of one class are its synonyms
        if same is None:
            found[item.id] = item
        elif item.name not in same.name.split("|"):
            found[item.id] = replace(same, name=f"{same.name}|{item.name}")
    return list(found.values())


def _place(name: str, wordnet: Taxonomy, imagenet: set[str]) -> Suggestion:
    words = name.split()
    for start in range(len(words)):  # "red electric guitar", then "electric guitar", then "guitar"
        senses = _ranked(" ".join(words[start:]), wordnet, imagenet)
        if not senses:
            continue
        best, others = senses[0], tuple(senses[1:5])
        if start == 0:
            parents = wordnet.parents(best.id)
            return Suggestion(name, best.id, "|".join(parents), best.definition, True, others)
        return Suggestion(name, slug(name), best.id, "", False, others)
    return Suggestion(name, slug(name), "", "", False, ())


def _ranked(name: str, wordnet: Taxonomy, imagenet: set[str]) -> list[Sense]:
    """Senses of a name or its singular, those that ImageNet has photos of first: they are things one can see."""
    senses = wordnet.senses(name)
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if not senses and name.lower().endswith(ending):
            senses = wordnet.senses(name[: -len(ending)] + singular)
    return sorted(senses, key=lambda sense: sense.id not in imagenet)


def slug(name: str) -> str:
    """An id for a name: lower case, hyphens for the rest."""
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-") or "class"


def to_csv(suggestions: Sequence[Suggestion]) -> str:
    """The proposal as a CSV that `unseen taxonomy check`, `train --graph imagenet+FILE` and `add --csv` read."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for item in suggestions:
        writer.writerow([getattr(item, field) for field in FIELDS])
    return text.getvalue()
