"""Top-k and ranks against a plain product and sort, photo by photo, with ties, masks, shifts and any block size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.errors import UnseenError
from unseen.scoring import scorer as scoring
from unseen.scoring.scorer import MISSED, Scorer

NO = -np.inf


def whole_numbers(seed: int, photos: int, classes: int, width: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Points and classifiers of small whole numbers: products are exact in float32, and ties abound."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((photos, width), (classes, width)))


def plain_scores(points, classifiers, rows, seen, shift, answers) -> np.ndarray:
    """Scores over all classes; -inf for those that are no candidates or have no answer."""
    scores = points.astype(float) @ classifiers.astype(float).T - shift * seen
    allowed = np.zeros(len(classifiers), bool)
    allowed[rows] = True
    return np.where(allowed & answers, scores, NO)


def plain_top_k(scores: np.ndarray, k: int) -> tuple[list, list]:
    """By Python's own stable sort: best score first, then lowest row."""
    order = [sorted((c for c in range(len(row)) if row[c] > NO), key=lambda c: -row[c])[:k] for row in scores]
    found = [[row[c] for c in best] for row, best in zip(scores, order, strict=True)]
    return [o + [-1] * (k - len(o)) for o in order], [f + [NO] * (k - len(f)) for f in found]


@st.composite
def problems(draw):
    """Sizes, candidates, seen classes, a shift, answers, and budgets so small that they force many blocks."""
    seed, photos, classes = draw(st.integers(0, 10**6)), draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(seed)
    rows = rng.permutation(classes)[: draw(st.integers(1, classes))]
    return {
        "seed": seed,
        "photos": photos,
        "classes": classes,
        "rows": rows,
        "seen": rng.random(classes) < draw(st.sampled_from([0, 0.3, 1])),
        "shift": draw(st.sampled_from([0.0, 1.0, -2.5, 100.0])),
        "answers": rng.random(classes) < draw(st.sampled_from([1.0, 0.7, 0.0])),
        "budgets": draw(st.sampled_from([{}, {"matrix_budget": 0}, {"scores_budget": 1}])),
        "piece": draw(st.sampled_from([3, 4096])),
        "depth": draw(st.sampled_from([1, 3, 320])),
    }


def scorer_of(p: dict, classifiers) -> Scorer:
    return Scorer(
        classifiers, p["rows"], seen=p["seen"], seen_shift=p["shift"], answers=p["answers"], **p["budgets"]
    )  # fmt: skip


@pytest.fixture(autouse=True)
def restore():
    before = scoring.CLASSES, scoring.DEPTH
    yield
    scoring.CLASSES, scoring.DEPTH = before


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(1, 12), st.sampled_from([np.float32, np.float16]))
def test_top_k_equals_a_plain_sort(p, k, dtype):
    scoring.CLASSES, scoring.DEPTH = p["piece"], p["depth"]
    points, classifiers = whole_numbers(p["seed"], p["photos"], p["classes"])
    rows, scores = scorer_of(p, classifiers.astype(dtype)).top_k(points, k)
    expected = plain_scores(points, classifiers, p["rows"], p["seen"], p["shift"], p["answers"])
    best, values = plain_top_k(expected, k)
    assert rows.tolist() == best
    assert scores.tolist() == values
    assert rows.dtype == np.int64 and scores.dtype == np.float32


@settings(max_examples=150, deadline=None)
@given(problems())
def test_ranks_equal_plain_counts(p):
    scoring.CLASSES, scoring.DEPTH = p["piece"], p["depth"]
    points, classifiers = whole_numbers(p["seed"], p["photos"], p["classes"])
    labels = np.random.default_rng(p["seed"]).choice(p["rows"], p["photos"])
    found = scorer_of(p, classifiers).generalised_ranks(points, labels)
    scores = plain_scores(points, classifiers, p["rows"], p["seen"], p["shift"], p["answers"])
    unshifted = plain_scores(points, classifiers, p["rows"], p["seen"], 0.0, p["answers"])
    for i, label in enumerate(labels):
        true = scores[i, label]
        if true == NO:
            assert (found.greater[i], found.equal[i], found.score[i]) == (MISSED, 0, NO)
            assert (found.own_greater[i], found.own_equal[i]) == (MISSED, 0)
            continue
        own = scores[i, p["seen"] == p["seen"][label]]
        assert (found.greater[i], found.equal[i]) == ((scores[i] > true).sum(), (scores[i] == true).sum() - 1)
        assert (found.own_greater[i], found.own_equal[i]) == ((own > true).sum(), (own == true).sum() - 1)
        assert found.score[i] == unshifted[i, label]
        sides = [unshifted[i, side].max(initial=NO) for side in (p["seen"], ~p["seen"])]
        if max(sides) > NO:
            assert found.margin[i] == sides[0] - sides[1]
    plain = scorer_of(p, classifiers).ranks(points, labels)
    np.testing.assert_array_equal(plain.greater, found.greater)
    np.testing.assert_array_equal(plain.equal, found.equal)


