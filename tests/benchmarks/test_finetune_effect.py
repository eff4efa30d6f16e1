"""What stage 2 does, measured on twelve classes: that the page tells what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
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


def test_trials_stand_on_the_page_network_by_network(study, work):
    trials = [
        {"network": network, "method": "dgp", "settings": {"freeze_stages": -1, "epochs": 3, "learning_rate": rate},
         "before": {"known": 40.0, "other": 41.0}, "after": {"known": 40.0 + rate, "other": 42.0}}
        for network, rate in (("b", 3.0), ("a", 0.5), ("b", 0.25))
    ]  # fmt: skip
    works = [replace(work, work=work.work / name, level=work.level.with_parts(backbone=name)) for name in "ab"]
    for number, trial in enumerate(trials):
        place = work.work / trial["network"] / "choices" / f"{number}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(trial))
    rows = [line.split(" | ") for line in study.choices_told(works) if "last stage" in line]
    assert [(row[0], row[4], row[6]) for row in rows] == [
        ("| a", "0.5", "40.5"), ("| b", "0.25", "40.2"), ("| b", "3", "43.0")
    ]  # fmt: skip
