from __future__ import annotations

import numpy as np

from support.problems import make_problem
from unseen.methods import make_method
from unseen.util.run import Run


def test_by_hand():
    problem = make_problem(features=3)
    solution = make_method("conse", {"top": 2}).fit(problem, Run())
    photo = np.array([[0.5, -1.0, 2.0]], np.float32)

    logits = problem.classifiers[:, :3] @ photo[0] + problem.classifiers[:, 3]
    probabilities = np.exp(logits) / np.exp(logits).sum()
    first, second = np.argsort(-probabilities)[:2]
    vectors = problem.vectors.matrix
    point = probabilities[first] * vectors[problem.seen[first]] + probabilities[second] * vectors[problem.seen[second]]
    point /= probabilities[first] + probabilities[second]
    cosine = vectors @ point / np.linalg.norm(point)

    assert np.allclose(solution.projection(photo) @ solution.classifiers.T, cosine, atol=1e-5)


def test_class_without_vector_scores_zero():
    problem = make_problem(zero=("saw", "dog"))
    solution = make_method("conse").fit(problem, Run())
    scores = solution.projection(np.ones((1, 4), np.float32)) @ solution.classifiers.T
    assert scores[0, problem.hierarchy.index("saw")] == 0 and np.isfinite(scores).all()
