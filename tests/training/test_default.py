"""The default model's shipped calibration belongs to the default model."""

import json

from unseen.bundle.records import CONFIDENCES
from unseen.data import data_file
from unseen.training.default import CALIBRATION, default_choices, shipped_calibration


def test_it_was_fitted_for_the_choices_of_today():
    """Another default method, network or setting needs `tools/build_calibration.py` again."""
    saved = json.loads(data_file(CALIBRATION).read_text())
    assert saved["choices"] == json.loads(json.dumps(default_choices()))
    assert saved["photos"]["classes"] == 1000 and len(saved["photos"]["sha256"]) == 64


def test_it_holds_all_that_answers_need():
    record = shipped_calibration()
    assert record.probability is not None and len(record.probability.exponents) == len(CONFIDENCES)
    seen = record.effect["seen"]
    assert seen["network_hit@1"] - seen["said@1"] <= record.harm