def normal(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_real_numbers_agree_with_numpy():
    points, classifiers = normal(70, 1281, seed=0), normal(5000, 1281, seed=1)
    expected = points @ classifiers.T
    scores = Scorer(classifiers).scores(points)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-3)
    rows, best = Scorer(classifiers).top_k(points, 10)
    np.testing.assert_array_equal(rows, np.argsort(-expected, axis=1)[:, :10])
    np.testing.assert_array_equal(best, -np.sort(-scores, axis=1)[:, :10])
    labels = np.random.default_rng(2).integers(0, 5000, 70)
    ranks = Scorer(classifiers).ranks(points, labels)
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
            assert (Scorer(classifiers).ranks(points[:n], np.full(n, copy)).equal == len(copies) - 1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_photos_scores_do_not_depend_on_its_company(threads):
    points, classifiers = normal(300, 1281, seed=5), normal(2500, 1281, seed=6)
    whole = Scorer(classifiers).scores(points)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for photos in (slice(0, 1), slice(0, 7), slice(17, 90), slice(250, 300)):
            np.testing.assert_array_equal(Scorer(classifiers).scores(points[photos]), whole[photos])
        some = np.array([3, 700, 701, 2499])
        # With so few candidates some processors' BLAS rounds differently.
        np.testing.assert_allclose(Scorer(classifiers, some).scores(points), whole[:, some], atol=1e-4)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 4])
def test_memory_stays_within_the_budget(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    scorer = Scorer(np.zeros((10_000, 3), np.float32), scores_budget=4 * 10_000 * 100)
    sizes = []
    try:
        scorer._for_blocks(np.zeros((1000, 3), np.float32), lambda block, scores: sizes.append(scores.numel()))
    finally:
        torch.set_num_threads(before)
    assert max(sizes) * threads <= 10_000 * 100
    assert sum(sizes) == 10_000 * 1000
    assert sum(buffer.numel() for buffer in scorer._buffers) <= 10_000 * 100


def test_any_matrix_will_do(tmp_path):
    """A tensor, float16 in a read-only file, and one that is gathered piece by piece."""
    points, classifiers = whole_numbers(3, 5, 50)
    np.save(tmp_path / "classes.npy", classifiers.astype(np.float16))
    mapped = np.load(tmp_path / "classes.npy", mmap_mode="r")
    rows, scores = plain_top_k(points @ classifiers.T, 4)
    for scorer in (Scorer(torch.from_numpy(classifiers)), Scorer(mapped), Scorer(mapped, matrix_budget=0)):
        found = scorer.top_k(points, 4)
        np.testing.assert_array_equal(found[0], rows)
        np.testing.assert_array_equal(found[1], scores)


def test_no_photos():
    scorer = Scorer(np.ones((3, 2), np.float32))
    rows, scores = scorer.top_k(np.zeros((0, 2), np.float32), 2)
    assert rows.shape == scores.shape == (0, 2)
    assert scorer.ranks(np.zeros((0, 2), np.float32), np.zeros(0, int)).greater.shape == (0,)


def test_wrong_input_is_refused():
    classifiers = np.ones((3, 2), np.float32)
    points = np.ones((4, 2), np.float32)
    with pytest.raises(UnseenError, match="no candidates"):
        Scorer(classifiers, [0, 1]).ranks(points, [0, 1, 2, 0])
    with pytest.raises(UnseenError, match="from 0 to 2"):
        Scorer(classifiers, [0, 3])
    with pytest.raises(UnseenError, match="NaN"):
        Scorer(classifiers).top_k(np.full((1, 2), np.nan, np.float32), 1)
    with pytest.raises(UnseenError, match="NaN"):
        Scorer(np.array([[1.0, np.inf]], np.float32))
    with pytest.raises(UnseenError, match=r"\(photos, 2\)"):
        Scorer(classifiers).top_k(np.ones((4, 3), np.float32), 1)
    with pytest.raises(UnseenError, match="1 or more"):
        Scorer(classifiers).top_k(points, 0)
