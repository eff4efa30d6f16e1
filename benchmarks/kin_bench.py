"""Variants of kin on the paper's hierarchy, measured by criteria on seen classes and by photos of unseen ones.

What benchmarks/criterion.py and benchmarks/kin_ideas.py share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.answers.candidates import AUTHORS_LISTS, paper_list
from unseen.features import FeatureStore
from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import Problem, normalise_rows
from unseen.methods.kin import Kin, KinSettings
from unseen.methods.kin.kin import Inputs, gather, halvings, quality
from unseen.networks.loading import load_network
from unseen.vectors.class_vectors import class_vectors, load_vectors

NETWORKS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "resnet50")
DIRECTIONS = 500  # principal directions of the seen classifiers in which scores are computed: the rest adds little
FOLDS = 6  # a sixth of the seen classes is hidden at a time
UP, LISTS = "3-hops", AUTHORS_LISTS
BOTH = ("glove", "text")
SOURCES = (*BOTH, "mpnet")


@dataclass(frozen=True)
class Photos:
    """Of one network: classifiers (M x r) and photos (n x r) along the classifiers' principal directions."""

    own: np.ndarray
    seen: np.ndarray
    seen_class: np.ndarray  # position among the seen classes
    unseen: np.ndarray
    unseen_row: np.ndarray  # row of the hierarchy


def read_photos(name: str, stores: Path, hierarchy: Hierarchy, part: int) -> Photos:
    network = load_network(name)
    targets = normalise_rows(network.classifiers())
    centred = (targets - targets.mean(axis=0)).astype(np.float64)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    strongest = np.argsort(-values)[:DIRECTIONS]
    own = vectors[:, strongest] * np.sqrt(values[strongest])
    directions = centred.T @ vectors[:, strongest] / np.sqrt(values[strongest])

    def along(store: str, wanted: Callable[[list[str]], list[int]]) -> tuple[np.ndarray, list[str]]:
        parts, ids = [], []
        for batch in FeatureStore.open(stores / name / store, network).batches():
            kept = wanted(batch.class_ids)
            parts.append(batch.features[kept] @ directions[:-1] + directions[-1])
            ids += [batch.class_ids[i] for i in kept]
        return np.concatenate(parts).astype(np.float32), ids

    known = sorted(FeatureStore.open(stores / name / "unseen", network).classes())
    half = {id for id in known[part::2] if id in hierarchy}
    position = {id: i for i, id in enumerate(network.class_ids)}
    taken: dict[str, int] = {}

    def first_two(ids: list[str]) -> list[int]:
        kept = []
        for i, id in enumerate(ids):
            taken[id] = taken.get(id, 0) + 1
            if taken[id] <= 2 and id in position:
                kept.append(i)
        return kept

    seen, seen_ids = along("seen-train", first_two)
    unseen, unseen_ids = along("unseen", lambda ids: [i for i, id in enumerate(ids) if id in half])
    classes = np.array([position[id] for id in seen_ids])
    return Photos(own.astype(np.float32), seen, classes, unseen, hierarchy.indices(unseen_ids))


