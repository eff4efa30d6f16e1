"""What to expect of a list of new classes: how often the right one is first, by its length and the photos taught.

Classes are *novel*: nothing at or below them was seen. A draw shuffles those with enough photos and cuts them into
lists of each length; it teaches every class with the first n of its photos, which it shuffles too, and tests the
others. Only the classes of a photo's own list compete. The row to beat is a classifier that knows no names: the cosine
of a photo's features with the mean of those that were taught.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unseen import Bundle, Model, UnseenError
from unseen.answers import UNIFORM, ListScorer, Scorer, expect
from unseen.bundle import TaughtPhotos, teach_classes
from unseen.methods import normalise_rows
from unseen.networks import Features
from unseen_lab.tables.levels import Row, name_of
from unseen_lab.tables.table import Table, figure
from unseen_lab.tables.trainings import Trainings

METHODS = ("kin", "dgp")
LENGTHS = (5, 10, 20, 50, 100, 200)
TAUGHT = (0, 1, 3, 5)
DRAWS = 10
NEAREST_MEAN = "nearest mean"
RELIABILITY = (5, 20, 100)
RELIABILITY_FIGURES = ("stated", "right", "expected", "none_stated", "none")


@dataclass(frozen=True)
class NewClasses:
    """Novel classes, and the features of their photos."""

    ids: tuple[str, ...]
    features: tuple[np.ndarray, ...]  # n x D of each

    @classmethod
    def read(cls, bundle: Bundle, store: Features) -> NewClasses:
        novel = {bundle.ids[row] for row in Model(bundle).candidates("novel")}
        ids = [id for id, photos in store.classes().items() if photos and id in novel]
        if not ids:
            raise UnseenError(f"{store.path}: has no photo of a class that is new to {bundle.network.name}")
        photos = store.seen_matrix(ids)
        matrix = np.asarray(photos.matrix[np.arange(len(photos.labels))])
        return cls(tuple(ids), tuple(matrix[photos.labels == place] for place in range(len(ids))))

    def with_photos(self, least: int) -> NewClasses:
        kept = [place for place, features in enumerate(self.features) if len(features) >= least]
        return NewClasses(tuple(self.ids[at] for at in kept), tuple(self.features[at] for at in kept))

    def shuffled(self, random: np.random.Generator) -> NewClasses:
        order = random.permutation(len(self.ids))
        features = [self.features[at][random.permutation(len(self.features[at]))] for at in order]
        return NewClasses(tuple(self.ids[at] for at in order), tuple(features))

    def tested(self, taught: int) -> tuple[np.ndarray, np.ndarray]:
        """Features of the photos that are not taught, and the places of their classes."""
        parts = [features[taught:] for features in self.features]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def measure_lists(trainings: Trainings, methods: Sequence[Row], draws: int = DRAWS) -> dict[str, Any]:
    """{"classes", "photos", "draws", "rows": [{"method", "taught", "length", "hit@1", "hit@5"}]}, in per cent, averaged
    over classes and draws. The longest list holds every class, most of which have too few photos to be taught."""
    bundles = {name_of(row): trainings.bundle(row) for row in methods}
    first = trainings.model(methods[0])
    everything = NewClasses.read(first.bundle, trainings.store(first, trainings.level.unseen))
    figures: dict[tuple[str, int, int], list[np.ndarray]] = {}
    pool = everything.with_photos(TAUGHT[-1] + 1)
    lengths = [length for length in LENGTHS if length <= len(pool.ids)]
    for draw in range(draws):
        new = pool.shuffled(np.random.default_rng(draw))
        for taught in TAUGHT:
            photos, truth = new.tested(taught)
            for name, scores in score_all(bundles, new, taught, photos):
                for length in lengths:
                    figures.setdefault((name, taught, length), []).append(hits_in_lists(scores, truth, length))
    photos, truth = everything.tested(0)
    for name, scores in score_all(bundles, everything, 0, photos):
        figures[name, 0, len(everything.ids)] = [hits_in_lists(scores, truth, len(everything.ids))]
    rows = [
        {"method": name, "taught": taught, "length": length, **dict(zip(("hit@1", "hit@5"), mean, strict=True))}
        for (name, taught, length), hits in figures.items()
        for mean in [np.mean(hits, axis=0).round(1).tolist()]
    ]
    counts = {"classes": len(everything.ids), "photos": len(truth), "pool": len(pool.ids), "draws": draws}
    return counts | {"rows": rows, "reliability": measure_reliability(first.bundle, everything, draws)}


def measure_reliability(bundle: Bundle, new: NewClasses, draws: int) -> list[dict[str, float]]:
    """[{"length", "stated", "right", "expected", "none_stated", "none"}] in per cent: for lists drawn from every second
    class (the others helped to choose the formula), the mean probability of the first label and how often it is right,
    what `expect` says, and how probable none of these is said to be where half of the photos are of other classes."""
    classes = NewClasses(new.ids[1::2], new.features[1::2])
    figures = []
    for length in RELIABILITY:
        parts = []
        for draw in range(draws * max(1, 20 // length)):
            random = np.random.default_rng(draw)
            drawn = classes.shuffled(random)
            if len(drawn.ids) <= length:
                continue
            scorer = ListScorer(bundle, bundle.hierarchy.indices(drawn.ids[:length]), UNIFORM)
            photos = np.concatenate(drawn.features[:length])
            truth = np.repeat(scorer.given, [len(part) for part in drawn.features[:length]])
            others = random.permutation(np.concatenate(drawn.features[length:]))[: len(photos)]
            probabilities = scorer.probabilities(photos)
            right = scorer.columns[probabilities.argmax(axis=1)] == truth
            none = [scorer.none(random.permutation(photos)[: len(others)]), scorer.none(others)]
            expected = expect(bundle, scorer.given).right
            parts.append([probabilities.max(axis=1).mean(), right.mean(), expected, np.mean(none), 0.5])
        if parts:
            means = (100 * np.mean(parts, axis=0)).round(1).tolist()
            figures.append({"length": length, **dict(zip(RELIABILITY_FIGURES, means, strict=True))})
    return figures


def score_all(
    bundles: dict[str, Bundle], new: NewClasses, taught: int, photos: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """(name, scores of the photos over the new classes) of each method taught with the first photos, and of their
    means alone."""
    given = {id: TaughtPhotos(features[:taught], [f"{id}/{n}" for n in range(taught)])
             for id, features in zip(new.ids, new.features, strict=True)}  # fmt: skip
    for name, bundle in bundles.items():
        grown = teach_classes(bundle, given) if taught else bundle
        rows = grown.hierarchy.indices(new.ids)
        scorer = Scorer(grown, np.sort(rows))
        scores = np.full((len(photos), len(grown)), -np.inf, np.float32)
        scores[:, scorer.columns] = scorer.method_scores(photos)
        yield name, scores[:, rows]
    if taught:
        means = np.stack([entry.features.mean(axis=0) for entry in given.values()])
        yield NEAREST_MEAN, normalise_rows(photos) @ normalise_rows(means).T


def hits_in_lists(scores: np.ndarray, truth: np.ndarray, length: int) -> np.ndarray:
    """Hit@1 and Hit@5 in per cent, averaged over classes; column after column of `scores` (n x C) makes lists of this
    length, and what is left over plays no part.

    >>> scores = np.array([[3, 2, 9, 9], [1, 2, 9, 9], [9, 9, 4, 3], [9, 9, 4, 3]])
    >>> hits_in_lists(scores, np.array([0, 1, 2, 3]), 2).tolist()
    [75.0, 100.0]
    """
    lists = np.arange(scores.shape[1]) // length
    photos = lists[truth] < scores.shape[1] // length
    scores, truth = scores[photos], truth[photos]
    true = scores[np.arange(len(truth)), truth][:, None]
    same = lists[truth][:, None] == lists
    rank = (same & (scores > true)).sum(axis=1) + ((same & (scores == true)).sum(axis=1) - 1) / 2
    counts = np.bincount(truth)
    classes = counts > 0
    means = [np.bincount(truth, rank < k, len(counts))[classes] / counts[classes] for k in (1, 5)]
    return 100 * np.mean(means, axis=1)


# -- the page ----------------------------------------------------------------------------------------------------------


def list_table(result: dict[str, Any], hit: str = "hit@1") -> Table:
    """A line for each number of photos and method, a column for each length."""
    cell = {(row["taught"], row["method"], row["length"]): row[hit] for row in result["rows"]}
    lengths = sorted({row["length"] for row in result["rows"]})
    lines = dict.fromkeys((row["taught"], row["method"]) for row in result["rows"])
    rows = [[str(taught or "none"), method, *(figure(cell.get((taught, method, length))) for length in lengths)]
            for taught, method in lines]  # fmt: skip
    return Table(["photos of each", "method", *map(str, lengths)], rows, words=2)


def reliability_table(result: dict[str, Any]) -> Table:
    header = ["length of the list", "stated", "right", "expected", "none, stated", "none, in fact"]
    keys = ("length", *RELIABILITY_FIGURES)
    return Table(header, [[f"{row[key]:g}" for key in keys] for row in result["reliability"]])


def list_page(result: dict[str, Any], trainings: Trainings, methods: Sequence[Row]) -> str:
    """The tables as a Markdown page that says what they show and how they were made."""
    names = tuple(map(name_of, methods))
    chosen = "" if names == METHODS else f" --methods {','.join(names)}"
    chosen += "" if result["draws"] == DRAWS else f" --draws {result['draws']}"
    longest = max(row["length"] for row in result["rows"])
    parts = [
        "# What to expect of a list",
        "You name the classes, and the answer is one of them: how often is it right? Hit@1 in per cent by the length "
        "of the list and the photos taught for each class. All classes are new: nothing at or below them was shown "
        "to the network. *nearest mean* knows no names; it compares a photo with the mean of those that were taught.",
        list_table(result).markdown(),
        "![Hit@1 by length of the list](plots/lists.svg)",
        "The right class is among the first five (Hit@5):",
        list_table(result, "hit@5").markdown(),
        "Do the probabilities hold? In lists drawn from every second of these classes, the mean probability of the "
        "first label, how often it is right, what `unseen expect` says before any photo, and the mean probability of "
        "*none of these* where half of the photos show another class:",
        reliability_table(result).markdown(),
        f"Network {trainings.level.network}, {result['classes']} new classes, {result['photos']:,} photos. Lists are "
        f"drawn from the {result['pool']} classes with at least {TAUGHT[-1] + 1} photos, and the photos to teach from "
        f"these; the others are tested. Means over {result['draws']} draws and over classes. The list of {longest} "
        f"holds all classes. Graph networks were trained for {trainings.lengths.epochs} epochs.",
        "Which figures were chosen on what they report: how photos are weighed against the prediction was chosen with "
        "half of these classes among others, so the rows of taught kin flatter it a little. Within lists, `stated` and "
        "`right` are on classes that played no part in the formula; `expected` and the offset of *none of these* were "
        "set with these classes in view.",
        f"Made by `unseen compare --lists --photos DIR --epochs {trainings.lengths.epochs}{chosen} --markdown FILE`.",
    ]
    return "\n\n".join(parts) + "\n"
