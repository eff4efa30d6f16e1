"""How stage 2 is run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from unseen.errors import UnseenError
from unseen.methods.settings import AT_LEAST_1, BELOW_1, NOT_NEGATIVE, POSITIVE, check_settings


@dataclass(frozen=True)
class FinetuneSettings:
    """By default the paper's: SGD 1e-4 with momentum 0.9 for 20 epochs.

        cosine schedule:  rate at step t of T = learning_rate (1 + cos(pi t / T)) / 2

    Args:
        epochs: How often each photo is seen.
        learning_rate: Of SGD.
        momentum: Of SGD.
        scale: Of the logits. Classifiers have length 1: with few photos, 3 saves features from growing first.
        weight_decay: Of SGD.
        batch: Photos at a time in one process.
        accumulate: Batches a step.
        schedule: constant or cosine.
        freeze_batch_norm: Keep batch normalisation as it is, its running means and variances too.
        freeze_stages: How many of the network's first stages stay as they are; -1: all but the last one.
        mixed_precision: Compute in 16 bits where it is safe; on CUDA only.
        validation: The share of each class's photos that is kept aside.
        patience: Stop after so many epochs without a better validation, and keep the best; 0: never.

    >>> import unseen
    >>> settings = unseen.FinetuneSettings(epochs=5, learning_rate=0.01, schedule="cosine")
    >>> [round(settings.learning_rate_at(step, total=4), 4) for step in range(4)]
    [0.01, 0.0085, 0.005, 0.0015]
    >>> unseen.FinetuneSettings(patience=3)
    Traceback (most recent call last):
    unseen.errors.UnseenError: stopping early needs validation photos: give validation=0.1 or more
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

    def __post_init__(self):
        check_settings("stage 2", self)
        if self.patience and not self.validation:
            raise UnseenError("stopping early needs validation photos: give validation=0.1 or more", "validation=0.1")

    def learning_rate_at(self, step: int, total: int) -> float:
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * step / total)) / 2
