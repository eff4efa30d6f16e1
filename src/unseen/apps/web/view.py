"""One model as the page shows it: answers, marks, neighbours, reasons. Never changed: growing makes another one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from unseen.answers.answer import SUPPORT, Answer, Guess, Label, make_labels, support_in_words
from unseen.answers.explain import heat_of_pixels
from unseen.answers.probability import Verdict
from unseen.answers.words import LEVELS, training_in_words, words_of
from unseen.apps.web.guards import MAX_LISTED
from unseen.apps.web.layout import Layout
from unseen.apps.web.schemas import RankOptions
from unseen.hierarchy.core import Sense
from unseen.methods.base import normalise_rows
from unseen.model import Model
from unseen.naming.candidates import hidden_people, parse_candidates
from unseen.naming.meaning import find_class
from unseen.naming.placing import suggest
from unseen.photos.decoding import Decoded
from unseen.util.errors import UnseenError

LEAST_PROBABLE, MOST_NODES = 0.01, 80  # of the nodes shown for a photo
LEAST_REGION = 12  # classes: smaller regions of the map get their names when someone looks at them
MARKS = {"seen": "s", "unseen": "u", "guesswork": "g"}  # a letter each, for the map
TOPICS = (  # where to begin in WordNet: animals, dogs, birds, fish, plants, food, fruit, tools, vehicles, clothing, ...
    *("n00015388", "n02084071", "n01503061", "n02512053", "n00017222", "n00021265", "n07705931", "n04451818"),
    *("n04524313", "n03051540", "n03405725", "n03800933", "n02913152"),
)
NETWORK = "network"  # the name under which the network alone is compared


class View:
    """A model and what the page asks of it, over and over, computed once."""

    def __init__(self, name: str, model: Model, reach: float = 1.0):
        self.name, self.model, self.reach = name, model, reach
        self.bundle, self.hierarchy = model.bundle, model.bundle.hierarchy
        self.is_class, self.is_seen = model.bundle.is_class, model.bundle.is_seen
        info = model.bundle.network
        self.network_key = f"{info.checksum} {info.transform}"  # bundles for which these are the same share features

    def info(self) -> dict[str, Any]:
        bundle = self.bundle
        return {
            "name": self.name,
            "calibrated": bundle.calibration is not None,
            "method": bundle.method,
            "classes": int(self.is_class.sum()),
            "nodes": len(bundle),
            "seen": len(bundle.seen),
            "network": bundle.network.name,
            "vectors": list(bundle.vectors.names),
            "hierarchy": str(self.hierarchy.source.get("kind", "own")),
            "trust": bundle.solution.trust is not None,
            "reach": self.reach,
            "calibrated_shift": None if bundle.calibration is None else bundle.calibration.seen_shift,
            "added": self.added(),
            "taught": self.taught(),
        }

    def added(self) -> list[dict[str, Any]]:
        """The last ones; and so below."""
        return [self.brief(id) for id in self.bundle.added[-MAX_LISTED:]]

    def taught(self) -> list[dict[str, Any]]:
        last = list(self.bundle.taught.items())[-MAX_LISTED:]
        return [self.brief(id) | {"photos": taught.photos} for id, taught in last]

    def trust(self, row: int) -> float | None:
        trust = self.bundle.solution.trust
        return None if trust is None else round(float(trust[row]), 4)

    def mark(self, row: int) -> str:
        """seen | unseen | guesswork | link, as the page draws it: a link only connects classes, and is no answer."""
        if self.is_seen[row]:
            return "seen"
        if not self.is_class[row]:
            return "link"
        return "guesswork" if self.support(row) == SUPPORT[-1][0] else "unseen"

    def support(self, row: int) -> str:
        """How well what the network was trained on supports a class, in words; "" where that is no question."""
        settled = self.is_seen[row] or not self.is_class[row] or self.hierarchy.ids[row] in self.bundle.taught
        return "" if settled else support_in_words(self.trust(row))

    def training(self, row: int) -> str:
        """What was shown of a class, in words."""
        taught = self.bundle.taught.get(self.hierarchy.ids[row])
        if not (self.is_class[row] or taught):
            return "only a heading"
        photos = 0 if taught is None else taught.photos
        return training_in_words(bool(self.is_seen[row]), bool(self.bundle.is_novel[row]), photos)

    def brief(self, id: str) -> dict[str, Any]:
        row = self.hierarchy.index(id)
        return {
            "id": id,
            "name": self.hierarchy.name(id),
            "mark": self.mark(row),
            "training": self.training(row),
            "trust": self.trust(row),
            "support": self.support(row),
            "children": len(self.hierarchy.children(id)),
        }

    def rank(self, features: np.ndarray, options: RankOptions, watch: Sequence[str] = ()) -> list[dict]:
        """For each row of features: the verdict, the k best labels, the probable nodes, places of watched classes."""
        candidates, shift = options.candidates, options.seen_shift
        answers = self.model.answers(features, options.k, candidates, shift, options.sure)
        places = self._places(features, candidates, shift or 0.0, watch) if watch else [[] for _ in answers]
        return [
            answer.as_dict()
            | {
                "verdict": self.verdict(answer.verdict),
                "labels": [self.answer(label) for label in answer],
                "guesses": [self.guess(guess) for guess in answer.guesses],
                "lit": self._probable_tree(answer),
                "watched": [one | self._probable_place(answer, one["id"]) for one in watched],
            }
            for answer, watched in zip(answers, places, strict=True)
        ]

    def _probable_place(self, answer: Answer, id: str) -> dict[str, Any]:
        """How probable a class is, and the guess that it is folded into, if any."""
        words = words_of(self.hierarchy)
        ways = ((guess.id, {guess.id, *self.hierarchy.ancestors(guess.id)}) for guess in answer.guesses)
        above, say = {id, *self.hierarchy.ancestors(id)}, words.says[self.hierarchy.index(id)]
        within = next((other for other, way in ways if id in way or other in above), None)
        probability = 0.0 if answer.nodes is None else min(1.0, answer.nodes[id])
        return {"say": say, "probability": probability, "within": within}

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
                "mark": self.mark(rows[id]),
                "training": self.training(rows[id]),
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

    def candidates(self, spec: str) -> str:
        """One spelling for each list of candidates, since what is computed for a list is kept under its name."""
        sets = parse_candidates(self.bundle, spec.replace("1k", "1K"), files=False)
        spelt = []
        for operation, part in sets:
            kind, colon, name = part.partition(":")
            if kind == "subtree":
                name = find_class(name, self.hierarchy, prefer_first_name=True)
            spelt.append(operation + kind + colon + name)
        return "".join(spelt).removeprefix("+")

    def verdict(self, verdict: Verdict) -> dict[str, Any]:
        return verdict.as_dict() | {"text": verdict.text, "hedge": LEVELS.get(verdict.level, "")}

    def answer(self, label: Label) -> dict[str, Any]:
        row = self.hierarchy.index(label.id)
        words = {"mark": self.mark(row), "support": self.support(row), "training": label.training}
        return label.as_dict() | {"score": round(label.score, 5)} | words

    def guess(self, guess: Guess) -> dict[str, Any]:
        row = self.hierarchy.index(guess.id)
        words = {"mark": self.mark(row), "support": self.support(row), "training": guess.training}
        return guess.as_dict() | {"name": self.hierarchy.name(guess.id)} | words

    def _places(self, features: np.ndarray, candidates: str, shift: float, watch: Sequence[str]) -> list[list[dict]]:
        """Where the watched classes stand among the candidates, for each photo."""
        rows = self.model.candidates(candidates)
        position = {int(row): at for at, row in enumerate(rows)}
        watched = [(id, position[row]) for id in watch if (row := self.hierarchy.index(id)) in position]
        scores = self.model.scores(features, candidates, shift)
        return [
            [{"id": id, "place": int((row > row[at]).sum()) + 1, "of": len(rows)} for id, at in watched]
            for row in scores
        ]

    def places_of(self, classifier: np.ndarray, features: np.ndarray, candidates: str) -> list[dict[str, int]]:
        """Where a class with this classifier would stand among the candidates, for each photo."""
        scores = self.model.scores(features, candidates)
        own = self.bundle.solution.projection(features) @ classifier.astype(np.float32)
        return [
            {"place": int((row > score).sum()) + 1, "of": len(row) + 1} for row, score in zip(scores, own, strict=True)
        ]

    def network_alone(self, features: np.ndarray, k: int) -> dict[str, Any]:
        """What the network itself says of one photo: its own classifiers, its own classes."""
        head = self.bundle.head
        scores = head[:, :-1] @ features + head[:, -1]
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        best = np.argsort(-scores, kind="stable")[:k]
        labels = make_labels(self.bundle, self.bundle.seen[best], scores[best], shares[best])
        return {"labels": [self.answer(label) for label in labels], "verdict": None, "guesses": None}

    def heatmaps(self, photo: Decoded, ids: Sequence[str]) -> dict[str, Any]:
        """Where in a photo the scores of classes come from."""
        network = self.model.network
        heats = heat_of_pixels(self.bundle, network, network.transform.normalise(photo.pixels), photo.size, list(ids))
        maps = [{"id": heat.id, "name": heat.name, "score": heat.score, "cells": heat.cells.tolist()} for heat in heats]
        return {"box": list(heats[0].box), "maps": maps}

    def search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Classes by name, best first; without a query the tops of the hierarchy."""
        tops = map(self.hierarchy.sense, self.hierarchy.roots[:limit])
        return [self._describe(sense) for sense in (self.hierarchy.search(query, limit) if query.strip() else tops)]

    def _describe(self, sense: Sense) -> dict[str, Any]:
        return self.brief(sense.id) | {"lemmas": list(sense.lemmas), "definition": sense.definition}

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.hierarchy, self.is_class)

    def map(self) -> dict[str, Any]:
        """Every class by a letter for its mark, in the order of the map, and the regions that are named from afar."""
        layout, words = self.layout, words_of(self.hierarchy)
        regions = [row for row in layout.regions(LEAST_REGION).tolist() if words.sayable[row]]
        marks = "".join(MARKS.get(self.mark(row), "g") for row in layout.rows.tolist())
        named = [
            [*layout.stretch(row), int(layout.depth[row]), words.says[row], self.hierarchy.ids[row]] for row in regions
        ]
        return {"bundle": self.name, "marks": marks, "regions": named}

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
        exists = [sense for sense in hierarchy.senses(name) if self.is_class[hierarchy.index(sense.id)]]
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
        others = self.is_class & ~hidden_people(self.bundle)
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
        reason = self.model.explain(id, n).as_dict()
        tree = self._tree([path for path in (reason["path"][::-1], *(n["path"] for n in reason["neighbours"])) if path])
        return reason | {
            "mark": self.mark(self.hierarchy.index(id)),
            "training": self.training(self.hierarchy.index(id)),
            "support": self.support(self.hierarchy.index(id)),
            "looks": self.hierarchy.look(id),
            "tree": [{"id": i, "parent": parent} for i, parent in tree.items()],
            "nodes": {i: self.brief(i) for i in tree},
        }

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
