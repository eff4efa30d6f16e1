"""What a bundle tells of how it was made: saved together as `details` of its bundle.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unseen.methods.records import FitRecord
from unseen.runtime.records import Record


@dataclass(frozen=True)
class Holdout(Record):
    """The check on hidden seen classes: how often a class's own known classifier is found again, in per cent.

    `hit_1` and `hit_5` are None where the method predicts no classifiers for hidden classes.
    """

    classes: int
    hit_1: float | None = field(metadata={"key": "hit@1"})
    hit_5: float | None = field(metadata={"key": "hit@5"})


@dataclass(frozen=True)
class TrainingRecord(Record):
    """What stage 1 took, with loading and hold-out check; `unseen.FitRecord` tells what the method itself did."""

    seconds: float | None = field(default=None, metadata={"key": "train_seconds"})
    peak_memory_mb: float | None = None
    holdout: Holdout | None = field(default=None, metadata={"record": Holdout})


@dataclass(frozen=True)
class Validation(Record):
    """Accuracy on photos kept aside, in per cent, after an epoch."""

    accuracy: float
    epoch: int


@dataclass(frozen=True)
class FinetuneRecord(Record):
    """Stage 2: how it was run and what it saw."""

    epochs: int
    steps: int
    photos: int
    seconds: float  # before an interruption too
    photos_per_s: float
    processes: int
    settings: dict[str, Any]  # of FinetuneSettings
    best_validation: Validation | None = field(metadata={"record": Validation})
    peak_memory_mb: float | None  # None where the system does not tell
    validation_photos: int = 0
    unreadable: int = 0
    unreadable_photos: list[str] = field(default_factory=list)  # the first of them, each with its reason
    empty_classes: int = 0
    skipped_classes: int = 0
    seed: int | None = None
    made_from: dict[str, str] = field(default_factory=dict)  # checksums of network, classifiers and list of photos


@dataclass(frozen=True)
class CalibrationRecord(Record):
    """What was chosen on hidden seen classes."""

    seen_shift: float
    novelty_threshold: float
    harmonic_on_hidden: float | None = None
    harmonic_without: float | None = None
    hidden_classes: int | None = None
    photos: int | None = None
    novelty_auroc: float | None = None


@dataclass(frozen=True)
class Records:
    """All that `details` holds."""

    fit: FitRecord
    training: TrainingRecord
    finetuning: FinetuneRecord | None
    calibration: CalibrationRecord | None
    guessed: list[str]

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> Records:
        """What `to_details` gave; what this version does not know stays among the method's own facts."""
        rest = dict(details)
        finetuning, calibration = rest.pop("finetune", None), rest.pop("calibration", None)
        training = {key: rest.pop(key) for key in ("train_seconds", "peak_memory_mb", "holdout") if key in rest}
        return cls(
            guessed=list(rest.pop("text_guessed", ())),
            training=TrainingRecord.from_json(training),
            finetuning=None if finetuning is None else FinetuneRecord.from_json(finetuning),
            calibration=None if calibration is None else CalibrationRecord.from_json(calibration),
            fit=FitRecord.from_json(rest),
        )

    def to_details(self) -> dict[str, Any]:
        details = self.fit.to_json() | self.training.to_json()
        if self.guessed:
            details["text_guessed"] = self.guessed
        if self.finetuning is not None:
            details["finetune"] = self.finetuning.to_json()
        if self.calibration is not None:
            details["calibration"] = self.calibration.to_json()
        return details
