"""DeViSE: a linear map from photo features into word space (Frome et al., NeurIPS 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from unseen.errors import UnseenError
from unseen.methods.base import Solution
from unseen.methods.baselines.minibatches import MinibatchSettings, minimise
from unseen.methods.baselines.word_space import WordSpace
from unseen.methods.problem import Problem, normalise_rows
from unseen.methods.projections import Linear
from unseen.methods.records import FitRecord
from unseen.methods.registry import register
from unseen.methods.settings import NOT_NEGATIVE
from unseen.runtime.run import Run


@dataclass(frozen=True)
class DeViSESettings(MinibatchSettings):
    """Settings of DeViSE, besides those of `MinibatchSettings`.

    Args:
        margin: By how much the right label must win; the default is the paper's.
    """

    margin: Annotated[float, NOT_NEGATIVE] = 0.1


@register("devise")
class DeViSE(WordSpace):
    """M (D x S) minimises the hinge rank loss over photos f with label y, with unit class vectors s:

        loss(f, y) = sum_{j != y} max(0, margin - s_y . M f + s_j . M f)

    As in the paper the sum is cut after the first false label, in random order, that breaks the margin: that is one
    label drawn evenly from those that break it, and the gradient is its term alone. False labels are the seen classes
    that have a vector. Class u scores cos(M f, s_u). The network underneath stays as it is.

    Shapes: f is D long, s_u S long; the class matrix is N x S.

    Args:
        settings: See `DeViSESettings`.
    """

    Settings = DeViSESettings
    needs_features = True

    def fit(self, problem: Problem, run: Run) -> Solution:
        import torch

        store = problem.require_features(self.name)
        vectors = normalise_rows(problem.vectors.matrix[problem.seen])
        known = np.linalg.norm(vectors, axis=1) > 0
        photos = known[store.labels]
        if not photos.any():
            raise UnseenError("devise: no seen class with photos has a word vector, so there is nothing to learn from")
        # Features of length about 1, so that one learning rate fits all networks.
        scale = float(np.linalg.norm(store.matrix[photos], axis=1).mean()) or 1.0
        features = torch.from_numpy(store.matrix[photos] / np.float32(scale))
        labels = torch.from_numpy(store.labels[photos].astype(np.int64))
        words, with_vector = torch.from_numpy(vectors), torch.from_numpy(known)

        generator = torch.Generator().manual_seed(run.seed)
        matrix = torch.zeros(features.shape[1], vectors.shape[1], requires_grad=True)
        optimiser = torch.optim.Adam([matrix], lr=self.settings.learning_rate, weight_decay=self.settings.weight_decay)

        def loss_of(chosen: torch.Tensor) -> torch.Tensor:
            scores = features[chosen] @ matrix @ words.T
            return truncated_hinge(scores, labels[chosen], with_vector, self.settings.margin, generator)

        loss = minimise("DeViSE", loss_of, len(features), optimiser, self.settings, generator, run)
        projection = Linear(matrix.detach().numpy() / scale, normalise=True)
        record = FitRecord(loss=loss, epochs=self.settings.epochs, weights=matrix.numel())
        return Solution(self.predict(problem, {}), projection, record=record)


def truncated_hinge(scores, labels, candidates, margin: float, generator):
    """Mean over photos of the hinge against one false label that breaks the margin, drawn evenly (0 if none does).

    `scores` is n x M, `labels` n, `candidates` a boolean mask of the labels that may be drawn.
    """
    import torch

    own = scores.gather(1, labels[:, None])
    excess = margin - own + scores
    breaks = (excess.detach() > 0) & candidates
    breaks[torch.arange(len(labels)), labels] = False
    lottery = torch.rand(scores.shape, generator=generator).masked_fill(~breaks, -1.0)
    drawn = lottery.argmax(dim=1, keepdim=True)
    return (excess.gather(1, drawn) * breaks.gather(1, drawn)).mean()
