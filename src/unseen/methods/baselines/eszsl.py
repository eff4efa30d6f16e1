"""ESZSL: an embarrassingly simple approach to zero-shot learning (Romera-Paredes and Torr, ICML 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from unseen.errors import UnseenError
from unseen.methods.base import Solution
from unseen.methods.baselines.word_space import WordSpace
from unseen.methods.problem import Problem, has_vector, normalise_rows
from unseen.methods.projections import Linear
from unseen.methods.records import FitRecord
from unseen.methods.registry import register
from unseen.methods.settings import AT_LEAST_2, POSITIVE
from unseen.runtime.run import Run

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


@register("eszsl")
class ESZSL(WordSpace):
    """With X (D x n) the photos' features, Y (n x M) their labels, +1 for the own class and `other` for the rest, and
    S (S x M) the seen classes' vectors:

        V = (X X' + gamma I)^-1  X Y S'  (S S' + lambda I)^-1          score of class u:  f' V s_u

    The paper's `other` is -1. With hundreds of classes those drown the one +1, and every photo gets the class least
    like the mean vector; -1 / (M - 1) makes a photo's labels add up to 0 instead, and is the default.

    Both ridges are chosen, as in the paper, on seen classes that are left out in turn: the pair under which most of
    their photos find their class among the left-out ones. gamma is in units of the mean squared feature (the mean of
    the diagonal of X X'), lambda in units of the mean of the diagonal of S S', so that the grid fits any network.

    Shapes: V is D x S, f D long, s_u S long; the class matrix is N x S.

    Args:
        settings: See `ESZSLSettings`.
    """

    Settings = ESZSLSettings
    needs_features = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        store = problem.require_features(self.name)
        vectors = normalise_rows(problem.vectors.matrix[problem.seen])
        present = np.unique(store.labels)
        if not len(present):
            raise UnseenError("eszsl: the feature store holds no photo of a seen class")
        labels = np.searchsorted(present, store.labels)
        gamma, ridge = self._choose(store.matrix, labels, vectors[present], run)
        matrix = _System(store.matrix, labels, vectors[present], self.settings.other).solve(gamma, ridge)
        record = FitRecord(weights=matrix.size, chosen={"gamma": gamma, "ridge": ridge})
        answers = self.answers(problem)
        return Solution(self.predict(problem, {}), Linear(matrix), record=record, answers=answers)

    def answers(self, problem: Problem, rows: np.ndarray | None = None) -> np.ndarray:
        """A class without a vector has none: its score is 0, which would beat the rest."""
        return has_vector(problem.vectors.matrix[problem.rows_or_all(rows)])

    def _choose(self, features: np.ndarray, labels: np.ndarray, vectors: np.ndarray, run: Run) -> tuple[float, float]:
        gammas = GRID if self.settings.gamma is None else (self.settings.gamma,)
        ridges = GRID if self.settings.ridge is None else (self.settings.ridge,)
        pairs = [(gamma, ridge) for gamma in gammas for ridge in ridges]
        classes = len(vectors)
        if len(pairs) == 1 or classes < 4:  # too few classes to leave any out: plain ridges of 1
            return pairs[0] if len(pairs) == 1 else (self.settings.gamma or 1.0, self.settings.ridge or 1.0)
        fold = np.random.default_rng(run.seed).permutation(classes) % min(self.settings.folds, classes // 2)
        correct = np.zeros(len(pairs))
        for number in range(fold.max() + 1):
            out, rest = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            of_out, of_rest = np.isin(labels, out), np.isin(labels, rest)
            inside = np.searchsorted(rest, labels[of_rest])
            system = _System(features[of_rest], inside, vectors[rest], self.settings.other)
            truth = np.searchsorted(out, labels[of_out])
            for position, (gamma, ridge) in enumerate(pairs):
                scores = features[of_out] @ system.solve(gamma, ridge) @ vectors[out].T
                correct[position] += (scores.argmax(axis=1) == truth).sum()
        return pairs[int(correct.argmax())]


class _System:
    """X X', S S' and X Y S' diagonalised once, so that every pair of ridges costs two small products."""

    def __init__(self, features: np.ndarray, labels: np.ndarray, vectors: np.ndarray, other: float | None):
        features, vectors = features.astype(np.float64), vectors.astype(np.float64)
        other = -1 / max(len(vectors) - 1, 1) if other is None else other
        sign = np.full((len(features), len(vectors)), float(other))
        sign[np.arange(len(labels)), labels] = 1.0
        self.x_values, self.x_basis = np.linalg.eigh(features.T @ features)
        self.s_values, self.s_basis = np.linalg.eigh(vectors.T @ vectors)
        self.middle = self.x_basis.T @ (features.T @ (sign @ vectors)) @ self.s_basis

    def solve(self, gamma: float, ridge: float) -> np.ndarray:
        x = np.maximum(self.x_values, 0) + gamma * (self.x_values.mean() or 1.0)
        s = np.maximum(self.s_values, 0) + ridge * (self.s_values.mean() or 1.0)
        return (self.x_basis @ (self.middle / x[:, None] / s[None, :]) @ self.s_basis.T).astype(np.float32)
