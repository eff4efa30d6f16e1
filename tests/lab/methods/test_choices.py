"""What methods that learn from photos choose: the settings with which hidden seen classes are recognised best."""

from __future__ import annotations

import numpy as np
import pytest

from support.problems import make_world
from unseen.methods import make_method
from unseen.util.run import Run
from unseen_lab.methods.photo_classes import PhotoClasses, at_edge

QUICK = {
    "sync": {"iterations": 5},
    "exem": {"dims": 8},
    "eszsl": {},
    "devise": {"epochs": 8},
    "gaussian-ort": {"steps": 64},
    "se-gzsl": {"steps": 64, "hidden_units": 32},
}
CLOSED = ("sync", "exem", "eszsl")  # all of whose settings can be given


@pytest.mark.slow
@pytest.mark.parametrize("method", CLOSED)
def test_what_was_chosen_is_what_is_fitted(method):
    problem, _ = make_world(seen=16)
    run = Run(show_progress=False, device="cpu")
    chosen = make_method(method, QUICK[method] | {"iterations": 200} if method == "sync" else QUICK[method])
    first = chosen.fit(problem, run)
    given = {name: value for name, value in first.record.chosen.items() if name in chosen.Settings.__annotations__}
    again = type(chosen)(type(chosen.settings)(**{**vars(chosen.settings), **given})).fit(problem, run)
    scores = [each.projection(problem.features.matrix) @ each.classifiers.T for each in (first, again)]
    assert np.allclose(*scores, atol=1e-2 * np.abs(scores[0]).max())


def test_every_class_weighs_as_much_as_another():
    """However many photos it has."""
    labels = np.array([0] * 9 + [1])
    data = PhotoClasses(np.eye(10, dtype=np.float32), np.arange(10), labels, np.eye(2, dtype=np.float32), np.arange(2))
    always_first = np.array([[1.0, 0.0]])
    assert data.accuracies(lambda photos: [np.repeat(always_first, len(photos), axis=0)]) == [0.5]


def test_a_choice_from_the_edge_is_reported():
    grids = {"a": (1.0, 2.0, 3.0), "b": (1.0, 2.0), "given": (5.0,)}
    assert at_edge({"a": 2.0, "b": 2.0, "given": 5.0}, grids) == {"at_edge_of_grid": ["b"]}
    assert at_edge({"a": 2.0, "b": 1.5, "given": 5.0}, grids) == {}
