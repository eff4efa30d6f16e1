"""How stage 2 is run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unseen.errors import UnseenError
from unseen.methods.settings import AT_LEAST_1, BELOW_1, NOT_NEGATIVE, POSITIVE, check_settings

LIMITS = {
    **dict.fromkeys(("epochs", "batch", "accumulate"), AT_LEAST_1),
    **dict.fromkeys(("learning_rate", "scale"), POSITIVE),
    **dict.fromkeys(("weight_decay", "patience"), NOT_NEGATIVE),
    **dict.fromkeys(("momentum", "validation"), BELOW_1),
}


@dataclass(frozen=True)
class FinetuneSettings:
    """The paper's: SGD 1e-4 with momentum 0.9 for 20 epochs. `batch` is for one process."""

    epochs: int = 20
    learning_rate: float = 1e-4
    momentum: float = 0.9
    scale: float = 1.0  # of the logits. Classifiers have length 1: with few photos, 3 saves features from growing first
    weight_decay: float = 0.0
    batch: int = 64
    accumulate: int = 1  # batches a step
    schedule: str = "constant"  # or "cosine"
    freeze_batch_norm: bool = False
    freeze_stages: int = 0  # how many of the network's first stages stay as they are; -1: all but the last one
    mixed_precision: bool = True  # on CUDA
    validation: float = 0.0  # share of each class's photos kept aside
    patience: int = 0  # stop after so many epochs without a better validation, and keep the best; 0: never

    def __post_init__(self):
        check_settings("stage 2", self, LIMITS)
        if self.schedule not in ("constant", "cosine"):
            raise UnseenError(f"schedule is constant or cosine, not {self.schedule!r}")
        if self.patience and not self.validation:
            raise UnseenError("stopping early needs validation photos: give --validation, for example 0.1")

    def learning_rate_at(self, step: int, total: int) -> float:
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * step / total)) / 2
