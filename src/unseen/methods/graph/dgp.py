"""DGP: Dense Graph Propagation, "Rethinking Knowledge Graph Propagation for Zero-Shot Learning"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from unseen.methods.graph.adjacency import Adjacency, all_hops, hop_groups
from unseen.methods.graph.method import GraphMethod
from unseen.methods.graph.network import GraphNetwork, convolutions
from unseen.methods.graph.settings import HiddenSettings
from unseen.methods.registry import register
from unseen.methods.settings import AT_LEAST_1
from unseen.taxonomy import Taxonomy


class DGP(GraphNetwork):
    """H = act( sum_k a_k^a D_k^a^-1 A_k^a  act( sum_k a_k^d D_k^d^-1 A_k^d  X Theta_d ) Theta_a ),  a = softmax(w).

    Nodes gather from all their descendants, then from all their ancestors, and so on in turn. A_k connects the nodes k
    hops apart; k = K stands for K and more. The last layer has no activation; its rows are scaled to length 1.
    Shapes: X is N x S, Theta_d S x hidden, Theta_a hidden x P, w^d and w^a are K + 1 long each.

    As in the authors' code, the bias is added before the propagation of weighted hops.

    Args:
        widths: S, the hidden layers', P.
        k: K, the hop from which on all are one group.
        weighted: Mix the hop groups by learned weights; without, the paper's DGP(-w), one D^-1 A over all hops.
        two_phase: Gather from descendants, then from ancestors; without, from both at once, twice.
        bias: Whether layers add one.
        slope: Of the leaky ReLU for negative numbers.
    """

    def __init__(
        self,
        widths: Sequence[int],
        k: int = 4,
        weighted: bool = True,
        two_phase: bool = True,
        bias: bool = True,
        slope: float = 0.2,
    ):
        super().__init__(convolutions(widths, bias=bias, propagate_bias=weighted), slope)
        self.phases = ("descendants", "ancestors") if two_phase else ("first", "second")
        self.hops = nn.ParameterDict({phase: nn.Parameter(torch.ones(k + 1)) for phase in self.phases if weighted})

    def mixing(self, layer: int) -> Tensor | None:
        phase = self.phases[layer % 2]
        return self.hops[phase].softmax(0) if phase in self.hops else None

    @torch.no_grad()
    def hop_weights(self) -> dict[str, list[float]]:
        hops = [(phase, self.hops[phase]) for phase in self.phases if phase in self.hops]
        return {phase: [round(share, 4) for share in w.softmax(0).tolist()] for phase, w in hops}


@dataclass(frozen=True)
class DGPSettings(HiddenSettings):
    """Settings of DGP, besides those of all graph networks.

    Args:
        k: K, the hop from which on all are one group.
        weighted: Whether hop groups have learned weights.
        two_phase: Whether descendants and ancestors take turns.
    """

    k: Annotated[int, AT_LEAST_1] = 4
    weighted: bool = True
    two_phase: bool = True


@register("dgp")
class DGPMethod(GraphMethod):
    """Stage 1 with `DGP`, which has the formula.

    Args:
        settings: See `DGPSettings`.
    """

    Settings = DGPSettings

    def build(self, inputs: int, outputs: int) -> DGP:
        s = self.settings
        return DGP(s.widths(inputs, outputs), s.k, s.weighted, s.two_phase, s.bias, s.slope)

    def adjacencies(self, taxonomy: Taxonomy) -> list[Adjacency]:
        s = self.settings
        sides = ("descendants", "ancestors") if s.two_phase else ("both", "both")
        kinds = [hop_groups(taxonomy, side, s.k) if s.weighted else all_hops(taxonomy, side) for side in sides]
        return [kinds[layer % 2] for layer in range(s.layers + 1)]
