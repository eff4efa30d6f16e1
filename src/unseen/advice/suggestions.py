"""A place in WordNet for names that come without a hierarchy: a proposal to read over, not a decision."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from unseen.assets import imagenet_21k
from unseen.errors import UnseenError
from unseen.runtime.files import write_atomically
from unseen.runtime.text import slug
from unseen.semantics import WordVectors
from unseen.taxonomy import Sense, Taxonomy
from unseen.taxonomy.readers import read_text

FIELDS = ("id", "name", "parent", "definition", "note")


@dataclass(frozen=True)
class Suggestion:
    """Where a name goes. `known`: the name is a WordNet noun, so `id` is its wnid and no new class is needed.

    >>> from unseen import Suggestion
    >>> Suggestion("electric bicycle", "electric-bicycle", "n02834778", "", False, ()).note
    'new class'
    >>> Suggestion("labradoodle", "labradoodle", "", "", False, ()).note
    'no place found: fill in the parent'
    """

    name: str  # several of them, joined by "|", if several lines mean this class
    id: str
    parent: str  # id, or several joined by "|"; empty where no place was found
    definition: str
    known: bool
    others: tuple[Sense, ...]  # what the name, or its head noun, may mean instead

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "id": self.id, "parent": self.parent, "known": self.known, "note": self.note}

    @property
    def note(self) -> str:
        if not self.parent and not self.known:
            return "no place found: fill in the parent"
        start = "is in WordNet" if self.known else "new class"
        listed = "; ".join(f"{sense.id} {sense.name} ({sense.definition})" for sense in self.others)
        return f"{start}; other senses: {listed}" if listed else start


def suggest(names: Sequence[str], wordnet: Taxonomy | None = None) -> list[Suggestion]:
    """For each class named: its WordNet sense, else a new class under the sense of its last words ("head noun").

    Args:
        names: Names of classes; several names of one class become its synonyms.
        wordnet: Where to look them up, by default all of WordNet.

    >>> import unseen
    >>> for item in unseen.suggest(["okapi", "electric bicycle"]):
    ...     print(item.id, "under", item.parent, "-", item.note)
    n02439398 under n02439033 - is in WordNet
    electric-bicycle under n02834778 - new class
    """
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
        if start == 0:
            best, parents = senses[0], wordnet.parents(senses[0].id)
            return Suggestion(name, best.id, "|".join(parents), best.definition, True, tuple(senses[1:5]))
        best, *others = _by_context(" ".join(words[:start]), senses, wordnet, imagenet)
        return Suggestion(name, slug(name), best.id, "", False, tuple(others[:4]))
    return Suggestion(name, slug(name), "", "", False, ())


def _ranked(name: str, wordnet: Taxonomy, imagenet: set[str]) -> list[Sense]:
    """Senses of a name or its singular, those that ImageNet has photos of first: they are things one can see."""
    senses = wordnet.senses(name)
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if not senses and name.lower().endswith(ending):
            senses = wordnet.senses(name[: -len(ending)] + singular)
    return sorted(senses, key=lambda sense: sense.id not in imagenet)


def _by_context(context: str, senses: list[Sense], wordnet: Taxonomy, imagenet: set[str]) -> list[Sense]:
    """Senses of "drone", best first, given "rescue": by the likeness of its words to those that describe a sense.

    ImageNet's have an advantage of 0.2 in cosine, since they are things one can see.
    """
    if len(senses) == 1:
        return senses

    def fit(sense: Sense) -> float:
        above = " ".join(wordnet.name(parent) for parent in wordnet.parents(sense.id))
        told = _meaning(f"{' '.join(sense.lemmas)} {sense.definition} {above}")
        return float(_meaning(context) @ told) + 0.2 * (sense.id in imagenet)

    return sorted(senses, key=fit, reverse=True)


def _meaning(text: str) -> np.ndarray:
    """A unit vector for a text: the mean of its words', without those too short to mean much; zero if none is known."""
    words = [word for word in re.findall(r"\w+", text.lower()) if len(word) > 3]
    known = [vector / np.linalg.norm(vector) for vector in map(_words().vector, words) if vector.any()]
    mean = np.mean(known, axis=0) if known else np.zeros(_words().dim, np.float32)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


@cache
def _words() -> WordVectors:
    return WordVectors.builtin()


def read_names(path: str | Path) -> list[str]:
    """A file of class names, one a line."""
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]


def write_csv(suggestions: Sequence[Suggestion], path: str | Path) -> None:
    """Write `to_csv` into a new file."""
    path = Path(path)
    if path.exists():
        raise UnseenError(f"{path} exists already: choose another name, so that your edits are not lost")
    write_atomically(path, to_csv(suggestions).encode())


def to_csv(suggestions: Sequence[Suggestion]) -> str:
    """The proposal as a CSV that `unseen taxonomy check`, `train --graph imagenet+FILE` and `add --csv` read."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for item in suggestions:
        writer.writerow([getattr(item, field) for field in FIELDS])
    return text.getvalue()
