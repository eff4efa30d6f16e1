"""What a bundle records of how it was made: which network, what training took, what was calibrated and taught."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.methods.base import FitRecord
from unseen.util.settings import Record

if TYPE_CHECKING:
    from unseen.networks.base import Network
    from unseen.networks.run import OnnxNetwork


@dataclass
class NetworkInfo:
    """Which network the classifiers belong to: enough to load it again, and to see whether it is still the same."""

    name: str
    checksum: str
    num_features: int
    class_ids: list[str]  # in the order of its outputs
    layer: str | None = None  # the last linear layer, where the user named it
    transform: dict[str, Any] | None = None  # how photos are prepared
    weights: str | None = None  # the file of weights, where they are the user's own
    finetuned: bool = False
    onnx: str | None = None  # the SHA-256 of the network as an ONNX graph, where the bundle holds it
    below: dict[str, Any] | None = None  # the network under a linear layer

    @classmethod
    def of(cls, network: Network | OnnxNetwork) -> NetworkInfo:
        file, below = network.weights_file, network.below
        return cls(
            name=network.name,
            checksum=network.checksum,
            num_features=network.num_features,
            class_ids=list(network.class_ids),
            layer=getattr(network, "layer", None),
            transform=json.loads(json.dumps(network.transform.to_dict())),
            weights=str(Path(file).resolve()) if file else None,
            below=below and {"name": below.name, "checksum": below.checksum, "num_features": below.num_features},
        )


@dataclass(frozen=True)
class Holdout(Record):
    """The check on hidden seen classes: how often a class's own known classifier is found again, in per cent.

    hit@k = 100 * share of classes i with  cos(known_i, predicted_i)  among the k largest  cos(known_i, predicted_j)
    """

    classes: int  # how many were hidden
    hit_1: float | None = field(metadata={"key": "hit@1"})  # None: the method predicts none for hidden classes
    hit_5: float | None = field(metadata={"key": "hit@5"})


@dataclass(frozen=True)
class TrainingRecord(Record):
    """What stage 1 took, with loading and hold-out check; `FitRecord` has what the method itself did."""

    seconds: float | None = field(default=None, metadata={"key": "train_seconds"})  # before an interruption too
    peak_memory_mb: float | None = None  # None: unknown on this system
    holdout: Holdout | None = None


@dataclass(frozen=True)
class Validation(Record):
    """Accuracy on photos kept aside, in per cent, after an epoch."""

    accuracy: float
    epoch: int


@dataclass(frozen=True)
class FinetuneRecord(Record):
    """How stage 2 was run, and on which photos."""

    epochs: int  # that were done
    steps: int  # how often the weights were changed
    photos: int  # to learn from
    seconds: float  # before an interruption too
    photos_per_s: float
    processes: int  # that worked on it together
    settings: dict[str, Any]  # of `unseen.FinetuneSettings`
    best_validation: Validation | None
    peak_memory_mb: float | None
    validation_photos: int = 0  # kept aside
    unreadable: int = 0  # photos
    unreadable_photos: list[str] = field(default_factory=list)  # the first of them, each with its reason
    empty_classes: int = 0  # folders without a photo
    skipped_classes: int = 0  # folders of classes that are not seen ones
    seed: int | None = None
    made_from: dict[str, str] = field(default_factory=dict)  # checksums of network, classifiers and list of photos


CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""The confidences for which a calibration keeps an exponent each; between them they are interpolated."""


@dataclass(frozen=True)
class ProbabilityNumbers(Record):
    """What `unseen calibrate` learns on hidden seen classes; `unseen.answers.probability` has the formulas."""

    seen_sharpness: float  # a, the inverse temperature of the network's logits
    unseen_sharpness: float  # b, that of the method's scores in units of their spread
    climb: float  # h, the share of unseen probability that climbs up from seen classes
    gate_slope: float  # how fast the gate opens as the network's response grows
    gate_centre: float  # the response at which it is half open, but for the offset
    gate_lean: float  # weight of the method's seen/unseen log-odds in the gate
    gate_offset: float  # the balance between seen and unseen classes, as log-odds
    exponents: Sequence[float]  # for each of CONFIDENCES, how careful a verdict is
    detail: float = 0.0  # how much less probable each squared bit makes a node, where its class is unseen
    stated_slope: float = 1.0  # log-odds that are stated, of those that follow from the sums
    stated_offset: float = 0.0


@dataclass(frozen=True)
class CalibrationRecord(Record):
    """What was fitted on hidden seen classes."""

    hidden_classes: int | None = None  # seen classes that stood in for unseen ones
    photos: int | None = None  # that it was chosen on
    harm: float | None = None  # points of accuracy on seen classes that the balance may cost at most
    before_teaching: bool | None = None  # photos taught classes since: on seen classes it may cost more than `harm`
    effect: dict[str, Any] | None = None  # what it changed on the photos that it was fitted on
    probability: ProbabilityNumbers | None = None


@dataclass(frozen=True, eq=False)
class Taught:
    """What a bundle keeps of the photos a class was taught with (never the photos), and the classifier without them."""

    mean: np.ndarray  # D, float64: of the photos' features
    checksums: tuple[str, ...]  # one for each photo
    predicted: np.ndarray  # E, float32: the classifier before the first photo
    trust: float | None = None  # in that classifier; None: the method has none
    answered: bool = True  # whether the method had an answer for the class

    @property
    def photos(self) -> int:
        return len(self.checksums)

    def to_json(self, id: str) -> dict[str, Any]:
        """All but the arrays."""
        about: dict[str, Any] = {"id": id, "photos": self.photos, "checksums": list(self.checksums)}
        if self.trust is not None:
            about["trust"] = self.trust
        return about if self.answered else about | {"answered": False}


def read_details(details: Mapping[str, Any], taught: Mapping[str, np.ndarray] | None = None) -> dict[str, Any]:
    """What `write_details` gave, as fields of a bundle; `fit` is its solution's. `taught` has the arrays `mean` and
    `predicted`, a row for each taught class. Keys that this version does not know stay with `fit`."""
    rest, arrays = dict(details), taught or {}
    finetuning, calibration = rest.pop("finetune", None), rest.pop("calibration", None)
    keys = [item.metadata.get("key", item.name) for item in fields(TrainingRecord) if item.name != "extra"]
    training = {key: rest.pop(key) for key in keys if key in rest}
    rows = zip(rest.pop("taught", ()), arrays.get("mean", ()), arrays.get("predicted", ()), strict=True)
    return {
        "guessed": list(rest.pop("text_guessed", ())),
        "prior": rest.pop("prior", None),
        "taught": {
            about["id"]: Taught(mean, tuple(about["checksums"]), row, about.get("trust"), about.get("answered", True))
            for about, mean, row in rows
        },
        "training": TrainingRecord.from_json(training),
        "finetuning": None if finetuning is None else FinetuneRecord.from_json(finetuning),
        "calibration": None if calibration is None else CalibrationRecord.from_json(calibration),
        "fit": FitRecord.from_json(rest),
    }


def write_details(fit: FitRecord, bundle: Any) -> dict[str, Any]:
    """All records as JSON; what a bundle does not have is left out."""
    details = {
        "text_guessed": bundle.guessed,
        "finetune": bundle.finetuning and bundle.finetuning.to_json(),
        "calibration": bundle.calibration and bundle.calibration.to_json(),
        "prior": bundle.prior,
        "taught": [taught.to_json(id) for id, taught in bundle.taught.items()],
    }
    return fit.to_json() | bundle.training.to_json() | {key: part for key, part in details.items() if part}
