from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import NuSVR

from support.problems import hit_unseen, make_problem, make_world
from unseen.methods import make_method
from unseen.networks.store import SeenFeatures
from unseen.util.run import Run
from unseen_lab.methods.exem import COSTS
from unseen_lab.methods.photo_classes import PhotoClasses


@pytest.mark.parametrize(("standardise", "regression"), [(False, "ridge"), (True, "ridge"), (True, "nu-svr")])
def test_is_nearest_exemplar_of_scikit_learns_regression(standardise, regression):
    problem = make_problem(photos=6, features=5)
    settings = {"dims": 3, "standardise": standardise, "regression": regression, "width": 0.7, "ridge": 0.2, "cost": 1}
    solution = make_method("exem", settings).fit(problem, Run())

    labels, vectors = problem.features.labels, problem.vectors.matrix
    matrix = problem.features.matrix.astype(np.float64)
    points = PCA(3).fit_transform(matrix / np.linalg.norm(matrix, axis=1, keepdims=True))
    exemplars = raw = np.stack([points[labels == c].mean(axis=0) for c in range(5)])
    if standardise:
        within = np.mean([points[labels == c].std(axis=0, ddof=1) for c in range(5)], axis=0)
        points, exemplars = points / within, exemplars / within
    mean = exemplars.mean(axis=0)
    if regression == "ridge":
        model = KernelRidge(alpha=0.2, kernel="rbf", gamma=0.7).fit(vectors[problem.seen], exemplars - mean)
        predicted = mean + model.predict(vectors)
    else:
        machines = [NuSVR(gamma=0.7, nu=0.5, C=1.0).fit(vectors[problem.seen], e) for e in raw.T]
        predicted = np.stack([machine.predict(vectors) for machine in machines], axis=1) / within
    distance = ((points[:, None] - predicted[None]) ** 2).sum(axis=-1)

    scores = solution.projection(problem.features.matrix) @ solution.classifiers.T
    # A photo's own |z|^2 is the same for all classes and left out of the score.
    assert np.allclose(scores - (points**2).sum(axis=1)[:, None], -distance, atol=2e-2, rtol=1e-3)


def test_settings_are_chosen_by_accuracy_on_left_out_classes():
    problem, photos = make_world()
    solution = make_method("exem", {"dims": 8}).fit(problem, Run())
    assert hit_unseen(solution, photos) > 0.5  # chance is 0.1
    found = solution.record.extra["hidden_hit@1"]
    for width, ridge in ((0.25, 10.0), (4.0, 0.03)):
        data = PhotoClasses.of(problem, "exem").scaled()
        accuracies = []
        for rest, out in data.folds(5, 0):
            kept = np.isin(problem.seen, rest.nodes)
            seen = replace(problem, seen=problem.seen[kept], classifiers=problem.classifiers[kept],
                           features=SeenFeatures(rest.take(slice(None)), rest.labels))  # fmt: skip
            fitted = make_method("exem", {"dims": 8, "width": width, "ridge": ridge}).fit(seen, Run())
            rows = fitted.classifiers[out.nodes].T
            accuracies += out.accuracies(lambda photos, to=fitted.projection, rows=rows: [to(photos) @ rows])
        assert found >= 100 * np.mean(accuracies) - 0.01


def test_the_cost_of_support_vectors_is_chosen_on_hidden_classes():
    problem, photos = make_world()
    record = make_method("exem", {"dims": 8, "regression": "nu-svr"}).fit(problem, Run()).record
    assert record.chosen["cost"] in COSTS and "ridge" not in record.chosen
    solution = make_method("exem", {"dims": 8, "regression": "nu-svr", "cost": record.chosen["cost"]}).fit(
        problem, Run()
    )
    assert hit_unseen(solution, photos) > 0.4  # chance is 0.1


def test_one_photo_a_class_and_zero_vectors_stay_finite():
    solution = make_method("exem").fit(make_problem(photos=1, zero=("dog", "saw")), Run())
    assert np.isfinite(solution.classifiers).all()
