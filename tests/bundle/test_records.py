"""What a bundle tells of how it was made: typed here, under the same keys on disk as ever."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.bundles import small_bundle
from unseen.bundle import Bundle
from unseen.bundle.records import CalibrationRecord, Holdout, Records, Validation
from unseen.errors import UnseenError

DETAILS = {  # as bundles had it before there were records, with a fact of a method's own and one of another version
    "loss": 0.25,
    "epochs": 8,
    "seconds": 0.1,
    "weights": 1754,
    "hop_weights": {"descendants": [0.4, 0.6], "ancestors": [0.5, 0.5]},
    "field": [43, 28, 3],
    "fit_peak_memory_mb": 366,
    "chosen": {"ridge": 0.5},
    "phantoms": 6,
    "of_the_future": {"a": [1]},
    "train_seconds": 3.73,
    "peak_memory_mb": 367,
    "holdout": {"classes": 3, "hit@1": 33.3, "hit@5": None},
    "text_guessed": ["pup"],
    "finetune": {
        "epochs": 3,
        "steps": 12,
        "photos": 30,
        "validation_photos": 10,
        "seconds": 0.5,
        "photos_per_s": 203.8,
        "unreadable": 1,
        "unreadable_photos": ["a.png: is damaged"],
        "processes": 1,
        "settings": {"epochs": 3},
        "seed": 0,
        "best_validation": {"accuracy": 80.0, "epoch": 1},
        "peak_memory_mb": 403,
        "empty_classes": 0,
        "skipped_classes": 2,
        "made_from": {"network": "abc"},
        "of_the_future": 1,
    },
    "calibration": {
        "seen_shift": 0.1,
        "harmonic_on_hidden": 20.0,
        "harmonic_without": 10.0,
        "hidden_classes": 3,
        "photos": 50,
        "novelty_threshold": 0.4,
        "novelty_auroc": 0.9,
    },
}


def test_every_key_has_its_field_and_comes_back():
    records = Records.from_details(DETAILS)
    assert records.fit.loss == 0.25 and records.fit.field_sizes == [43, 28, 3]
    assert records.fit.extra == {"phantoms": 6, "of_the_future": {"a": [1]}}
    assert records.training.seconds == 3.73 and records.training.holdout == Holdout(3, 33.3, None)
    assert records.finetuning.best_validation == Validation(80.0, 1) and records.finetuning.skipped_classes == 2
    assert records.finetuning.extra == {"of_the_future": 1}
    assert records.calibration.seen_shift == 0.1 and records.guessed == ["pup"]
    assert records.to_details() == DETAILS


def test_what_is_not_there_is_not_told():
    assert Records.from_details({}).to_details() == {}
    kin = {"weights": 54, "chosen": {"ridge": 0.05}, "train_seconds": 0.09, "peak_memory_mb": 395}
    assert Records.from_details(kin).to_details() == kin


def test_a_finetuning_of_an_earlier_version_is_read():
    later = {"seed", "made_from", "empty_classes", "skipped_classes", "validation_photos", "unreadable_photos"}
    earlier = {key: value for key, value in DETAILS["finetune"].items() if key not in later}
    record = Records.from_details({"finetune": earlier}).finetuning
    assert record.seed is None and record.made_from == {} and record.photos == 30


def test_they_survive_on_disk(tmp_path):
    bundle = small_bundle("structural", out=tmp_path / "b")
    file = tmp_path / "b" / "bundle.json"
    header = json.loads(file.read_text())
    header.pop("checksum")  # as earlier versions wrote it
    file.write_text(json.dumps(header | {"details": DETAILS}))
    again = Bundle.load(tmp_path / "b")
    assert again.solution.record.weights == 1754 and again.calibration.novelty_auroc == 0.9
    assert again.header()["details"] == DETAILS
    calibrated = replace(bundle, calibration=CalibrationRecord(0.5, 0.25))
    saved = Bundle.load(calibrated.save(tmp_path / "c"))
    assert saved.calibration == CalibrationRecord(0.5, 0.25) and saved.training == bundle.training


@pytest.mark.parametrize("damage", [{"holdout": 3}, {"finetune": {"epochs": 1}}, {"calibration": [1]}])
def test_damaged_ones_are_told(tmp_path, damage):
    small_bundle("structural", out=tmp_path / "b")
    file = tmp_path / "b" / "bundle.json"
    header = json.loads(file.read_text())
    header.pop("checksum")  # as earlier versions wrote it
    file.write_text(json.dumps(header | {"details": header["details"] | damage}))
    with pytest.raises(UnseenError, match=r"b is damaged \("):
        Bundle.load(tmp_path / "b")
