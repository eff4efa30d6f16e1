from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from unseen.methods.kin.kin import Ridges, leave_groups_out

random = np.random.default_rng(1)
POINTS = random.normal(size=(12, 3))
KERNEL = np.exp(-0.5 * ((POINTS[:, None] - POINTS[None]) ** 2).sum(-1))
TARGETS = random.normal(size=(12, 4))
RIDGE = 0.3


def fit_without(out: np.ndarray) -> np.ndarray:
    """scikit-learn's prediction for the classes `out`, trained on all others."""
    rest = np.setdiff1d(np.arange(len(KERNEL)), out)
    model = KernelRidge(alpha=RIDGE, kernel="precomputed").fit(KERNEL[np.ix_(rest, rest)], TARGETS[rest])
    return model.predict(KERNEL[np.ix_(out, rest)])


def test_solve_is_scikit_learns():
    model = KernelRidge(alpha=RIDGE, kernel="precomputed").fit(KERNEL, TARGETS)
    assert np.allclose(Ridges(KERNEL).solve(TARGETS, RIDGE), model.dual_coef_)
    assert np.allclose(Ridges(KERNEL).inverse(RIDGE), np.linalg.inv(KERNEL + RIDGE * np.eye(12)))


@pytest.mark.parametrize("sizes", [(1,) * 12, (12 // 4,) * 4, (1, 5, 6)])
def test_leave_groups_out_is_the_refit(sizes):
    groups = np.split(random.permutation(12), np.cumsum(sizes)[:-1])
    predicted = leave_groups_out(Ridges(KERNEL).inverse(RIDGE), TARGETS, groups)
    for group in groups:
        assert np.allclose(predicted[group], fit_without(group))
