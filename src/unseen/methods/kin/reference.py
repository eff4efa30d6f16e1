"""kin as its equations say, with dense matrices: what every class is known by, how alike that makes two, and one solve.

    z(u)    = the class vectors x averaged over descendants, then over ancestors, by distance with fixed hop weights
    a(u)    = decay^distance at each ancestor, 1 at the class itself
    k(u, v) ~ sum over sources w_s (w_x exp(g_x (<x, x'> - 1)) + w_z exp(g_z (<z, z'> - 1))) + w_a <a, a'>
    d(u)    = K(u, S) (K(S, S) + ridge I)^-1 (W(S) - mu)
    W~(u)   = mu + d(u) / sqrt(|d(u)|^2 + caution^2 chance^2)

x, z and a have length 1; S are the M seen classes, W their classifiers scaled to length 1 (M x P), mu the mean of W; k
is scaled so that k(u, u) = 1. `chance` is the median over all classes of |K(u, S) (K(S, S) + ridge I)^-1|. A
seen class goes by the same formula with d(s) = W(s) - mu.

`kin.py` computes the same numbers with sparse products, in chunks, and chooses width, ridge and w_s by itself; here
they must be given. The tests compare it with this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import Problem, has_vector, normalise_rows

if TYPE_CHECKING:
    from unseen.methods.kin.kin import KinSettings


def kin(problem: Problem, settings: KinSettings) -> tuple[np.ndarray, np.ndarray, float]:
    """Classifiers of all N classes (N x P), how far to trust each (N, 0..1), and `chance`."""
    assert settings.ridge is not None and settings.width is not None
    seen, targets = problem.seen, problem.targets().astype(np.float64)
    likeness = kernel(problem, settings)[:, seen]  # K(u, S), N x M
    shares = likeness @ np.linalg.inv(likeness[seen] + settings.ridge * np.eye(len(seen)))
    chance, mean = float(np.median(np.linalg.norm(shares, axis=1))), targets.mean(axis=0)
    deviations = shares @ (targets - mean)
    deviations[seen] = targets - mean
    lengths = np.sqrt(np.square(deviations).sum(axis=1) + (settings.caution * chance) ** 2)
    trust = np.sqrt(np.clip((shares * likeness).sum(axis=1), 0, 1))  # of the prior variance k(u, u) = 1
    trust[seen] = 1
    return mean + deviations / lengths[:, None], trust, chance


def kernel(problem: Problem, settings: KinSettings) -> np.ndarray:
    """k(u, v) of all pairs of classes, N x N."""
    s, width, up = settings, settings.width or 1.0, steps_up(problem.hierarchy)
    weights = s.sources or [1.0] * len(problem.vectors.parts)
    above = np.where(np.isfinite(up), s.decay ** np.minimum(up, 1e3), 0)
    above /= np.linalg.norm(above, axis=1, keepdims=True)
    total = s.ancestor_weight * above @ above.T
    gather = hop_means(up, s.ancestors) @ hop_means(up.T, s.descendants)
    for weight, part in zip(weights, problem.vectors.parts, strict=True):
        words = normalise_rows(part).astype(np.float64)
        propagated = normalise_rows(gather @ words).astype(np.float64)
        total += weight * s.word_weight * likeness(words, problem.seen, width * s.word_width)
        total += weight * s.propagated_weight * likeness(propagated, problem.seen, width * s.propagated_width)
    own = np.sqrt(np.diagonal(total))  # of each class the weights of what is known of it
    return total / own[:, None] / own[None, :]


def likeness(x: np.ndarray, seen: np.ndarray, width: float) -> np.ndarray:
    """exp(g (<x, x'> - 1)), N x N, with g = width / (1 - mean cosine of two seen classes); 0 for a class without x."""
    cosines, known = x @ x.T, has_vector(x)
    among = seen[known[seen]]
    pairs = cosines[np.ix_(among, among)][np.triu_indices(len(among), 1)]
    apart = max(1 - pairs.mean(), 1e-3) if len(pairs) else 1.0
    return np.exp(width / apart * (cosines - 1)) * known[:, None] * known[None, :]


def hop_means(steps: np.ndarray, weights: list[float]) -> np.ndarray:
    """sum_k w_k D_k^-1 A_k, N x N: the mean over nodes k steps away, the last over all that are further."""
    total = np.zeros_like(steps)
    for hop, weight in enumerate(weights):
        connected = steps == hop if hop + 1 < len(weights) else (steps >= hop) & np.isfinite(steps)
        total += weight * connected / np.maximum(connected.sum(axis=1, keepdims=True), 1)
    return total


def steps_up(hierarchy: Hierarchy) -> np.ndarray:
    """N x N: the fewest steps from node i up to node j, 0 to itself, infinity where j is not above i."""
    steps = np.full((len(hierarchy), len(hierarchy)), np.inf)
    for row, node in enumerate(hierarchy.ids):
        for ancestor, distance in {node: 0, **hierarchy.ancestors(node)}.items():
            steps[row, hierarchy.index(ancestor)] = distance
    return steps
