"""The best classes and ranks against a plain product and sort, photo by photo: ties, masks, any block size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.bundles import small_bundle
from unseen.answers import scores as scoring
from unseen.answers.scores import MISSED, Scorer
from unseen.bundle.records import CalibrationRecord, ProbabilityNumbers
from unseen.util.errors import UnseenError

NO = -np.inf
LIMITS = {name: getattr(scoring, name) for name in ("CLASSES", "MATRIX_BUDGET", "SCORES_BUDGET")}


def whole_numbers(seed: int, photos: int, classes: int, width: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Points and classifiers of small whole numbers: products are exact in float32, and ties abound."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((photos, width), (classes, width)))


def plain_scores(points, classifiers, rows, answers) -> np.ndarray:
    """Scores over all classes; -inf for those that are no candidates or have no answer."""
    scores = points.astype(float) @ classifiers.astype(float).T
    allowed = np.zeros(len(classifiers), bool)
    allowed[rows] = True
    return np.where(allowed & answers, scores, NO)


def plain_top_k(scores: np.ndarray, k: int) -> tuple[list, list]:
    """By Python's own stable sort: best score first, then lowest row."""
    order = [sorted((c for c in range(len(row)) if row[c] > NO), key=lambda c: -row[c])[:k] for row in scores]
    return order, [[row[c] for c in best] for row, best in zip(scores, order, strict=True)]


@st.composite
def problems(draw):
    """Sizes, candidates, seen classes, answers, and budgets so small that they force many blocks."""
    seed, photos, classes = draw(st.integers(0, 10**6)), draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(seed)
    rows = rng.permutation(classes)[: draw(st.integers(1, classes))]
    return {
        "seed": seed,
        "photos": photos,
        "classes": classes,
        "rows": rows,
        "seen": rng.random(classes) < draw(st.sampled_from([0, 0.3, 1])),
        "answers": rng.random(classes) < draw(st.sampled_from([1.0, 0.7, 0.0])),
        "budgets": draw(st.sampled_from([{}, {"MATRIX_BUDGET": 0}, {"SCORES_BUDGET": 1}])),
        "piece": draw(st.sampled_from([3, 4096])),
    }


def scorer_of(p: dict, classifiers) -> Scorer:
    for name, value in ({"CLASSES": p["piece"]} | p["budgets"]).items():
        setattr(scoring, name, value)
    return Scorer.of_matrix(classifiers, p["rows"], seen=p["seen"], answers=p["answers"])


@pytest.fixture(autouse=True)
def restore(monkeypatch):
    for name in LIMITS:
        monkeypatch.setattr(scoring, name, LIMITS[name])


@settings(deadline=None)
@given(problems(), st.integers(1, 12), st.sampled_from([np.float32, np.float16]))
def test_the_best_equal_a_plain_sort(p, k, dtype):
    points, classifiers = whole_numbers(p["seed"], p["photos"], p["classes"])
    scorer = scorer_of(p, classifiers.astype(dtype))
    scores = scorer.scores(points)
    columns = scorer.best(scores, k)
    best, values = plain_top_k(plain_scores(points, classifiers, p["rows"], p["answers"]), k)
    assert scorer.columns[columns].tolist() == best
    assert np.take_along_axis(scores, columns, axis=1).tolist() == values and scores.dtype == np.float32


@settings(deadline=None)
@given(problems())
def test_ranks_equal_plain_counts(p):
    points, classifiers = whole_numbers(p["seed"], p["photos"], p["classes"])
    labels = np.random.default_rng(p["seed"]).choice(p["rows"], p["photos"])
    found = scorer_of(p, classifiers).ranks(points, labels)
    scores = plain_scores(points, classifiers, p["rows"], p["answers"])
    for i, label in enumerate(labels):
        true = scores[i, label]
        if true == NO:
            assert (found.greater[i], found.equal[i]) == (MISSED, 0)
            assert (found.own_greater[i], found.own_equal[i]) == (MISSED, 0)
            continue
        own = scores[i, p["seen"] == p["seen"][label]]
        assert (found.greater[i], found.equal[i]) == ((scores[i] > true).sum(), (scores[i] == true).sum() - 1)
        assert (found.own_greater[i], found.own_equal[i]) == ((own > true).sum(), (own == true).sum() - 1)
        sides = [scores[i, side].max(initial=NO) for side in (p["seen"], ~p["seen"])]
        if max(sides) > NO:
            assert found.margin[i] == sides[0] - sides[1]


