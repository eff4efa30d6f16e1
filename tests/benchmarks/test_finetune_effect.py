"""What stage 2 does, measured on twelve classes: that the page tells what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import LISTS, TINY, write_level
from unseen_lab.tables.trainings import Trainings

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr("unseen_lab.data.authors.paper_list", lambda name: LISTS[name])
    import finetune_effect

    return finetune_effect


@pytest.fixture
def work(tmp_path) -> Trainings:
    level = write_level(tmp_path)
    return Trainings(tmp_path / "work", level, TINY, kin_vectors="glove", workers=0, show_progress=False)


@pytest.mark.slow
def test_before_and_after_are_of_the_same_classes(study, work):
    found = study.measure(work, "sgcn", 0)
    assert {key.split(",")[0] for key in found} == {"seen photos", "unseen photos"}
    assert found["seen photos, seen @1"].shape == (2, 5) and found["unseen photos, 2-hops @5"].shape == (2, 4)
    text = study.page([work], [{"sgcn": [found]}])
    row = next(line for line in text.splitlines() if line.startswith("| seen photos, seen @1 |"))
    before, after, change = (float(cell) for cell in row.split(" | ")[1:4])
    assert (before, after) == pytest.approx(found["seen photos, seen @1"].mean(axis=1), abs=0.05)
    assert change == pytest.approx(after - before, abs=0.11)
    assert "of one run" in text and "(10 photos of 5 classes)" in text
