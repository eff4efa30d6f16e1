"""From photo features to the space in which classes are scored: `projection(features) @ classifiers[u]`.

A projection is NumPy in, NumPy out, computed in batches; it saves itself as arrays and JSON settings. For most methods
it only appends a 1 for the bias.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from unseen.util.errors import UnseenError

BATCH = 4096  # rows at a time: bounds the memory of the wide intermediate results


class Projection(ABC):
    """Features (n x D) -> points (n x E)."""

    kind: ClassVar[str]  # under which it is saved
    shape: tuple[int, int]  # D, E

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The points of photos, float32, computed in batches."""
        features = np.asarray(features, np.float32)
        if features.ndim != 2 or features.shape[1] != self.shape[0]:
            raise UnseenError(f"features of shape {features.shape}, wanted (photos, {self.shape[0]})")
        points = np.empty((len(features), self.shape[1]), np.float32)
        for start in range(0, len(features), BATCH):
            points[start : start + BATCH] = self.project(features[start : start + BATCH])
        return points

    @abstractmethod
    def project(self, features: np.ndarray) -> np.ndarray:
        """The points of one batch."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What it is made of; with `settings`, the arguments that make it again."""
        return {}

    def settings(self) -> dict[str, Any]:
        """JSON values."""
        return {}


class Append1(Projection):
    """f -> [f; 1], so that a row [weight, bias] scores as weight . f + bias.

    Shapes: features are n x D, points n x (D + 1).
    """

    kind = "append1"

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return np.concatenate([features, np.ones((len(features), 1), np.float32)], axis=1, dtype=np.float32)

    project = __call__  # in one piece: there are no wide intermediate results


class Linear(Projection):
    """f -> f M + b; with `normalise`, divided by its length (cosine scores).

    Shapes: features are n x D, points n x E.

    Args:
        matrix: M, D x E.
        bias: b, E; by default 0.
        normalise: Scale points to length 1.
    """

    kind = "linear"

    def __init__(self, matrix: np.ndarray, bias: np.ndarray | None = None, normalise: bool = False):
        self.matrix = np.ascontiguousarray(matrix, np.float32)
        self.bias = np.zeros(self.matrix.shape[1], np.float32) if bias is None else np.asarray(bias, np.float32)
        self.normalise, self.shape = bool(normalise), self.matrix.shape

    def project(self, features: np.ndarray) -> np.ndarray:
        points = features @ self.matrix + self.bias
        return _unit(points) if self.normalise else points

    def arrays(self) -> dict[str, np.ndarray]:
        return {"matrix": self.matrix, "bias": self.bias}

    def settings(self) -> dict[str, Any]:
        return {"normalise": self.normalise}


class ConvexCombination(Projection):
    """ConSE's way from a photo to a point among the class vectors:

        p = softmax(W f + b),   point = sum over the T most probable seen classes of p_t s_t / sum of p_t,

    scaled to length 1, so that the product with a unit class vector is their cosine.

    Shapes: features are n x D, points n x S.

    Args:
        weight: W, M x D: the network's last layer.
        bias: b, M.
        vectors: s, M x S: the seen classes' vectors.
        top: T, at most M.
    """

    kind = "convex"

    def __init__(self, weight: np.ndarray, bias: np.ndarray, vectors: np.ndarray, top: int = 10):
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.bias = np.asarray(bias, np.float32)
        self.vectors = np.ascontiguousarray(vectors, np.float32)
        self.top, self.shape = int(min(top, len(self.weight))), (self.weight.shape[1], self.vectors.shape[1])

    def project(self, features: np.ndarray) -> np.ndarray:
        logits = features @ self.weight.T + self.bias
        best = np.argpartition(-logits, self.top - 1, axis=1)[:, : self.top]
        kept = np.take_along_axis(logits, best, axis=1)
        # The softmax's own normaliser cancels when the top T are renormalised, so only they are ever exponentiated.
        shares = np.exp(kept - kept.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return _unit(np.einsum("nt,nts->ns", shares, self.vectors[best]))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"weight": self.weight, "bias": self.bias, "vectors": self.vectors}

    def settings(self) -> dict[str, Any]:
        return {"top": self.top}


class Unit(Projection):
    """f -> [(f - m) / |f - m|; 1]: directions of features, with a 1 for the bias of a class.

    Shapes: features are n x D, points n x (D + 1).

    Args:
        mean: m, D.
    """

    kind = "unit"

    def __init__(self, mean: np.ndarray):
        self.mean = np.asarray(mean, np.float32)
        self.shape = len(self.mean), len(self.mean) + 1

    def project(self, features: np.ndarray) -> np.ndarray:
        return np.pad(_unit(features - self.mean), ((0, 0), (0, 1)), constant_values=1)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean}


KINDS: dict[str, type[Projection]] = {cls.kind: cls for cls in (Append1, Linear, ConvexCombination, Unit)}


def from_saved(kind: str, arrays: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> Projection:
    """The projection that `arrays()` and `settings()` describe."""
    if kind not in KINDS:
        raise UnseenError(f"unknown projection {kind!r}. There are: {', '.join(KINDS)}")
    return KINDS[kind](**arrays, **settings)


def _unit(points: np.ndarray) -> np.ndarray:
    return points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
