"""What stage 2 does, measured on twelve classes: that the page tells what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.tables import LISTS, TINY, write_level
from unseen.reproduction.trainings import Trainings

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr("unseen.scoring.candidates.paper_list", lambda name: LISTS[name])
    import finetune_effect

    return finetune_effect


@pytest.fixture
def work(tmp_path) -> Trainings:
    level = write_level(tmp_path)
    return Trainings(tmp_path / "work", level, TINY, kin_vectors="glove", workers=0, show_progress=False)


def test_before_and_after_are_of_the_same_classes(study, work):
    found = study.measure(work, "sgcn", 0)
    assert {key.split(",")[0] for key in found} == {"seen photos", "unseen photos"}
    assert found["seen photos, seen @1"].shape == (2, 5) and found["unseen photos, 2-hops @5"].shape == (2, 4)
    text = study.page([work], [{"sgcn": [found]}])
    row = next(line for line in text.splitlines() if line.startswith("| seen photos, seen @1 |"))
    before, after, change = (float(cell) for cell in row.split(" | ")[1:4])
    assert (before, after) == pytest.approx(found["seen photos, seen @1"].mean(axis=1), abs=0.05)
    assert change == pytest.approx(after - before, abs=0.11)
    assert "of one run" in text and "(10 photos of 5 classes)" in text and "How its settings" not in text


def test_many_rows_ask_more_of_each(study):
    """p is adjusted for the rows of a method."""
    change = np.array([[0.0] * 8, [3.0, 2.0, 4.0, 1.0, 5.0, 3.0, 2.0, 1.0]])
    alone = float(study.effects([{"a": change}])["a"][-1])
    together = study.effects([dict.fromkeys("abcd", change)])
    assert [float(cells[-1]) for cells in together.values()] == pytest.approx([4 * alone] * 4, abs=0.003)


def test_choices_of_another_network_are_not_taken_over(study, work, tmp_path):
    other = Trainings(work.work, work.level.with_parts(backbone="another"), work.lengths)
    assert study.place_of(work, *study.CHOICES[0]) != study.place_of(other, *study.CHOICES[0])
