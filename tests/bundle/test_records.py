"""What a bundle records of how it was made: typed here, under the keys of the JSON output."""

from __future__ import annotations

from types import SimpleNamespace

from unseen.bundle.records import Holdout, Validation, read_details, write_details

DETAILS = {  # with a fact of a method's own and one of another version
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
        "hidden_classes": 3,
        "photos": 50,
    },
}


def test_every_key_has_its_field_and_comes_back():
    records = SimpleNamespace(**read_details(DETAILS))
    assert records.fit.loss == 0.25 and records.fit.field_sizes == [43, 28, 3]
    assert records.fit.extra == {"phantoms": 6, "of_the_future": {"a": [1]}}
    assert records.training.seconds == 3.73 and records.training.holdout == Holdout(3, 33.3, None)
    assert records.finetuning.best_validation == Validation(80.0, 1) and records.finetuning.skipped_classes == 2
    assert records.finetuning.extra == {"of_the_future": 1}
    assert records.calibration.hidden_classes == 3 and records.guessed == ["pup"]
    assert write_details(records.fit, records) == DETAILS
