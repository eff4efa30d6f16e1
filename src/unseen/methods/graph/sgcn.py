"""SGCN: the paper's single-hidden-layer graph network on the hierarchy's own edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unseen.methods.graph.adjacency import Adjacency, neighbours
from unseen.methods.graph.method import GraphMethod
from unseen.methods.graph.network import GraphNetwork, convolutions
from unseen.methods.graph.settings import HiddenSettings
from unseen.methods.registry import register
from unseen.taxonomy import Taxonomy


@dataclass(frozen=True)
class SGCNSettings(HiddenSettings):
    """Settings of SGCN, besides those of all graph networks.

    Args:
        normalisation: `row` is D^-1 A, `symmetric` D^-1/2 A D^-1/2.
    """

    normalisation: Literal["row", "symmetric"] = "row"


@register("sgcn")
class SGCNMethod(GraphMethod):
    """H_{l+1} = act(D^-1 A H_l Theta_l + b_l), with A the edges in both directions and self-loops.

    Shapes: X = H_0 is N x S, Theta_0 S x hidden, Theta_1 hidden x P, A N x N. More hidden layers are the paper's study
    of depth. The last layer has no act; its rows are scaled to length 1.

    Args:
        settings: See `SGCNSettings`.
    """

    Settings = SGCNSettings

    def build(self, inputs: int, outputs: int) -> GraphNetwork:
        s = self.settings
        return GraphNetwork(convolutions(s.widths(inputs, outputs), s.bias), s.slope)

    def adjacencies(self, taxonomy: Taxonomy) -> list[Adjacency]:
        return [neighbours(taxonomy, self.settings.normalisation)] * (self.settings.layers + 1)
