"""What probabilities need, for NumPy arrays and torch tensors alike: one photo can be labelled without importing torch.

Rows are photos; whatever is summed up is summed over axis 1, which stays.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch

Array: TypeAlias = Any  # np.ndarray or torch.Tensor


def find_device(name: str | torch.device | None) -> torch.device | None:
    if name is None:
        return None
    import torch

    return torch.device(name)


def on_device(array: np.ndarray, device: torch.device | None) -> Array:
    """The array as a tensor there; as it is where the device is None."""
    if device is None:
        return array
    import torch

    with warnings.catch_warnings():  # a read-only array makes torch warn; nothing is ever written to it here
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array).to(device)


def as_numpy(values: Array) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()


def library(values: Array) -> Any:
    """numpy or torch: whose functions take these values."""
    return np if isinstance(values, np.ndarray) else sys.modules["torch"]


def logsumexp(values: Array) -> Array:
    """n x 1.

    >>> logsumexp(np.log([[1.0, 2.0, 5.0]])).round(4).tolist()
    [[2.0794]]
    """
    if not isinstance(values, np.ndarray):
        return values.logsumexp(1, keepdim=True)
    top = values.max(axis=1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(axis=1, keepdims=True)) + top


def log_softmax(values: Array) -> Array:
    return values - logsumexp(values) if isinstance(values, np.ndarray) else values.log_softmax(1)


def log_sigmoid(values: Array) -> Array:
    if isinstance(values, np.ndarray):
        return -np.logaddexp(np.zeros_like(values), -values)
    return library(values).nn.functional.logsigmoid(values)


def deviation(values: Array) -> Array:
    """n x 1: the standard deviation of each row."""
    if isinstance(values, np.ndarray):
        return values.std(axis=1, keepdims=True)
    return values.std(dim=1, keepdim=True, correction=0)


def with_columns(values: Array, columns: Array, new: Array) -> Array:
    """The values with some columns replaced."""
    if not isinstance(values, np.ndarray):
        return values.index_copy(1, columns, new)
    values = values.copy()
    values[:, columns] = new
    return values
