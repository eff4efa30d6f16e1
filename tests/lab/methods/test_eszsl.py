from __future__ import annotations

import numpy as np
import pytest

from support.problems import make_problem
from unseen.methods import make_method
from unseen.util.run import Run


@pytest.mark.parametrize(("other", "label"), [(-1.0, -1.0), (None, -1 / 4)])
def test_is_the_papers_formula(other, label):
    problem = make_problem(photos=4, features=3)
    solution = make_method("eszsl", {"gamma": 0.1, "ridge": 2.0, "other": other}).fit(problem, Run())
    x = problem.features.matrix.T.astype(np.float64)  # D x n
    y = np.where(problem.features.labels[:, None] == np.arange(5), 1.0, label)
    s = problem.vectors.matrix[problem.seen].T.astype(np.float64)
    gamma, ridge = 0.1 * np.trace(x @ x.T) / len(x), 2.0 * np.trace(s @ s.T) / len(s)
    v = np.linalg.inv(x @ x.T + gamma * np.eye(len(x))) @ x @ y @ s.T @ np.linalg.inv(s @ s.T + ridge * np.eye(len(s)))
    scores = solution.projection(problem.features.matrix) @ solution.classifiers.T
    assert np.allclose(scores, x.T @ v @ problem.vectors.matrix.T, atol=1e-4)


def test_one_given_ridge_is_kept():
    problem = make_problem(photos=6)
    assert make_method("eszsl", {"gamma": 0.5}).fit(problem, Run()).record.chosen["gamma"] == 0.5


def test_a_class_without_a_vector_has_no_answer():
    """Its score would be 0, above the negative scores of classes that do have a vector."""
    problem = make_problem(photos=3, zero=("saw",))
    answers = make_method("eszsl").fit(problem, Run()).answers
    assert np.flatnonzero(~answers).tolist() == [problem.hierarchy.index("saw")]
