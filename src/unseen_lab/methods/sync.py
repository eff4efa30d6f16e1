"""SYNC: classifiers synthesised from phantom classes (Changpinyo, Chao, Gong and Sha, CVPR 2016, arXiv 1603.00550)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch

from unseen import Method, Problem, Run, Solution
from unseen.methods import Append1, FitRecord, State, Unit, normalise_rows
from unseen.methods.kin import Ridges
from unseen.networks import choose_device
from unseen.util import AT_LEAST_1, AT_LEAST_2, POSITIVE
from unseen_lab.methods.photo_classes import PhotoClasses, Score, at_edge

SIGMAS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of the regression on classifiers
# lambda, on photos; each starts from the one before
REGULARISERS = (0.3, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
CHUNK = 8192
TOLERANCE = 1e-6  # of the gradient's largest entry, where L-BFGS stops


@dataclass(frozen=True)
class SYNCSettings:
    """Settings of SYNC.

    Args:
        learn_from: `features`, `classifiers`, or `auto`: features where there are any.
        sigma: Width of a phantom; None: chosen on seen classes.
        regulariser: lambda, where it learns from photos; None: chosen on seen classes.
        ridge: Of the regression on classifiers; None: chosen on seen classes.
        folds: Into how many parts the seen classes are split for these choices; the default is the paper's.
        iterations: Of L-BFGS, at most, for each lambda.
    """

    learn_from: Literal["auto", "features", "classifiers"] = "auto"
    sigma: Annotated[float | None, POSITIVE] = None
    regulariser: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float | None, POSITIVE] = None
    folds: Annotated[int, AT_LEAST_2] = 5
    iterations: Annotated[int, AT_LEAST_1] = 30


class SYNC(Method):
    """A phantom class r has a place b_r among the class vectors and a base classifier v_r. A class at a_c gets

        w_c = sum_r s_cr v_r,     s_cr = exp(-d_cr) / sum_r' exp(-d_cr'),     d_cr = |a_c - b_r|^2 / sigma^2

    One phantom sits at each seen class's vector, as in the paper. Two ways to find the base classifiers:

    `features`     SYNC as published, one-vs-other: over photos x_n of length 1 and seen classes, without a bias,
                   min_V  mean_n sum_c max(0, 1 - y_nc w_c . x_n)^2 + lambda/2 sum_c |w_c|^2.
                   With as many phantoms as classes any w_c can be had, so that this is a support vector machine for
                   each class, and V = S^-1 W. lambda and sigma are chosen together by class-wise cross-validation:
                   the pair with which photos of left-out classes are best recognised among those.
    `classifiers`  not SYNC but a ridge regression in its form, for want of photos: of the network's seen classifiers,
                   V = (S'S + ridge I)^-1 S' W, sigma and ridge chosen by leave-one-out error. Rows are normalised, as
                   for every method that predicts classifiers here. Tables name it "SYNC on classifiers".

    `auto` takes features where there are any.

    Shapes: a_c and b_r are S long, v_r and w_c D or P long; with R phantoms, s is N x R and V is R x D or R x P.
    """

    name = "sync"
    Settings = SYNCSettings
    takes_features = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        way = self.settings.learn_from
        if way == "auto":
            way = "classifiers" if problem.features is None else "features"
        return self._from_photos(problem, run) if way == "features" else self._from_classifiers(problem)

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        rows = problem.rows_or_all(rows)
        bases, sigma = state["bases"], float(state["sigma"][0])
        classes = np.empty((len(rows), bases.shape[1]), np.float32)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            vectors = normalise_rows(problem.vectors.matrix[rows[part]])
            classes[part] = shares(vectors, state["phantoms"], sigma) @ bases
        return classes if "from_photos" in state else normalise_rows(classes)

    def _from_photos(self, problem: Problem, run: Run) -> Solution:
        data = PhotoClasses.of(problem, self.name).scaled()
        regularisers = REGULARISERS if self.settings.regulariser is None else (self.settings.regulariser,)
        sigmas = SIGMAS if self.settings.sigma is None else (self.settings.sigma,)
        regulariser, sigma, accuracy = self._choose(data, regularisers, sigmas, run)
        on_the_way = [each for each in regularisers if each >= regulariser]  # as it was reached when it was chosen
        weights, loss = one_vs_other(data, on_the_way, self.settings.iterations, run)[-1]
        bases = _bases(data.vectors, weights, sigma)
        mean = np.zeros(data.width, np.float32)
        state = {
            "phantoms": data.vectors,
            "bases": np.pad(bases, ((0, 0), (0, 1))).astype(np.float32),  # no bias
            "sigma": np.array([sigma], np.float32),
            "from_photos": np.ones(1, np.float32),
        }
        chosen = {"sigma": sigma, "regulariser": regulariser, "learn_from": "features"}
        extra: dict = {"phantoms": len(data)}
        if accuracy is not None:
            grids = {"sigma": sigmas, "regulariser": regularisers}
            extra |= {"hidden_hit@1": round(100 * accuracy, 2), **at_edge(chosen, grids)}
        record = FitRecord(weights=bases.size, chosen=chosen, loss=loss, extra=extra)
        return Solution(self.predict(problem, state), Unit(mean), state, record)

    def _choose(
        self, data: PhotoClasses, regularisers: Sequence[float], sigmas: Sequence[float], run: Run
    ) -> tuple[float, float, float | None]:
        """lambda and sigma with the best class-averaged accuracy on left-out classes, and that accuracy."""
        s = self.settings
        pairs = [(regulariser, sigma) for regulariser in regularisers for sigma in sigmas]

        def score_of(rest: PhotoClasses, out: PhotoClasses) -> Score:
            solved = one_vs_other(rest, regularisers, s.iterations, run)
            mixed = [(shares(out.vectors, rest.vectors, sigma) @ _bases(rest.vectors, weights, sigma)).T
                     for weights, _ in solved for sigma in sigmas]  # fmt: skip
            return lambda photos: (photos @ one for one in mixed)

        chosen = data.choose(pairs, s.folds, run.seed, score_of)
        if chosen is None:
            return regularisers[len(regularisers) // 2], sigmas[len(sigmas) // 2], None
        return *chosen[0], chosen[1]

    def _from_classifiers(self, problem: Problem) -> Solution:
        phantoms, targets = normalise_rows(problem.vectors.matrix[problem.seen]), problem.targets()
        sigma, ridge, error = self._choose_regression(phantoms, targets)
        mix = shares(phantoms, phantoms, sigma).astype(np.float64)
        bases = np.linalg.solve(mix.T @ mix + ridge * np.eye(len(phantoms)), mix.T @ targets)
        state = {"phantoms": phantoms, "bases": bases.astype(np.float32), "sigma": np.array([sigma], np.float32)}
        chosen = {"sigma": sigma, "ridge": ridge, "learn_from": "classifiers"}
        record = FitRecord(weights=bases.size, chosen=chosen, loss=error, extra={"phantoms": len(phantoms)})
        return Solution(self.predict(problem, state), Append1(), state, record)

    def _choose_regression(self, vectors: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
        """sigma and ridge with the least leave-one-out squared error on the seen classifiers, and that error.

        With phantoms fixed, S V is ridge regression with the kernel S S'.
        """
        sigmas = SIGMAS if self.settings.sigma is None else (self.settings.sigma,)
        ridges = RIDGES if self.settings.ridge is None else (self.settings.ridge,)
        tried = []
        for sigma in sigmas:
            mix = shares(vectors, vectors, sigma).astype(np.float64)
            system = Ridges(mix @ mix.T)
            for ridge in ridges:
                inverse = system.inverse(ridge)
                missed = inverse @ targets / np.diag(inverse)[:, None]  # each class's error when it alone is left out
                tried.append((float(np.square(missed).sum(axis=1).mean()), sigma, ridge))
        error, sigma, ridge = min(tried)
        return sigma, ridge, error


def _bases(vectors: np.ndarray, weights: np.ndarray, sigma: float) -> np.ndarray:
    """V with S V = W; of all of them the smallest, should vectors coincide."""
    mix = shares(vectors, vectors, sigma).astype(np.float64)
    values, basis = np.linalg.eigh(mix @ mix.T)
    kept = values > 1e-10 * values.max()
    return mix.T @ ((basis[:, kept] / values[kept]) @ (basis[:, kept].T @ weights))


def shares(vectors: np.ndarray, phantoms: np.ndarray, sigma: float) -> np.ndarray:
    """s_cr: how much each class (row) borrows from each phantom (column); rows sum to 1."""
    distance = np.square(vectors).sum(axis=1)[:, None] + np.square(phantoms).sum(axis=1)[None, :]
    distance = (distance - 2 * (vectors @ phantoms.T)) / sigma**2
    weight = np.exp(distance.min(axis=1, keepdims=True) - distance)
    return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)


def one_vs_other(
    data: PhotoClasses, regularisers: Sequence[float], iterations: int, run: Run
) -> list[tuple[np.ndarray, float]]:
    """Linear support vector machines with a squared hinge, one for each class against all others, solved together.

        min_W  mean_n sum_c max(0, 1 - y_nc w_c . x_n)^2  +  regulariser / 2  sum_c |w_c|^2       y_nc = 1 or -1

    By L-BFGS on all photos, in chunks of them: memory holds W (C x D) a few times, and no n x C matrix. Returns (W,
    least value) for each regulariser, each one starting from the solution for the one before.
    """
    device, count = choose_device(run.device), data.photos
    weights = torch.zeros(len(data), data.width, device=device, requires_grad=True)
    truth = torch.from_numpy(data.labels.astype(np.int64))

    def value(regulariser: float) -> torch.Tensor:
        """The sum to be minimised; its gradient goes to `weights.grad`, chunk by chunk."""
        with torch.no_grad():
            total = regulariser / 2 * weights.square().sum()
            gradient = regulariser * weights
            for places, photos in data.chunks():
                part, labels = torch.from_numpy(photos).to(device), truth[places, None].to(device)
                scores = part @ weights.T
                miss = (1 + scores).clamp_min_(0)  # for classes that a photo does not show
                miss.scatter_(1, labels, -(1 - scores.gather(1, labels)).clamp_min_(0))  # for its own: the other side
                total = total + miss.square().sum() / count
                gradient.addmm_(miss.T, part, alpha=2 / count)
            weights.grad = gradient
        return total

    solved = []
    for regulariser in regularisers:
        optimiser = torch.optim.LBFGS([weights], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe",
                                      tolerance_grad=TOLERANCE, tolerance_change=1e-9)  # fmt: skip
        optimiser.step(lambda strength=regulariser: value(strength))
        solved.append((weights.detach().cpu().numpy().copy(), float(value(regulariser))))
    return solved
