"""ESZSL: an embarrassingly simple approach to zero-shot learning (Romera-Paredes and Torr, ICML 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from unseen import Problem, Run, Solution
from unseen.methods import FitRecord, Linear, WordSpace
from unseen.util import AT_LEAST_2, POSITIVE
from unseen_lab.methods.photo_classes import PhotoClasses, Score, at_edge

GRID = tuple(10.0**power for power in range(-3, 4))  # the paper's range for both ridges


@dataclass(frozen=True)
class ESZSLSettings:
    """Settings of ESZSL.

    Args:
        gamma: Ridge of the features; None: chosen on seen classes.
        ridge: The paper's lambda, ridge of the class vectors; None: chosen on seen classes.
        folds: Into how many parts the seen classes are split for that choice.
        other: Label of the classes that a photo does not show; None: -1 / (M - 1).
    """

    gamma: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float | None, POSITIVE] = None
    folds: Annotated[int, AT_LEAST_2] = 3
    other: float | None = None


class ESZSL(WordSpace):
    """With X (D x n) the photos' features, Y (n x M) their labels, +1 for the own class and `other` for the rest, and
    S (S x M) the seen classes' vectors:

        V = (X X' + gamma I)^-1  X Y S'  (S S' + lambda I)^-1          score of class u:  f' V s_u

    The paper's `other` is -1. With hundreds of classes those drown the one +1, and every photo gets the class least
    like the mean vector; -1 / (M - 1) makes a photo's labels add up to 0 instead, and is the default.

    Both ridges are chosen, as in the paper, on seen classes that are left out in turn: the pair under which their
    photos best find their class among the left-out ones, averaged over classes. gamma is in units of the mean squared
    feature (the mean of the diagonal of X X'), lambda in units of the mean of the diagonal of S S', so that the grid
    fits any network.

    Shapes: V is D x S, f D long, s_u S long; the class matrix is N x S.
    """

    name = "eszsl"
    Settings = ESZSLSettings
    needs_features = needs_vector = True  # the score of a class without a vector is 0, which would beat the rest

    def fit(self, problem: Problem, run: Run) -> Solution:
        data = PhotoClasses.of(problem, self.name)
        gamma, ridge, accuracy = self._choose(data, run)
        matrix = _System(data, self.settings.other).solve(gamma, ridge)
        chosen, extra = {"gamma": gamma, "ridge": ridge}, {}
        if accuracy is not None:
            tried = {name: GRID for name in chosen if getattr(self.settings, name) is None}
            extra = {"hidden_hit@1": round(100 * accuracy, 2), **at_edge(chosen, tried)}
        record = FitRecord(weights=matrix.size, chosen=chosen, extra=extra)
        answers = self.answers(problem)
        return Solution(self.predict(problem, {}), Linear(matrix), record=record, answers=answers)

    def _choose(self, data: PhotoClasses, run: Run) -> tuple[float, float, float | None]:
        """The pair of ridges with the best class-averaged accuracy on left-out classes, and that accuracy."""
        gammas = GRID if self.settings.gamma is None else (self.settings.gamma,)
        ridges = GRID if self.settings.ridge is None else (self.settings.ridge,)
        pairs = [(gamma, ridge) for gamma in gammas for ridge in ridges]

        def score_of(rest: PhotoClasses, out: PhotoClasses) -> Score:
            system = _System(rest, self.settings.other)
            maps = [system.solve(*pair) for pair in pairs]
            return lambda photos: (photos @ one @ out.vectors.T for one in maps)

        chosen = data.choose(pairs, self.settings.folds, run.seed, score_of)
        if chosen is None:  # plain ridges of 1
            return self.settings.gamma or 1.0, self.settings.ridge or 1.0, None
        return *chosen[0], chosen[1]


class _System:
    """X X', S S' and X Y S' diagonalised once, so that every pair of ridges costs two small products."""

    def __init__(self, data: PhotoClasses, other: float | None):
        vectors = data.vectors.astype(np.float64)
        other = -1 / max(len(vectors) - 1, 1) if other is None else other
        # X Y S' by classes: Y is `other` but for a photo's own class, and is never made.
        count = np.bincount(data.labels, minlength=len(vectors))[:, None]
        sums = data.class_means() * count
        crossed = other * np.outer(sums.sum(axis=0), vectors.sum(axis=0)) + (1 - other) * sums.T @ vectors
        self.x_values, self.x_basis = np.linalg.eigh(data.second_moment())
        self.s_values, self.s_basis = np.linalg.eigh(vectors.T @ vectors)
        self.middle = self.x_basis.T @ crossed @ self.s_basis

    def solve(self, gamma: float, ridge: float) -> np.ndarray:
        x = np.maximum(self.x_values, 0) + gamma * (self.x_values.mean() or 1.0)
        s = np.maximum(self.s_values, 0) + ridge * (self.s_values.mean() or 1.0)
        return (self.x_basis @ (self.middle / x[:, None] / s[None, :]) @ self.s_basis.T).astype(np.float32)
