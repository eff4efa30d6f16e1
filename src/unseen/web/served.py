"""One bundle as the page shows it: answers, marks, neighbours, reasons. Never changed: growing makes another one.

`rank` is for one thread at a time; the rest is for any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from PIL.Image import Image

from unseen.advice.suggestions import suggest
from unseen.classifier import ZeroShotClassifier
from unseen.errors import UnseenError
from unseen.methods.problem import normalise_rows
from unseen.recognition import Answer, Guess, Label
from unseen.recognition.heatmap import map_heat
from unseen.recognition.recogniser import SURE
from unseen.taxonomy import Sense

GUESSWORK = 0.4  # below this trust a class is hardly ever among the twenty best labels of its own photos
LIT, MOST_LIT = 0.01, 80  # nodes that a photo lights up: at least so probable, at most so many
TOPICS = (  # where to begin in WordNet: animals, dogs, birds, fish, plants, food, fruit, tools, vehicles, clothing, ...
    *("n00015388", "n02084071", "n01503061", "n02512053", "n00017222", "n00021265", "n07705931", "n04451818"),
    *("n04524313", "n03051540", "n03405725", "n03800933", "n02913152", "n00007846"),
)
NETWORK = "network"  # the name under which the network alone is compared


class Served:
    """A classifier and what the page asks of it, over and over, computed once."""

    def __init__(self, name: str, model: ZeroShotClassifier, reach: float = 1.0):
        self.name, self.model, self.reach = name, model, reach
        self.bundle, self.taxonomy = model.bundle, model.bundle.taxonomy
        info = model.bundle.backbone
        self.network = f"{info.checksum} {info.transform}"  # bundles for which these are the same share features

    def info(self) -> dict[str, Any]:
        bundle = self.bundle
        return {
            "name": self.name,
            "method": bundle.method,
            "classes": int(self.is_class.sum()),
            "nodes": len(bundle),
            "seen": len(bundle.seen),
            "network": bundle.backbone.name,
            "vectors": list(bundle.vectors.names),
            "hierarchy": str(self.taxonomy.source.get("kind", "own")),
            "trust": bundle.solution.trust is not None,
            "reach": self.reach,
            "calibrated_shift": None if bundle.calibration is None else bundle.calibration.seen_shift,
            "added": [self.brief(id) for id in bundle.added],
            "taught": [self.brief(id) | {"photos": lesson.photos} for id, lesson in bundle.taught.items()],
        }

    # -- marks -----------------------------------------------------------------------------------------------------

    @cached_property
    def is_class(self) -> np.ndarray:
        return self.bundle.is_class

    @cached_property
    def is_seen(self) -> np.ndarray:
        return self.bundle.is_seen

    def trust(self, row: int) -> float | None:
        trust = self.bundle.solution.trust
        return None if trust is None else round(float(trust[row]), 4)

    def mark(self, row: int) -> str:
        """seen | unseen | guesswork | link: a link only connects classes and is never an answer."""
        if self.is_seen[row]:
            return "seen"
        if not self.is_class[row]:
            return "link"
        trust = self.trust(row)
        return "guesswork" if trust is not None and trust < GUESSWORK else "unseen"

    def brief(self, id: str) -> dict[str, Any]:
        row = self.taxonomy.index(id)
        return {
            "id": id,
            "name": self.taxonomy.name(id),
            "mark": self.mark(row),
            "trust": self.trust(row),
            "children": len(self.taxonomy.children(id)),
        }

    # -- answers ---------------------------------------------------------------------------------------------------

    def rank(
        self,
        features: np.ndarray,
        k: int,
        candidates: str,
        shift: float | None = None,
        sure: float = SURE,
        watch: Sequence[str] = (),
    ) -> list[dict]:
        """For each row of features: the verdict, the k best labels, the nodes lit, the place of watched classes."""
        answers = self.model.answers(features, k, candidates, shift, sure)
        places = self._places(features, candidates, shift or 0.0, watch) if watch else [[] for _ in answers]
        return [
            answer.as_dict()
            | {
                "labels": [self.answer(label) for label in answer],
                "guesses": [self.guess(guess) for guess in answer.guesses],
                "lit": self._lit(answer),
                "watched": watched,
            }
            for answer, watched in zip(answers, places, strict=True)
        ]

    def _lit(self, answer: Answer) -> list[dict[str, Any]]:
        """The probable nodes and the guesses as a tree: each after its parent, a class with several under the first."""
        taxonomy = self.taxonomy
        probabilities = dict(answer.nodes.items()) if answer.nodes is not None else {}
        probable = [id for id, probability in probabilities.items() if probability >= LIT][:MOST_LIT]
        above = {parent for id in probable for parent in taxonomy.parents(id)}
        tips = [id for id in probable if id not in above]  # their ways up hold all that is shown, and nothing twice
        lit: dict[str, str | None] = {}
        for id in (*tips, *(guess.id for guess in answer.guesses), *filter(None, [answer.verdict.id])):
            for lower, upper in pairwise([None, *reversed(self._way_up(id))]):
                lit.setdefault(str(upper), lower)
        return [
            {
                "id": id,
                "name": taxonomy.name(id),
                "mark": self.mark(taxonomy.index(id)),
                "parent": parent,
                "probability": min(1.0, probabilities.get(id, 0.0)),
            }
            for id, parent in lit.items()
        ]

    def _way_up(self, id: str) -> list[str]:
        """By first parents, which WordNet lists first as they tell most: a cat is a feline, then a domestic animal."""
        way = [id]
        while parents := self.taxonomy.parents(way[-1]):
            way.append(parents[0])
        return way

    def candidates(self, spec: str) -> str:
        """One spelling for each list of candidates, since what is computed for a list is kept under its name."""
        return "+".join(map(self._spelt, spec.split("+")))

    def _spelt(self, part: str) -> str:
        kind, colon, name = part.partition(":")
        return f"{kind}:{self.taxonomy.resolve(name)}" if kind == "subtree" else kind.replace("1k", "1K") + colon + name

    def answer(self, label: Label) -> dict[str, Any]:
        answer = label.as_dict()
        row = self.taxonomy.index(label.id)
        return answer | {"score": round(label.score, 5), "mark": self.mark(row), "support": label.support}

    def guess(self, guess: Guess) -> dict[str, Any]:
        mark = self.mark(self.taxonomy.index(guess.id))
        return guess.as_dict() | {"name": self.taxonomy.name(guess.id), "mark": mark, "support": guess.support}

    def _places(self, features: np.ndarray, candidates: str, shift: float, watch: Sequence[str]) -> list[list[dict]]:
        """Where the watched classes stand among the candidates, for each photo."""
        rows = self.model.candidates(candidates)
        position = {int(row): at for at, row in enumerate(rows)}
        watched = [(id, position[row]) for id in watch if (row := self.taxonomy.index(id)) in position]
        scores = self.model.scores(features, candidates, shift)
        return [
            [{"id": id, "place": int((row > row[at]).sum()) + 1, "of": len(rows)} for id, at in watched]
            for row in scores
        ]

    def network_alone(self, features: np.ndarray, k: int) -> dict[str, Any]:
        """What the network itself says of one photo: its own classifiers, its own classes."""
        known = self.bundle.head
        scores = known[:, :-1] @ features + known[:, -1]
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        best = np.argsort(-scores, kind="stable")[:k]
        judge = self.model.judge("seen")
        labels = [judge.label(int(self.bundle.seen[i]), float(scores[i]), float(shares[i])) for i in best]
        return {"labels": [self.answer(label) for label in labels]}

    def heatmaps(self, photo: Image, ids: Sequence[str]) -> dict[str, Any]:
        """Where in a photo the scores of classes come from."""
        found = map_heat(self.bundle, self.model.backbone, photo, list(ids))
        maps = [{"id": one.id, "name": one.name, "score": one.score, "cells": one.cells.tolist()} for one in found]
        return {"box": list(found[0].box), "maps": maps}

    # -- the hierarchy ---------------------------------------------------------------------------------------------

    def search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Classes by name, best first; without a query the tops of the hierarchy."""
        if query.strip():
            found = self.taxonomy.search(query, limit)
        else:
            found = [self.taxonomy.sense(id) for id in self.taxonomy.roots[:limit]]
        return [self._found(sense) for sense in found]

    def _found(self, sense: Sense) -> dict[str, Any]:
        return self.brief(sense.id) | {"lemmas": list(sense.lemmas), "definition": sense.definition}

    def topics(self) -> list[dict[str, Any]]:
        """Where to begin: things that everybody knows; in a hierarchy without them, the first fork from the top."""
        taxonomy = self.taxonomy
        ids = [id for id in TOPICS if id in taxonomy]
        if not ids:
            ids = list(taxonomy.roots)
            while len(ids) == 1 and (below := taxonomy.children(ids[0])):
                ids = list(below)
        return [self.brief(id) | {"descendants": len(taxonomy.descendants(id))} for id in ids[:50]]

    def propose(self, name: str) -> dict[str, Any]:
        """What a new class of that name may be a kind of; and the classes that have the name already."""
        taxonomy = self.taxonomy
        exists = [sense for sense in taxonomy.senses(name) if self.is_class[taxonomy.index(sense.id)]]
        try:
            (item,) = suggest([name], taxonomy)
            places = [] if item.known else [*item.parent.split("|"), *(one.sense.id for one in item.places)]
        except UnseenError:  # a hierarchy of the user's own: by the last words, as a winter cherry is a cherry
            words = name.split()
            ends = (taxonomy.senses(" ".join(words[start:])) for start in range(1, len(words)))
            places = [sense.id for sense in next(filter(None, ends), ())]
        parents = [] if exists else [id for id in dict.fromkeys(places) if id in taxonomy][:5]
        return {
            "name": name,
            "exists": [self._found(sense) for sense in exists],
            "parents": [self._found(taxonomy.sense(id)) for id in parents],
        }

    def details(self, id: str, nearest: int) -> dict[str, Any]:
        taxonomy = self.taxonomy
        sense = taxonomy.sense(id)
        return self.brief(id) | {
            "lemmas": list(sense.lemmas),
            "definition": sense.definition,
            "added": id in self.bundle.added,
            "path": [self.brief(i) for i in reversed(taxonomy.path_to_root(id))],
            "parents": [self.brief(i) for i in taxonomy.parents(id)],
            "below": [self.brief(i) for i in sorted(taxonomy.children(id), key=lambda i: taxonomy.name(i).lower())],
            "descendants": len(taxonomy.descendants(id)),
            "nearest": self.nearest(id, nearest),
        }

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.maximum(np.linalg.norm(self.bundle.solution.classifiers, axis=1), np.finfo(np.float32).tiny)

    def nearest(self, id: str, n: int) -> list[dict[str, Any]]:
        """The n classes whose classifiers are most like that of `id`, by cosine."""
        solution, row = self.bundle.solution, self.taxonomy.index(id)
        others = self.is_class if solution.answers is None else self.is_class & solution.answers
        if solution.answers is not None and not solution.answers[row]:
            return []
        own = normalise_rows(solution.classifiers[row : row + 1])[0]
        likeness = np.where(others, (solution.classifiers @ own) / self._lengths, -np.inf)
        likeness[row] = -np.inf
        best = np.argsort(-likeness, kind="stable")[:n]
        return [
            self.brief(self.taxonomy.ids[other]) | {"likeness": round(float(likeness[other]), 4)}
            for other in best
            if np.isfinite(likeness[other])
        ]

    def why(self, id: str, n: int) -> dict[str, Any]:
        """The explanation, and what is needed to draw it: every class that lies on one of its paths."""
        reason = self.model.explain(id, n).as_dict()
        tree = self._tree([path for path in (reason["path"][::-1], *(n["path"] for n in reason["neighbours"])) if path])
        return reason | {
            "mark": self.mark(self.taxonomy.index(id)),
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
            while turn + 1 < len(path) and path[turn + 1] in self.taxonomy.parents(path[turn]):
                turn += 1
            rest = self.taxonomy.path_to_root(path[turn])
            for way in (path[: turn + 1], rest, path[turn:][::-1]):
                for lower, upper in pairwise(way):
                    parent.setdefault(lower, upper)
            parent.setdefault(rest[-1], None)
        return parent
