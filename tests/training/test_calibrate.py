"""Probabilities are fitted on hidden seen classes, and never on photos of unseen ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support import tiny_network
from support.command_line import run_command
from support.problems import PARENTS, SEEN, make_hierarchy
from support.stores import FakeStore
from unseen.bundle import Bundle
from unseen.model import Model
from unseen.training import calibrate as calibration
from unseen.training.calibrate import calibrate
from unseen.training.settings import CalibrateSettings, TrainSettings
from unseen.training.stage1 import train
from unseen.util.errors import UnseenError
from unseen.util.run import Run
from unseen.vectors.class_vectors import load_vectors

HOLDOUT = 0.4  # two of the five seen classes
SETTINGS = CalibrateSettings(HOLDOUT)


@pytest.fixture(autouse=True)
def hide_once(monkeypatch):
    """Nothing here depends on how often classes are hidden, which is what takes the time."""
    monkeypatch.setattr(calibration, "HIDINGS", (1, 1))


@pytest.fixture(scope="module")
def network():
    return tiny_network.build()


@pytest.fixture(scope="module")
def bundle(network) -> Bundle:
    return train(make_hierarchy(), network, "kin", load_vectors("glove"), run=quiet())


def quiet() -> Run:
    return Run(show_progress=False, device="cpu")


def photos_of(ids, each: int = 6, seed: int = 0) -> FakeStore:
    rng = np.random.default_rng(seed)
    names = [id for id in ids for _ in range(each)]
    return FakeStore(rng.normal(size=(len(names), tiny_network.FEATURES)), names)


def choose(bundle, network, photos):
    return calibrate(bundle, network, photos, SETTINGS, run=quiet()).calibration


def test_unseen_photos_change_nothing(bundle, network):
    """The same choice to the last digit, with any photos of unseen classes beside those of seen ones."""
    seen = photos_of(SEEN)
    other = photos_of([id for id in PARENTS if id not in SEEN], seed=1)
    mixed = FakeStore(np.concatenate([other.features * 9, seen.features]), other.ids + seen.ids)
    alone, beside = choose(bundle, network, seen), choose(bundle, network, mixed)
    assert alone == beside
    assert alone.photos == len(seen.ids)
    assert alone.hidden_classes == 2


@pytest.mark.slow
@pytest.mark.parametrize("learned_from", ["features", "classifiers"])
def test_the_model_without_hidden_classes_learns_as_the_bundle_did(network, monkeypatch, learned_from):
    """sync can learn from photos or without: the shift of one says nothing of the other."""
    photos, helpers = photos_of(SEEN), []
    features = photos.seen_matrix(SEEN) if learned_from == "features" else None
    bundle = train(make_hierarchy(), network, "sync", "glove", TrainSettings(features=features), run=quiet())

    def noted(*args, **options):
        helpers.append(train(*args, **options))
        return helpers[0]

    monkeypatch.setattr(calibration, "train", noted)
    choose(bundle, network, photos)
    assert helpers[0].solution.record.chosen["learn_from"] == learned_from


def test_too_few_photos_are_reported(bundle, network):
    with pytest.raises(UnseenError, match="at least 10 photos of at least 3 seen classes; here are 6 photos of 1"):
        choose(bundle, network, photos_of(SEEN[:1]))
    with pytest.raises(UnseenError, match="here are 5 photos of 5"):
        choose(bundle, network, photos_of(SEEN, each=1))


@pytest.mark.parametrize("harm", [-1, 101, float("nan")])
def test_harm_is_in_points(harm):
    with pytest.raises(UnseenError, match="from 0 to 100"):
        CalibrateSettings(harm=harm)


def test_command_line(bundle, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    bundle.save(tmp_path / "bundle")
    tiny_network.make_photos(tmp_path / "photos", 3)
    options = ["--photos", tmp_path / "photos", "--holdout", "0.4", "--json"]
    command = ["calibrate", tmp_path / "bundle", "--out", tmp_path / "new", "--trust-code"]
    done = run_command(*command, *options)
    assert done.code == 0, done.err
    result = done.json
    saved = Bundle.load(tmp_path / "new").calibration
    assert saved.photos == result["photos"] and saved.probability.detail == result["probability"]["detail"]
    again = run_command(*command, "--photos", tmp_path / "none")  # told before the photos are looked for
    assert again.code == 1 and "another bundle" in again.err
    again = run_command(*command, "--photos", tmp_path / "none", "--overwrite")
    assert again.code == 1 and "no such folder of photos" in again.err


@pytest.mark.parametrize(("each", "wrong", "like"), [(12, 0, 0), (40, 4, 0), (40, 0, 8)])
def test_photos_that_the_network_knows_by_heart_are_refused(network, bundle, each, wrong, like):
    """All right, and nothing like the photos of hidden classes; too few, a few mistakes or likeness are no proof."""
    directions = network.classifiers()[:, :-1]
    features, ids = np.repeat(40 * np.linalg.pinv(directions).T, each, axis=0), np.repeat(bundle.seen_ids, each)
    features[:wrong], fitted = features[-wrong:] if wrong else features[:0], hide(bundle, 2)
    features[-like or len(features) :] = features[:like]
    calibration.refuse_memorised(bundle, fitted, features, ids)
    features, ids = np.repeat(40 * np.linalg.pinv(directions).T, 40, axis=0), np.repeat(bundle.seen_ids, 40)
    with pytest.raises(UnseenError, match=r"trained on these photos: it names 100\.0 %.* add --fresh"):
        calibration.refuse_memorised(bundle, fitted, features, ids)


def hide(bundle: Bundle, count: int) -> Bundle:
    """As the bundle, without the last of its seen classes."""
    return replace(bundle, seen=bundle.seen[:-count], known=bundle.known[:-count])


def test_reach_is_the_other_end_of_the_curve(bundle, network):
    """More of it never costs hidden classes anything, and the curve falls on both sides."""
    photos, reached = photos_of(SEEN, each=20), []
    for reach in (None, 0.0, 100.0):
        record = calibrate(bundle, network, photos, replace(SETTINGS, reach=reach), run=quiet()).calibration
        curve = record.effect["balance"]
        assert sum(point["chosen"] for point in curve) == 1
        for key in ("harm", "reach"):
            assert (np.diff([point[key] for point in curve]) <= 0).all()
        reached.append(next(point["favour"] for point in curve if point["chosen"]))
    assert reached[1] == max(calibration.FAVOURS) and reached[2] == min(calibration.FAVOURS) <= reached[0]


def test_logits_of_hidden_photos_come_half_way():
    random = np.random.default_rng(0)
    kept = np.arange(60) < 30
    logits = random.normal(size=(60, 8)).astype(np.float32) * np.where(kept, 4, 1)[:, None] + 3
    response = lambda x: np.log(np.exp(x.astype(np.float64)).sum(axis=1))  # noqa: E731
    nearer = calibration.bring_nearer(logits, kept)
    before, after = response(logits), response(nearer)
    assert np.array_equal(nearer[kept], logits[kept])
    assert after[~kept].mean() == pytest.approx((before[kept].mean() + before[~kept].mean()) / 2, abs=1e-3)
    np.testing.assert_allclose(nearer.mean(axis=1), logits.mean(axis=1), rtol=1e-5)


def test_what_verdicts_state_is_fitted_as_they_were_drawn():
    random = np.random.default_rng(0)
    mass, harder = random.uniform(0.05, 0.95, 40_000), random.integers(0, 2, 40_000) * 1.1
    odds = 0.8 * np.log(mass / (1 - mass)) + 0.6 - harder
    right = random.random(len(mass)) < 1 / (1 + np.exp(-odds))
    fit = calibration._fit_statement(mass, right, harder, np.full(len(mass), 1.0))
    np.testing.assert_allclose(fit, [0.8, 0.6], atol=0.05)


@pytest.mark.slow
def test_seen_classes_keep_their_accuracy(bundle, network):
    """The bound holds on the photos that it was fitted on, and 0 means that nothing is lost."""
    photos = photos_of(SEEN, each=20)
    for harm in (0.0, 10.0, 100.0):
        calibrated = calibrate(bundle, network, photos, replace(SETTINGS, harm=harm), run=quiet())
        seen = calibrated.calibration.effect["seen"]
        assert seen["network_hit@1"] - seen["said@1"] <= harm + 1e-9


def test_the_numbers_are_used_without_being_asked(bundle, network):
    calibrated = calibrate(bundle, network, photos_of(SEEN, each=10), SETTINGS, run=quiet())
    before, after = Model(bundle, network), Model(calibrated, network)
    features = photos_of(SEEN, each=2, seed=3).features
    for plain, fitted in zip(before.answers(features), after.answers(features), strict=True):
        assert not plain.calibrated and fitted.calibrated
        assert [label.probability for label in fitted] == sorted((label.probability for label in fitted), reverse=True)
    whole = after.answers(features, k=len(bundle))[0]
    assert sum(label.probability for label in whole) == pytest.approx(1, abs=1e-4)
