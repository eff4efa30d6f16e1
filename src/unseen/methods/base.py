"""The one interface of all methods.

A method turns a `Problem` into a `Solution`: a matrix with a row for every class, and a projection that brings photo
features into the same space, so that `projection(features) @ classifiers[u]` is the score of class u. For most methods
the projection only appends a 1 for the bias; for ConSE and the like it is where the method lives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from unseen.errors import UnseenError
from unseen.methods.problem import Problem
from unseen.methods.projections import KINDS, Projection
from unseen.methods.records import FitRecord
from unseen.runtime.run import Run


@dataclass
class Solution:
    """What a fitted method leaves: a row for every class, and where photo features meet it.

    Args:
        classifiers: N x E, float32; row u belongs to class u.
        projection: Features (n x D) -> n x E, one of those in `unseen.methods.projections`.
        state: All that `Method.predict` needs for a class that is added later.
        record: Facts about the fit: loss, epochs, number of weights and the like.
        answers: N, bool, from `Method.answers`: False where the method has no answer; None: it answers all.
        trust: N, 0..1, from `Method.trust`: how well seen classes support a class; None: the method cannot tell.

    >>> import numpy as np
    >>> import unseen
    >>> from unseen.methods.projections import Append1  # f -> [f; 1]
    >>> classifiers = np.float32([[1, 0, 0], [0, 1, 0.5]])  # weight and bias of two classes
    >>> solution = unseen.Solution(classifiers, Append1())
    >>> features = np.float32([[3, 4]])  # of one photo
    >>> solution.projection(features) @ solution.classifiers.T
    array([[3. , 4.5]], dtype=float32)
    """

    classifiers: np.ndarray
    projection: Projection
    state: dict[str, np.ndarray] = field(default_factory=dict)
    record: FitRecord = field(default_factory=FitRecord)
    answers: np.ndarray | None = None
    trust: np.ndarray | None = None

    def __post_init__(self):
        if self.projection.kind not in KINDS:  # a bundle could be saved with it, but never loaded
            raise UnseenError(
                f"a projection of kind {self.projection.kind!r} is unknown. There are: {', '.join(KINDS)}"
            )


@dataclass(frozen=True)
class NoSettings:
    """The settings of a method that has none."""


class Method(ABC):
    """Base class of all methods, with the defaults of what a method may leave out.

    A method of your own is a subclass with `fit` and `predict`, as below. `--method my_module:Nearest` finds it on the
    command line, and `@unseen.register("nearest")` above the class makes it available by that name.

    Args:
        settings: An instance of the method's `Settings`; without one, the defaults.

    >>> import numpy as np
    >>> import unseen
    >>> from unseen.methods.projections import Append1
    >>> class Nearest(unseen.Method):
    ...     def fit(self, problem, run):
    ...         return unseen.Solution(self.predict(problem, {}), Append1())
    ...
    ...     def predict(self, problem, state, rows=None):
    ...         vectors = problem.vectors.matrix
    ...         alike = vectors[problem.rows_or_all(rows)] @ vectors[problem.seen].T
    ...         return problem.targets()[alike.argmax(1)]  # of the seen class with the most similar name
    >>> animals = unseen.Taxonomy.from_edges([("dog", "animal"), ("cat", "animal"), ("kitten", "animal")])
    >>> vectors = unseen.class_vectors(animals, unseen.load_vectors("glove"))
    >>> seen = animals.indices(["dog", "cat"])
    >>> problem = unseen.Problem(animals, vectors, seen, np.float32([[1, 0], [0, 1]]))
    >>> Nearest().predict(problem, {}, animals.indices(["kitten"]))  # as for cat
    array([[0., 1.]], dtype=float32)
    """

    name: ClassVar[str]  # given by @register
    Settings: ClassVar[type] = NoSettings  # a dataclass of plain JSON values, see `unseen.methods.settings`
    needs_features: ClassVar[bool] = False  # learns from photos of seen classes, and cannot do without
    takes_features: ClassVar[bool] = False  # can learn from photos
    retired: ClassVar[tuple[str, ...]] = ()  # settings that it had once: bundles that tell them are still understood

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.takes_features = cls.takes_features or cls.needs_features

    def __init__(self, settings: Any = None):
        self.settings: Any = self.Settings() if settings is None else settings

    @abstractmethod
    def fit(self, problem: Problem, run: Run) -> Solution:
        """Learn from the seen classes, and predict a row for every class."""

    @abstractmethod
    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """Class matrix rows (n x E) for `rows` of the problem's taxonomy, which may have grown since the fit."""

    def answers(self, problem: Problem, rows: np.ndarray | None = None) -> np.ndarray | None:
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
