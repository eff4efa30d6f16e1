"""The network alone: it can only answer the classes it was trained on, and every comparison should say how well."""

from __future__ import annotations

import numpy as np

from unseen.methods.base import Method, Solution
from unseen.methods.problem import Problem
from unseen.methods.projections import Append1
from unseen.methods.records import FitRecord
from unseen.methods.registry import register
from unseen.runtime.run import Run


@register("network")
class NetworkAlone(Method):
    """Row u (of N x P) is the network's own [weight, bias] for a seen class; for an unseen one zero, and no answer."""

    def fit(self, problem: Problem, run: Run) -> Solution:
        answers = self.answers(problem)
        return Solution(self.predict(problem, {}), Append1(), record=FitRecord(weights=0), answers=answers)

    def answers(self, problem: Problem, rows: np.ndarray | None = None) -> np.ndarray:
        return np.isin(problem.rows_or_all(rows), problem.seen)

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        matrix = np.zeros((len(problem.taxonomy), problem.classifiers.shape[1]), np.float32)
        matrix[problem.seen] = problem.classifiers
        return matrix if rows is None else matrix[rows]
