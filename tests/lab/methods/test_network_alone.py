from __future__ import annotations

import numpy as np

from support.problems import make_problem
from unseen.methods import make_method
from unseen.util.run import Run


def test_answers_only_what_it_was_trained_on():
    problem = make_problem()
    solution = make_method("network").fit(problem, Run())
    photo = np.arange(4, dtype=np.float32)[None]
    scores = (solution.projection(photo) @ solution.classifiers.T)[0]
    assert np.allclose(scores[problem.seen], problem.classifiers[:, :4] @ photo[0] + problem.classifiers[:, 4])
    assert np.array_equal(np.flatnonzero(solution.answers), np.sort(problem.seen))
    rows = np.array([3, 0])
    assert np.array_equal(make_method("network").predict(problem, {}, rows), solution.classifiers[rows])
