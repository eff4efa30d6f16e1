"""Kernel ridge regression in closed form, and the errors it would make on what it has not seen, in closed form too.

With G = K + ridge I and centred targets T, the prediction for class i had it been left out is

    t_i - (G^-1 T)_i / (G^-1)_ii                     one class left out
    T_g - ((G^-1)_gg)^-1 (G^-1 T)_g                  a whole group g left out together

so that cross-validation costs one factorisation, not one for each class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Ridges:
    """One kernel, diagonalised once; any number of ridges after that.

    Args:
        kernel: K, M x M, symmetric.
    """

    def __init__(self, kernel: np.ndarray):
        values, self.basis = np.linalg.eigh(kernel.astype(np.float64))
        self.values = np.maximum(values, 0)

    def inverse(self, ridge: float) -> np.ndarray:
        """(K + ridge I)^-1, M x M."""
        return (self.basis / (self.values + ridge)) @ self.basis.T

    def solve(self, targets: np.ndarray, ridge: float) -> np.ndarray:
        """(K + ridge I)^-1 T, M x P."""
        return self.basis @ ((self.basis.T @ targets.astype(np.float64)) / (self.values + ridge)[:, None])


def leave_one_out(inverse: np.ndarray, targets: np.ndarray, dual: np.ndarray | None = None) -> np.ndarray:
    """What ridge regression predicts for each class when only that class is left out (M x P).

    `inverse` is (K + ridge I)^-1; `dual` its product with the targets, when it is already at hand.
    """
    dual = inverse @ targets if dual is None else dual
    return targets - dual / np.diag(inverse)[:, None]


def leave_groups_out(inverse: np.ndarray, targets: np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray:
    """What ridge regression predicts for each class when its whole group is left out (M x P).

    `groups` are disjoint arrays of positions which together hold every class.
    """
    dual = inverse @ targets
    predicted = np.empty_like(dual)
    for group in groups:
        predicted[group] = targets[group] - np.linalg.solve(inverse[np.ix_(group, group)], dual[group])
    return predicted
