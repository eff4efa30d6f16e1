"""A hierarchy small enough to reason about, with made-up vectors and classifiers."""

from __future__ import annotations

from collections import Counter

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import Problem, Solution, normalise_rows
from unseen.networks.store import SeenFeatures
from unseen.vectors.class_vectors import ClassVectors, Coverage

PARENTS = {
    "lonely": [],  # a second root, with no link to the rest
    "thing": [],
    "animal": ["thing"],
    "tool": ["thing"],
    "dog": ["animal"],
    "cat": ["animal"],
    "pet": ["animal"],
    "poodle": ["dog", "pet"],
    "beagle": ["dog"],
    "tabby": ["cat", "pet"],
    "hammer": ["tool"],
    "saw": ["tool"],
}
SEEN = ("dog", "beagle", "tabby", "hammer", "animal")


def make_hierarchy() -> Hierarchy:
    return Hierarchy(list(PARENTS), [(name,) for name in PARENTS], list(PARENTS.values()))


def make_vectors(*parts: np.ndarray) -> ClassVectors:
    parts = tuple(normalise_rows(np.asarray(part, np.float32)) for part in parts)
    zero = [str(i) for i in range(len(parts[0])) if not parts[0][i].any()]
    names = tuple(f"made-up-{i}" for i in range(len(parts)))
    coverage = Coverage(classes=len(parts[0]), zero=zero, missed_words=Counter())
    return ClassVectors(parts=parts, names=names, provenance=[{} for _ in parts], coverage=coverage)


def make_world(
    *, seen: int = 30, unseen: int = 10, width: int = 8, features: int = 16, photos: int = 8, seed: int = 0
) -> tuple[Problem, SeenFeatures]:
    """A world that can be learned: photos lie about a linear map of their class's vector. With photos of `unseen`
    other classes, whose labels are rows of the hierarchy: chance is 1 / unseen."""
    random = np.random.default_rng(seed)
    names = [f"class-{i}" for i in range(seen + unseen)]
    hierarchy = Hierarchy(
        ["thing", *names], [("thing",), *((name,) for name in names)], [[], *[["thing"]] * len(names)]
    )
    vectors = normalise_rows(np.vstack([np.zeros((1, width)), random.normal(size=(len(names), width))]))
    centres = vectors @ random.normal(size=(width, features)) + 3 * random.normal(size=features)
    rows = np.repeat(np.arange(1, len(hierarchy)), photos)
    matrix = (centres[rows] + 0.25 * random.normal(size=(len(rows), features))).astype(np.float32)
    old = rows <= seen
    classifiers = np.pad(centres[1 : seen + 1], ((0, 0), (0, 1))).astype(np.float32)
    store = SeenFeatures(matrix[old], rows[old] - 1)
    problem = Problem(hierarchy, make_vectors(vectors), np.arange(1, seen + 1), classifiers, store)
    return problem, SeenFeatures(matrix[~old], rows[~old])


def hit_unseen(solution: Solution, photos: SeenFeatures) -> float:
    """The share of photos that get their class among those that are shown."""
    rows = np.unique(photos.labels)
    scores = solution.projection(photos.matrix) @ solution.classifiers[rows].T
    return float((rows[scores.argmax(axis=1)] == photos.labels).mean())


def make_problem(
    *, width: int = 6, features: int = 4, parts: int = 1, photos: int = 0, zero: tuple[str, ...] = (), seed: int = 0
) -> Problem:
    """`width` numbers a vector part, `features` a photo, `photos` photos a seen class, `zero`: no vector."""
    random = np.random.default_rng(seed)
    hierarchy = make_hierarchy()
    vectors = [random.normal(size=(len(hierarchy), width)) for _ in range(parts)]
    for part in vectors:
        part[hierarchy.indices(zero)] = 0
    seen = hierarchy.indices(SEEN)
    classifiers = random.normal(size=(len(seen), features + 1)).astype(np.float32)
    store = None
    if photos:
        labels = np.repeat(np.arange(len(seen)), photos)
        matrix = classifiers[labels, :-1] + 0.3 * random.normal(size=(len(labels), features))
        store = SeenFeatures(matrix.astype(np.float32), labels)
    return Problem(hierarchy, make_vectors(*vectors), seen, classifiers, store)
