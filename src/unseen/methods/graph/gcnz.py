"""GCNZ: Wang et al., "Zero-shot Recognition via Semantic Embeddings and Knowledge Graphs"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from unseen.methods.graph.adjacency import Adjacency, neighbours
from unseen.methods.graph.method import GraphMethod, GraphSettings
from unseen.methods.graph.network import GraphNetwork, convolutions
from unseen.methods.registry import register
from unseen.taxonomy import Taxonomy


class GCNZ(GraphNetwork):
    """H_{l+1} = act(D^-1/2 A D^-1/2 H_l Theta_l + b_l), six times, with A the edges both ways and self-loops.

    Widths: S, 2048, 2048, 1024, 1024, 512, P. As in its authors' code, only the last two layers drop inputs.
    """

    def __init__(self, widths: Sequence[int], bias: bool = True, slope: float = 0.2):
        super().__init__(convolutions(widths, bias=bias), slope)


@dataclass
class GCNZSettings(GraphSettings):
    hidden: list[int] = field(default_factory=lambda: [2048, 2048, 1024, 1024, 512])
    normalisation: str = "symmetric"  # or "row": D^-1 A
    dropped_layers: int | None = 2


@register("gcnz")
class GCNZMethod(GraphMethod):
    Settings: ClassVar[type] = GCNZSettings

    def build(self, inputs: int, outputs: int) -> GCNZ:
        s = self.settings
        return GCNZ([inputs, *s.hidden, outputs], s.bias, s.slope)

    def adjacencies(self, taxonomy: Taxonomy) -> list[Adjacency]:
        return [neighbours(taxonomy, self.settings.normalisation)] * (len(self.settings.hidden) + 1)
