"""Methods that bring photos to the class vectors: what they learn is the projection, the classes are there already."""

from __future__ import annotations

import numpy as np

from unseen.methods.base import Method
from unseen.methods.problem import Problem, normalise_rows


class WordSpace(Method):
    """Row u is the unit vector of class u."""

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        vectors = problem.vectors.matrix
        return normalise_rows(vectors if rows is None else vectors[rows])
