from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge

from support.problems import make_problem
from unseen.errors import UnseenError
from unseen.methods import make_method
from unseen.runtime.run import Run


@pytest.mark.parametrize("standardise", [False, True])
def test_is_nearest_exemplar_of_scikit_learns_regression(standardise):
    problem = make_problem(photos=6, features=5)
    settings = {"dims": 3, "standardise": standardise, "width": 0.7, "ridge": 0.2}
    solution = make_method("exem", settings).fit(problem, Run())

    labels, vectors = problem.features.labels, problem.vectors.matrix
    points = PCA(3).fit_transform(problem.features.matrix.astype(np.float64))
    exemplars = np.stack([points[labels == c].mean(axis=0) for c in range(5)])
    if standardise:
        within = (points - exemplars[labels]).std(axis=0)
        points, exemplars = points / within, exemplars / within
    mean = exemplars.mean(axis=0)
    model = KernelRidge(alpha=0.2, kernel="rbf", gamma=0.7).fit(vectors[problem.seen], exemplars - mean)
    predicted = mean + model.predict(vectors)
    distance = ((points[:, None] - predicted[None]) ** 2).sum(axis=-1)

    scores = solution.projection(problem.features.matrix) @ solution.classifiers.T
    # A photo's own |z|^2 is the same for all classes and left out of the score.
    assert np.allclose(scores - (points**2).sum(axis=1)[:, None], -distance, atol=1e-3)


def test_settings_are_chosen_by_leave_one_out():
    problem = make_problem(photos=4)
    record = make_method("exem").fit(problem, Run()).record
    for width, ridge in ((0.25, 10.0), (4.0, 0.03)):
        assert record.loss <= make_method("exem", {"width": width, "ridge": ridge}).fit(problem, Run()).record.loss


def test_grown_rows_need_no_refit():
    problem = make_problem(photos=4)
    method = make_method("exem")
    solution = method.fit(problem, Run())
    rows = np.array([7, 2])
    assert np.allclose(method.predict(problem, solution.state, rows), solution.classifiers[rows])


def test_one_photo_a_class_and_zero_vectors_stay_finite():
    solution = make_method("exem").fit(make_problem(photos=1, zero=("dog", "saw")), Run())
    assert np.isfinite(solution.classifiers).all()


def test_needs_photos_of_seen_classes():
    with pytest.raises(UnseenError, match="features=STORE"):
        make_method("exem").fit(make_problem(), Run())
