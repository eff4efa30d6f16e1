"""EXEM: predict where a class's photos lie, then take the nearest (Changpinyo et al., ICCV 2017, arXiv 1605.08151)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from unseen.errors import UnseenError
from unseen.methods.base import Method, Solution
from unseen.methods.problem import Problem, normalise_rows
from unseen.methods.projections import Linear
from unseen.methods.records import FitRecord
from unseen.methods.registry import register
from unseen.methods.ridge import Ridges, leave_one_out
from unseen.methods.settings import AT_LEAST_1, POSITIVE
from unseen.runtime.run import Run

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CHUNK = 8192


@dataclass(frozen=True)
class EXEMSettings:
    """Settings of EXEM.

    Args:
        dims: How many principal components; the default is the paper's.
        standardise: Divide each component by its standard deviation within classes.
        width: g of the kernel exp(-g |a - a'|^2); None: chosen on seen classes.
        ridge: Of the regression; None: chosen on seen classes.
    """

    dims: Annotated[int, AT_LEAST_1] = 500
    standardise: bool = True
    width: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float | None, POSITIVE] = None


@register("exem")
class EXEM(Method):
    """Photos are brought to `dims` principal components, z = P'(f - m); a seen class's exemplar e is the mean of its z.
    From class vectors to exemplars runs an RBF kernel regression for every component, and class u scores

        -|z - e(u)|^2  =  2 z . e(u) - |e(u)|^2 - |z|^2            the last term is the same for all classes

    With `standardise` (the paper's 1NNs, its better variant) each component is first divided by its standard deviation
    within classes. The paper fits nu-SVR; kernel ridge regression has the same kernel and a closed form, and is what
    runs here. Its width and ridge are chosen by leave-one-out error on the exemplars of seen classes.

    Shapes: P is D x dims, z and e(u) dims long; the class matrix is N x (dims + 1), rows [e(u), -|e(u)|^2].

    Args:
        settings: See `EXEMSettings`.
    """

    Settings = EXEMSettings
    needs_features = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        store = problem.require_features(self.name)
        if not len(store.labels):
            raise UnseenError("exem: the feature store holds no photo of a seen class")
        mean, axes = _principal_axes(store.matrix, self.settings.dims)
        points = (store.matrix - mean) @ axes
        present, position = np.unique(store.labels, return_inverse=True)
        exemplars = _class_means(points, position, len(present))
        if self.settings.standardise:
            within = _spread(points - exemplars[position])
            axes, exemplars = axes / within, exemplars / within
        centre = exemplars.mean(axis=0)
        vectors = normalise_rows(problem.vectors.matrix[problem.seen[present]])
        width, ridge, error = self._choose(vectors, exemplars - centre)
        dual = Ridges(_rbf(vectors, vectors, width)).solve(exemplars - centre, ridge)
        state = {
            "vectors": vectors,
            "dual": dual.astype(np.float32),
            "centre": centre.astype(np.float32),
            "width": np.array([width], np.float32),
        }
        projection = Linear(np.pad(2 * axes, ((0, 0), (0, 1))), np.append(-2 * mean @ axes, 1.0))
        chosen = {"width": width, "ridge": ridge, "dims": axes.shape[1]}
        record = FitRecord(weights=dual.size, chosen=chosen, loss=error, extra={"classes": len(present)})
        return Solution(self.predict(problem, state), projection, state, record)

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        rows = problem.rows_or_all(rows)
        classes = np.empty((len(rows), state["dual"].shape[1] + 1), np.float32)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            vectors = normalise_rows(problem.vectors.matrix[rows[part]])
            exemplars = state["centre"] + _rbf(vectors, state["vectors"], float(state["width"][0])) @ state["dual"]
            classes[part, :-1] = exemplars
            classes[part, -1] = -np.square(exemplars).sum(axis=1)
        return classes

    def _choose(self, vectors: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
        """Width and ridge with the least leave-one-out error, and that error (mean squared distance)."""
        widths = WIDTHS if self.settings.width is None else (self.settings.width,)
        ridges = RIDGES if self.settings.ridge is None else (self.settings.ridge,)
        tried = []
        for width in widths:
            system = Ridges(_rbf(vectors, vectors, width))
            for ridge in ridges:
                missed = targets - leave_one_out(system.inverse(ridge), targets)
                tried.append((float(np.square(missed).sum(axis=1).mean()), width, ridge))
        error, width, ridge = min(tried)
        return width, ridge, error


def _rbf(a: np.ndarray, b: np.ndarray, width: float) -> np.ndarray:
    distance = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None, :] - 2 * (a @ b.T)
    return np.exp(-width * np.maximum(distance, 0))


def _principal_axes(features: np.ndarray, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean (D) and the strongest principal axes (D x dims), fewer where the photos span fewer."""
    mean = features.mean(axis=0, dtype=np.float64)
    centred = features - mean
    values, axes = np.linalg.eigh(centred.T @ centred)
    order = np.argsort(-values)[:dims]
    order = order[values[order] > 1e-9 * max(values.max(), 1e-300)]
    if not len(order):
        raise UnseenError("exem: all photos in the feature store are alike, so they span no space to predict in")
    return mean.astype(np.float32), axes[:, order].astype(np.float32)


def _class_means(points: np.ndarray, position: np.ndarray, classes: int) -> np.ndarray:
    sums = np.zeros((classes, points.shape[1]), np.float64)
    np.add.at(sums, position, points)
    return sums / np.bincount(position, minlength=classes)[:, None]


def _spread(residuals: np.ndarray) -> np.ndarray:
    """Standard deviation within classes, by component; 1 where classes have one photo each and there is none."""
    spread = residuals.std(axis=0)
    return np.where(spread > 1e-6 * max(spread.max(), 1e-300), spread, spread.max() or 1.0)
