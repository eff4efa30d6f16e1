from __future__ import annotations

import numpy as np
import pytest

from support.problems import hit_unseen, make_world
from unseen.methods import make_method
from unseen.util.run import Run
from unseen_lab.methods.photo_classes import PhotoClasses
from unseen_lab.methods.se_gzsl import (
    SEGZSLSettings,
    _class_means,
    _gaussian_rows,
    _hidden,
    _inverse,
    _Networks,
    _noise,
)

QUIET = Run(show_progress=False, device="cpu")
SMALL = {"steps": 240, "hidden_units": 64, "latent": 8, "learning_rate": 3e-3}


@pytest.mark.slow
def test_recognises_classes_that_it_never_saw():
    problem, photos = make_world()
    method = make_method("se-gzsl", SMALL)
    solution = method.fit(problem, QUIET)
    assert hit_unseen(solution, photos) > 0.5  # chance is 0.1
    assert solution.record.extra["hidden_hit@1"] > 40  # of 6 hidden classes: chance is 17
    rows = np.array([35, 2])
    assert np.allclose(method.predict(problem, solution.state, rows), solution.classifiers[rows], atol=1e-3)


@pytest.mark.slow
def test_feedback_makes_generated_features_tell_their_class():
    """What the paper adds to a conditional autoencoder: the regressor finds the class vector in generated features."""
    problem, _ = make_world()
    data, missed = PhotoClasses.of(problem, "se-gzsl"), {}
    for feedback in (0.0, 1.0):
        networks = _Networks(data, SEGZSLSettings(**{**SMALL, "feedback": feedback}), QUIET)
        networks.train(400, QUIET)
        import torch

        vectors = torch.from_numpy(networks.vectors)
        with torch.no_grad():
            missed[feedback] = float((networks.regressor(networks._made(vectors)) - vectors).square().sum(1).mean())
    assert missed[1.0] < 0.8 * missed[0.0]


def test_numpy_makes_the_features_that_the_network_makes():
    import torch

    data = PhotoClasses.of(make_world()[0], "se-gzsl")
    settings = SEGZSLSettings(latent=4, hidden_units=12, synthesised=5)
    networks = _Networks(data, settings, QUIET)
    arrays, noise = networks.generator_arrays(), _noise(settings, 0)
    with torch.no_grad():
        inputs = [np.concatenate([noise, np.tile(vector, (5, 1))], axis=1) for vector in networks.vectors]
        made = np.stack([networks.generator(torch.from_numpy(x)).numpy() for x in inputs])
    assert np.allclose(
        _hidden(arrays, networks.vectors, noise) @ arrays["output"] + arrays["output_bias"], made, atol=1e-5
    )
    assert np.allclose(_class_means(arrays, networks.vectors, noise), made.mean(axis=1), atol=1e-5)


def test_the_classifier_is_the_gaussian_one():
    """Against scikit-learn's discriminant analysis, up to what is the same for all classes."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 50)
    points = random.normal(size=(4, 6))[labels] + random.normal(size=(200, 6)) @ random.normal(size=(6, 6))
    means = np.stack([points[labels == c].mean(axis=0) for c in range(4)])
    within = points - means[labels]
    rows = _gaussian_rows(means, _inverse(within.T @ within / 200, 1e-9))
    scores = np.pad(points / np.sqrt(6), ((0, 0), (0, 1)), constant_values=1) @ rows.T
    other = LinearDiscriminantAnalysis(solver="lsqr").fit(points, labels).decision_function(points)
    gap = scores - other
    assert np.allclose(gap, gap.mean(axis=1, keepdims=True), atol=1e-2)
