"""`ZeroShotClassifier`: a classifier in scikit-learn's manner that also predicts classes without examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unseen.hierarchy.core import Hierarchy
from unseen.model import Model, train
from unseen.naming.meaning import find_class
from unseen.networks.linear import from_linear
from unseen.util.errors import UnseenError


class ZeroShotClassifier(ClassifierMixin, BaseEstimator):
    """A logistic regression over features, and classes of a hierarchy that y never shows.

    The regression decides among the classes of y. Others have classifiers that a method predicts from the hierarchy and
    the names, and compete with those as a whole. `classes_` are the classes of y, then the unseen `candidates`.
    Pipelines, grid searches and cross-validation work as with any classifier. Without a hierarchy it is the regression.

    Args:
        hierarchy: A `Hierarchy`, a file, or (child, parent) pairs; classes of y by their ids.
        candidates: The unseen classes that compete, by id; by default all leaves without examples.
        method: Which predicts classifiers; see `unseen.train`.
        vectors: Class vectors; None: what suits the method.
        C: Inverse strength of the regression's regularisation.

    >>> import numpy as np
    >>> x = np.array([[5.0, 0, 1], [4, 1, 1], [0, 5, 0], [1, 4, 0]])
    >>> pairs = [("violin", "string"), ("viola", "string"), ("trumpet", "brass"), ("trombone", "brass")]
    >>> pairs += [("string", "instrument"), ("brass", "instrument")]
    >>> classifier = ZeroShotClassifier(pairs, vectors="glove").fit(x, ["violin", "violin", "trumpet", "trumpet"])
    >>> classifier.classes_.tolist()
    ['trumpet', 'violin', 'viola', 'trombone']
    >>> classifier.predict_proba(x).shape
    (4, 4)
    """

    def __init__(
        self,
        hierarchy: Any = None,
        candidates: Any = None,
        method: str = "kin",
        vectors: Any = None,
        C: float = 1.0,
    ):
        self.hierarchy, self.candidates, self.method, self.vectors = hierarchy, candidates, method, vectors
        self.C = C

    def fit(self, X: Any, y: Any) -> ZeroShotClassifier:
        X, y = validate_data(self, X, y, accept_sparse=False)
        check_classification_targets(y)
        self.head_ = LogisticRegression(C=self.C, max_iter=1000).fit(X, y)
        seen = self.head_.classes_
        self.model_: Model | None = None
        self.classes_: np.ndarray = seen
        if self.hierarchy is not None:
            network = from_linear(self.head_, class_ids=[str(name) for name in seen])
            self.model_ = train(_read(self.hierarchy), network, self.method, self.vectors)
            hierarchy, known = self.model_.bundle.hierarchy, set(map(str, seen))
            names = [id for id in hierarchy.leaves if id not in known] if self.candidates is None else self.candidates
            unseen = [find_class(id, hierarchy) for id in names]
            self.classes_ = np.array([*map(str, seen), *unseen])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        if self.model_ is None:
            return self.head_.predict_proba(X)
        p, seen = (
            self.model_.predict_proba(features=X, candidates=self.classes_.tolist(), prior="uniform"),
            len(self.head_.classes_),
        )
        p[:, :seen] = p[:, :seen].sum(1, keepdims=True) * self.head_.predict_proba(X)
        return p

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(1)]


def _read(hierarchy: Any) -> Hierarchy:
    if isinstance(hierarchy, Hierarchy):
        return hierarchy
    try:
        return Hierarchy.load(hierarchy) if isinstance(hierarchy, str) else Hierarchy.from_edges(list(hierarchy))
    except (TypeError, ValueError) as error:
        raise UnseenError(f"the hierarchy must be a Hierarchy, a file, or (child, parent) pairs: {error}") from None
