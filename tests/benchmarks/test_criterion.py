"""The benchmark of criteria: how looks are dealt to other classes, and ranks among lists."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from support.problems import make_hierarchy

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import criterion

    return criterion


@pytest.mark.parametrize("siblings", [True, False])
def test_looks_go_to_another_class(study, siblings):
    hierarchy = make_hierarchy()
    vectors = np.ones((len(hierarchy), 2), np.float32)
    vectors[hierarchy.index("dog")] = 0  # has no look to give
    order = study.dealt(hierarchy, vectors, siblings, seed=0)
    assert sorted(order) == list(range(len(hierarchy))) and order[hierarchy.index("dog")] == hierarchy.index("dog")
    parents = [hierarchy.parents(id)[:1] for id in hierarchy.ids]
    moved = np.flatnonzero(order != np.arange(len(order)))
    if siblings:
        assert all(parents[row] == parents[order[row]] for row in moved) and len(moved) > 2
    else:
        assert len(moved) == len(hierarchy) - 1


def test_the_first_of_a_drawn_list_is_counted_over_all_lists(study):
    for rank in range(6):
        lists = list(combinations(range(6), 2))  # which of the six others are drawn; the first `rank` are better
        expected = np.mean([min(drawn) >= rank for drawn in lists])
        assert study.first_of_drawn(np.array([rank]), 6, 3)[0] == pytest.approx(expected)
    assert study.first_of_drawn(np.array([0.0, 248.5, 249]), 348, 100).tolist() == pytest.approx([1, 0, 0], abs=1e-9)


def test_ranks_among_a_list_leave_out_photos_of_other_classes(study):
    scores = np.array([[9, 3, 5, 1], [9, 3, 5, 1], [0, 1, 1, 1.0]])
    ranks, classes = study.ranks_among(scores, np.array([1, 2, 3]), np.array([1, 0, 2]))
    assert ranks.tolist() == [1, 1] and classes.tolist() == [0, 1]
