"""Metrics against plain implementations that share no code with them: permutations of ties, sweeps over shifts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.answers.scores import MISSED
from unseen.evaluation import metrics
from unseen.evaluation.metrics import SeenUnseenCurve, average_hits, class_hits, harmonic_mean, hits, ranking_area
from unseen.util.errors import UnseenError


def counts(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(greater, equal) photo by photo, in plain Python."""
    greater, equal = [], []
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        greater.append(sum(score > row[label] for score in row))
        equal.append(sum(score == row[label] for score in row) - 1)
    return np.array(greater), np.array(equal)


def plain_hit(row: list[float], label: int, k: int, ties: str) -> float:
    """Hit@k of one photo from all orders of its candidates that sort the scores, each as likely."""
    groups = [
        list(group) for _, group in itertools.groupby(sorted(range(len(row)), key=lambda c: -row[c]), lambda c: row[c])
    ]
    orders = [sum(order, ()) for order in itertools.product(*(itertools.permutations(group) for group in groups))]
    found = [label in order[:k] for order in orders]
    return {"realistic": sum(found) / len(found), "optimistic": max(found), "pessimistic": min(found)}[ties]


@st.composite
def scored_photos(draw, classes=5, levels=3):
    """Scores of a few levels only, so that ties abound, and labels."""
    photos = draw(st.integers(1, 8))
    level = st.integers(0, levels - 1)
    scores = draw(st.lists(st.lists(level, min_size=classes, max_size=classes), min_size=photos, max_size=photos))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=photos, max_size=photos))
    return np.array(scores, float), np.array(labels)


@settings(deadline=None)
@given(scored_photos(), st.integers(1, 6), st.sampled_from(metrics.TIES))
def test_hits_equal_the_average_over_all_orders_of_the_ties(photos, k, ties):
    scores, labels = photos
    expected = [plain_hit(row, label, k, ties) for row, label in zip(scores.tolist(), labels.tolist(), strict=True)]
    np.testing.assert_allclose(hits(*counts(scores, labels), k, ties), expected, atol=1e-12)


@settings(deadline=None)
@given(scored_photos(), st.sampled_from(metrics.TIES))
def test_averages_equal_plain_loops(photos, ties):
    scores, labels = photos
    ks = (1, 2, 3)
    classes, photos_of, sums = class_hits(labels, *counts(scores, labels), ks, ties)
    averages = average_hits(photos_of, sums, ks)
    assert classes.tolist() == sorted(set(labels.tolist())) and photos_of.sum() == len(labels)
    for place, k in enumerate(ks):
        each = [plain_hit(row, label, k, ties) for row, label in zip(scores.tolist(), labels.tolist(), strict=True)]
        by_class = [np.mean([hit for hit, of in zip(each, labels, strict=True) if of == c]) for c in classes]
        assert averages["image"][f"hit@{k}"] == pytest.approx(100 * np.mean(each), abs=0.006)
        assert averages["class"][f"hit@{k}"] == pytest.approx(100 * np.mean(by_class), abs=0.006)
        assert (sums[:, place] / photos_of).tolist() == pytest.approx(by_class, abs=1e-12)


def test_hits_agree_with_scikit_learn():
    from sklearn.metrics import balanced_accuracy_score, top_k_accuracy_score

    rng = np.random.default_rng(0)
    scores, labels = (
        rng.normal(size=(500, 30)),
        rng.integers(0, 30, 500),
    )  # no ties: scikit-learn breaks them by position
    _, photos, sums = class_hits(labels, *counts(scores, labels))
    averages = average_hits(photos, sums, metrics.KS)
    for k in metrics.KS:
        expected = 100 * top_k_accuracy_score(labels, scores, k=k, labels=range(30))
        assert averages["image"][f"hit@{k}"] == pytest.approx(expected, abs=0.006)
    expected = 100 * balanced_accuracy_score(labels, scores.argmax(1))
    assert averages["class"]["hit@1"] == pytest.approx(expected, abs=0.006)


def test_a_miss_is_a_miss_at_any_k():
    for ties in metrics.TIES:
        assert hits(np.array([MISSED]), np.array([0]), 10**9, ties) == 0


def test_wrong_settings_are_refused():
    with pytest.raises(UnseenError, match="realistic, optimistic, pessimistic"):
        hits([0], [0], 1, ties="fair")
    with pytest.raises(UnseenError, match="1 or more"):
        class_hits([0], [0], [0], ks=(0, 1))
    with pytest.raises(UnseenError, match="'class'"):
        SeenUnseenCurve([True, False], [0], [0.0], [1]).at(0.0, "classes")


def test_harmonic_mean():
    assert harmonic_mean(40.0, 60.0) == pytest.approx(48.0)
    assert harmonic_mean(0.0, 0.0) == 0.0
    assert harmonic_mean(None, 3.0) is None


def test_ranking_area_is_scikit_learns_auroc():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(2)
    high, low = rng.integers(0, 20, 300), rng.integers(-5, 15, 200)  # many ties
    expected = roc_auc_score(np.repeat([1, 0], [300, 200]), np.concatenate([high, low]))
    assert ranking_area(high, low) == pytest.approx(expected, abs=1e-12)


# -- the seen-unseen curve -----------------------------------------------------------------------------------------

