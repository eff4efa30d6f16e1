"""A check without photos: hide some seen classes from the fit, and see whether their classifiers are found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unseen.bundle.records import Holdout
from unseen.errors import UnseenError
from unseen.evaluation.metrics import hits
from unseen.methods import Solution
from unseen.methods.problem import Problem, normalise_rows
from unseen.scoring.scorer import MISSED


def check_share(share: float) -> None:
    if not 0 <= share < 1:
        raise UnseenError(f"holdout is a share of the seen classes, from 0 to less than 1; not {share}", "holdout")


def hide(problem: Problem, share: float, seed: int) -> tuple[Problem, np.ndarray]:
    """The problem without a random share of its seen classes, and which ones those were (positions in `seen`)."""
    count = len(problem.seen)
    hidden = np.sort(np.random.default_rng(seed).permutation(count)[: round(count * share)])
    if not share:
        return problem, hidden
    if not len(hidden):
        raise UnseenError(f"a holdout of {share} would hide none of {count} seen classes: give a larger share")
    if len(hidden) == count:
        raise UnseenError(f"a holdout of {share} would hide all {count} seen classes: give a smaller share")
    kept = np.setdiff1d(np.arange(count), hidden)
    features = problem.features
    if features is not None:
        nodes = problem.photo_nodes(features)
        left = ~np.isin(nodes, problem.seen[hidden])
        position = np.arange(len(nodes)) if features.ids is not None else np.cumsum(left) - 1
        chosen = left[features.labels]
        features = features.only(chosen, position[features.labels[chosen]])
    return replace(problem, seen=problem.seen[kept], classifiers=problem.classifiers[kept], features=features), hidden


def check_hidden(solution: Solution, problem: Problem, hidden: np.ndarray) -> Holdout:
    """How often a hidden class's known classifier is most like its own prediction, among those of all hidden classes.

    similarity[i, j] = cos(known classifier of i, predicted classifier of j); hit@k: own prediction among the k best,
    in per cent; where others are as near, the chance that it is. None: the method predicts no classifiers for them, or
    such that are for photos of length 1.
    """
    known = problem.targets()[hidden]
    rows = problem.seen[hidden]
    answered = np.ones(len(rows), bool) if solution.answers is None else solution.answers[rows]
    fits = solution.projection.kind == "append1" and solution.classifiers.shape[1] == known.shape[1]
    if not fits or not answered.any():
        return Holdout(len(hidden), None, None)
    similarity = known @ normalise_rows(solution.classifiers[rows]).T
    own = np.diagonal(similarity)[:, None]
    greater, equal = (similarity > own).sum(1), (similarity == own).sum(1) - 1
    greater[~answered] = MISSED
    return Holdout(len(hidden), *(round(float(hits(greater, equal, k).mean() * 100), 1) for k in (1, 5)))
