from __future__ import annotations

import numpy as np
import pytest

from support.problems import make_problem
from unseen.errors import UnseenError
from unseen.methods import make_method
from unseen.methods.baselines.sync import shares
from unseen.runtime.run import Run


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


def test_learns_from_features_where_there_are_any():
    problem = make_problem(photos=20, features=8)
    solution = make_method("sync", {"sigma": 0.3}).fit(problem, Run(show_progress=False))
    assert solution.record.chosen["learn_from"] == "features"
    scores = solution.projection(problem.features.matrix) @ solution.classifiers[problem.seen].T
    assert (scores.argmax(axis=1) == problem.features.labels).mean() > 0.95


def test_grown_rows_need_no_refit():
    problem = make_problem()
    method = make_method("sync")
    solution = method.fit(problem, Run())
    rows = np.array([9, 0])
    assert np.allclose(method.predict(problem, solution.state, rows), solution.classifiers[rows])


def test_mistakes_are_named():
    with pytest.raises(UnseenError, match="features=STORE"):
        make_method("sync", {"learn_from": "features"}).fit(make_problem(), Run())
    with pytest.raises(UnseenError, match="learn_from must be auto, features or classifiers, not 'photos'"):
        make_method("sync", {"learn_from": "photos"})


def test_zero_vectors_stay_finite():
    assert np.isfinite(make_method("sync").fit(make_problem(zero=("dog", "saw")), Run()).classifiers).all()
