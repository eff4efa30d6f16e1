"""What every method is given: the hierarchy, the class vectors, and the classifiers of the seen classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unseen.errors import UnseenError

if TYPE_CHECKING:  # the names of methods, which `--help` lists, should not have to wait for torch
    from unseen.features.store import SeenFeatures
    from unseen.semantics import ClassVectors
    from unseen.taxonomy import Taxonomy


@dataclass(frozen=True)
class Problem:
    """Known: N nodes with vectors, and the classifiers (M x P) of the M seen ones. Wanted: one for every node.

    Args:
        taxonomy: The hierarchy, N nodes.
        vectors: What is known of each node in numbers (N x S), from one or more sources.
        seen: M, int64: rows of the taxonomy, in the backbone's class order.
        classifiers: M x P, float32: [weight, bias] as the network holds them, not normalised.
        features: Of photos of seen classes, for methods that learn from photos.

    >>> import numpy as np
    >>> import unseen
    >>> animals = unseen.Taxonomy.from_edges([("dog", "animal"), ("cat", "animal"), ("fox", "animal")])
    >>> vectors = unseen.class_vectors(animals, unseen.load_vectors("glove"))
    >>> known = np.float32([[3, 4, 0], [0, 5, 0]])  # two weights and a bias each
    >>> problem = unseen.Problem(animals, vectors, animals.indices(["dog", "cat"]), known)
    >>> problem.targets()
    array([[0.6, 0.8, 0. ], [0. , 1. , 0. ]], dtype=float32)
    """

    taxonomy: Taxonomy
    vectors: ClassVectors
    seen: np.ndarray
    classifiers: np.ndarray
    features: SeenFeatures | None = None

    def __post_init__(self):
        if len(self.seen) != len(self.classifiers):
            raise UnseenError(f"{len(self.seen)} seen classes, but {len(self.classifiers)} classifiers")
        if len(np.unique(self.seen)) != len(self.seen):
            raise UnseenError("a seen class is listed twice")
        if not np.isfinite(self.classifiers).all():
            raise UnseenError("the network's classifiers hold NaN or infinity: check its weights file")

    def targets(self) -> np.ndarray:
        """The known classifiers, [weight, bias] normalised together to length 1 (M x P)."""
        return normalise_rows(self.classifiers)

    def rows_or_all(self, rows: np.ndarray | None) -> np.ndarray:
        """The rows that were asked for; all N if none were named."""
        return np.arange(len(self.taxonomy)) if rows is None else np.asarray(rows)

    def require_features(self, method: str) -> SeenFeatures:
        if self.features is None:
            raise UnseenError(
                f"{method} learns from photos of seen classes: make a feature store of them with "
                "`unseen features`, and pass it with features=STORE",
                "features=STORE",
            )
        return self.features

    def photo_nodes(self, features: SeenFeatures) -> np.ndarray:
        """Rows of the taxonomy that the labels of photos stand for."""
        return self.seen if features.ids is None else self.taxonomy.indices(features.ids)


def has_vector(matrix: np.ndarray) -> np.ndarray:
    """n, bool: which rows are not all zero, as those of classes are of which nothing is known."""
    return np.asarray(matrix.any(axis=1))


def normalise_rows(matrix: np.ndarray) -> np.ndarray:
    """Rows divided by their L2 norm; rows of zeros stay zero."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
