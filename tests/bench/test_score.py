from __future__ import annotations

import torch

from unseen.bench.score import run
from unseen.scoring.scorer import Scorer


def test_it_runs():
    result = run(classes=300, width=20, photos=50, rounds=1)
    assert (result["classes"], result["photos"], result["width"]) == (300, 50, 20)
    assert result["over_matmul"] > 0


def test_the_slower_of_both_counts_and_the_best_time_of_each(clock, monkeypatch):
    monkeypatch.setattr(torch, "mm", clock.takes(2.0, 5.0))
    monkeypatch.setattr(Scorer, "top_k", clock.takes(4.0, 3.0))
    monkeypatch.setattr(Scorer, "ranks", clock.takes(2.5, 9.0))
    result = run(classes=30, width=4, photos=5, rounds=2)
    assert (result["matmul_s"], result["topk_s"], result["ranks_s"]) == (2.0, 3.0, 2.5)
    assert result["over_matmul"] == 1.5
