"""SYNC: classifiers synthesised from phantom classes (Changpinyo, Chao, Gong and Sha, CVPR 2016, arXiv 1603.00550)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from unseen.errors import UnseenError
from unseen.features.store import SeenFeatures
from unseen.methods.base import Method, Solution
from unseen.methods.baselines.minibatches import MinibatchSettings, minimise
from unseen.methods.problem import Problem, normalise_rows
from unseen.methods.projections import Append1
from unseen.methods.records import FitRecord
from unseen.methods.registry import register
from unseen.methods.ridge import Ridges, leave_one_out
from unseen.methods.settings import POSITIVE
from unseen.runtime.run import Run

SIGMAS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
CHUNK = 8192


@dataclass(frozen=True)
class SYNCSettings(MinibatchSettings):
    """Settings of SYNC, besides those of `MinibatchSettings`.

    Args:
        learn_from: `features`, `classifiers`, or `auto`: features where there are any.
        sigma: Width of a phantom; None: chosen on seen classes.
        ridge: Of the regression; None: chosen on seen classes.
    """

    learn_from: Literal["auto", "features", "classifiers"] = "auto"
    sigma: Annotated[float | None, POSITIVE] = None
    ridge: Annotated[float | None, POSITIVE] = None


@register("sync")
class SYNC(Method):
    """A phantom class r has a place b_r among the class vectors and a base classifier v_r. A class at a_c gets

        w_c = sum_r s_cr v_r,     s_cr = exp(-d_cr) / sum_r' exp(-d_cr'),     d_cr = |a_c - b_r|^2 / sigma^2

    One phantom sits at each seen class's vector, as in the paper. Two ways to find the base classifiers:

    `features`     the paper's one-vs-other: minimise over photos and seen classes the squared hinge
                   max(0, 1 - y_nc w_c . x_n)^2 + weight_decay/2 sum_c |w_c|^2;
    `classifiers`  no photos at hand: ridge regression of the network's seen classifiers, V = (S'S + ridge I)^-1 S' W.

    `auto` takes features where there are any. sigma and ridge are chosen by leave-one-out error of the regression on
    seen classes, in both ways. Rows are normalised, as for every method that predicts classifiers here.

    Shapes: a_c and b_r are S long, v_r and w_c P long; with R phantoms, s is N x R and V is R x P.

    Args:
        settings: See `SYNCSettings`.
    """

    Settings = SYNCSettings
    takes_features = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        way = self.settings.learn_from
        if way == "auto":
            way = "classifiers" if problem.features is None else "features"
        vectors = normalise_rows(problem.vectors.matrix[problem.seen])
        targets = problem.targets()
        sigma, ridge, error = self._choose(vectors, targets)
        if way == "features":
            store = problem.require_features(self.name)
            present = np.unique(store.labels)
            if not len(present):
                raise UnseenError("sync: the feature store holds no photo of a seen class")
            phantoms = vectors[present]
            store = SeenFeatures(store.matrix, np.searchsorted(present, store.labels))
            bases, loss = self._one_vs_other(shares(phantoms, phantoms, sigma), store, run)
        else:
            phantoms = vectors
            mix = shares(vectors, phantoms, sigma).astype(np.float64)
            bases = np.linalg.solve(mix.T @ mix + ridge * np.eye(len(phantoms)), mix.T @ targets)
            loss = error
        state = {
            "phantoms": phantoms,
            "bases": bases.astype(np.float32),
            "sigma": np.array([sigma], np.float32),
        }
        chosen = {"sigma": sigma, "ridge": ridge, "learn_from": way}
        record = FitRecord(weights=bases.size, chosen=chosen, loss=loss, extra={"phantoms": len(phantoms)})
        return Solution(self.predict(problem, state), Append1(), state, record)

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        rows = problem.rows_or_all(rows)
        classes = np.empty((len(rows), state["bases"].shape[1]), np.float32)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            vectors = normalise_rows(problem.vectors.matrix[rows[part]])
            classes[part] = shares(vectors, state["phantoms"], float(state["sigma"][0])) @ state["bases"]
        return normalise_rows(classes)

    def _choose(self, vectors: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
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
                missed = targets - leave_one_out(system.inverse(ridge), targets)
                tried.append((float(np.square(missed).sum(axis=1).mean()), sigma, ridge))
        error, sigma, ridge = min(tried)
        return sigma, ridge, error

    def _one_vs_other(self, mix: np.ndarray, store: SeenFeatures, run: Run) -> tuple[np.ndarray, float]:
        """Base classifiers (R x D+1) that minimise the squared hinge, by Adam over batches of photos."""
        import torch

        scale = float(np.linalg.norm(store.matrix, axis=1).mean()) or 1.0  # so that one learning rate fits all networks
        features = torch.from_numpy(np.pad(store.matrix / np.float32(scale), ((0, 0), (0, 1)), constant_values=1.0))
        labels, shares_ = torch.from_numpy(store.labels.astype(np.int64)), torch.from_numpy(mix)
        generator = torch.Generator().manual_seed(run.seed)
        bases = torch.zeros(mix.shape[1], features.shape[1], requires_grad=True)
        optimiser = torch.optim.Adam([bases], lr=self.settings.learning_rate)

        def loss_of(chosen: torch.Tensor) -> torch.Tensor:
            classifiers = shares_ @ bases
            sign = torch.full((len(chosen), len(mix)), -1.0)
            sign[torch.arange(len(chosen)), labels[chosen]] = 1.0
            hinge = torch.relu(1 - sign * (features[chosen] @ classifiers.T)).square().sum(dim=1).mean()
            return hinge + self.settings.weight_decay / 2 * classifiers.square().sum()

        loss = minimise("SYNC", loss_of, len(features), optimiser, self.settings, generator, run)
        learned = bases.detach().numpy().copy()
        learned[:, :-1] /= scale
        return learned, loss


def shares(vectors: np.ndarray, phantoms: np.ndarray, sigma: float) -> np.ndarray:
    """s_cr: how much each class (row) borrows from each phantom (column); rows sum to 1."""
    distance = np.square(vectors).sum(axis=1)[:, None] + np.square(phantoms).sum(axis=1)[None, :]
    distance = (distance - 2 * (vectors @ phantoms.T)) / sigma**2
    weight = np.exp(distance.min(axis=1, keepdims=True) - distance)
    return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)
