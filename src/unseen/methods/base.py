"""The one interface of all methods.

A method turns a `Problem` into a `Solution`: a matrix with a row for every class, and a projection that brings photo
features into the same space, so that `projection(features) @ classifiers[u]` is the score of class u. For most methods
the projection only appends a 1 for the bias; ConSE and the like do their work in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unseen.methods.projections import KINDS, Projection
from unseen.util.arrays import normalise_rows
from unseen.util.errors import UnseenError
from unseen.util.run import Run
from unseen.util.settings import Record

if TYPE_CHECKING:
    # the names of methods, which `--help` lists, should not have to wait for torch
    from unseen.hierarchy.core import Hierarchy
    from unseen.networks.features import SeenFeatures
    from unseen.vectors.class_vectors import ClassVectors

State = dict[str, np.ndarray]


@dataclass(frozen=True)
class FitRecord(Record):
    """Facts about a fit. A method leaves out what does not apply; other JSON values go into `extra`."""

    loss: float | None = None  # at the end
    epochs: int | None = None
    seconds: float | None = None  # before an interruption too
    weights: int | None = None  # numbers learned
    hop_weights: dict[str, list[float]] | None = None  # of DGP: direction -> share of each hop group
    # Of graph networks: nodes that each layer computes, from its input to the seen classes.
    field_sizes: list[int] | None = field(default=None, metadata={"key": "field"})
    fit_peak_memory_mb: float | None = None
    chosen: dict[str, Any] | None = None  # settings that the method chose by itself


@dataclass
class Solution:
    """What a fitted method leaves: a row for every class, and where photo features meet it.

    Args:
        classifiers: N x E, float32, or float16 as some bundles store them; row u belongs to class u.
        projection: Features (n x D) -> n x E, one of those in `unseen.methods.projections`.
        state: What `Method.predict` needs for a class that is added later.
        record: Facts about the fit: loss, epochs, number of weights and the like.
        answers: N, bool, from `Method.answers`: False where the method has no answer; None: it answers all.
        trust: N, 0..1, from `Method.trust`: how well seen classes support a class; None: the method does not know.

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
    state: State = field(default_factory=dict)
    record: FitRecord = field(default_factory=FitRecord)
    answers: np.ndarray | None = None
    trust: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.projection.kind not in KINDS:  # a bundle could be saved with it, but never loaded
            kinds = ", ".join(KINDS)
            raise UnseenError(f"a projection of kind {self.projection.kind!r} is unknown. There are: {kinds}")


@dataclass(frozen=True)
class NoSettings:
    """The settings of a method that has none."""


class Method(ABC):
    """Base class of all methods, with defaults for everything that a method may leave out.

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
    >>> animals = unseen.Hierarchy.from_edges([("dog", "animal"), ("cat", "animal"), ("kitten", "animal")])
    >>> from unseen.vectors.class_vectors import class_vectors
    >>> vectors = class_vectors(animals, unseen.load_vectors("glove"))
    >>> seen = animals.indices(["dog", "cat"])
    >>> problem = unseen.Problem(animals, vectors, seen, np.float32([[1, 0], [0, 1]]))
    >>> Nearest().predict(problem, {}, animals.indices(["kitten"]))  # as for cat
    array([[0., 1.]], dtype=float32)
    """

    name: ClassVar[str]
    Settings: ClassVar[type] = NoSettings  # a dataclass of plain JSON values, see `unseen.util.settings`
    needs_features: ClassVar[bool] = False  # learns from photos of seen classes, and cannot do without
    takes_features: ClassVar[bool] = False  # can learn from photos
    needs_vector: ClassVar[bool] = False  # has no answer for a class without a vector
    device: str = "auto"  # where `predict` computes, for methods that use torch: the caller may set it

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.takes_features = cls.takes_features or cls.needs_features

    def __init__(self, settings: Any = None):
        self.settings: Any = self.Settings() if settings is None else settings

    @abstractmethod
    def fit(self, problem: Problem, run: Run) -> Solution:
        """Learn from the seen classes, and predict a row for every class."""

    @abstractmethod
    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        """Class matrix rows (n x E) for `rows` of the problem's hierarchy, which may have grown since the fit."""

    def answers(self, problem: Problem, rows: np.ndarray | None = None) -> np.ndarray | None:
        """n, bool: which of `rows` the method has an answer for; None: all."""
        return has_vector(problem.vectors.matrix[problem.rows_or_all(rows)]) if self.needs_vector else None

    def trust(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray | None:
        """n, 0..1: how well seen classes support each of `rows`; None if the method does not know."""
        return None

    def shares(self, problem: Problem, state: State, row: int) -> np.ndarray | None:
        """M: what the class at `row` borrows from each seen class; None if the method does not know."""
        return None


class WordSpace(Method):
    """Base of methods that learn a projection from photos to the class vectors: these are their rows."""

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        vectors = problem.vectors.matrix
        return normalise_rows(vectors if rows is None else vectors[rows])


@dataclass(frozen=True)
class Problem:
    """Given: N nodes with vectors, and the classifiers (M x P) of the M seen ones. Wanted: a classifier for every node.

    Args:
        hierarchy: The hierarchy, N nodes.
        vectors: A vector for each node (N x S), from one or more sources.
        seen: M, int64: rows of the hierarchy, in the network's class order.
        classifiers: M x P, float32: [weight, bias] as the network holds them, not normalised.
        features: Of photos of seen classes, for methods that learn from photos.

    >>> import numpy as np
    >>> import unseen
    >>> animals = unseen.Hierarchy.from_edges([("dog", "animal"), ("cat", "animal"), ("fox", "animal")])
    >>> from unseen.vectors.class_vectors import class_vectors
    >>> vectors = class_vectors(animals, unseen.load_vectors("glove"))
    >>> known = np.float32([[3, 4, 0], [0, 5, 0]])  # two weights and a bias each
    >>> problem = unseen.Problem(animals, vectors, animals.indices(["dog", "cat"]), known)
    >>> problem.targets()
    array([[0.6, 0.8, 0. ], [0. , 1. , 0. ]], dtype=float32)
    """

    hierarchy: Hierarchy
    vectors: ClassVectors
    seen: np.ndarray
    classifiers: np.ndarray
    features: SeenFeatures | None = None

    def __post_init__(self) -> None:
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
        """The rows; all N if None."""
        return np.arange(len(self.hierarchy)) if rows is None else np.asarray(rows)

    def require_features(self, method: str) -> SeenFeatures:
        if self.features is None:
            raise UnseenError(
                f"{method} learns from photos of seen classes: make a feature store of them with "
                "`unseen features`, and pass that"
            )
        return self.features

    def photo_nodes(self, features: SeenFeatures) -> np.ndarray:
        """The row of the hierarchy for each label of the photos."""
        return self.seen if features.ids is None else self.hierarchy.indices(features.ids)


def has_vector(matrix: np.ndarray) -> np.ndarray:
    """n, bool: which rows are not all zero. A class without a vector has a zero row."""
    return np.asarray(matrix.any(axis=1))
