from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.problems import hit_unseen, make_problem, make_world
from unseen.methods import make_method
from unseen.util.run import Run
from unseen_lab.methods.gaussian_ort import GaussianOrtSettings, _Model
from unseen_lab.methods.photo_classes import PhotoClasses

QUIET = Run(show_progress=False, device="cpu")


@pytest.mark.slow
def test_recognises_classes_that_it_never_saw():
    problem, photos = make_world()
    solution = make_method("gaussian-ort", {"steps": 120, "learning_rate": 0.02, "batch": 64}).fit(problem, QUIET)
    assert hit_unseen(solution, photos) > 0.5  # chance is 0.1
    chosen = solution.record.chosen
    assert chosen["sigma"] in (0.5, 0.8, 1.2) and chosen["steps"] in (4, 8, 15, 30, 60, 120)
    assert solution.record.extra["rule_agrees"] > 0.9  # the published rule and the linear one
    assert solution.record.extra["hidden_hit@1"] > 40  # of 6 hidden classes: chance is 17


def test_loss_and_rule_are_the_papers():
    problem, _ = make_world(seen=5)
    data = PhotoClasses.of(problem, "gaussian-ort")
    settings = GaussianOrtSettings(beta=0.7)
    model = _Model(data, 0.9, settings, QUIET)
    matrix, photos = model.weights().astype(np.float64), data.take(slice(None))
    points = photos - photos.mean(axis=0)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    classes = data.vectors - data.vectors.mean(axis=0)
    classes /= np.linalg.norm(classes, axis=1, keepdims=True)
    losses, misfits = [], np.empty((len(points), 5))
    for i, (x, label) in enumerate(zip(points, data.labels, strict=True)):
        total = 0.0
        for c, a in enumerate(classes):
            k1 = np.exp(-np.sum((matrix.T @ x - a) ** 2) / (2 * 0.9**2))
            k2 = np.exp(-np.sum((matrix @ a - x) ** 2) / (2 * 0.9**2))
            misfits[i, c] = (k1 - 1) ** 2 + (k2 - 1) ** 2
            total += misfits[i, c] if c == label else 0.7 / 4 * (k1**2 + k2**2)
        losses.append(total)
    import torch

    assert model._loss(torch.arange(len(points))).item() == pytest.approx(np.mean(losses), rel=1e-4)
    assert np.allclose(model.misfit(photos, data.vectors), misfits, atol=1e-4)


def test_which_unseen_classes_there_are_plays_no_part():
    """The same fit whatever they are: nothing is chosen by them."""
    (problem, _), (other, _) = make_world(), make_world(unseen=3)
    keep = range(1, 31)
    vectors = replace(other.vectors, parts=(other.vectors.parts[0].copy(),))
    vectors.parts[0][1:31] = problem.vectors.parts[0][keep]
    other = replace(other, vectors=vectors, features=problem.features, classifiers=problem.classifiers)
    first, second = (make_method("gaussian-ort", {"steps": 20}).fit(p, QUIET) for p in (problem, other))
    assert first.record.chosen == second.record.chosen
    assert np.allclose(first.state["map"], second.state["map"])


def test_classes_without_a_vector_have_no_answer():
    problem = make_problem(photos=4, zero=("dog", "saw"))
    solution = make_method("gaussian-ort", {"steps": 4}).fit(problem, QUIET)
    answers = dict(zip(problem.hierarchy.ids, solution.answers.tolist(), strict=True))
    assert not answers["saw"] and not answers["dog"] and answers["cat"]
    assert np.isfinite(solution.classifiers).all()
