"""A class taught with photos moves towards them, no other class does, and nothing is lost by forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from support.bundles import FEATURES, OKAPI, POODLE, SAW, ZEBRA, small_bundle
from unseen.bundle import Bundle, remove
from unseen.bundle.records import CalibrationRecord
from unseen.bundle.teach import NOISE, Photos, Reference, combine, forget, remaining_doubt, shrink, teach, weigh
from unseen.model import Model
from unseen.networks.store import SeenFeatures
from unseen.util.errors import UnseenError

METHODS = {
    "kin": {},
    "structural": {},
    "dgp": {"epochs": 3},
    "gat": {"epochs": 3},
    "conse": {},
    "exem": {},
    "eszsl": {},
}


def some_photos(seed: int = 0, count: int = 10, start: int = 0) -> Photos:
    features = np.random.default_rng(seed).uniform(0, 2, (start + count, FEATURES)).astype(np.float32)
    return Photos(features[start:], [f"{seed}-{number}" for number in range(start, start + count)])


def row(bundle: Bundle, id: str) -> np.ndarray:
    return bundle.solution.classifiers[bundle.hierarchy.index(id)]


def test_the_weight_of_photos_grows_with_their_number_and_with_doubt():
    assert weigh(0, 0.7) == 0
    weights = [weigh(n, 0.7) for n in (1, 2, 3, 10, 1000)]
    assert weights == sorted(weights) and weights[-1] > 0.99
    assert weigh(3, 0.1) < weigh(3, 0.9)
    # The variance of two independent measurements of the same thing.
    assert remaining_doubt(4, 0.7) == pytest.approx(1 / (1 / 0.7 + 4 / NOISE))


def test_the_mixture_is_the_formula():
    rows = np.random.default_rng(1).normal(size=(20, 5)).astype(np.float32)
    like, point = Reference.of(rows), np.array([[3.0, 1.0, 1.0, 1.0, 1.0]])
    predicted = rows[:1]
    centre = np.full(4, 1.5)
    mean = rows[:, :4].astype(float).mean(axis=0)
    alone = mean + like.length * (point[0, :4] - centre) / np.linalg.norm(point[0, :4] - centre)
    mixed = combine(predicted, point, [0.25], like, has_bias=True)[0]
    assert mixed[:4] == pytest.approx(0.75 * predicted[0, :4] + 0.25 * alone, abs=1e-5)
    average = np.append(centre, 1)  # an average photo scores as before
    assert mixed @ average == pytest.approx(predicted[0] @ average, abs=1e-5)
    strong = combine(predicted, point, [0.9], like, has_bias=True)[0, :4] - mean
    expected = 0.1 * (predicted[0, :4] - mean) + 0.9 * (alone - mean)
    assert strong == pytest.approx(shrink(0.9) * expected, abs=1e-5)
    assert combine(predicted, np.ones((1, 5)), [0.25], like, has_bias=True) == pytest.approx(predicted)  # all alike


def test_photos_alone_are_a_nearest_mean_by_cosine():
    random = np.random.default_rng(2)
    like = Reference.of(random.normal(size=(20, 9)).astype(np.float32))
    means, photos = random.uniform(0, 2, (6, 8)), random.uniform(0, 2, (50, 8))
    nothing = np.tile(like.mean, (6, 1))  # predicted: all alike
    rows = combine(nothing, np.concatenate([means, np.ones((6, 1))], axis=1), [0.8] * 6, like, has_bias=True)
    scores = photos @ rows[:, :-1].T + rows[:, -1]
    cosines = photos @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    assert (np.argsort(scores, axis=1) == np.argsort(cosines, axis=1)).all()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_no_other_class_moves(method):
    options = dict(METHODS[method])
    if method in ("exem", "eszsl"):
        random = np.random.default_rng(2)
        options["features"] = SeenFeatures(random.normal(size=(60, FEATURES)).astype(np.float32), np.arange(60) % 6)
    bundle, photos = small_bundle(method, **options), some_photos()
    taught = teach(bundle, {OKAPI: photos})
    at = bundle.hierarchy.index(OKAPI)
    others = np.arange(len(bundle)) != at
    assert (taught.solution.classifiers[others] == bundle.solution.classifiers[others]).all()
    points = bundle.solution.projection(photos.features.mean(axis=0, keepdims=True))
    assert points @ row(taught, OKAPI) > points @ row(bundle, OKAPI)
    assert taught.taught[OKAPI].photos == 10 and not bundle.taught


def test_ten_photos_in_two_goes_are_ten_in_one(bundle):
    once = teach(bundle, {OKAPI: some_photos()})
    twice = teach(teach(bundle, {OKAPI: some_photos(count=4)}), {OKAPI: some_photos(count=6, start=4)})
    assert row(twice, OKAPI) == pytest.approx(row(once, OKAPI), abs=1e-7)
    assert twice.taught[OKAPI].checksums == once.taught[OKAPI].checksums
    assert twice.taught[OKAPI].mean == pytest.approx(some_photos().features.mean(axis=0))


def test_a_photo_counts_once(bundle):
    once = teach(bundle, {OKAPI: some_photos(count=3)})
    again = teach(once, {OKAPI: some_photos(count=4)})
    assert again.taught[OKAPI].photos == 4
    assert row(again, OKAPI) == pytest.approx(row(teach(bundle, {OKAPI: some_photos(count=4)}), OKAPI), abs=1e-7)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_what_is_forgotten_was_never_there(bundle, tmp_path, precision):
    plain = Bundle.load(bundle.change(precision=precision).save(tmp_path / "plain"))
    taught = teach(plain, {OKAPI: some_photos(1), ZEBRA: some_photos(2)})
    assert (row(taught, OKAPI) != row(plain, OKAPI)).any() and (taught.head != plain.head).any()
    again = Bundle.load(taught.save(tmp_path / "taught"))
    assert list(again.taught) == [OKAPI, ZEBRA] and again.taught[OKAPI].photos == 10
    one = forget(again, [ZEBRA])
    assert list(one.taught) == [OKAPI] and (one.head == plain.head).all()
    blank = Bundle.load(forget(again).save(tmp_path / "blank"))
    assert (blank.solution.classifiers == plain.solution.classifiers).all()
    assert (blank.solution.trust == plain.solution.trust).all() and not blank.taught
    assert blank.header()["details"] == plain.header()["details"]


def test_kin_is_less_in_doubt_afterwards(bundle):
    at = bundle.hierarchy.index(OKAPI)
    taught = teach(bundle, {OKAPI: some_photos(count=2)})
    assert bundle.solution.trust[at] < taught.solution.trust[at] < 1


def test_a_seen_class_moves_a_little_in_the_network_and_in_the_method(bundle):
    photos = some_photos(count=5)
    taught = teach(bundle, {ZEBRA: photos})
    place = bundle.seen_ids.index(ZEBRA)
    others = np.arange(len(bundle.seen)) != place
    assert (taught.head[others] == bundle.head[others]).all()
    mean = np.append(photos.features.mean(axis=0), 1)
    assert taught.head[place] @ mean > bundle.head[place] @ mean
    shift = np.linalg.norm(taught.head[place] - bundle.head[place]) / np.linalg.norm(bundle.head[place])
    assert 0 < shift < 0.2
    assert (taught.known == bundle.known).all()  # what the method learned from stays


def test_a_class_that_the_method_has_no_answer_for_gets_one():
    bundle = small_bundle("conse")
    answers = np.ones(len(bundle), bool)
    answers[bundle.hierarchy.index(OKAPI)] = False
    bundle.solution.answers = answers
    taught = teach(bundle, {OKAPI: some_photos()})
    assert taught.solution.answers.all()
    assert (forget(taught).solution.answers == answers).all()


def test_classes_can_be_added_and_removed_around_it(bundle):
    taught = teach(bundle, {OKAPI: some_photos(), SAW: some_photos(1)})
    smaller = remove(taught, [SAW])
    assert list(smaller.taught) == [OKAPI] and (row(smaller, OKAPI) == row(taught, OKAPI)).all()
    assert (row(forget(smaller), OKAPI) == row(bundle, OKAPI)).all()


@pytest.mark.parametrize("count", [1, 10])
def test_a_photo_unlike_its_own_gives_a_taught_class_no_more_than_before(bundle, count):
    photos = some_photos(count=count)
    taught = teach(bundle, {OKAPI: photos})
    average = np.full((1, FEATURES), photos.features.mean(), np.float32)
    before, after = (Model(one).scores(average, [OKAPI]) for one in (bundle, taught))
    assert after == pytest.approx(before, abs=1e-5)


@pytest.mark.parametrize(
    ("photos", "words"),
    [
        ({}, "no photos"),
        ({"nonsense": some_photos()}, "nonsense"),
        ({OKAPI: Photos(np.ones((2, FEATURES + 1)), ["a", "b"])}, f"the bundle is for {FEATURES}"),
        ({OKAPI: Photos(np.full((1, FEATURES), np.nan), ["a"])}, "NaN"),
        ({OKAPI: Photos(np.ones((2, FEATURES)), ["a"])}, "1 checksums"),
    ],
)
def test_wrong_input_is_refused(bundle, photos, words):
    with pytest.raises(UnseenError, match=words):
        teach(bundle, photos)
    with pytest.raises(UnseenError, match="no photos were taught"):
        forget(bundle, [POODLE])


def test_an_older_calibration_says_so(bundle):
    calibrated = bundle.change(calibration=CalibrationRecord())
    taught = teach(calibrated, {OKAPI: some_photos()})
    assert taught.calibration.before_teaching
    assert forget(taught).calibration == calibrated.calibration
