"""The shortlist misses nothing: rows and scores are those of the full product, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.scoring import scorer as scoring
from unseen.scoring.scorer import Scorer
from unseen.scoring.shortlist import Shortlist, can_scan

pytestmark = pytest.mark.skipif(not can_scan(torch.device("cpu")), reason="no product with 8-bit weights")


def both(matrix, points, k, **options):
    """(rows, scores) by the full product and by the shortlist."""
    scorer = Scorer(matrix, **options)
    full = scorer.top_k(points, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "MANY", 1)
        assert scorer._takes_shortlist(len(points))
        return full, scorer.top_k(points, k)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    classes=st.sampled_from([16, 17, 100, 1000, 3000, 4097, 4100]),
    width=st.sampled_from([1, 7, 64, 321, 1281]),
    k=st.integers(1, 8),
    kind=st.sampled_from(["rows", "near ties", "ties", "tiny", "one large"]),
    shift=st.sampled_from([0.0, 0.3, -2.0]),
    half=st.booleans(),
)
def test_the_best_are_those_of_the_full_product(seed, classes, width, k, kind, shift, half):
    random = np.random.default_rng(seed)
    matrix = random.standard_normal((classes, width), dtype=np.float32)
    if kind == "near ties":
        matrix = matrix[:1] + 1e-3 * matrix
    elif kind == "ties":
        matrix = matrix[random.integers(0, min(classes, 5), classes)]
    elif kind == "tiny":
        matrix *= np.float32(10.0) ** random.integers(-30, 3, (classes, 1))
    elif kind == "one large":
        matrix[:, 0] *= 1000
    points = np.abs(random.standard_normal((3, width), dtype=np.float32))
    seen = random.random(classes) < 0.2
    matrix = matrix.astype(np.float16) if half else matrix
    full, quick = both(matrix, points, k, seen=seen, seen_shift=shift)
    np.testing.assert_array_equal(quick[0], full[0])
    np.testing.assert_array_equal(quick[1], full[1])


def test_a_matrix_that_is_not_held_gives_the_same(tmp_path):
    random = np.random.default_rng(0)
    random.standard_normal((500, 40), dtype=np.float32).astype(np.float16).tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float16, "r", shape=(500, 40))
    points = random.standard_normal((2, 40), dtype=np.float32)
    rows = random.permutation(500)[:300]
    full, quick = both(mapped, points, 5, rows=rows, matrix_budget=0)
    np.testing.assert_array_equal(quick, full)


def test_few_are_left():
    random = np.random.default_rng(0)
    matrix = torch.from_numpy(random.standard_normal((20_000, 256), dtype=np.float32))
    point = torch.from_numpy(random.standard_normal((1, 256), dtype=np.float32))
    found = Shortlist(20_000, 256, lambda part: matrix[part]).find(point, 5)
    assert 5 <= len(found) < 200
    assert set((matrix @ point[0]).topk(5).indices.tolist()) <= set(found.tolist())
