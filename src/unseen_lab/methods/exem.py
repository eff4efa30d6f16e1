"""EXEM: predict where a class's photos lie, then take the nearest (Changpinyo et al., ICCV 2017, arXiv 1605.08151)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from unseen import Method, Problem, Run, Solution, UnseenError
from unseen.methods import FitRecord, State, Unit, normalise_rows
from unseen.methods.kin import Ridges
from unseen.util import AT_LEAST_1, AT_LEAST_2, DECAY, POSITIVE
from unseen_lab.methods.photo_classes import PhotoClasses, Score, at_edge, best

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
COSTS = tuple(2.0**power for power in range(-5, 6, 2))  # the authors' range
CHUNK = 8192


@dataclass(frozen=True)
class EXEMSettings:
    """Settings of EXEM.

    Args:
        dims: How many principal components; the default is the paper's.
        standardise: Divide each component by its standard deviation within classes.
        regression: `ridge`, kernel ridge regression, or `nu-svr`, as in the paper, by scikit-learn.
        width: g of the kernel exp(-g |a - a'|^2); None: chosen on seen classes.
        ridge: Of the regression; None: chosen on seen classes.
        nu: Of nu-SVR: the share of classes that may lie off their prediction.
        cost: C of nu-SVR; None: chosen on seen classes.
        folds: Into how many parts the seen classes are split for the choice.
    """

    dims: Annotated[int, AT_LEAST_1] = 500
    standardise: bool = True
    regression: Literal["ridge", "nu-svr"] = "ridge"
    width: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float | None, POSITIVE] = None
    nu: Annotated[float, DECAY] = 0.5
    cost: Annotated[float | None, POSITIVE] = None
    folds: Annotated[int, AT_LEAST_2] = 5


class EXEM(Method):
    """Photos x, of length 1, are brought to `dims` principal components, z = P'(x - m); a seen class's exemplar e is
    the mean of its z. From class vectors to exemplars runs an RBF kernel regression for every component, and class u
    scores

        -|z - e(u)|^2  =  2 z . e(u) - |e(u)|^2 - |z|^2            the last term is the same for all classes

    With `standardise` (the paper's 1NNs, its better variant) each component is first divided by its standard deviation
    within a class, averaged over classes. The paper fits nu-SVR; kernel ridge regression has the same kernel and a
    closed form, and is the default here. Width and ridge are chosen by class-wise cross-validation. nu-SVR is fitted to
    exemplars before these are divided, as by its authors; it takes the width that was chosen for the ridge, and C is
    chosen on one part of the classes. Its authors choose width and nu as well.

    Shapes: P is D x dims, z and e(u) dims long; the class matrix is N x (D + 1), with the rows
    [2 P e(u), -2 m'P e(u) - |e(u)|^2].
    """

    name = "exem"
    Settings = EXEMSettings
    needs_features = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        data = PhotoClasses.of(problem, self.name).scaled()
        vectors, settings = data.vectors, self.settings
        width, ridge, accuracy = self._choose(data, run)
        space = _Space(data, settings)
        chosen = {"width": width, "dims": space.axes.shape[1]}
        tried = {"width": WIDTHS} if settings.width is None else {}
        if settings.regression == "nu-svr":
            cost, accuracy = self._choose_cost(data, width, run)
            dual, centre = _support_vectors(space, vectors, width, cost, settings.nu)
            chosen |= {"cost": cost, "nu": settings.nu}
            tried |= {"cost": COSTS} if settings.cost is None else {}
        else:
            centre = space.exemplars.mean(axis=0)
            dual = Ridges(_rbf(vectors, vectors, width)).solve(space.exemplars - centre, ridge)
            chosen |= {"ridge": ridge}
            tried |= {"ridge": RIDGES} if settings.ridge is None else {}
        state = {
            "vectors": vectors,
            "dual": dual.astype(np.float32),
            "centre": centre.astype(np.float32),
            "width": np.array([width], np.float32),
            "axes": space.axes.astype(np.float32),
            "mean": space.mean.astype(np.float32),
        }
        extra: dict = {"classes": len(data)}
        if accuracy is not None:
            extra |= {"hidden_hit@1": round(100 * accuracy, 2), **at_edge(chosen, tried)}
        record = FitRecord(weights=dual.size, chosen=chosen, extra=extra)
        unit = Unit(np.zeros(data.width, np.float32))
        return Solution(self.predict(problem, state), unit, state, record)

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        rows = problem.rows_or_all(rows)
        parts = []
        for start in range(0, len(rows), CHUNK):
            vectors = normalise_rows(problem.vectors.matrix[rows[start : start + CHUNK]])
            exemplars = state["centre"] + _rbf(vectors, state["vectors"], float(state["width"][0])) @ state["dual"]
            parts.append(_scoring_rows(exemplars, state["axes"], state["mean"]))
        return np.concatenate(parts).astype(np.float32)

    def _choose(self, data: PhotoClasses, run: Run) -> tuple[float, float, float | None]:
        """Width and ridge with the best class-averaged accuracy on left-out classes, and that accuracy."""
        widths = WIDTHS if self.settings.width is None else (self.settings.width,)
        ridges = RIDGES if self.settings.ridge is None else (self.settings.ridge,)
        pairs = [(width, ridge) for width in widths for ridge in ridges]

        def score_of(rest: PhotoClasses, out: PhotoClasses) -> Score:
            space = _Space(rest, self.settings)
            tried = [exemplars for width in widths for exemplars in _predicted(space, rest, out, width, ridges)]
            return space.scores(tried)

        chosen = data.choose(pairs, self.settings.folds, run.seed, score_of)
        if chosen is None:
            return widths[len(widths) // 2], ridges[len(ridges) // 2], None
        return *chosen[0], chosen[1]

    def _choose_cost(self, data: PhotoClasses, width: float, run: Run) -> tuple[float, float | None]:
        """C of nu-SVR with the best class-averaged accuracy on one part of the classes, left out, and that accuracy."""
        costs = COSTS if self.settings.cost is None else (self.settings.cost,)
        fold = next(data.folds(self.settings.folds, run.seed), None)
        if len(costs) == 1 or fold is None:
            return costs[len(costs) // 2], None
        (rest, out), tried = fold, []
        space, kernel = _Space(rest, self.settings), _rbf(out.vectors, rest.vectors, width)
        for cost in costs:
            dual, centre = _support_vectors(space, rest.vectors, width, cost, self.settings.nu)
            tried.append(centre + kernel @ dual)
        accuracy, cost = best(list(zip(out.accuracies(space.scores(tried)), costs, strict=True)))
        return cost, accuracy


class _Space:
    """Principal components of photos of length 1, and the exemplars of their classes there."""

    def __init__(self, data: PhotoClasses, settings: EXEMSettings):
        self.mean, self.axes = _principal_axes(data, settings.dims)
        self.exemplars = data.class_means(lambda part, photos: self.points(photos))
        self.within = _spread(self, data) if settings.standardise else np.ones(self.axes.shape[1])
        self.axes, self.exemplars = self.axes / self.within.astype(np.float32), self.exemplars / self.within

    def points(self, photos: np.ndarray) -> np.ndarray:
        """z of photos, k x dims."""
        return (photos - self.mean) @ self.axes

    def scores(self, tried: Sequence[np.ndarray]) -> Score:
        """The scores of photos with each of these predictions of exemplars."""
        sizes = [np.square(exemplars).sum(axis=1) for exemplars in tried]

        def score(photos: np.ndarray) -> Iterator[np.ndarray]:
            points = 2 * self.points(photos)
            return (points @ exemplars.T - size for exemplars, size in zip(tried, sizes, strict=True))

        return score


def _predicted(
    space: _Space, rest: PhotoClasses, out: PhotoClasses, width: float, ridges: Sequence[float]
) -> Iterator[np.ndarray]:
    """The exemplars of hidden classes, for each ridge."""
    centre = space.exemplars.mean(axis=0)
    system, kernel = Ridges(_rbf(rest.vectors, rest.vectors, width)), _rbf(out.vectors, rest.vectors, width)
    for ridge in ridges:
        yield centre + kernel @ system.solve(space.exemplars - centre, ridge)


def _support_vectors(
    space: _Space, vectors: np.ndarray, width: float, cost: float, nu: float
) -> tuple[np.ndarray, np.ndarray]:
    """nu-SVR for each component, as dual weights (C x dims) and intercepts (dims)."""
    try:
        from sklearn.svm import NuSVR
    except ImportError:
        hint = "pip install scikit-learn, or leave regression at ridge"
        raise UnseenError(f"exem: nu-SVR needs scikit-learn: {hint}") from None
    kernel = _rbf(vectors, vectors, width).astype(np.float64)
    targets = space.exemplars * space.within  # C is a length in these units
    dual, intercepts = np.zeros((len(vectors), targets.shape[1])), np.zeros(targets.shape[1])
    for component in range(targets.shape[1]):
        machine = NuSVR(kernel="precomputed", nu=nu, C=cost)
        machine.fit(kernel, targets[:, component])
        dual[machine.support_, component] = machine.dual_coef_[0]
        intercepts[component] = machine.intercept_[0]
    return dual / space.within, intercepts / space.within


def _scoring_rows(exemplars: np.ndarray, axes: np.ndarray, mean: np.ndarray) -> np.ndarray:
    weights = 2 * exemplars @ axes.T
    return np.column_stack([weights, -weights @ mean - np.square(exemplars).sum(axis=1)])


def _rbf(a: np.ndarray, b: np.ndarray, width: float) -> np.ndarray:
    distance = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None, :] - 2 * (a @ b.T)
    return np.exp(-width * np.maximum(distance, 0))


def _principal_axes(data: PhotoClasses, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean (D) and the strongest principal axes (D x dims), fewer where the photos span fewer."""
    mean = data.mean()
    values, axes = np.linalg.eigh(data.second_moment() - data.photos * np.outer(mean, mean))
    order = np.argsort(-values)[:dims]
    order = order[values[order] > 1e-9 * max(values.max(), 1e-300)]
    if not len(order):
        raise UnseenError("exem: all photos in the feature store are alike, so they span no space to predict in")
    return mean.astype(np.float32), axes[:, order].astype(np.float32)


def _spread(space: _Space, data: PhotoClasses) -> np.ndarray:
    """Sample standard deviation by component, averaged over classes with two photos or more; 1 where there is none."""
    count = np.bincount(data.labels, minlength=len(data))
    several, correction = count > 1, np.sqrt(count / np.maximum(count - 1, 1))[:, None]
    squares = data.class_means(
        lambda part, photos: np.square(space.points(photos) - space.exemplars[data.labels[part]])
    )
    spread = (correction * np.sqrt(squares))[several].mean(axis=0) if several.any() else np.zeros(squares.shape[1])
    return np.where(spread > 1e-6 * max(spread.max(), 1e-300), spread, spread.max() or 1.0)
