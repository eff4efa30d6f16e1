"""Probabilities within a list, none of these, and what to expect of a list."""

from __future__ import annotations

import numpy as np
import pytest

from support.command_line import run_command
from unseen.answers.choice import NONE, SHARPNESS, ListScorer, expect
from unseen.answers.prior import UNIFORM, Prior
from unseen.examples import fruits, photo


@pytest.fixture(scope="module")
def model():
    return fruits()


def test_probabilities_are_the_formula(model):
    bundle = model.bundle
    rows = bundle.hierarchy.indices(["lemon", "lime", "raspberry"])
    scorer = ListScorer(bundle, rows, UNIFORM)
    features = np.random.default_rng(0).uniform(0, 2, (4, bundle.network.num_features)).astype(np.float32)
    columns = scorer.columns
    weights = np.asarray(bundle.solution.classifiers)[columns]
    trust = np.minimum(1.75 * bundle.solution.trust[columns], 1)
    support = np.where(bundle.is_seen[columns], 1.2, trust).mean()
    sharpness = SHARPNESS / np.sqrt(features.shape[1]) * support * (20 / 3) ** 0.05
    length = np.linalg.norm(weights[:, :-1], axis=1).mean()
    units = (features @ weights[:, :-1].T + weights[:, -1]) / (features.std(axis=1, keepdims=True) * length)
    expected = np.exp(sharpness * units) / np.exp(sharpness * units).sum(axis=1, keepdims=True)
    assert scorer.probabilities(features) == pytest.approx(expected, abs=1e-5)
    assert scorer.calibrated
    scores = units * features.std(axis=1)[:, None] * length
    assert scorer.method_scores(features) == pytest.approx(scores, abs=1e-4)
    beside = np.asarray(bundle.solution.classifiers)[bundle.hierarchy.indices(["strawberry"])]  # lime is in the list
    other = features @ beside[:, :-1].T + beside[:, -1]
    other = other / (features.std(axis=1, keepdims=True) * np.linalg.norm(beside[:, :-1]))
    inside = np.log(np.exp(sharpness * units).mean(axis=1))
    none = 1 / (1 + np.exp(-(NONE[0] + NONE[1] * inside + NONE[2] * sharpness * other[:, 0])))
    assert scorer.none(features) == pytest.approx(none, abs=1e-5)


def test_an_answer_says_how_probable_none_is(model):
    among = model.among(["lemon", "raspberry"])
    answer = among.classify(photo("crimson"))
    assert answer.calibrated and sum(label.probability for label in answer) == pytest.approx(1, abs=1e-5)
    assert 0 < answer.none < 1 and answer.to_dict()["none"] == answer.none
    assert model.classify(photo("crimson")).none is None and "none" not in model.classify(photo("crimson")).to_dict()
    # A list without what the photo shows leaves more to none.
    assert model.classify(photo("crimson"), among=["lemon", "lime"]).none > answer.none


def test_a_verdict_names_a_class_of_the_list(model):
    answer = model.classify(photo("crimson"), among=["lemon", "raspberry"], confidence=0.5)
    assert answer.verdict.id == "raspberry" and answer.verdict.probability == pytest.approx(answer[0].probability)
    assert not model.classify(photo("crimson"), among=["lemon", "raspberry"], confidence=0.999999).verdict


def test_weights_count_and_what_is_common_does_not(model):
    names = ["lemon", "raspberry"]
    plain = model.among(names).predict_proba([photo("crimson")])
    assert model.among(names).predict_proba([photo("crimson")], prior="uniform") == pytest.approx(plain)
    weights = Prior.read({"raspberry": 0.01}, model.bundle.hierarchy)
    rare = model.among(names).predict_proba([photo("crimson")], prior=weights)
    odds = plain[0, 1] / plain[0, 0] * 0.01
    assert rare[0, 1] / rare[0, 0] == pytest.approx(odds, rel=1e-3)


def test_what_to_expect(model):
    bundle = model.bundle
    alike = expect(bundle, bundle.hierarchy.indices(["raspberry", "berry", "lime"]))
    apart = expect(bundle, bundle.hierarchy.indices(["strawberry", "lime"]))
    assert apart.right > alike.right and apart.right > 0.9 and not apart.pairs
    assert str(apart).startswith("Expect 10 of 10") and alike.pairs
    assert "look alike to this network: give each a photo or two." in str(alike)
    shares = [share for _, share in alike.classes]
    assert shares == sorted(shares) and np.mean(shares) == pytest.approx(alike.right)


@pytest.mark.slow
def test_command_line():
    done = run_command("expect", "okapi, giraffe, laptop, teapot", "--json")
    assert done.code == 0, done.err
    assert 0.3 < done.json["right"] <= 1 and set(done.json["confused"][0]["names"]) == {"okapi", "giraffe"}
    assert done.json["in_words"].startswith("Expect ") and len(done.json["among"]) == 4
