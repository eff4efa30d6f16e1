"""SGCN: the paper's single-hidden-layer graph network on the hierarchy's own edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unseen.methods.graph.adjacency import Adjacency, neighbours
from unseen.methods.graph.method import GraphMethod, GraphSettings
from unseen.methods.graph.network import GraphNetwork, convolutions
from unseen.methods.registry import register
from unseen.taxonomy import Taxonomy


class SGCN(GraphNetwork):
    """H_{l+1} = act(D^-1 A H_l Theta_l + b_l), with A the edges in both directions and self-loops.

    Shapes: X is N x S, Theta_0 S x hidden, Theta_1 hidden x P. More hidden layers are the paper's study of depth.
    """

    def __init__(self, widths: Sequence[int], bias: bool = True, slope: float = 0.2):
        super().__init__(convolutions(widths, bias=bias), slope)


@dataclass
class SGCNSettings(GraphSettings):
    hidden: int = 2048
    layers: int = 1  # hidden ones
    normalisation: str = "row"  # or "symmetric": D^-1/2 A D^-1/2


@register("sgcn")
class SGCNMethod(GraphMethod):
    Settings: ClassVar[type] = SGCNSettings

    def build(self, inputs: int, outputs: int) -> SGCN:
        s = self.settings
        return SGCN([inputs, *[s.hidden] * s.layers, outputs], s.bias, s.slope)

    def adjacencies(self, taxonomy: Taxonomy) -> list[Adjacency]:
        return [neighbours(taxonomy, self.settings.normalisation)] * (self.settings.layers + 1)
