"""One model as the page shows it: answers, marks, neighbours, reasons. Never changed: growing makes another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from unseen.answers.answer import SUPPORT, Answer, support_in_words
from unseen.answers.explain import heat_of_pixels
from unseen.answers.words import LEVELS, training_in_words, words_of
from unseen.apps.web.decoder import Decoded
from unseen.apps.web.guards import MAX_LISTED
from unseen.apps.web.layout import Layout
from unseen.apps.web.schemas import RankOptions
from unseen.hierarchy.core import Sense
from unseen.methods.base import normalise_rows
from unseen.model import Model
from unseen.naming.candidates import hidden_people
from unseen.naming.placing import suggest
from unseen.util.errors import UnseenError

LEAST_PROBABLE, MOST_NODES = 0.01, 80  # of the nodes shown for a photo
LEAST_REGION = 12  # classes: smaller regions of the map get their names when someone looks at them
TOPICS = (  # where to begin in WordNet: animals, dogs, birds, fish, plants, food, fruit, tools, vehicles, clothing, ...
    *("n00015388", "n02084071", "n01503061", "n02512053", "n00017222", "n00021265", "n07705931", "n04451818"),
    *("n04524313", "n03051540", "n03405725", "n03800933", "n02913152"),
)


class View:
    """A model and what the page asks of it, over and over, computed once."""

    def __init__(self, name: str, model: Model):
        self.name, self.model = name, model
        self.bundle, self.hierarchy = model.bundle, model.bundle.hierarchy
        trust = self.bundle.solution.trust
        self.trust = None if trust is None else np.round(np.asarray(trust, np.float64), 4)

    def info(self) -> dict[str, Any]:
        bundle = self.bundle
        return {
            "name": self.name,
            "method": bundle.method,
            "classes": int(bundle.is_class.sum()),
            "nodes": len(bundle),
            "seen": len(bundle.seen),
            "network": bundle.network.name,
            "vectors": list(bundle.vectors.names),
            "hierarchy": str(self.hierarchy.source.get("kind", "own")),
            "trust": self.trust is not None,
            "added": self.added(),
            "taught": self.taught(),
        }

    def added(self) -> list[dict[str, Any]]:
        """The most recently added classes, at most MAX_LISTED."""
        return [self.brief(id) for id in self.bundle.added[-MAX_LISTED:]]

    def taught(self) -> list[dict[str, Any]]:
        """The most recently taught classes, at most MAX_LISTED."""
        last = list(self.bundle.taught.items())[-MAX_LISTED:]
        return [self.brief(id) | {"photos": taught.photos} for id, taught in last]

    @cached_property
    def marks(self) -> np.ndarray:
        """N: seen | unseen | guesswork | link, as the page draws them; a link connects classes and is no answer."""
        bundle, least = self.bundle, SUPPORT[-2][1]
        weak = np.zeros(len(bundle), bool) if self.trust is None else self.trust < least
        weak[self.hierarchy.indices(bundle.taught)] = False
        return np.select([bundle.is_seen, ~bundle.is_class, weak], ["seen", "link", "guesswork"], "unseen")

    def brief(self, id: str) -> dict[str, Any]:
        """What the page shows beside a class wherever it is named."""
        row, taught = self.hierarchy.index(id), self.bundle.taught.get(id)
        is_seen, is_class = bool(self.bundle.is_seen[row]), bool(self.bundle.is_class[row])
        trust = None if self.trust is None else float(self.trust[row])
        photos = 0 if taught is None else taught.photos
        in_words = training_in_words(is_seen, bool(self.bundle.is_novel[row]), photos)
        return {
            "id": id,
            "name": self.hierarchy.name(id),
            "mark": str(self.marks[row]),
            "training": in_words if is_class or taught else "only a heading",
            "trust": trust,
            "support": "" if is_seen or taught or not is_class else support_in_words(trust),
            "children": len(self.hierarchy.children(id)),
        }

    # -- answers -------------------------------------------------------------------------------------------------------

    def rank(self, features: np.ndarray, options: RankOptions, watch: Sequence[str] = ()) -> list[dict[str, Any]]:
        """For each row of features the answer, as everybody serialises it, and what only the page needs."""
        answers = self.model.answers(features, **options.for_ask())
        places = self._places(features, options.candidates, watch) if watch else [[] for _ in answers]
        return [
            answer.to_dict() | self._for_page(answer, watched) for answer, watched in zip(answers, places, strict=True)
        ]

    def _for_page(self, answer: Answer, watched: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {
            "hedge": LEVELS.get(answer.verdict.level, ""),
            "text": answer.verdict.text,
            "about": {one.id: self.brief(one.id) for one in (*answer.guesses, *answer.labels)},
            "nodes": self._probable_tree(answer),
            "watched": [one | self._probable_place(answer, one["id"]) for one in watched],
        }

    def _probable_place(self, answer: Answer, id: str) -> dict[str, Any]:
        """How probable a class is, and the guess that it is folded into, if any."""
        ways = ((guess.id, {guess.id, *self.hierarchy.ancestors(guess.id)}) for guess in answer.guesses)
        above = {id, *self.hierarchy.ancestors(id)}
        within = next((other for other, way in ways if id in way or other in above), None)
        return {"probability": min(1.0, answer.probability(id)), "within": within}

    def _probable_tree(self, answer: Answer) -> list[dict[str, Any]]:
        """The probable nodes and the guesses as a tree: each after its parent, a class with several under the first.
        It has what a person would say, each spoken name once: as the guess, else the verdict, else the first node."""
        hierarchy, words = self.hierarchy, words_of(self.hierarchy)
        probabilities = dict(answer.nodes.items()) if answer.nodes is not None else {}
        probable = [id for id, probability in probabilities.items() if probability >= LEAST_PROBABLE][:MOST_NODES]
        above = {parent for id in probable for parent in hierarchy.parents(id)}
        tips = [id for id in probable if id not in above]  # their ways up hold all that is shown
        ends = [*(guess.id for guess in answer.guesses), *filter(None, [answer.verdict.id])]
        shown_as: dict[int, str] = {}  # group of a spoken name -> id
        for id in ends:
            shown_as.setdefault(int(words.groups[hierarchy.index(id)]), id)
        parent_of: dict[str, str | None] = {}
        for id in (*tips, *ends):
            steps: dict[str, None] = {}
            for row in hierarchy.indices(reversed(self._way_up(id))).tolist():
                if words.sayable[row] or hierarchy.ids[row] in ends:
                    steps[shown_as.setdefault(int(words.groups[row]), hierarchy.ids[row])] = None
            for upper, lower in pairwise([None, *steps]):
                parent_of.setdefault(str(lower), upper)
        rows = dict(zip(parent_of, hierarchy.indices(parent_of).tolist(), strict=True))
        here = None if answer.verdict.id is None else words.groups[hierarchy.index(answer.verdict.id)]
        return [
            {
                "id": id,
                "name": words.says[rows[id]],
                "mark": str(self.marks[rows[id]]),
                "training": self.brief(id)["training"],
                "parent": parent,
                "probability": min(1.0, probabilities.get(id, 0.0)),
                "here": bool(words.groups[rows[id]] == here),
                "at": self.layout.stretch(rows[id]),
            }
            for id, parent in parent_of.items()
        ]

    def _way_up(self, id: str) -> list[str]:
        """By first parents, the most telling in WordNet: a cat is a feline, then a domestic animal."""
        way = [id]
        while parents := self.hierarchy.parents(way[-1]):
            way.append(parents[0])
        return way

    def _places(self, features: np.ndarray, candidates: str, watch: Sequence[str]) -> list[list[dict]]:
        """The ranks of the watched classes among the candidates, for each photo."""
        rows = self.model.candidates(candidates)
        position = {int(row): at for at, row in enumerate(rows)}
        watched = [(id, position[row]) for id in watch if (row := self.hierarchy.index(id)) in position]
        return [
            [{"id": id, "place": int((row > row[at]).sum()) + 1, "of": len(rows)} for id, at in watched]
            for row in self.model.scores(features, candidates)
        ]

    def places_of(self, classifier: np.ndarray, features: np.ndarray, candidates: str) -> list[dict[str, int]]:
        """The rank that a class with this classifier would have among the candidates, for each photo."""
        scores = self.model.scores(features, candidates)
        own = self.bundle.solution.projection(features) @ classifier.astype(np.float32)
        return [
            {"place": int((row > score).sum()) + 1, "of": len(row) + 1} for row, score in zip(scores, own, strict=True)
        ]

    def heatmaps(self, photo: Decoded, ids: Sequence[str]) -> dict[str, Any]:
        """Where in a photo the scores of classes come from."""
        network = self.model.torch_network
        heats = heat_of_pixels(self.bundle, network, network.transform.normalise(photo.pixels), photo.size, list(ids))
        maps = [{"id": heat.id, "name": heat.name, "score": heat.score, "cells": heat.cells.tolist()} for heat in heats]
        return {"box": list(heats[0].box), "maps": maps}

    # -- the hierarchy -------------------------------------------------------------------------------------------------

    def search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Classes by name, best first; without a query the tops of the hierarchy."""
        tops = map(self.hierarchy.sense, self.hierarchy.roots[:limit])
        return [self._describe(sense) for sense in (self.hierarchy.search(query, limit) if query.strip() else tops)]

    def _describe(self, sense: Sense) -> dict[str, Any]:
        return self.brief(sense.id) | {"lemmas": list(sense.lemmas), "definition": sense.definition}

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.hierarchy, self.bundle.is_class)

    def map(self) -> dict[str, Any]:
        """Every class by a letter for its mark, in the order of the map, and the regions that are named from afar."""
        layout, words = self.layout, words_of(self.hierarchy)
        regions = [row for row in layout.regions(LEAST_REGION).tolist() if words.sayable[row]]
        marks = "".join(mark[0] for mark in self.marks[layout.rows])
        named = [
            [*layout.stretch(row), int(layout.depth[row]), words.says[row], self.hierarchy.ids[row]] for row in regions
        ]
        return {"marks": marks, "regions": named}

    def places(self, start: int, count: int) -> list[list[str]]:
        """The id and the spoken name of each class in a stretch of the map."""
        says = words_of(self.hierarchy).says
        return [[self.hierarchy.ids[row], says[row]] for row in self.layout.rows[start : start + count].tolist()]

    def topics(self) -> list[dict[str, Any]]:
        """Where to begin: things that everybody knows; in a hierarchy without them, the first fork from the top."""
        hierarchy = self.hierarchy
        ids = [id for id in TOPICS if id in hierarchy]
        if not ids:
            ids = list(hierarchy.roots)
            while len(ids) == 1 and (below := hierarchy.children(ids[0])):
                ids = list(below)
        return [self.brief(id) | {"descendants": len(hierarchy.descendants(id))} for id in ids[:50]]

    def propose(self, name: str) -> dict[str, Any]:
        """What a new class of that name may be a kind of; and the classes that have the name already."""
        hierarchy = self.hierarchy
        exists = [sense for sense in hierarchy.senses(name) if self.bundle.is_class[hierarchy.index(sense.id)]]
        try:
            (item,) = suggest([name], hierarchy)
            places = [] if item.known else [*item.parent.split("|"), *(one.sense.id for one in item.places)]
        except UnseenError:  # a hierarchy of the user's own: by the last words, as a winter cherry is a cherry
            words = name.split()
            ends = (hierarchy.senses(" ".join(words[start:])) for start in range(1, len(words)))
            places = [sense.id for sense in next(filter(None, ends), ())]
        parents = [] if exists else [id for id in dict.fromkeys(places) if id in hierarchy][:5]
        return {
            "name": name,
            "exists": [self._describe(sense) for sense in exists[:20]],
            "parents": [self._describe(hierarchy.sense(id)) for id in parents],
        }

    def details(self, id: str, nearest: int, after: int = 0) -> dict[str, Any]:
        hierarchy = self.hierarchy
        below = sorted(hierarchy.children(id), key=lambda id: hierarchy.name(id).lower())[after : after + MAX_LISTED]
        return self._describe(hierarchy.sense(id)) | {
            "say": words_of(hierarchy).says[hierarchy.index(id)],
            "looks": hierarchy.look(id),
            "at": self.layout.stretch(hierarchy.index(id)),
            "added": id in self.bundle.added,
            "path": [self.brief(i) for i in reversed(hierarchy.path_to_root(id)[:MAX_LISTED])],
            "parents": [self.brief(i) for i in hierarchy.parents(id)[:MAX_LISTED]],
            "below": [self.brief(i) for i in below],
            "descendants": len(hierarchy.descendants(id)),
            "nearest": self.nearest(id, nearest),
        }

    @cached_property
    def _lengths(self) -> np.ndarray:
        classifiers = self.bundle.solution.classifiers
        squares = np.einsum("ce,ce->c", classifiers, classifiers, dtype=np.float32)
        return np.maximum(np.sqrt(squares), np.finfo(np.float32).tiny)

    def nearest(self, id: str, n: int) -> list[dict[str, Any]]:
        """The n classes whose classifiers are most like that of `id`, by cosine."""
        solution, row = self.bundle.solution, self.hierarchy.index(id)
        others = self.bundle.is_class & ~hidden_people(self.bundle)
        others = others if solution.answers is None else others & solution.answers
        if solution.answers is not None and not solution.answers[row]:
            return []
        direction = normalise_rows(solution.classifiers[row : row + 1])[0]
        likeness = np.where(others, (solution.classifiers @ direction) / self._lengths, -np.inf)
        likeness[row] = -np.inf
        best = np.argsort(-likeness, kind="stable")[:n]
        return [
            self.brief(self.hierarchy.ids[other]) | {"likeness": round(float(likeness[other]), 4)}
            for other in best
            if np.isfinite(likeness[other])
        ]

    def why(self, id: str, n: int) -> dict[str, Any]:
        """The explanation, and what is needed to draw it: every class that lies on one of its paths."""
        reason = self.model.explain(id, n).to_dict()
        tree = self._tree([path for path in (reason["path"][::-1], *(n["path"] for n in reason["neighbours"])) if path])
        return (
            reason
            | self.brief(id)
            | {
                "looks": self.hierarchy.look(id),
                "tree": [{"id": i, "parent": parent} for i, parent in tree.items()],
                "nodes": {i: self.brief(i) for i in tree},
            }
        )

    def _tree(self, paths: Sequence[Sequence[str]]) -> dict[str, str | None]:
        """The classes on these paths, each with one parent, as a tree up to the top.

        A path goes up and then down. A class with several parents keeps the first way up that was met.
        """
        parent: dict[str, str | None] = {}
        for path in paths:
            turn = 0
            while turn + 1 < len(path) and path[turn + 1] in self.hierarchy.parents(path[turn]):
                turn += 1
            rest = self.hierarchy.path_to_root(path[turn])
            for way in (path[: turn + 1], rest, path[turn:][::-1]):
                for lower, upper in pairwise(way):
                    parent.setdefault(lower, upper)
            parent.setdefault(rest[-1], None)
        return parent
