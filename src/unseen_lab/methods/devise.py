"""DeViSE: a linear map from photo features into word space (Frome et al., NeurIPS 2013)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch

from unseen import Problem, Run, Solution
from unseen.methods import FitRecord, Linear, WordSpace
from unseen.networks import choose_device
from unseen.util import AT_LEAST_1, NOT_NEGATIVE, POSITIVE, progress
from unseen_lab.methods.photo_classes import PhotoClasses, best, stops, take_step

MARGINS = (0.1, 0.3, 1.0)  # the paper's first
CHECKS = 5  # times at which the number of epochs may end


@dataclass(frozen=True)
class DeViSESettings:
    """Settings of DeViSE.

    Args:
        epochs: Passes over the photos, at most.
        batch: Photos a step.
        learning_rate: Adam's.
        weight_decay: Factor of the L2 term.
        margin: By how much the right label must win (the paper's: 0.1); None: chosen on hidden seen classes.
        hidden: Share of the seen classes that is hidden to choose the margin and the number of epochs.
    """

    epochs: Annotated[int, AT_LEAST_1] = 50
    batch: Annotated[int, AT_LEAST_1] = 256
    learning_rate: Annotated[float, NOT_NEGATIVE] = 1e-2
    weight_decay: Annotated[float, NOT_NEGATIVE] = 1e-4
    margin: Annotated[float | None, NOT_NEGATIVE] = None
    hidden: Annotated[float, POSITIVE] = 0.2


class DeViSE(WordSpace):
    """M (D x S) minimises the hinge rank loss over photos f with label y, with unit class vectors s:

        loss(f, y) = sum_{j != y} max(0, margin - s_y . M f + s_j . M f)

    As in the paper the sum is cut after the first false label, in random order, that breaks the margin: that is one
    label drawn evenly from those that break it, and the gradient is its term alone. False labels are the seen classes
    with photos and a vector. Class u scores cos(M f, s_u). The network underneath stays as it is. The margin and the
    number of epochs are those with which photos of hidden seen classes best find theirs, averaged over classes.

    Shapes: f is D long, s_u S long; the class matrix is N x S.
    """

    name = "devise"
    Settings = DeViSESettings
    needs_features = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        data, s = PhotoClasses.of(problem, self.name), self.settings
        margins = MARGINS if s.margin is None else (s.margin,)
        margin, epochs, accuracy = margins[0], s.epochs, None
        split = data.hidden(s.hidden, run.seed)
        if split is not None:
            accuracy, margin, epochs = best([trial for value in margins for trial in self._try(*split, value, run)])
        model = _Model(data, float(margin), s, run)
        loss = model.train(int(epochs), run)
        projection = Linear(model.map(), normalise=True)
        extra = {} if accuracy is None else {"hidden_hit@1": round(100 * accuracy, 2)}
        chosen = {"margin": margin, "epochs": int(epochs)}
        record = FitRecord(loss=loss, epochs=int(epochs), weights=projection.matrix.size, chosen=chosen, extra=extra)
        return Solution(self.predict(problem, {}), projection, record=record)

    def _try(self, rest: PhotoClasses, out: PhotoClasses, margin: float, run: Run) -> list[tuple[float, ...]]:
        """(accuracy on hidden classes, margin, epochs) at each of a few moments."""
        model, tried = _Model(rest, margin, self.settings, run), []
        quiet = replace(run, folder=None, records=[])  # only the last training is logged
        for epochs in stops(model, self.settings.epochs, CHECKS, quiet, f"DeViSE on hidden classes, margin {margin:g}"):
            to_words = model.map()
            (accuracy,) = out.accuracies(lambda photos, one=to_words: [photos @ one @ out.vectors.T])
            tried.append((accuracy, margin, epochs))
        return tried


class _Model:
    """M and its training data, on one device."""

    def __init__(self, data: PhotoClasses, margin: float, settings: DeViSESettings, run: Run):
        self.margin, self.settings, device = margin, settings, choose_device(run.device)
        # Features of length about 1, so that one learning rate fits all networks.
        lengths = [np.linalg.norm(photos, axis=1).sum(dtype=np.float64) for _, photos in data.chunks()]
        self.scale = float(sum(lengths) / data.photos) or 1.0
        self.data = data
        self.labels = torch.from_numpy(data.labels.astype(np.int64))
        self.words = torch.from_numpy(data.vectors).to(device)
        self.generator = torch.Generator().manual_seed(run.seed)
        self.matrix = torch.zeros(data.width, data.vectors.shape[1], device=device, requires_grad=True)
        self.optimiser = torch.optim.Adam([self.matrix], lr=settings.learning_rate, weight_decay=settings.weight_decay)

    def map(self) -> np.ndarray:
        """M, D x S."""
        return self.matrix.detach().cpu().numpy() / self.scale

    def train(self, epochs: int, run: Run, what: str = "DeViSE") -> float:
        """Train for more epochs; the mean loss over the last one."""
        mean, count = 0.0, self.data.photos
        with progress(what, epochs, run.show_progress) as bar:
            for epoch in range(epochs):
                total = 0.0
                for chosen in torch.randperm(count, generator=self.generator).split(self.settings.batch):
                    loss = self._loss(chosen)
                    take_step(self.optimiser, loss)
                    total += loss.item() * len(chosen)
                mean = total / count
                run.log(epoch=epoch + 1, loss=mean)
                bar.advance(1, loss=f"{mean:.4f}")
        return mean

    def _loss(self, chosen: torch.Tensor) -> torch.Tensor:
        photos = torch.from_numpy(self.data.take(chosen.numpy())).to(self.words.device)
        labels = self.labels[chosen].to(self.words.device)
        everything = torch.ones(len(self.words), dtype=torch.bool, device=self.words.device)
        scores = (photos / self.scale) @ self.matrix @ self.words.T
        return truncated_hinge(scores, labels, everything, self.margin, self.generator)


def truncated_hinge(scores, labels, candidates, margin: float, generator):
    """Mean over photos of the hinge against one false label that breaks the margin, drawn evenly (0 if none does).

    `scores` is n x M, `labels` n, `candidates` a boolean mask of the labels that may be drawn.
    """
    excess = margin - scores.gather(1, labels[:, None]) + scores
    breaks = (excess.detach() > 0) & candidates
    breaks[torch.arange(len(labels), device=labels.device), labels] = False
    lot = torch.rand(len(labels), 1, generator=generator).to(scores.device)
    place = (lot * breaks.sum(dim=1, keepdim=True)).floor()  # among those that break it
    drawn = (breaks.cumsum(dim=1) > place).float().argmax(dim=1, keepdim=True)
    return (excess.gather(1, drawn) * breaks.gather(1, drawn)).mean()
