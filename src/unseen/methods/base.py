"""The one interface of all methods.

A method turns a `Problem` into a `Solution`: a matrix with a row for every class, and a projection that brings photo
features into the same space, so that `projection(features) @ classifiers[u]` is the score of class u. For most methods
the projection only appends a 1 for the bias; for ConSE and the like it is where the method lives.

A method of your own is a subclass with `fit` and `predict`; `@register("name")` makes it available by name:

    @register("nearest")
    class Nearest(Method):
        def fit(self, problem, run):
            classifiers = self.predict(problem, {})
            return Solution(classifiers, Append1(), state={})

        def predict(self, problem, state, rows=None):
            vectors = problem.vectors.matrix
            wanted = vectors if rows is None else vectors[rows]
            return problem.targets()[(wanted @ vectors[problem.seen].T).argmax(1)]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from unseen.methods.problem import Problem
from unseen.methods.projections import Projection
from unseen.methods.settings import Limit
from unseen.runtime.run import Run


@dataclass
class Solution:
    """What a fitted method leaves: a row for every class, and where photo features meet it."""

    classifiers: np.ndarray  # N x E, float32
    projection: Projection  # features (n x D) -> n x E
    state: dict[str, np.ndarray]  # all that predict() needs
    details: dict[str, Any] = field(default_factory=dict)  # JSON: loss, epochs, weights, hop_weights, ...
    # From Method.answers() and Method.trust(), for all classes; None where the method does not tell.
    answers: np.ndarray | None = None  # N, bool: False where the method has no answer; None means it answers all
    trust: np.ndarray | None = None  # N, 0..1: how well a class is supported by seen ones


@dataclass(frozen=True)
class NoSettings:
    """The settings of a method that has none."""


class Method(ABC):
    """Base class of all methods, with the defaults of what a method may leave out."""

    name: ClassVar[str]  # given by @register
    Settings: ClassVar[type] = NoSettings  # a dataclass of plain JSON values; the defaults are the paper's
    limits: ClassVar[Mapping[str, Limit]] = {}  # of the settings, by name
    needs_features: ClassVar[bool] = False  # learns from photos of seen classes, and cannot do without
    takes_features: ClassVar[bool] = False  # can learn from photos

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.takes_features = cls.takes_features or cls.needs_features

    def __init__(self, settings: Any = None):
        self.settings = self.Settings() if settings is None else settings

    @abstractmethod
    def fit(self, problem: Problem, run: Run) -> Solution:
        """Learn from the seen classes, and predict a row for every class."""

    @abstractmethod
    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """Class matrix rows (n x E) for `rows` of the problem's taxonomy, which may have grown since the fit."""

    def answers(self, problem: Problem, rows: np.ndarray) -> np.ndarray | None:
        """n, bool: which of `rows` the method has an answer for; None: all."""
        return None

    def trust(
        self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None
    ) -> np.ndarray | None:
        """n, 0..1: how well seen classes support each of `rows`; None where the method cannot tell."""
        return None

    def shares(self, problem: Problem, state: dict[str, np.ndarray], row: int) -> np.ndarray | None:
        """M: what the class at `row` borrows from each seen class; None where the method cannot tell."""
        return None
