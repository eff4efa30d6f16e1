"""Linear support vector machines with a squared hinge, one for each class against all others, solved together.

    min_W  mean_n sum_c max(0, 1 - y_nc w_c . x_n)^2  +  regulariser / 2  sum_c |w_c|^2       y_nc = 1 or -1, no bias

By L-BFGS on all photos at once, in chunks of them, so that memory holds W (C x D) a few times, no n x C matrix, and
only one chunk of the photos.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unseen.methods.baselines.photo_classes import PhotoClasses
from unseen.runtime.run import Run

TOLERANCE = 1e-6  # of the gradient's largest entry


def one_vs_other(
    data: PhotoClasses, regularisers: Sequence[float], iterations: int, run: Run
) -> list[tuple[np.ndarray, float]]:
    """(W, least value) for each regulariser, each one starting from the solution for the one before.

    Args:
        data: Photos and their classes.
        regularisers: Of the squared lengths, positive.
        iterations: At most, for each regulariser.
        run: Whose device is used.
    """
    import torch

    device, count = run.torch_device(), data.photos
    weights = torch.zeros(len(data), data.width, device=device, requires_grad=True)
    truth = torch.from_numpy(data.labels.astype(np.int64))

    def value(regulariser: float) -> torch.Tensor:
        """The sum to be minimised; its gradient goes to `weights.grad`, chunk by chunk."""
        with torch.no_grad():
            total = regulariser / 2 * weights.square().sum()
            gradient = regulariser * weights
            for places, photos in data.chunks():
                part, own = torch.from_numpy(photos).to(device), truth[places, None].to(device)
                scores = part @ weights.T
                miss = (1 + scores).clamp_min_(0)  # for classes that a photo does not show
                miss.scatter_(1, own, -(1 - scores.gather(1, own)).clamp_min_(0))  # for its own: the other side
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
