"""The functions that scores and probabilities are written in.

They take arrays of NumPy, or symbols that record what is done to them (`export.graph.Symbol`): so an exported file
computes by the very formulas of this package. Rows are photos; whatever is summed is summed over axis 1, which stays.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # np.ndarray or a symbol


def exp(values: Array) -> Array:
    return np.exp(values) if isinstance(values, np.ndarray) else values.exp()


def log(values: Array) -> Array:
    return np.log(values) if isinstance(values, np.ndarray) else values.log()


def total(values: Array) -> Array:
    """n x 1."""
    return values.sum(axis=1, keepdims=True)


def logsumexp(values: Array) -> Array:
    """n x 1.

    >>> logsumexp(np.log([[1.0, 2.0, 5.0]])).round(4).tolist()
    [[2.0794]]
    """
    if not isinstance(values, np.ndarray):
        return values.logsumexp()
    top = values.max(axis=1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(axis=1, keepdims=True)) + top


def log_softmax(values: Array) -> Array:
    return values - logsumexp(values) if isinstance(values, np.ndarray) else values.log_softmax()


def log_sigmoid(values: Array) -> Array:
    return -logaddexp(0 * values, -values)


def logaddexp(a: Array, b: Array) -> Array:
    return np.logaddexp(a, b) if isinstance(a, np.ndarray) else a.logaddexp(b)


def deviation(values: Array) -> Array:
    """n x 1: the standard deviation of each row."""
    return values.std(axis=1, keepdims=True)


def concatenate(parts: list[Array]) -> Array:
    """The columns of several matrices, one after the other."""
    return np.concatenate(parts, axis=1) if isinstance(parts[0], np.ndarray) else parts[0].concatenate(parts[1:])


def with_columns(values: Array, columns: np.ndarray, new: Array) -> Array:
    """The values with some columns replaced."""
    order = np.arange(values.shape[1])
    order[columns] = values.shape[1] + np.arange(len(columns))
    return concatenate([values, new])[:, order]