def normal(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_real_numbers_agree_with_numpy():
    points, classifiers = normal(70, 1281, seed=0), normal(5000, 1281, seed=1)
    expected = points @ classifiers.T
    scores = Scorer.of_matrix(classifiers).scores(points)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-3)
    labels = np.random.default_rng(2).integers(0, 5000, 70)
    ranks = Scorer.of_matrix(classifiers).ranks(points, labels)
    true = scores[np.arange(70), labels]
    np.testing.assert_array_equal(ranks.greater, (scores > true[:, None]).sum(1))
    np.testing.assert_array_equal(ranks.equal, (scores == true[:, None]).sum(1) - 1)


def test_equal_classifiers_tie_wherever_they_stand():
    """Real numbers, so that a score rounds: every copy of a classifier must round alike."""
    classifiers = normal(9001, 1281, seed=3)
    copies = np.array([0, 7, 511, 4095, 4096, 8191, 8192, 9000])
    classifiers[copies] = classifiers[0]
    points = normal(33, 1281, seed=4)
    for n in (1, 5, 33):
        for copy in (0, 4096, 9000):
            assert (Scorer.of_matrix(classifiers).ranks(points[:n], np.full(n, copy)).equal == len(copies) - 1).all()


def test_a_photos_scores_do_not_depend_on_its_company():
    points, classifiers = normal(300, 1281, seed=5), normal(2500, 1281, seed=6)
    whole = Scorer.of_matrix(classifiers).scores(points)
    for photos in (slice(0, 1), slice(0, 7), slice(17, 90), slice(250, 300)):
        np.testing.assert_array_equal(Scorer.of_matrix(classifiers).scores(points[photos]), whole[photos])
    some = np.array([3, 700, 701, 2499])
    few = Scorer.of_matrix(classifiers, some)
    for photos in (slice(1, 17), slice(5, 21), slice(250, 300)):
        np.testing.assert_array_equal(few.scores(points[photos]), few.scores(points)[photos])
    # With so few candidates some processors' BLAS rounds differently.
    np.testing.assert_allclose(few.scores(points), whole[:, some], atol=1e-4)


def test_memory_stays_within_the_budget(monkeypatch):
    monkeypatch.setattr(scoring, "SCORES_BUDGET", 4 * 10_000 * 100)
    blocks = list(Scorer.of_matrix(np.zeros((10_000, 3), np.float32)).blocks(1000))
    assert max(block.stop - block.start for block in blocks) <= 100
    assert [blocks[0].start, blocks[-1].stop] == [0, 1000]


def test_wrong_input_is_refused():
    classifiers, points = np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)
    with pytest.raises(UnseenError, match="no candidates"):
        Scorer.of_matrix(classifiers, [0, 1]).ranks(points, [0, 1, 2, 0])
    with pytest.raises(UnseenError, match="NaN"):
        Scorer.of_matrix(classifiers).scores(np.full((1, 2), np.nan, np.float32))
    with pytest.raises(UnseenError, match="NaN"):
        Scorer.of_matrix(np.array([[1.0, np.inf]], np.float32)).scores(points)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_of_seen_photos_moves_the_odds_of_all_seen_classes(share):
    numbers = ProbabilityNumbers(1.5, 2.0, 0.2, 0.8, 2.0, 0.4, 0.3, np.geomspace(0.5, 30, 7).tolist())
    bundle = small_bundle("kin").change(calibration=CalibrationRecord(probability=numbers))
    features = np.abs(normal(4, bundle.network.num_features, seed=7))
    half, moved = (Scorer(bundle, np.flatnonzero(bundle.is_class), seen_share=one) for one in (0.5, share))
    before, after = (one.probabilities(features)[:, one.groups[0]].sum(axis=1) for one in (half, moved))
    np.testing.assert_allclose(after / (1 - after), share / (1 - share) * before / (1 - before), rtol=1e-3)
