"""Where in WordNet a name belongs: a proposal to check, not a decision.

A place is a possible parent c of a new class. A few facts about each decide how probable it is:

    p(c) = softmax over the places c of  sum of weight * fact(c)

The places offered cover most of the probability nearby: a class between two likely ones may be better than either.
The weights maximise the probability near the true parent, on one half of benchmarks/everyday-names.csv and on nouns of
WordNet, each hidden in turn; `benchmarks/suggest.py` measures them on the other half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unseen.data import imagenet_21k
from unseen.hierarchy import paths
from unseen.hierarchy.core import Hierarchy, Sense
from unseen.hierarchy.files import describe_parent, tidy
from unseen.hierarchy.search import plain
from unseen.naming.meaning import HeadNoun, find_head_noun, spell_out
from unseen.util import safe_text
from unseen.util.arrays import normalise_rows
from unseen.util.errors import UnseenError
from unseen.util.files import write_atomically
from unseen.util.names import slug
from unseen.vectors.sources import WordVectors
from unseen.vectors.text_encoder import TextEncodings, encoder_installed

# --- possible parents -------------------------------------------------------------------------------------------------

WEIGHTS = {
    "likeness": 2.8,  # of the name to the class, in cosine
    "parenthood": 5.0,  # of the name to what such a class would be below
    "children": 9.5,  # of the name to the three children that are most like it
    "head": 4.4,  # the class is a sense of the name's last words
    "compound": 4.7,  # the class is a sense of the end of its last word
    "photos": 0.4,  # ImageNet has photos of the class: it is something one can see
    "company": 4.9,  # likeness of the other names of the list to the class
    "region": 2.6,  # how much more of the list is in this part of WordNet than by chance: mean over the ways up
    "size": 0.5,  # log of the classes below
    "artifact": 0.8,  # the class is of that kind, of which names to be classified are more often or less
    "food": 0.8,
    "animal": 0.2,
    "plant": 0.6,
    "person": -0.7,
}
KINDS = {
    "artifact": ("n00021939",),
    "food": ("n00021265", "n07555863"),
    "animal": ("n00015388",),
    "plant": ("n00017222",),
    "person": ("n00007846",),
}
POOL = 60  # the most similar classes: these, their parents and grandparents are possible parents
SHARPNESS = 20  # of the first guess where the names of a list are: softmax(SHARPNESS * likeness)
CHANCE = 0.02  # added to a share before shares are compared, since few names say little
NEARNESS = (1, 0.6, 0.3)  # what a place is worth, by its steps from the right one


@dataclass(frozen=True)
class Places:
    """Possible parents of a name: n rows of the graph, and the facts about them in the order of WEIGHTS."""

    rows: np.ndarray  # n
    facts: np.ndarray  # n x 14
    nearness: np.ndarray  # n x n: what one place is worth where another is right

    def probabilities(self, weights: np.ndarray | None = None) -> np.ndarray:
        """The probability of each place, n."""
        score = self.facts @ (np.array(list(WEIGHTS.values())) if weights is None else weights)
        likely = np.exp(score - score.max())
        return likely / likely.sum()

    def best(self, count: int, weights: np.ndarray | None = None) -> list[tuple[int, float]]:
        """Places, each with what it adds to those before it: falling, at most 1 in sum."""
        likely = self.probabilities(weights)
        covered = np.zeros(len(likely))
        chosen = []
        for _ in range(min(count, len(likely))):
            worth = np.maximum(self.nearness - covered, 0) @ likely
            at = int(np.argmax(worth))
            chosen.append((at, float(worth[at])))
            covered = np.maximum(covered, self.nearness[at])
        return chosen


def make_atlas(wordnet: Hierarchy, heads: Sequence[HeadNoun]) -> Atlas:
    """The atlas for these names. If no sense of a noun is visible, it includes all its senses."""
    visible = set(imagenet_21k())
    beyond = [id for head in heads if visible.isdisjoint(head.ids) for id in head.ids]
    return _cached_atlas(wordnet, tuple(beyond), encoder_installed())


class Atlas:
    """WordNet's visible things with a vector each, among which names find their places.

    `beyond`: further ids, of which ImageNet has no photos. `sentences`: use sentence encodings; else word vectors,
    which need no encoder.
    """

    def __init__(self, wordnet: Hierarchy, beyond: Sequence[str], sentences: bool):
        self.graph = graph = wordnet.subgraph([*(id for id in imagenet_21k() if id in wordnet), *beyond])
        if not len(graph):
            raise UnseenError("The hierarchy has none of WordNet's classes, under which a name could have its place.")
        self._source = TextEncodings() if sentences else WordVectors.builtin()
        self._means = normalise_rows(self._source.encode(graph if sentences else _described(graph)))
        self._child, self._parent = graph.edges()
        self._children = paths.reverse((graph.parent_ptr, graph.parent_idx))
        node, above, _ = graph.ancestor_pairs()
        self._below = sparse.csr_matrix((np.ones(len(node), np.float32), (above, node)), shape=(len(graph), len(graph)))
        self._above = self._below.T.tocsr()
        self._size = np.asarray(self._below.sum(axis=1)).ravel()
        to_parent = sparse.csr_matrix((np.ones(len(self._child)), (self._child, self._parent)), shape=self._below.shape)
        self._steps = (to_parent + to_parent.T).tocsr()
        kinds = {kind: [graph.index(id) for id in ids if id in graph] for kind, ids in KINDS.items()}
        self._kinds = {kind: np.asarray(self._below[rows].sum(axis=0)).ravel() > 0 for kind, rows in kinds.items()}
        self._photos = np.isin(graph.ids, imagenet_21k())
        below, above = self._means[self._child], self._means[self._parent]
        square = below.T @ below + 10 * np.eye(below.shape[1], dtype=np.float32)
        self._up = np.linalg.solve(square, below.T @ above)  # a class's vector -> what its parent's may be

    def vectors(self, names: Sequence[str], looks: Mapping[str, str] | None = None) -> np.ndarray:
        """Unit rows in the space of the classes; zero for unknown names. `looks`, by name, say more."""
        texts = [spell_out(name) for name in names]
        said = [f"{text}: {look}" if (look := (looks or {}).get(name)) else text
                for name, text in zip(names, texts, strict=True)]  # fmt: skip
        if isinstance(self._source, WordVectors):
            return normalise_rows(np.stack([self._source.vector(text) for text in said]))
        with_article = normalise_rows(self._source.encode_texts([f"a {text}" for text in said]))
        return normalise_rows(with_article + normalise_rows(self._source.encode_texts(texts)))

    def places(
        self, names: Sequence[str], heads: Sequence[HeadNoun], looks: Mapping[str, str] | None = None
    ) -> list[Places]:
        """Possible parents of each name, given the others."""
        vectors = self.vectors(names, looks)
        likeness = vectors @ self._means.T
        guess = np.exp(SHARPNESS * (likeness - likeness.max(axis=1, keepdims=True)))
        shares = np.asarray(self._below @ (guess / guess.sum(axis=1, keepdims=True)).T).T  # names x classes
        chance = self._size / len(self.graph) + CHANCE
        upwards = normalise_rows(vectors @ self._up)
        all_vectors, all_shares = vectors.sum(axis=0), shares.sum(axis=0)  # the others' are these less its own
        listed = []
        for at, head in enumerate(heads):
            senses = np.array([self.graph.index(id) for id in head.ids if id in self.graph], np.int64)
            rows = self._pool(likeness[at], senses)
            is_head = np.isin(rows, senses)
            company, region = np.zeros(len(rows)), np.zeros(len(rows))
            if len(names) > 1:
                company = self._means[rows] @ normalise_rows((all_vectors - vectors[at])[None])[0]
                share = np.maximum(all_shares - shares[at], 0) / (len(names) - 1)
                lift = np.log((share + CHANCE) / chance)
                ways = self._above[rows]
                region = ways @ lift / np.asarray(ways.sum(axis=1)).ravel()
            facts = {
                "likeness": likeness[at, rows],
                "parenthood": self._means[rows] @ upwards[at],
                "children": [self._children_likeness(likeness[at], row) for row in rows],
                "head": is_head & (not head.compound),
                "compound": is_head & head.compound,
                "photos": self._photos[rows],
                "company": company,
                "region": region,
                "size": np.log(self._size[rows]),
                **{kind: members[rows] for kind, members in self._kinds.items()},
            }
            table = np.stack([np.asarray(facts[name], np.float64) for name in WEIGHTS], axis=1)
            listed.append(Places(rows, table, self._nearness(rows)))
        return listed

    def _nearness(self, rows: np.ndarray) -> np.ndarray:
        """n x n: NEARNESS by the steps between two classes; 0 beyond."""
        steps = self._steps[rows]
        one, two = steps[:, rows].toarray() > 0, (steps @ steps.T).toarray() > 0
        near = np.where(one, NEARNESS[1], np.where(two, NEARNESS[2], 0.0))
        np.fill_diagonal(near, NEARNESS[0])
        return near

    def _pool(self, likeness: np.ndarray, senses: np.ndarray) -> np.ndarray:
        top = np.argpartition(-likeness, min(POOL, len(likeness) - 1))[:POOL]
        parents = self._parent[np.isin(self._child, top)]
        grandparents = self._parent[np.isin(self._child, parents)]
        return np.unique(np.concatenate([top, parents, grandparents, senses]))

    def _children_likeness(self, likeness: np.ndarray, row: int) -> float:
        """The mean likeness of the three nearest children; a leaf counts a little less than its own likeness."""
        pointer, children = self._children
        below = likeness[children[pointer[row] : pointer[row + 1]]]
        return float(np.sort(below)[-3:].mean()) if len(below) else float(likeness[row]) - 0.1


_cached_atlas = lru_cache(maxsize=4)(Atlas)


def _described(graph: Hierarchy) -> Hierarchy:
    """The graph with all names and the definition of a class as its one name: the words tell its senses apart."""
    texts = [(" ".join((*names, graph.definition(id))),) for id, names in zip(graph.ids, graph.lemmas, strict=True)]
    return Hierarchy.trusted(graph.ids, texts, (graph.parent_ptr, graph.parent_idx))


# --- suggestions ------------------------------------------------------------------------------------------------------

FIELDS = ("id", "name", "parent", "definition", "looks", "score", "check", "note")
OFFERED = 3  # places for a new class
CHECK = 0.6  # below this score the first place is wrong more often than right
STRANGE = 0.465  # a name without a noun in it, less like every class than this (in cosine), may mean anything


class Place(NamedTuple):
    """A possible parent, and the probability that the right one is there or near, beyond the places before."""

    sense: Sense
    score: float

    def to_dict(self) -> dict[str, Any]:
        sense = self.sense
        return {"id": sense.id, "name": sense.name, "definition": sense.definition, "score": round(self.score, 3)}


@dataclass(frozen=True)
class Suggestion:
    """Where a name goes. `known`: the name is a WordNet noun, so `id` is its wnid and no new class is needed."""

    name: str  # several of them, joined by "|", if several lines mean this class
    id: str
    parent: str  # id, or several joined by "|"; empty where there is no likely place
    definition: str
    known: bool
    others: tuple[Sense, ...]  # what a WordNet noun may mean instead
    places: tuple[Place, ...] = ()  # for a new class: the most likely parents, the first being `parent`
    dropped: tuple[str, ...] = ()  # names that were given before, or mean this class too
    looks: str = ""  # what it looks like, as it was given

    def to_dict(self) -> dict[str, Any]:
        fields = {"name": self.name, "id": self.id, "parent": self.parent, "known": self.known, "note": self.note}
        fields |= {"score": self.score, "check": self.check, "looks": self.looks}
        return fields | {"places": [place.to_dict() for place in self.places], "dropped": list(self.dropped)}

    @property
    def score(self) -> float | None:
        """The probability that the right place is `parent` or near it; None for a WordNet noun."""
        return None if self.known else round(self.places[0].score, 3) if self.places else 0.0

    @property
    def check(self) -> bool:
        """Whether a person should check it: the place is a guess, or the noun has other senses."""
        return bool(self.others) if self.score is None else self.score < CHECK

    @property
    def note(self) -> str:
        if not self.parent and not self.known:
            return "no place found: fill in the parent"
        start, what = ("is in WordNet", "other senses") if self.known else ("new class", "or under")
        senses = self.others if self.known else tuple(place.sense for place in self.places[1:])
        listed = "; ".join(f"{sense.id} {sense.name} ({sense.definition})" for sense in senses)
        return f"{start}; {what}: {listed}" if listed else start


def suggest(
    names: Sequence[str], wordnet: Hierarchy | None = None, looks: Mapping[str, str] | None = None
) -> list[Suggestion]:
    """For each name its WordNet sense, else a new class under its most likely parent.

    The meaning of the name, its last words ("head noun") and the other names of the list decide: "drill" among tools
    is a tool. Meanings are sentence encodings; without the extra `text`, word vectors.

    Several names of one class become its synonyms. `wordnet`: the hierarchy to search, by default all of WordNet.
    `looks`: by name, what the thing looks like.

    >>> for item in suggest(["okapi", "electric bicycle"]):
    ...     print(item.id, "under", item.parent, "-", "in WordNet" if item.known else "new")
    n02439398 under n02439033 - in WordNet
    electric-bicycle under n02834778 - new
    """
    wordnet = wordnet or Hierarchy.wordnet()
    times = Counter(map(tidy, names))
    heads = {name: find_head_noun(name, wordnet) for name in times}
    new = {name: head for name, head in heads.items() if not head.is_name}
    looks = {tidy(name): look for name, look in (looks or {}).items() if look}
    placed = _place(new, wordnet, looks) if new else {}
    suggestions: dict[str, Suggestion] = {}
    synonyms: dict[str, list[str]] = {}  # names of one class, in order
    for name, head in heads.items():
        item = placed.get(name) or _known(name, head, wordnet)
        suggestions.setdefault(item.id, item)
        synonyms.setdefault(item.id, []).append(name)
    for id, given in synonyms.items():
        repeated = [name for name in given for _ in range(times[name] - 1)]
        look = next((looks[name] for name in given if name in looks), "")
        suggestions[id] = replace(suggestions[id], name="|".join(given), dropped=(*repeated, *given[1:]), looks=look)
    return list(suggestions.values())


def _known(name: str, head: HeadNoun, wordnet: Hierarchy) -> Suggestion:
    """A noun of WordNet. Visible senses come first, of which ImageNet has photos."""
    visible = set(imagenet_21k())
    best, *others = (wordnet.sense(id) for id in sorted(head.ids, key=lambda id: id not in visible))
    parents = "|".join(wordnet.parents(best.id))
    return Suggestion(name, best.id, parents, best.definition, True, tuple(others[:4]))


def _place(heads: dict[str, HeadNoun], wordnet: Hierarchy, looks: Mapping[str, str]) -> dict[str, Suggestion]:
    """Suggestions for names that WordNet lacks."""
    atlas = make_atlas(wordnet, list(heads.values()))
    graph, suggestions = atlas.graph, {}
    placed = atlas.places(list(heads), list(heads.values()), looks)
    for (name, head), places in zip(heads.items(), placed, strict=True):
        offered: tuple[Place, ...] = ()
        if head.ids or places.facts[:, 0].max() >= STRANGE:
            best = places.best(OFFERED)
            offered = tuple(Place(graph.sense(graph.ids[places.rows[at]]), score) for at, score in best)
        parent = offered[0].sense.id if offered else ""
        suggestions[name] = Suggestion(name, slug(name), parent, "", False, (), offered)
    return suggestions


def write_csv(suggestions: Sequence[Suggestion], path: str | Path) -> None:
    """Write `to_csv` into a new file."""
    path = Path(path)
    if path.exists():
        raise UnseenError(f"{path} exists already: choose another name, so that your edits are not lost")
    write_atomically(path, to_csv(suggestions).encode())


def to_csv(suggestions: Sequence[Suggestion]) -> str:
    """The proposal as a CSV that `unseen hierarchy check`, `train --hierarchy imagenet+FILE` and `add --csv` read.

    Parents are written as `id (name: definition)`, so that the table can be read over without looking ids up.
    """
    wordnet, rows = Hierarchy.wordnet(), [tuple[str, ...](FIELDS)]
    for item in suggestions:
        parents = [describe_parent(wordnet.sense(id)) for id in item.parent.split("|") if id]
        name = item.name
        if item.known:  # a row may not rename a WordNet noun: "okapis" is okapi
            lemmas = set(map(plain, wordnet.sense(item.id).lemmas))
            names = [name for name in item.name.split("|") if plain(name) in lemmas]
            name = "|".join(names) or wordnet.name(item.id)
        score = "" if item.score is None else f"{item.score:.2f}"
        check = "check" if item.check else ""
        rows.append((item.id, name, "|".join(parents), item.definition, item.looks, score, check, item.note))
    return safe_text.to_csv(rows)
