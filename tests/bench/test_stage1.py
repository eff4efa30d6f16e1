from __future__ import annotations

import numpy as np
import pytest

from support.graphs import random_taxonomy
from unseen.bench import stage1

FIGURES = {"full_graph_s", "receptive_field_s", "matmul_s", "speedup", "over_matmul", "max_difference", "field"}


def quick(method: str, hidden, rounds: int = 1, turn: float = 0.01) -> dict:
    sizes = {"inputs": 12, "outputs": 9, "hidden": hidden}
    seen = np.arange(150, 160)
    return stage1.run(random_taxonomy(200), seen, methods=(method,), rounds=rounds, turn=turn, **sizes)


@pytest.mark.parametrize(("method", "hidden"), [("dgp", 16), ("sgcn", 16), ("gcnz", [16, 16, 8, 8, 4])])
def test_both_ways_agree(method, hidden):
    result = quick(method, hidden)
    figures = result[method]
    assert set(figures) == FIGURES
    assert 0 < figures["max_difference"] < 1e-5
    assert result["graph"]["nodes"] == 200 and figures["field"][-1] == result["graph"]["seen"] == 10


def test_the_best_times_and_their_ratios(clock, monkeypatch):
    monkeypatch.setattr(stage1._PlainTraining, "step", clock.takes(12.0, 10.0))
    monkeypatch.setattr(stage1.Training, "step", clock.takes(2.5, 2.0))
    monkeypatch.setattr(stage1, "_products", lambda network, training: clock.takes(3.0, 1.25))
    figures = quick("sgcn", 16, rounds=2, turn=3.5)["sgcn"]
    assert (figures["full_graph_s"], figures["receptive_field_s"], figures["matmul_s"]) == (10.0, 2.0, 1.25)
    assert figures["speedup"] == 5.0
    assert figures["over_matmul"] == 1.6
