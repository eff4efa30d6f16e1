"""What a bundle tells of how it was made: saved together as `details` of its bundle.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from unseen.methods.records import FitRecord
from unseen.probability.numbers import ProbabilityNumbers
from unseen.runtime.records import Record


@dataclass(frozen=True)
class Holdout(Record):
    """The check on hidden seen classes: how often a class's own known classifier is found again.

        hit@k = 100 * share of classes i with  cos(known_i, predicted_i)  among the k largest  cos(known_i, predicted_j)

    Args:
        classes: How many were hidden.
        hit_1: Hit@1 in per cent; None where the method predicts no classifiers for hidden classes.
        hit_5: Hit@5 likewise.

    >>> import unseen
    >>> unseen.Holdout(classes=10, hit_1=40.0, hit_5=90.0).to_json()
    {'classes': 10, 'hit@1': 40.0, 'hit@5': 90.0}
    """

    classes: int
    hit_1: float | None = field(metadata={"key": "hit@1"})
    hit_5: float | None = field(metadata={"key": "hit@5"})


@dataclass(frozen=True)
class PhotoCheck(Record):
    """The network's own accuracy on a few photos of its classes: whether they reach it as it expects them."""

    photos: int
    classes: int
    accuracy: float  # per cent
    expected: float  # per cent: the mean of the network's confidence in its choice
    unreadable: int = 0
    better: dict[str, Any] | None = None  # a transform with which it is clearly more often right
    better_accuracy: float | None = None


@dataclass(frozen=True)
class TrainingRecord(Record):
    """What stage 1 took, with loading and hold-out check; `unseen.FitRecord` tells what the method itself did.

    Args:
        seconds: Wall-clock time, before an interruption too.
        peak_memory_mb: The most memory held; None where the system does not tell.
        holdout: The check on hidden seen classes, if one was asked for.
        photo_check: The network's accuracy on labelled photos, if some were given.

    >>> import unseen
    >>> saved = {"train_seconds": 1.5, "holdout": {"classes": 10, "hit@1": 40.0, "hit@5": 90.0}}
    >>> record = unseen.TrainingRecord.from_json(saved)
    >>> record.seconds, record.holdout.hit_1
    (1.5, 40.0)
    """

    seconds: float | None = field(default=None, metadata={"key": "train_seconds"})
    peak_memory_mb: float | None = None
    holdout: Holdout | None = field(default=None, metadata={"record": Holdout})
    photo_check: PhotoCheck | None = field(default=None, metadata={"record": PhotoCheck})


@dataclass(frozen=True)
class Validation(Record):
    """Accuracy on photos kept aside, in per cent, after an epoch."""

    accuracy: float
    epoch: int


@dataclass(frozen=True)
class FinetuneRecord(Record):
    """Stage 2: how it was run and what it saw.

    Args:
        epochs: How many were done.
        steps: How often the weights were changed.
        photos: How many there were to learn from.
        seconds: Wall-clock time, before an interruption too.
        photos_per_s: How fast they were learned from.
        processes: How many worked on it together.
        settings: Those of `unseen.FinetuneSettings`.
        best_validation: The best accuracy on the photos kept aside, and after which epoch; None without such photos.
        peak_memory_mb: The most memory held; None where the system does not tell.
        validation_photos: How many were kept aside.
        unreadable: How many photos could not be read.
        unreadable_photos: The first of them, each with its reason.
        empty_classes: Folders without a photo.
        skipped_classes: Folders of classes that are not seen ones.
        seed: From which all chance followed.
        made_from: Checksums of network, classifiers and list of photos.

    >>> import unseen
    >>> record = unseen.FinetuneRecord(
    ...     epochs=2, steps=8, photos=256, seconds=16.0, photos_per_s=32.0, processes=1, settings={"batch": 64},
    ...     best_validation=None, peak_memory_mb=None,
    ... )
    >>> unseen.FinetuneRecord.from_json(record.to_json()) == record
    True
    """

    epochs: int
    steps: int
    photos: int
    seconds: float
    photos_per_s: float
    processes: int
    settings: dict[str, Any]
    best_validation: Validation | None = field(metadata={"record": Validation})
    peak_memory_mb: float | None
    validation_photos: int = 0
    unreadable: int = 0
    unreadable_photos: list[str] = field(default_factory=list)
    empty_classes: int = 0
    skipped_classes: int = 0
    seed: int | None = None
    made_from: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CalibrationRecord(Record):
    """What was chosen on hidden seen classes.

        score of class u = projection(f) . classifiers[u] - seen_shift [u is seen]
        the photo shows a seen class where  max over c of softmax(W f + b)_c >= novelty_threshold

    Args:
        seen_shift: What is taken off the scores of seen classes.
        novelty_threshold: Of the network's confidence over its own classes, 0..1.
        harmonic_on_hidden: Harmonic mean of seen and hidden accuracy in per cent, with the shift.
        harmonic_without: The same without it.
        hidden_classes: How many seen classes played the unseen ones.
        photos: How many photos it was chosen on.
        novelty_auroc: How well confidence tells hidden classes from the others, 0.5 (not at all) to 1.
        harm: The points of accuracy on seen classes that the balance may cost at most.
        effect: What it changed on the photos that it was fitted on.
        probability: What turns scores into probabilities.

    >>> import unseen
    >>> record = unseen.CalibrationRecord(seen_shift=0.25, novelty_threshold=0.5, hidden_classes=200)
    >>> record.to_json()
    {'seen_shift': 0.25, 'novelty_threshold': 0.5, 'hidden_classes': 200}
    """

    seen_shift: float
    novelty_threshold: float
    harmonic_on_hidden: float | None = None
    harmonic_without: float | None = None
    hidden_classes: int | None = None
    photos: int | None = None
    novelty_auroc: float | None = None
    harm: float | None = None
    effect: dict[str, Any] | None = None
    probability: ProbabilityNumbers | None = field(default=None, metadata={"record": ProbabilityNumbers})


@dataclass(frozen=True)
class TaughtRecord(Record):
    """A class that was taught with photos, without the arrays that are kept of them."""

    id: str
    photos: int
    checksums: list[str]
    trust: float | None = None  # before the first photo
    answered: bool | None = None  # False: the method had no answer for it


@dataclass(frozen=True)
class Records:
    """All that `details` holds."""

    fit: FitRecord
    training: TrainingRecord
    finetuning: FinetuneRecord | None
    calibration: CalibrationRecord | None
    guessed: list[str]
    taught: list[TaughtRecord] = field(default_factory=list)

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> Records:
        """What `to_details` gave; what this version does not know stays among the method's own facts."""
        rest = dict(details)
        finetuning, calibration = rest.pop("finetune", None), rest.pop("calibration", None)
        keys = [item.metadata.get("key", item.name) for item in fields(TrainingRecord) if item.name != "extra"]
        training = {key: rest.pop(key) for key in keys if key in rest}
        return cls(
            guessed=list(rest.pop("text_guessed", ())),
            taught=[TaughtRecord.from_json(saved) for saved in rest.pop("taught", ())],
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
        if self.taught:
            details["taught"] = [record.to_json() for record in self.taught]
        return details
