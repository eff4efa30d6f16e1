"""One model as the page shows it: answers, marks, neighbours, reasons. Never changed: growing makes another one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from unseen.answers.answer import SUPPORT, Answer
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

    def info(self) -> dict[str, Any]:
        bundle = self.bundle
        return {
            "name": self.name,
            "method": bundle.method,
            "classes": int(bundle.is_class.sum()),
            "seen": len(bundle.seen),
            "network": bundle.network.name,
            "added": self.added(),
            "taught": self.taught(),
        }

    def added(self) -> list[dict[str, Any]]:
        """The most recently added classes, at most MAX_LISTED."""
        return self.briefs(self.bundle.added[-MAX_LISTED:])

    def taught(self) -> list[dict[str, Any]]:
        """The most recently taught classes, at most MAX_LISTED."""
        last = list(self.bundle.taught)[-MAX_LISTED:]
        return [one | {"photos": self.bundle.taught[one["id"]].photos} for one in self.briefs(last)]

    @cached_property
    def known(self) -> dict[str, list]:
        """How each of the N nodes came to be known: as the page draws it, in words, and how well it is supported."""
        bundle, rows = self.bundle, np.arange(len(self.bundle))
        taught = {int(self.hierarchy.index(id)): taught.photos for id, taught in bundle.taught.items()}
        settled = bundle.is_seen | ~bundle.is_class | np.isin(rows, list(taught))
        known = np.full(len(rows), np.nan) if bundle.solution.trust is None else bundle.solution.trust
        trust: np.ndarray = np.round(np.asarray(known, np.float64), 4)
        words, least = [word for word, _ in SUPPORT], [float(one) for _, one in SUPPORT]
        support = np.select([settled, *(trust >= one for one in least)], ["", *words], "")  # nothing exceeds NaN
        marks = [bundle.is_seen, ~bundle.is_class, support == words[-1]]
        training = [training_in_words(*one) for one in ((True, False), (False, True), (False, False))]
        training = np.select([bundle.is_seen, bundle.is_novel], training[:2], training[2]).astype(object)
        training[~bundle.is_class] = "only a heading"
        for row, photos in taught.items():
            training[row] = training_in_words(bool(bundle.is_seen[row]), bool(bundle.is_novel[row]), photos)
        return {
            "mark": np.select(marks, ["seen", "link", "guesswork"], "unseen").tolist(),  # a link is no answer
            "training": training.tolist(),
            "trust": [None if math.isnan(one) else one for one in trust.tolist()],
            "support": support.tolist(),
            "children": np.bincount(self.hierarchy.parent_idx, minlength=len(rows)).tolist(),
        }

    def briefs(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """What the page shows beside classes wherever it names them."""
        names, rows = self.hierarchy.names, self.hierarchy.indices(ids).tolist()
        return [
            {"id": id, "name": names[row]} | {field: values[row] for field, values in self.known.items()}
            for id, row in zip(ids, rows, strict=True)
        ]

    # -- answers -------------------------------------------------------------------------------------------------------

    def rank(self, features: np.ndarray, options: RankOptions, watch: Sequence[str] = ()) -> list[dict[str, Any]]:
        """For each row of features the answer, as everybody serialises it, and what only the page needs."""
        answers = self.model.answers(features, **options.for_ask())
        places = self._places(features, options.candidates, watch) if watch else [[] for _ in answers]
        return [
            answer.to_dict() | self._for_page(answer, watched) for answer, watched in zip(answers, places, strict=True)
        ]

    def _for_page(self, answer: Answer, watched: Sequence[dict[str, Any]]) -> dict[str, Any]:
        named = list(dict.fromkeys(one.id for one in (*answer.guesses, *answer.labels)))
        return {
            "hedge": LEVELS.get(answer.verdict.level, ""),
            "text": answer.verdict.text,
            "about": dict(zip(named, self.briefs(named), strict=True)),
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
        words, parents = words_of(self.hierarchy), self.layout.parents
        chances = {} if answer.nodes is None else dict(answer.nodes.items())
        probable = [id for id, chance in chances.items() if chance >= LEAST_PROBABLE][:MOST_NODES]
        told = [*(guess.id for guess in answer.guesses), *filter(None, [answer.verdict.id])]
        rows = self.hierarchy.indices([*probable, *told]).tolist()
        ends = rows[len(probable) :]
        shown_as: dict[int, int] = {}  # group of a spoken name -> row
        for row in ends:
            shown_as.setdefault(int(words.groups[row]), row)
        parent_of: dict[int, int] = {}
        for row in rows:
            way = [row]  # by first parents, the most telling in WordNet: a cat is a feline, then a domestic animal
            while parents[way[-1]] >= 0:
                way.append(int(parents[way[-1]]))
            said = [step for step in reversed(way) if words.sayable[step] or step in ends]
            steps = dict.fromkeys(shown_as.setdefault(int(words.groups[step]), step) for step in said)
            for upper, lower in pairwise([-1, *steps]):
                parent_of.setdefault(lower, upper)
        ids = self.hierarchy.ids
        here = words.groups[ends[-1]] if answer.verdict.known else -1
        return [
            {
                "id": ids[row],
                "name": words.says[row],
                "mark": self.known["mark"][row],
                "training": self.known["training"][row],
                "parent": None if parent < 0 else ids[parent],
                "probability": min(1.0, chances.get(ids[row], 0.0)),
                "here": bool(words.groups[row] == here),
                "at": self.layout.stretch(row),
            }
            for row, parent in parent_of.items()
        ]

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
        return self.briefs([sense.id])[0] | {"lemmas": list(sense.lemmas), "definition": sense.definition}

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.hierarchy, self.bundle.is_class)

    def map(self) -> dict[str, Any]:
        """Every class by a letter for its mark, in the order of the map, and the regions that are named from afar."""
        layout, words = self.layout, words_of(self.hierarchy)
        regions = [row for row in layout.regions(LEAST_REGION).tolist() if words.sayable[row]]
        marks = "".join(self.known["mark"][row][0] for row in layout.rows.tolist())
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
        return [one | {"descendants": len(hierarchy.descendants(one["id"]))} for one in self.briefs(ids[:50])]

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
            "path": self.briefs(hierarchy.path_to_root(id)[:MAX_LISTED][::-1]),
            "parents": self.briefs(hierarchy.parents(id)[:MAX_LISTED]),
            "below": self.briefs(below),
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
        best = [other for other in np.argsort(-likeness, kind="stable")[:n] if np.isfinite(likeness[other])]
        near = zip(self.briefs([self.hierarchy.ids[other] for other in best]), likeness[best].tolist(), strict=True)
        return [one | {"likeness": round(alike, 4)} for one, alike in near]

    def why(self, id: str, n: int) -> dict[str, Any]:
        """The explanation, and what is needed to draw it: every class that lies on one of its paths."""
        reason = self.model.explain(id, n).to_dict()
        tree = self._tree([path for path in (reason["path"][::-1], *(n["path"] for n in reason["neighbours"])) if path])
        return (
            reason
            | self.briefs([id])[0]
            | {
                "looks": self.hierarchy.look(id),
                "tree": [{"id": i, "parent": parent} for i, parent in tree.items()],
                "nodes": dict(zip(tree, self.briefs(list(tree)), strict=True)),
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
