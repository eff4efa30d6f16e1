"""GCNZ: Wang et al., "Zero-shot Recognition via Semantic Embeddings and Knowledge Graphs"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from unseen.methods.graph.adjacency import Adjacency, neighbours
from unseen.methods.graph.method import GraphMethod
from unseen.methods.graph.network import GraphNetwork, convolutions
from unseen.methods.graph.settings import GraphSettings
from unseen.methods.registry import register
from unseen.methods.settings import AT_LEAST_1, NOT_NEGATIVE
from unseen.taxonomy import Taxonomy


class GCNZ(GraphNetwork):
    """H_{l+1} = act(D^-1/2 A D^-1/2 H_l Theta_l + b_l), six times, with A the edges both ways and self-loops.

    Shapes: X = H_0 is N x S, Theta_l widths[l] x widths[l + 1], A N x N.

    Args:
        widths: S, the hidden layers', P.
        bias: Whether layers add b_l.
        slope: Of the leaky ReLU for negative numbers.
    """

    def __init__(self, widths: Sequence[int], bias: bool = True, slope: float = 0.2):
        super().__init__(convolutions(widths, bias=bias), slope)


@dataclass(frozen=True)
class GCNZSettings(GraphSettings):
    """Settings of GCNZ, besides those of all graph networks.

    Args:
        hidden: Widths of the hidden layers.
        normalisation: `symmetric` is D^-1/2 A D^-1/2, `row` D^-1 A.
        dropped_layers: As in its authors' code, only the last two layers drop inputs.
    """

    hidden: Annotated[list[int], AT_LEAST_1] = field(default_factory=lambda: [2048, 2048, 1024, 1024, 512])
    normalisation: Literal["row", "symmetric"] = "symmetric"
    dropped_layers: Annotated[int | None, NOT_NEGATIVE] = 2


@register("gcnz")
class GCNZMethod(GraphMethod):
    """Stage 1 with `GCNZ`, which has the formula.

    Args:
        settings: See `GCNZSettings`.
    """

    Settings = GCNZSettings

    def build(self, inputs: int, outputs: int) -> GCNZ:
        s = self.settings
        return GCNZ([inputs, *s.hidden, outputs], s.bias, s.slope)

    def adjacencies(self, taxonomy: Taxonomy) -> list[Adjacency]:
        return [neighbours(taxonomy, self.settings.normalisation)] * (len(self.settings.hidden) + 1)
