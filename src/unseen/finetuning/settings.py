"""How stage 2 is run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from unseen.errors import UnseenError
from unseen.methods.settings import AT_LEAST_1, BELOW_1, NOT_NEGATIVE, POSITIVE, check_settings


@dataclass(frozen=True)
class FinetuneSettings:
    """The paper's: SGD 1e-4 with momentum 0.9 for 20 epochs. `batch` is for one process."""

    epochs: Annotated[int, AT_LEAST_1] = 20
    learning_rate: Annotated[float, POSITIVE] = 1e-4
    momentum: Annotated[float, BELOW_1] = 0.9
    # Of the logits. Classifiers have length 1: with few photos, 3 saves features from growing first.
    scale: Annotated[float, POSITIVE] = 1.0
    weight_decay: Annotated[float, NOT_NEGATIVE] = 0.0
    batch: Annotated[int, AT_LEAST_1] = 64
    accumulate: Annotated[int, AT_LEAST_1] = 1  # batches a step
    schedule: Literal["constant", "cosine"] = "constant"
    freeze_batch_norm: bool = False
    freeze_stages: int = 0  # how many of the network's first stages stay as they are; -1: all but the last one
    mixed_precision: bool = True  # on CUDA
    validation: Annotated[float, BELOW_1] = 0.0  # share of each class's photos kept aside
    # Stop after so many epochs without a better validation, and keep the best; 0: never.
    patience: Annotated[int, NOT_NEGATIVE] = 0

    def __post_init__(self):
        check_settings("stage 2", self)
        if self.patience and not self.validation:
            raise UnseenError("stopping early needs validation photos: give validation=0.1 or more", "validation=0.1")

    def learning_rate_at(self, step: int, total: int) -> float:
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * step / total)) / 2
