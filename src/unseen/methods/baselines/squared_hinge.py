"""Linear support vector machines with a squared hinge, one for each class against all others, solved together.

    min_W  mean_n sum_c max(0, 1 - y_nc w_c . x_n)^2  +  regulariser / 2  sum_c |w_c|^2       y_nc = 1 or -1, no bias

By L-BFGS on all photos at once, in chunks of them, so that memory holds W (C x D) a few times and no n x C matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unseen.runtime.run import Run

CHUNK = 4096  # photos
TOLERANCE = 1e-6  # of the gradient's largest entry


def one_vs_other(
    photos: np.ndarray, labels: np.ndarray, classes: int, regularisers: Sequence[float], iterations: int, run: Run
) -> list[tuple[np.ndarray, float]]:
    """(W, least value) for each regulariser, each one starting from the solution for the one before.

    Args:
        photos: n x D.
        labels: n, 0 .. classes - 1.
        classes: C.
        regularisers: Of the squared lengths, positive.
        iterations: At most, for each regulariser.
        run: Whose device is used.
    """
    import torch

    device = run.torch_device()
    weights = torch.zeros(classes, photos.shape[1], device=device, requires_grad=True)
    points, truth = (
        torch.from_numpy(np.ascontiguousarray(photos, np.float32)),
        torch.from_numpy(labels.astype(np.int64)),
    )

    def value(regulariser: float) -> torch.Tensor:
        """The sum to be minimised; its gradient goes to `weights.grad`, chunk by chunk."""
        with torch.no_grad():
            total = regulariser / 2 * weights.square().sum()
            gradient = regulariser * weights
            for start in range(0, len(points), CHUNK):
                part, own = points[start : start + CHUNK].to(device), truth[start : start + CHUNK, None].to(device)
                scores = part @ weights.T
                miss = (1 + scores).clamp_min_(0)  # for classes that a photo does not show
                miss.scatter_(1, own, -(1 - scores.gather(1, own)).clamp_min_(0))  # for its own: the other side
                total = total + miss.square().sum() / len(points)
                gradient.addmm_(miss.T, part, alpha=2 / len(points))
            weights.grad = gradient
        return total

    solved = []
    for regulariser in regularisers:
        optimiser = torch.optim.LBFGS([weights], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe",
                                      tolerance_grad=TOLERANCE, tolerance_change=1e-9)  # fmt: skip
        optimiser.step(lambda strength=regulariser: value(strength))
        solved.append((weights.detach().cpu().numpy().copy(), float(value(regulariser))))
    return solved