class Bench:
    """The paper's hierarchy with its rows in the order: seen, 2-hops, the rest of 3-hops, the rest of all."""

    def __init__(self, networks: list[str], stores: Path, part: int):
        self.hierarchy = Hierarchy.paper()
        ids = load_network().class_ids
        self.seen = self.hierarchy.indices(ids)
        order, self.count = list(ids), {}
        for name in LISTS:
            order += sorted(set(paper_list(name)) - set(order))
            self.count[name] = len(order) - len(ids)
        self.rows = self.hierarchy.indices(order)
        self.place = np.full(len(self.hierarchy), -1)
        self.place[self.rows] = np.arange(len(self.rows)) - len(self.seen)  # among the unseen ones
        child, parent = self.hierarchy.edges()
        self.parents = [np.sort(self.place[parent[child == row]]) for row in self.seen]
        self.parents = [places[places >= 0] for places in self.parents]
        self.photos = {name: read_photos(name, stores, self.hierarchy, part) for name in networks}
        self.vectors = {name: class_vectors(self.hierarchy, load_vectors(name)) for name in SOURCES}
        self.splits = halvings(len(self.seen), 2)
        self.folds = np.array_split(np.random.default_rng(0).permutation(len(self.seen)), FOLDS)
        self._inputs: dict[tuple, Inputs] = {}

    def inputs(self, sources: tuple[str, ...], s: KinSettings) -> Inputs:
        parts = []
        for source in sources:
            key = (source, tuple(s.descendants), tuple(s.ancestors), s.decay)
            if key not in self._inputs:
                if len(self._inputs) > 6:
                    self._inputs.pop(next(iter(self._inputs)))
                problem = Problem(self.hierarchy, self.vectors[source], self.seen, np.zeros((len(self.seen), 1), "f4"))
                self._inputs[key] = gather(problem, s.descendants, s.ancestors, s.decay, self.rows)
            parts.append(self._inputs[key])
        words, propagated = (tuple(getattr(part, kind)[0] for part in parts) for kind in ("words", "propagated"))
        return Inputs(words, propagated, parts[0].ancestors)

    def measure(self, sources: tuple[str, ...], settings: KinSettings) -> dict[str, dict[str, float]]:
        """Every criterion and the photos of unseen classes, by network."""
        inputs, m = self.inputs(sources, settings), len(self.seen)
        chosen = {"width": settings.width, "sources": settings.sources or [1.0] * len(sources)}
        kernel = Kin(settings)._kernel(inputs[:m], chosen)(inputs, inputs[:m])
        inverse = np.linalg.inv(kernel[:m].astype(np.float64) + settings.ridge * np.eye(m)).astype(np.float32)
        chance = float(np.median(np.linalg.norm(kernel[m::7] @ inverse, axis=1)))
        doubt = (settings.caution * chance) ** 2

        def rows_of(kernel: np.ndarray, dual: np.ndarray) -> np.ndarray:
            deviations = kernel @ dual
            return deviations / np.sqrt(np.einsum("np,np->n", deviations, deviations) + doubt + 1e-30)[:, None]

        found = {}
        for name, photos in self.photos.items():
            predicted = rows_of(kernel[m:], inverse @ photos.own)
            figures = {
                "halves": 100 * float(quality(kernel[:m], settings.ridge, photos.own[:, :200], self.splits).mean())
            }
            for what, scored, classes in (
                ("up", photos.seen, photos.seen_class),
                ("own-up", photos.own, np.arange(m)),
            ):
                figures |= self.upward(what, scored, classes, predicted)
            ranks, classes = [], []
            for hidden in self.folds:
                rest = np.setdiff1d(np.arange(m), hidden)
                system = kernel[np.ix_(rest, rest)].astype(np.float64) + settings.ridge * np.eye(len(rest))
                dual = np.linalg.solve(system, photos.own[rest]).astype(np.float32)
                asked = np.concatenate([hidden, m + np.arange(self.count["2-hops"])])
                among = rows_of(kernel[asked][:, rest], dual)
                own = np.isin(photos.seen_class, hidden)
                place = np.full(m, -1)
                place[hidden] = np.arange(len(hidden))
                ranks.append(ranks_of(photos.seen[own] @ among.T, place[photos.seen_class[own]]))
                classes.append(photos.seen_class[own])
            figures |= summary("hidden among hidden and 2-hops", np.concatenate(ranks), np.concatenate(classes))
            places = self.place[photos.unseen_row]
            scores = photos.unseen @ predicted.T
            for key in LISTS:
                kept = (places >= 0) & (places < self.count[key])
                ranks = ranks_of(scores[kept][:, : self.count[key]], places[kept])
                figures |= summary(f"unseen {key}", ranks, places[kept])
            found[name] = figures
        return found

    def upward(self, what: str, scored: np.ndarray, classes: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
        """Seen classes (their photos, or their own classifiers) among unseen ones: right is a parent."""
        found, scores = {}, scored @ predicted[: self.count[UP]].T
        for key in ("2-hops", UP):
            within = [places[places < self.count[key]] for places in self.parents]
            kept = np.flatnonzero([len(within[i]) > 0 for i in classes])
            best = [within[classes[i]][scores[i, within[classes[i]]].argmax()] for i in kept]
            ranks = ranks_of(scores[kept][:, : self.count[key]], np.array(best))
            found |= summary(f"{what} {key}", ranks, classes[kept])
        return found


def ranks_of(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    own = scores[np.arange(len(scores)), right][:, None]
    return (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2


def summary(what: str, ranks: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Class-averaged Hit@1 and mean reciprocal rank, per cent."""
    counts = np.bincount(classes)
    kept = counts > 0
    of = {"hit@1": ranks == 0, "reciprocal rank": 1 / (1 + ranks)}
    return {
        f"{what} {name}": 100 * float((np.bincount(classes, value)[kept] / counts[kept]).mean())
        for name, value in of.items()
    }