IS_SEEN = np.array([True, True, True, False, False])


def swept(scores: np.ndarray, labels: np.ndarray, average: str) -> tuple[float, float]:
    """(AUSUC, best harmonic mean) by trying a shift on either side of every margin: no formula, argmax only."""
    margins = np.unique(scores[:, IS_SEEN].max(1) - scores[:, ~IS_SEEN].max(1))
    shifts = np.concatenate([[-1e3], np.sort(np.concatenate([margins - 1e-4, margins + 1e-4])), [1e3]])
    points = []
    for shift in shifts:
        right = (scores - shift * IS_SEEN).argmax(1) == labels
        points.append([accuracy(right, labels, group, average) for group in (IS_SEEN, ~IS_SEEN)])
    seen, unseen = np.array(points).T
    return float(np.trapezoid(seen, unseen)), float(max(harmonic_mean(100 * s, 100 * u) for s, u in points))


def accuracy(right: np.ndarray, labels: np.ndarray, group: np.ndarray, average: str) -> float:
    if average == "image":
        return right[group[labels]].mean()
    return np.mean([right[labels == c].mean() for c in np.flatnonzero(group) if (labels == c).any()])


def curve_of(scores: np.ndarray, labels: np.ndarray) -> SeenUnseenCurve:
    own = np.where(IS_SEEN[labels][:, None] == IS_SEEN, scores, -np.inf)
    right = own.argmax(1) == labels
    curve = SeenUnseenCurve(IS_SEEN, labels, scores[:, IS_SEEN].max(1) - scores[:, ~IS_SEEN].max(1), right)
    return curve


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["image", "class"]), st.booleans())
def test_area_equals_a_sweep_over_all_shifts(seed, average, coarse):
    rng = np.random.default_rng(seed)
    photos = int(rng.integers(2, 40))
    scores = rng.normal(size=(photos, 5)).round(3)
    if coarse:  # whole numbers, no ties within a group: seen and unseen photos share their margins
        scores[:, :3] = rng.permuted(np.tile(np.arange(3), (photos, 1)), axis=1)
        scores[:, 3:] = rng.permuted(np.tile(np.arange(2), (photos, 1)), axis=1) + rng.integers(-2, 3, (photos, 1))
    labels = np.concatenate([[0, 3], rng.integers(0, 5, photos - 2)])
    area, best = swept(scores, labels, average)
    curve = curve_of(scores, labels)
    assert curve.area(average) == pytest.approx(area, abs=1e-6)
    best = max(best, curve.at(0, average).harmonic)  # where a margin is just 0, ties there count half
    assert curve.best(average).harmonic == pytest.approx(best, abs=1e-6)


def test_equal_margins_count_half():
    curve = SeenUnseenCurve([True, False], [0, 1], [0.5, 0.5], [1, 1])
    assert curve.area() == 0.5
    at = curve.at(0.5)
    assert (at.seen, at.unseen) == (50.0, 50.0)


def test_points_of_the_curve():
    curve = SeenUnseenCurve(IS_SEEN, [0, 0, 1, 3], [1.0, 2.0, -1.0, 0.0], [1, 0, 1, 1])
    assert [(p.seen, p.unseen) for p in (curve.at(-2, "class"), curve.at(0.5, "class"), curve.at(9, "class"))] == [
        (75, 0),
        (25, 100),
        (0, 100),
    ]
    assert curve.at(-2, "image").seen == pytest.approx(200 / 3)
    shifts, seen, unseen = curve.curve("class")
    for shift, s, u in zip(shifts, seen, unseen, strict=True):
        assert (curve.at(shift).seen, curve.at(shift).unseen) == pytest.approx((s, u))
    assert (seen[0], unseen[0], seen[-1], unseen[-1]) == (75, 0, 0, 100)


@pytest.mark.parametrize("margins", [[1.0, -9.0], [0.1, -7.0], [3.0, 0.0]])
def test_nothing_is_shifted_unless_that_is_better(margins):
    """The seen photo's margin is above 0 and the unseen one's below: no shift is as good as any between them."""
    curve = SeenUnseenCurve([True, False], [0, 1], margins, [1, 1])
    assert curve.best().harmonic == 100
    assert (curve.best().shift == 0) == (0 not in margins)


def test_the_order_of_photos_does_not_matter():
    rng = np.random.default_rng(3)
    labels, margins, right = rng.integers(0, 5, 999), rng.normal(size=999), rng.integers(0, 3, 999) / 3
    order = rng.permutation(999)
    one, other = (
        SeenUnseenCurve(IS_SEEN, labels, margins, right),
        SeenUnseenCurve(IS_SEEN, labels[order], margins[order], right[order]),
    )
    for average in ("image", "class"):
        assert one.area(average) == other.area(average) and one.best(average) == other.best(average)


def test_a_model_without_answers_for_unseen_classes():
    curve = SeenUnseenCurve([True, False], [0, 0, 1], [np.inf, np.inf, np.inf], [1, 0, 0])
    assert curve.area() == 0
    best = curve.best()
    assert (best.seen, best.unseen, best.harmonic) == (50, 0, 0)
    assert np.isfinite(best.shift)


def test_no_curve_from_one_side_only():
    curve = SeenUnseenCurve([True, False], [0], [1.0], [1])
    assert curve.area() is None
