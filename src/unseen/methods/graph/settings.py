"""What can be set for all graph networks; each adds its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from unseen.methods.settings import AT_LEAST_1, BELOW_1, NOT_NEGATIVE


@dataclass(frozen=True)
class GraphSettings:
    """The paper's training, and what the layers of all graph networks share.

    Args:
        epochs: Steps of training, each on all seen classes.
        learning_rate: Adam's.
        weight_decay: L2, on every parameter.
        dropout: Share of each layer's inputs that an epoch drops.
        dropped_layers: How many of the last layers drop inputs; None: all.
        dtype: What training computes in.
        bias: Whether layers add one.
        slope: Of the leaky ReLU for negative numbers.
    """

    epochs: Annotated[int, AT_LEAST_1] = 3000
    learning_rate: Annotated[float, NOT_NEGATIVE] = 1e-3
    weight_decay: Annotated[float, NOT_NEGATIVE] = 5e-4
    dropout: Annotated[float, BELOW_1] = 0.5
    dropped_layers: Annotated[int | None, NOT_NEGATIVE] = None
    dtype: Literal["float32", "float64"] = "float32"
    bias: bool = True
    slope: Annotated[float, NOT_NEGATIVE] = 0.2


@dataclass(frozen=True)
class HiddenSettings(GraphSettings):
    """Hidden layers that are all alike.

    Args:
        hidden: Width of each hidden layer.
        layers: How many hidden layers there are; more than one are the paper's study of depth.
    """

    hidden: Annotated[int, AT_LEAST_1] = 2048
    layers: Annotated[int, AT_LEAST_1] = 1

    def widths(self, inputs: int, outputs: int) -> list[int]:
        """S, the hidden layers', P."""
        return [inputs, *[self.hidden] * self.layers, outputs]
