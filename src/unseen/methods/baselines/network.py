"""The network alone: it can only answer the classes it was trained on, and every comparison should say how well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unseen.methods.base import Method, Solution
from unseen.methods.problem import Problem
from unseen.methods.projections import Append1
from unseen.methods.registry import register
from unseen.runtime.run import Run


@register("network")
class NetworkAlone(Method):
    """Row u is the network's own [weight, bias] for a seen class; for an unseen one it is zero, and no answer."""

    @dataclass(frozen=True)
    class Settings:
        pass

    def fit(self, problem: Problem, run: Run) -> Solution:
        answers = self.answers(problem)
        return Solution(self.predict(problem, {}), Append1(), state={}, details={"weights": 0}, answers=answers)

    def answers(self, problem: Problem, rows: np.ndarray | None = None) -> np.ndarray:
        found = np.zeros(len(problem.taxonomy), bool)
        found[problem.seen] = True
        return found if rows is None else found[rows]

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        matrix = np.zeros((len(problem.taxonomy), problem.classifiers.shape[1]), np.float32)
        matrix[problem.seen] = problem.classifiers
        return matrix if rows is None else matrix[rows]
