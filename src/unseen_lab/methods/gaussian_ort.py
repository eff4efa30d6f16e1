"""Gaussian-Ort: zero-shot kernel learning (Zhang and Koniusz, CVPR 2018, arXiv 1802.01279)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from unseen import Method, Problem, Run, Solution
from unseen.methods import FitRecord, State, Unit, normalise_rows
from unseen.networks import choose_device
from unseen.util import AT_LEAST_1, NOT_NEGATIVE, POSITIVE, progress
from unseen_lab.methods.photo_classes import PhotoClasses, best, stops, take_step

SIGMAS = (0.8, 0.5, 1.2)  # the paper's value for AWA2 first
CHECKS = 6  # times at which the number of steps may end


@dataclass(frozen=True)
class GaussianOrtSettings:
    """Settings of Gaussian-Ort.

    Args:
        sigma: s, width of the kernels (the paper's for AWA2: 0.8); None: chosen on hidden seen classes.
        beta: Weight of the false classes; the default is the paper's for AWA2.
        learning_rate: RMSprop's; the default is the paper's for AWA2.
        steps: How many at most; fewer where hidden seen classes are recognised better with fewer.
        batch: Photos a step.
        hidden: Share of the seen classes that is hidden for these choices.
    """

    sigma: Annotated[float | None, POSITIVE] = None
    beta: Annotated[float, NOT_NEGATIVE] = 1.0
    learning_rate: Annotated[float, NOT_NEGATIVE] = 8e-4
    steps: Annotated[int, AT_LEAST_1] = 1000
    batch: Annotated[int, AT_LEAST_1] = 128
    hidden: Annotated[float, POSITIVE] = 0.2


class GaussianOrt(Method):
    """Photos x and class vectors a, both centred and of length 1, meet through W (D x S), in both spaces:

        k1 = exp(-|W'x - a|^2 / 2 s^2)        k2 = exp(-|W a - x|^2 / 2 s^2)
        loss = (k1 - 1)^2 + (k2 - 1)^2  for the photo's own class
             + beta / (N - 1)  sum of k1^2 + k2^2  over the other N - 1 seen classes

    A photo gets the class with the least (k1 - 1)^2 + (k2 - 1)^2. Here a class scores as a product with its own row, so
    what is used is that rule made linear about the training photos:

        score(x, u) = x' W a_u - r |W a_u|^2        r = m2 / 2 (m1 + m2),  m: mean over photos of (1 - k) k

    The record tells for hidden seen photos what that does: `rule_agrees` is the share for which both rules give the
    same class, `hidden_hit@1_by_rule` the accuracy of the published one beside that of the linear one.

    s and the number of steps are chosen on hidden seen classes. The authors' code keeps the checkpoint that is best on
    photos of the unseen test classes, which their 70.5 on AWA2 owes something to; that is not done here.

    Shapes: x is D long, a S long; the class matrix is N x (D + 1), rows [W a_u, -r |W a_u|^2].
    """

    name = "gaussian-ort"
    Settings = GaussianOrtSettings
    needs_features = needs_vector = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        data, s = PhotoClasses.of(problem, self.name), self.settings
        sigmas = SIGMAS if s.sigma is None else (s.sigma,)
        sigma, steps, accuracy, agrees, by_rule = sigmas[0], s.steps, None, 0.0, 0.0
        split = data.hidden(s.hidden, run.seed)
        if split is not None:
            tried = [trial for value in sigmas for trial in self._try(*split, value, run)]
            accuracy, sigma, steps, agrees, by_rule = best(tried)
        model = _Model(data, sigma, s, run)
        loss = model.train(int(steps), run)
        state = {"map": model.weights(), "centre": model.centre, "ratio": np.array([model.ratio()], np.float32)}
        chosen = {"sigma": sigma, "steps": int(steps)}
        extra = {}
        if accuracy is not None:
            shares = {"hidden_hit@1": accuracy, "hidden_hit@1_by_rule": by_rule}
            extra = {name: round(100 * share, 2) for name, share in shares.items()} | {"rule_agrees": round(agrees, 4)}
        record = FitRecord(loss=loss, weights=state["map"].size, chosen=chosen, extra=extra)
        return Solution(self.predict(problem, state), Unit(model.mean), state, record, self.answers(problem))

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        vectors = problem.vectors.matrix[problem.rows_or_all(rows)]
        return _rows(vectors, state["map"], state["centre"], float(state["ratio"][0]))

    def _try(self, rest: PhotoClasses, out: PhotoClasses, sigma: float, run: Run) -> list[tuple[float, ...]]:
        """(accuracy on hidden classes, sigma, steps, agreement of the linear rule with the published one, accuracy of
        that) at each of a few moments."""
        model, tried = _Model(rest, sigma, self.settings, run), []
        project = Unit(model.mean)
        for steps in stops(model, self.settings.steps, CHECKS, run, f"Gaussian-Ort on hidden classes, s {sigma:g}"):
            alike = []
            rows = _rows(out.vectors, model.weights(), model.centre, model.ratio()).T

            def score(photos: np.ndarray, rows=rows, alike=alike) -> list[np.ndarray]:
                linear, exact = project(photos) @ rows, model.misfit(photos, out.vectors)
                alike.append(int((linear.argmax(axis=1) == exact.argmin(axis=1)).sum()))
                return [linear, -exact]

            accuracy, by_rule = out.accuracies(score)
            tried.append((accuracy, sigma, steps, sum(alike) / out.photos, by_rule))
        return tried


def _rows(vectors: np.ndarray, matrix: np.ndarray, centre: np.ndarray, ratio: float) -> np.ndarray:
    """[W a, -r |W a|^2] of classes with these vectors."""
    mapped = normalise_rows(normalise_rows(vectors) - centre) @ matrix.T
    return np.concatenate([mapped, -ratio * np.square(mapped).sum(axis=1, keepdims=True)], axis=1).astype(np.float32)


class _Model:
    """W and its training data, on one device."""

    def __init__(self, data: PhotoClasses, sigma: float, settings: GaussianOrtSettings, run: Run):
        self.settings, self.sigma, device = settings, sigma, choose_device(run.device)
        self.mean = data.mean().astype(np.float32)
        self.centre = data.vectors.mean(axis=0) if len(data) > 1 else np.zeros_like(data.vectors[0])
        self.data, self.labels = data, torch.from_numpy(data.labels.astype(np.int64)).to(device)
        self.classes = torch.from_numpy(normalise_rows(data.vectors - self.centre)).to(device)
        self.generator = torch.Generator().manual_seed(run.seed)
        start = torch.randn(data.width, data.vectors.shape[1], generator=self.generator)
        self.matrix = (start / start.norm(dim=0)).to(device).requires_grad_()  # columns of length 1
        self.optimiser = torch.optim.RMSprop([self.matrix], lr=settings.learning_rate)

    def weights(self) -> np.ndarray:
        """W, D x S."""
        return self.matrix.detach().cpu().numpy().copy()

    def train(self, steps: int, run: Run, what: str = "Gaussian-Ort") -> float:
        """Take more steps; the mean loss over them."""
        total = 0.0
        with progress(what, steps, run.show_progress) as bar:
            for _ in range(steps):
                chosen = torch.randint(self.data.photos, (self.settings.batch,), generator=self.generator)
                loss = self._loss(chosen)
                take_step(self.optimiser, loss)
                total += loss.item()
                bar.advance(1, loss=f"{loss.item():.4f}")
        return total / max(steps, 1)

    def _loss(self, chosen: torch.Tensor) -> torch.Tensor:
        k1, k2 = self._kernels(self._points(self.data.take(chosen.numpy())), self.classes)
        own = torch.nn.functional.one_hot(self.labels[chosen.to(self.labels.device)], k1.shape[1]).bool()
        right = (k1 - 1).square() + (k2 - 1).square()
        false = (k1.square() + k2.square()) * (self.settings.beta / max(k1.shape[1] - 1, 1))
        return torch.where(own, right, false).sum(dim=1).mean()

    def _points(self, photos: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(Unit(self.mean)(photos)[:, :-1].copy()).to(self.matrix.device)

    def _kernels(self, points: torch.Tensor, classes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """k1 and k2 of photos (n) and classes (C), n x C each: both distances share x' W a."""
        there, back = points @ self.matrix, classes @ self.matrix.T
        product = there @ classes.T
        first = there.square().sum(1, keepdim=True) + classes.square().sum(1) - 2 * product
        second = points.square().sum(1, keepdim=True) + back.square().sum(1) - 2 * product
        scale = -0.5 / self.sigma**2
        return (scale * first).exp(), (scale * second).exp()

    def misfit(self, photos: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """(k1 - 1)^2 + (k2 - 1)^2 of these photos and classes, n x C: the published rule."""
        classes = torch.from_numpy(normalise_rows(vectors - self.centre)).to(self.matrix.device)
        with torch.no_grad():
            k1, k2 = self._kernels(self._points(photos), classes)
            return ((k1 - 1).square() + (k2 - 1).square()).cpu().numpy()

    def ratio(self, photos: int = 2048) -> float:
        """r: how much |W a|^2 counts beside x' W a, for the photos' own classes."""
        some = np.random.default_rng(0).permutation(self.data.photos)[:photos]
        with torch.no_grad():
            k1, k2 = self._kernels(self._points(self.data.take(some)), self.classes)
            own = self.labels[torch.from_numpy(some).to(self.labels.device), None]
            k1, k2 = k1.gather(1, own), k2.gather(1, own)
            first, second = ((1 - k1) * k1).mean(), ((1 - k2) * k2).mean()
        return float(second / (2 * (first + second)).clamp_min(1e-12))
