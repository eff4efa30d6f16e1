"""The network alone, as a baseline: what it knows of the seen classes, and nothing of the others."""

from __future__ import annotations

import numpy as np

from unseen import Method, Problem, Run, Solution
from unseen.methods import Append1, FitRecord, State


class NetworkAlone(Method):
    """Row u (of N x P) is the network's own [weight, bias] for a seen class; for an unseen one zero, and no answer."""

    name = "network"

    def fit(self, problem: Problem, run: Run) -> Solution:
        answers = self.answers(problem)
        return Solution(self.predict(problem, {}), Append1(), record=FitRecord(weights=0), answers=answers)

    def answers(self, problem: Problem, rows: np.ndarray | None = None) -> np.ndarray:
        return np.isin(problem.rows_or_all(rows), problem.seen)

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        matrix = np.zeros((len(problem.hierarchy), problem.classifiers.shape[1]), np.float32)
        matrix[problem.seen] = problem.classifiers
        return matrix if rows is None else matrix[rows]
