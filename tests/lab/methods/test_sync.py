from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from support.problems import hit_unseen, make_problem, make_world
from unseen.methods import make_method
from unseen.util.run import Run
from unseen_lab.methods.photo_classes import PhotoClasses
from unseen_lab.methods.sync import REGULARISERS, one_vs_other, shares


def test_shares_by_hand():
    got = shares(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), sigma=2.0)
    raw = np.exp([0, -1 / 4, -4 / 4])
    assert np.allclose(got, raw / raw.sum())


def test_shares_survive_a_tiny_sigma():
    got = shares(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.6, 0.8]]), sigma=1e-3)
    assert np.allclose(got, [[0, 1]])


def test_regression_is_a_plain_solve():
    problem = make_problem()
    solution = make_method("sync", {"sigma": 0.8, "ridge": 0.05}).fit(problem, Run())
    vectors = problem.vectors.matrix.astype(np.float64)
    seen = vectors[problem.seen]
    mix = shares(seen, seen, 0.8).astype(np.float64)
    # ridge regression as an ordinary least-squares problem with sqrt(ridge) I below
    stacked = np.vstack([mix, np.sqrt(0.05) * np.eye(5)])
    bases = np.linalg.lstsq(stacked, np.vstack([problem.targets(), np.zeros((5, 5))]), rcond=None)[0]
    expected = shares(vectors, seen, 0.8) @ bases
    assert np.allclose(solution.classifiers, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)


@pytest.mark.slow
def test_learns_from_photos_as_published():
    """Where there are any; W is a support vector machine for each class without a bias, whatever sigma is."""
    problem, photos = make_world()
    solution = make_method("sync").fit(problem, Run(show_progress=False, device="cpu"))
    assert solution.record.chosen["learn_from"] == "features"
    assert hit_unseen(solution, photos) > 0.4  # chance is 0.1
    assert not solution.classifiers[:, -1].any()  # no bias
    assert solution.record.chosen["regulariser"] in REGULARISERS
    assert solution.record.extra["hidden_hit@1"] > 35  # of 6 hidden classes: chance is 17


@pytest.mark.slow
def test_seen_classifiers_are_liblinears():
    problem, _ = make_world(seen=6)
    matrix, labels = problem.features.matrix, problem.features.labels
    points = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    settings = {"sigma": 0.3, "regulariser": 1e-2, "iterations": 300}
    solution = make_method("sync", settings).fit(problem, Run(show_progress=False, device="cpu"))
    for c in range(6):
        # liblinear: |w|^2 / 2 + C sum of squared hinges; ours: the mean of those + lambda |w|^2 / 2
        machine = LinearSVC(C=1 / (1e-2 * len(points)), fit_intercept=False, tol=1e-8, max_iter=100_000)
        machine.fit(points, labels == c)
        assert np.allclose(solution.classifiers[problem.seen[c], :-1], machine.coef_[0], atol=2e-2)


def test_the_last_fit_is_reached_as_the_chosen_one_was():
    """By the same larger lambdas: a start from nothing would not be there after as many iterations."""
    problem, _ = make_world(seen=12)
    run = Run(show_progress=False, device="cpu")
    solution = make_method("sync", {"iterations": 4}).fit(problem, run)
    chosen = solution.record.chosen["regulariser"]
    data = PhotoClasses.of(problem, "sync").scaled()
    warm = one_vs_other(data, [each for each in REGULARISERS if each >= chosen], 4, run)[-1][0]
    assert np.allclose(solution.classifiers[problem.seen, :-1], warm, atol=1e-3)
