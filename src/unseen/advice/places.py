"""Where in WordNet names belong that it lacks: a few facts about each possible parent, weighed.

    p(c) = softmax over the possible parents c of  sum of weight * fact(c)

Offered are places near to most of what is likely: a class between two likely ones may be better than either.
`tools/tune_suggest.py` chose the weights on one half of benchmarks/everyday-names.csv and on nouns of WordNet itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse

from unseen.advice.head_nouns import HeadNoun, spell_out
from unseen.assets import imagenet_21k
from unseen.errors import UnseenError
from unseen.methods.problem import normalise_rows
from unseen.semantics import TextEncodings, WordVectors
from unseen.semantics.text_encoder import encoder_installed
from unseen.taxonomy import Taxonomy, paths

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
CHANCE = 0.02  # added to a share before shares are compared, since few names tell little
NEARNESS = (1, 0.6, 0.3)  # what a place is worth, by its steps from the right one


@dataclass(frozen=True)
class Places:
    """Possible parents of a name: rows of the graph and the facts about them, in the order of WEIGHTS."""

    rows: np.ndarray  # n
    facts: np.ndarray  # n x 14
    nearness: np.ndarray  # n x n: what one place is worth where another is right

    def probabilities(self, weights: np.ndarray | None = None) -> np.ndarray:
        """How likely each place is, of 1."""
        score = self.facts @ (np.array(list(WEIGHTS.values())) if weights is None else weights)
        likely = np.exp(score - score.max())
        return likely / likely.sum()

    def best(self, count: int, weights: np.ndarray | None = None) -> list[tuple[int, float]]:
        """Places, and what each is expected to be worth beyond those before it: falling, and at most 1 together."""
        likely = self.probabilities(weights)
        covered = np.zeros(len(likely))
        found = []
        for _ in range(min(count, len(likely))):
            worth = np.maximum(self.nearness - covered, 0) @ likely
            at = int(np.argmax(worth))
            found.append((at, float(worth[at])))
            covered = np.maximum(covered, self.nearness[at])
        return found


def make_atlas(wordnet: Taxonomy, heads: Sequence[HeadNoun]) -> Atlas:
    """For these names: a noun none of whose senses can be seen has them all included."""
    seen = set(imagenet_21k())
    beyond = [id for head in heads if seen.isdisjoint(head.ids) for id in head.ids]
    return _atlas(wordnet, tuple(beyond), encoder_installed())


@lru_cache(maxsize=1)
def _atlas(wordnet: Taxonomy, beyond: tuple[str, ...], sentences: bool) -> Atlas:
    return Atlas(wordnet, beyond, sentences)


class Atlas:
    """Things one can see, in WordNet's graph, with what each means in numbers; and where names are among them.

    Args:
        wordnet: All nouns.
        beyond: Ids to include though ImageNet has no photos of them or of anything below.
        sentences: Meanings are sentence encodings; else word vectors, which need no encoder.
    """

    def __init__(self, wordnet: Taxonomy, beyond: Sequence[str], sentences: bool):
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
        with_photos = set(imagenet_21k())
        self._photos = np.array([id in with_photos for id in graph.ids])
        below, above = self._means[self._child], self._means[self._parent]
        square = below.T @ below + 10 * np.eye(below.shape[1], dtype=np.float32)
        self._up = np.linalg.solve(square, below.T @ above)  # a class's meaning -> what its parent's may be

    def vectors(self, names: Sequence[str]) -> np.ndarray:
        """Unit rows in the space of the classes; zero where nothing of a name is known."""
        texts = [spell_out(name) for name in names]
        if isinstance(self._source, WordVectors):
            return normalise_rows(np.stack([self._source.vector(text) for text in texts]))
        with_article = normalise_rows(self._source.encode_texts([f"a {text}" for text in texts]))
        return normalise_rows(with_article + normalise_rows(self._source.encode_texts(texts)))

    def places(self, names: Sequence[str], heads: Sequence[HeadNoun]) -> list[Places]:
        """Possible parents of each name, given the others."""
        vectors = self.vectors(names)
        likeness = vectors @ self._means.T
        guess = np.exp(SHARPNESS * (likeness - likeness.max(axis=1, keepdims=True)))
        shares = np.asarray(self._below @ (guess / guess.sum(axis=1, keepdims=True)).T).T  # names x classes
        found = []
        for place, head in enumerate(heads):
            others = np.arange(len(names)) != place
            rows = self._pool(likeness[place], head)
            company, region = np.zeros(len(rows)), np.zeros(len(rows))
            if others.any():
                company = self._means[rows] @ normalise_rows(vectors[others].mean(axis=0, keepdims=True))[0]
                chance = self._size / len(self.graph) + CHANCE
                lift = np.log((shares[others].mean(axis=0) + CHANCE) / chance)
                ways = self._above[rows]
                region = ways @ lift / np.asarray(ways.sum(axis=1)).ravel()
            upwards = normalise_rows(vectors[place : place + 1] @ self._up)[0]
            is_head = np.isin(rows, [self.graph.index(id) for id in head.ids if id in self.graph])
            facts = {
                "likeness": likeness[place, rows],
                "parenthood": self._means[rows] @ upwards,
                "children": [self._children_likeness(likeness[place], row) for row in rows],
                "head": is_head & (not head.compound),
                "compound": is_head & head.compound,
                "photos": self._photos[rows],
                "company": company,
                "region": region,
                "size": np.log(self._size[rows]),
                **{kind: members[rows] for kind, members in self._kinds.items()},
            }
            table = np.stack([np.asarray(facts[name], np.float64) for name in WEIGHTS], axis=1)
            found.append(Places(rows, table, self._nearness(rows)))
        return found

    def _nearness(self, rows: np.ndarray) -> np.ndarray:
        """n x n: NEARNESS by the steps between two classes; 0 beyond."""
        steps = self._steps[rows]
        one, two = steps[:, rows].toarray() > 0, (steps @ steps.T).toarray() > 0
        near = np.where(one, NEARNESS[1], np.where(two, NEARNESS[2], 0.0))
        np.fill_diagonal(near, NEARNESS[0])
        return near

    def _pool(self, likeness: np.ndarray, head: HeadNoun) -> np.ndarray:
        top = np.argpartition(-likeness, min(POOL, len(likeness) - 1))[:POOL]
        parents = self._parent[np.isin(self._child, top)]
        grandparents = self._parent[np.isin(self._child, parents)]
        senses = [self.graph.index(id) for id in head.ids if id in self.graph]
        return np.unique(np.concatenate([top, parents, grandparents, np.array(senses, np.int64)]))

    def _children_likeness(self, likeness: np.ndarray, row: int) -> float:
        """The mean of its three largest; a class without children is as good as one that is a little less like."""
        pointer, children = self._children
        own = likeness[children[pointer[row] : pointer[row + 1]]]
        return float(np.sort(own)[-3:].mean()) if len(own) else float(likeness[row]) - 0.1


def _described(graph: Taxonomy) -> Taxonomy:
    """The graph with names and definition of a class as its one name, whose words tell senses of a name apart."""
    texts = [(" ".join((*names, graph.definition(id))),) for id, names in zip(graph.ids, graph.lemmas, strict=True)]
    return Taxonomy.trusted(graph.ids, texts, (graph.parent_ptr, graph.parent_idx))
