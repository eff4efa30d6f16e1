"""What every method of the comparison must withstand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.problems import make_problem
from unseen.methods import get_method, make_method
from unseen.networks.store import SeenFeatures
from unseen.util.errors import UnseenError
from unseen.util.run import Run

BASELINES = ("conse", "devise", "exem", "sync", "eszsl", "structural", "network", "kin", "gaussian-ort", "se-gzsl")
QUICK = {"devise": {"epochs": 2}, "sync": {"iterations": 2}, "gaussian-ort": {"steps": 4}, "se-gzsl": {"steps": 4}}


def only_first_seen_class(problem):
    store = problem.features
    own = store.labels == 0
    store = SeenFeatures(store.matrix[own], store.labels[own])
    return replace(problem, seen=problem.seen[:1], classifiers=problem.classifiers[:1], features=store)


@pytest.mark.parametrize("name", BASELINES)
def test_a_single_seen_class(name):
    problem = only_first_seen_class(make_problem(photos=4))
    solution = make_method(name, QUICK.get(name)).fit(problem, Run(show_progress=False))
    assert np.isfinite(solution.projection(problem.features.matrix) @ solution.classifiers.T).all()


@pytest.mark.parametrize("name", BASELINES)
def test_no_vectors_at_all_is_no_crash(name):
    problem = make_problem(photos=4)
    vectors = replace(problem.vectors, parts=(np.zeros_like(problem.vectors.parts[0]),))
    method, problem = make_method(name, QUICK.get(name)), replace(problem, vectors=vectors)
    if method.takes_features:
        with pytest.raises(UnseenError, match=f"{name}: no seen class with photos has a word vector"):
            method.fit(problem, Run(show_progress=False))
    else:
        assert np.isfinite(method.fit(problem, Run(show_progress=False)).classifiers).all()


@pytest.mark.parametrize("name", [name for name in BASELINES if get_method(name).needs_features])
def test_what_learns_from_photos_needs_them(name):
    with pytest.raises(UnseenError, match="`unseen features`, and pass that"):
        make_method(name).fit(make_problem(), Run())


@pytest.mark.parametrize("name", BASELINES)
def test_shapes_types_and_rows(name):
    problem = make_problem(photos=4, parts=2)
    method = make_method(name, QUICK.get(name))
    solution = method.fit(problem, Run(show_progress=False))
    assert solution.classifiers.dtype == np.float32 and len(solution.classifiers) == len(problem.hierarchy)
    assert solution.projection(problem.features.matrix).shape[1] == solution.classifiers.shape[1]
    assert all(isinstance(array, np.ndarray) for array in solution.state.values())
    rows = np.array([4, 1, 4])
    assert np.allclose(method.predict(problem, solution.state, rows), solution.classifiers[rows], atol=1e-6)
    assert get_method(name).name == name
