from __future__ import annotations

import pytest

from unseen.bench import finetune


@pytest.mark.slow
def test_it_runs():
    result = finetune.run(batch=2, steps=1, rounds=1, workers=0)
    assert (result["batch"], result["workers"]) == (2, 0)
    assert all(result[key] > 0 for key in ("loop_photos_per_s", "bare_photos_per_s", "ratio"))


def test_the_best_round_of_each_counts(clock, monkeypatch):
    """Ten photos: 5 s of the loop, 4 s of the bare steps."""
    monkeypatch.setattr(finetune.Stage2, "train", clock.takes(8.0, 5.0))
    monkeypatch.setattr(finetune._BareStep, "step", clock.takes(1.0, 2.0))  # one before the rounds
    result = finetune.run(batch=5, steps=2, rounds=2, workers=0)
    assert (result["loop_photos_per_s"], result["bare_photos_per_s"], result["ratio"]) == (2.0, 3.33, 0.6)
