"""How stage 1, stage 2 and calibration are run: defaults, limits and help, for Python and for the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from unseen.util.errors import UnseenError
from unseen.util.settings import AT_LEAST_1, BELOW_1, NOT_NEGATIVE, POINTS, POSITIVE, SHARE, check_settings


@dataclass(frozen=True)
class TrainSettings:
    """How `unseen.train` is run; the settings of a method are its own.

    Args:
        holdout: Share of seen classes to hide, for a check without photos.
        precision: How classifiers are stored: fp32 or fp16.
        skip_missing: Leave out seen classes that the hierarchy lacks.
        features: For methods that learn from photos: a feature store, or .npz with features and labels.
    """

    holdout: Annotated[float, BELOW_1] = 0.0
    precision: Literal["fp32", "fp16"] = "fp32"
    skip_missing: bool = False
    features: Any = None  # a path, or SeenFeatures

    def __post_init__(self) -> None:
        check_settings("training", self)


@dataclass(frozen=True)
class CalibrateSettings:
    """How `unseen.Model.calibrate` is run.

    Args:
        holdout: Share of seen classes to hide.
        harm: Points of accuracy that photos of seen classes may lose against the network alone.
        reach: Per cent of photos of hidden classes that must get their class first, whatever it costs; instead of harm.
        fresh: The network was not trained on these photos, however well it knows them.
    """

    holdout: Annotated[float, SHARE] = 0.2
    harm: Annotated[float, POINTS] = 5.0
    reach: Annotated[float | None, POINTS] = None
    fresh: bool = False

    def __post_init__(self) -> None:
        check_settings("calibration", self)


@dataclass(frozen=True)
class FinetuneSettings:
    """How stage 2 is run; by default as in the paper: SGD 1e-4 with momentum 0.9 for 20 epochs.

        cosine schedule:  rate at step t of T = learning_rate (1 + cos(pi t / T)) / 2

    Args:
        epochs: Passes over the photos.
        learning_rate: Learning rate of SGD.
        momentum: Momentum of SGD.
        scale: Factor of the logits in the loss: 1 is the paper's, 3 suits a few thousand photos.
        weight_decay: Weight decay of SGD.
        batch: Photos a batch, for one process.
        accumulate: Batches a step.
        schedule: constant (the paper's) or cosine.
        freeze_batch_norm: Leave batch normalisation as it is, its running means and variances too.
        freeze_stages: How many of the network's first stages to leave as they are; -1: all but the last one.
        mixed_precision: Half precision where CUDA has it.
        validation: Share of each class's photos to keep aside.
        patience: Early stopping: epochs without improvement before stopping (0: off); keeps the best weights.

    >>> import unseen
    >>> settings = unseen.FinetuneSettings(epochs=5, learning_rate=0.01, schedule="cosine")
    >>> [round(settings.learning_rate_at(step, total=4), 4) for step in range(4)]
    [0.01, 0.0085, 0.005, 0.0015]
    """

    epochs: Annotated[int, AT_LEAST_1] = 20
    learning_rate: Annotated[float, POSITIVE] = 1e-4
    momentum: Annotated[float, BELOW_1] = 0.9
    scale: Annotated[float, POSITIVE] = 1.0
    weight_decay: Annotated[float, NOT_NEGATIVE] = 0.0
    batch: Annotated[int, AT_LEAST_1] = 64
    accumulate: Annotated[int, AT_LEAST_1] = 1
    schedule: Literal["constant", "cosine"] = "constant"
    freeze_batch_norm: bool = False
    freeze_stages: int = 0
    mixed_precision: bool = True
    validation: Annotated[float, BELOW_1] = 0.0
    patience: Annotated[int, NOT_NEGATIVE] = 0

    def __post_init__(self) -> None:
        check_settings("stage 2", self)
        if self.patience and not self.validation:
            raise UnseenError("stopping early needs validation photos: keep a share of 0.1 or more aside")

    def learning_rate_at(self, step: int, total: int) -> float:
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * step / total)) / 2
