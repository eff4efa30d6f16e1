"""A hierarchy small enough to reason about, with made-up vectors and classifiers."""

from __future__ import annotations

from collections import Counter

import numpy as np

from unseen.features.store import SeenFeatures
from unseen.methods.problem import Problem, normalise_rows
from unseen.semantics import ClassVectors, Coverage
from unseen.taxonomy import Taxonomy

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


def make_taxonomy() -> Taxonomy:
    return Taxonomy(list(PARENTS), [(name,) for name in PARENTS], list(PARENTS.values()))


def make_vectors(*parts: np.ndarray) -> ClassVectors:
    parts = tuple(normalise_rows(np.asarray(part, np.float32)) for part in parts)
    zero = [str(i) for i in range(len(parts[0])) if not parts[0][i].any()]
    names = tuple(f"made-up-{i}" for i in range(len(parts)))
    coverage = Coverage(classes=len(parts[0]), zero=zero, missed_words=Counter())
    return ClassVectors(parts=parts, names=names, provenance=[{} for _ in parts], coverage=coverage)


def make_problem(
    *, width: int = 6, features: int = 4, parts: int = 1, photos: int = 0, zero: tuple[str, ...] = (), seed: int = 0
) -> Problem:
    """`width` numbers a vector part, `features` a photo, `photos` photos a seen class, `zero`: no vector."""
    random = np.random.default_rng(seed)
    taxonomy = make_taxonomy()
    vectors = [random.normal(size=(len(taxonomy), width)) for _ in range(parts)]
    for part in vectors:
        part[taxonomy.indices(zero)] = 0
    seen = taxonomy.indices(SEEN)
    classifiers = random.normal(size=(len(seen), features + 1)).astype(np.float32)
    store = None
    if photos:
        labels = np.repeat(np.arange(len(seen)), photos)
        matrix = classifiers[labels, :-1] + 0.3 * random.normal(size=(len(labels), features))
        store = SeenFeatures(matrix.astype(np.float32), labels)
    return Problem(taxonomy, make_vectors(*vectors), seen, classifiers, store)
