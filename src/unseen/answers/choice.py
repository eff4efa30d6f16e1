"""Probabilities within a list that the user named, and of none of these.

    p(c | x)    = softmax over the list of  b z_c,        z_c = score_c / (deviation(x) * length)
    b           = SHARPNESS / sqrt(D) * mean over the list of support_c * (20 / C)^GROWTH
    P(none | x) = sigmoid(NONE[0] + NONE[1] * evidence(list) + NONE[2] * evidence(seen classes beside it))
    evidence    = log of the mean of exp(b z_c)

The deviation of a photo's D features and the usual length of the list's C classifiers make z what it is for classifiers
that point anywhere: about 1. So one formula serves every list and network, without photos. `support` is 1 for a class
that the method knows well, less for one with little trust, and more for one that the network was trained on. The
numbers were chosen on lists of hidden seen classes and on half of the unseen classes with photos, for four networks,
but NONE[0] with all of them in view; docs/results/lists.md has how well they hold on the other half. Whether a photo
shows none depends on how many of your photos do: here, half of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.answers.algebra import Array, deviation, log_sigmoid, log_softmax, logsumexp
from unseen.answers.prior import Prior
from unseen.answers.scores import Scorer, multiply
from unseen.bundle.teach import DOUBT, scores_with_bias
from unseen.methods.base import normalise_rows

if TYPE_CHECKING:
    from unseen.bundle import Bundle

SHARPNESS, GROWTH = 30.0, 0.05
SEEN, TAUGHT, UNTOLD = 1.2, 0.85, 0.9  # support of a seen class, of one with photos, and where the method has no trust
TRUSTED = 1.75  # support for each unit of trust, up to 1
NONE = (0.6, -0.6, 0.7)
TINY = 1e-9


class ListScorer(Scorer):
    """A scorer whose probabilities hold within a list; `none` says how probable it is that the photo shows another
    thing. The prior `common` plays no part: who names a class expects it."""

    def __init__(self, bundle: Bundle, rows: np.ndarray, prior: Prior):
        super().__init__(bundle, rows, prior)
        self.numbers, self.calibrated, self.prior.common = None, True, None
        solution, columns = bundle.solution, self.columns
        trust = np.full(len(columns), UNTOLD) if solution.trust is None else TRUSTED * solution.trust[columns]
        taught = np.array([bundle.ids[row] in bundle.taught for row in columns], bool)
        support = np.where(self.seen[columns], SEEN, np.where(taught, TAUGHT, np.minimum(trust, 1)))
        self._has_bias = scores_with_bias(self.projection)
        width = solution.classifiers.shape[1] - self._has_bias
        classes = max(len(columns), 1)
        self._sharpness = SHARPNESS / math.sqrt(width) * float(support.sum()) / classes * (20 / classes) ** GROWTH
        node, ancestor, _ = bundle.hierarchy.ancestor_pairs()
        below = np.zeros(len(bundle), bool)  # what a photo may show that shows something of the list
        below[node[np.isin(ancestor, columns)]] = True
        self._listed = self.classifiers(columns)
        self._beside = self.classifiers(bundle.seen[~below[bundle.seen]])

    def weigh(self, points: Array, scores: Array, logits: Array | None) -> Array:
        return self.prior.weigh(log_softmax(self._sharpness * self._units(points, scores, self._listed)))

    def none(self, features: np.ndarray) -> np.ndarray:
        """n: how probable it is that each photo shows nothing of the list, if half of the photos do not."""
        points = self.projection(np.asarray(features, np.float32))
        if not len(self._beside):
            return np.zeros(len(features), np.float32)
        inside, beside = (
            logsumexp(self._sharpness * self._units(points, multiply(points, rows), rows)) - math.log(max(len(rows), 1))
            for rows in (self._listed, self._beside)
        )
        return np.exp(log_sigmoid(NONE[0] + NONE[1] * inside + NONE[2] * beside))[:, 0]

    def verdicts(self, cautious: np.ndarray, confidence: float | Sequence[float]) -> np.ndarray:
        """n: the most informative node that is as probable as the confidence; -1 where there is none."""
        named = np.isin(self.sums.nodes, self.columns)  # rather than a node above that says as much
        value = self.sums.information + 0.001 * named + cautious / 1e6
        rows = []
        for least in np.ravel(confidence).tolist():
            known = (cautious >= least) & self.sums.can_be_said
            best = np.where(known, value, -np.inf).argmax(axis=1) if known.shape[1] else np.zeros(len(cautious), int)
            rows.append(np.where(known.any(axis=1), best, -1))
        return np.stack(rows) if np.ndim(confidence) else rows[0]

    def _units(self, points: Array, scores: Array, classifiers: np.ndarray) -> Array:
        """z (n x C), from the scores of some classifiers (C x E)."""
        features, rows = (points[:, :-1], classifiers[:, :-1]) if self._has_bias else (points, classifiers)
        length = float(np.sqrt((rows * rows).sum(1)).mean()) if len(rows) else 1.0
        return scores / (deviation(features) * length).clip(TINY)


# -- what to expect --------------------------------------------------------------------------------------------------

CLEAR = 5.4  # how far photos of a known class stand out
OWN_NOISE = 0.5  # the share of noise that is each class's own
DRAWS = 400  # photos imagined of each class
ALIKE = 0.08  # share of the photos of two classes that go to the other one, from which on the pair is mentioned


@dataclass(frozen=True)
class Expectation:
    """How often a list is expected to be right, without a photo of it."""

    right: float  # 0..1
    classes: tuple[tuple[str, float], ...]  # id, and how often its photos are called so; the worst first
    pairs: tuple[tuple[str, str, float], ...]  # ids, and the share of their photos that go to the other one
    names: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        classes = [{"id": id, "name": self.names[id], "right": round(share, 3)} for id, share in self.classes]
        pairs = [{"ids": [a, b], "names": [self.names[a], self.names[b]], "share": round(share, 3)}
                 for a, b, share in self.pairs]  # fmt: skip
        return {"right": round(self.right, 3), "classes": classes, "confused": pairs, "in_words": str(self)}

    def __str__(self) -> str:
        text = f"Expect {round(10 * self.right)} of 10 photos to be named correctly."
        alike = " and ".join(dict.fromkeys(self.names[id] for id in self.pairs[0][:2])) if self.pairs else ""
        more = f", and so do {len(self.pairs) - 1} other pairs" if len(self.pairs) > 2 else ""
        return f"{text} {alike} look alike to this network{more}: give each a photo or two." if alike else text


def expect(bundle: Bundle, rows: np.ndarray) -> Expectation:
    """Imagined photos of each class c, scored over the list:

        score_j = CLEAR * trust_c * cos(w_j, w_c) + noise_j,      noise: variance 1, half of it shared as cos(w_i, w_j)

    w are the predicted classifiers without their mean. Form and numbers were chosen on lists of hidden seen classes and
    of all unseen classes with photos, so that docs/results/lists.md, which compares what is expected with what happens,
    flatters them.
    """
    classifiers = np.asarray(bundle.solution.classifiers, np.float32)
    rows = np.asarray(rows, np.int64)
    weights = classifiers[:, :-1] if scores_with_bias(bundle.solution.projection) else classifiers
    known = bundle.seen if len(bundle.seen) > 1 else rows
    directions = normalise_rows(weights[rows].astype(np.float64) - weights[known].astype(np.float64).mean(axis=0))
    cosines = directions @ directions.T
    values, vectors = np.linalg.eigh(cosines)
    shared = vectors * np.sqrt(np.clip(values, 0, None) * (1 - OWN_NOISE))
    trust = np.full(len(rows), math.sqrt(1 - DOUBT)) if bundle.solution.trust is None else bundle.solution.trust[rows]
    trust = np.where(bundle.is_seen[rows], 1.0, trust)
    random, confusion = np.random.default_rng(0), np.zeros(cosines.shape)
    for place, one in enumerate(trust):
        noise = shared @ random.normal(size=(len(rows), DRAWS)) + math.sqrt(OWN_NOISE) * random.normal(
            size=(len(rows), DRAWS)
        )
        best = (CLEAR * float(one) * cosines[:, place, None] + noise).argmax(axis=0)
        confusion[place] = np.bincount(best, minlength=len(rows)) / DRAWS
    ids = [bundle.ids[row] for row in rows]
    right, mutual = np.diag(confusion), np.triu(confusion + confusion.T, 1) / 2
    pairs = [(ids[a], ids[b], float(mutual[a, b])) for a, b in np.argwhere(mutual >= ALIKE)]
    return Expectation(
        right=float(right.mean()),
        classes=tuple((ids[at], float(right[at])) for at in np.argsort(right, kind="stable")),
        pairs=tuple(sorted(pairs, key=lambda pair: -pair[2])),
        names={id: bundle.hierarchy.name(id) for id in ids},
    )
