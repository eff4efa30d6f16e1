"""Graph networks: DGP and SGCN ("Rethinking Knowledge Graph Propagation for Zero-Shot Learning") and GCNZ (Wang et al.,
"Zero-shot Recognition via Semantic Embeddings and Knowledge Graphs").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from unseen.hierarchy.core import Hierarchy
from unseen.methods.graph.adjacency import Adjacency, all_hops, hop_groups, neighbours
from unseen.methods.graph.layers import GraphNetwork, convolutions
from unseen.methods.graph.training import GraphMethod, GraphSettings, HiddenSettings
from unseen.util.settings import AT_LEAST_1, NOT_NEGATIVE


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
    kept_inputs: ClassVar[int] = 150  # more than SGCN: a class's own vector is a smaller part of what it gathers


class DGPMethod(GraphMethod):
    """Stage 1 with `DGP`, which has the formula."""

    name = "dgp"
    Settings = DGPSettings

    def build(self, inputs: int, outputs: int) -> DGP:
        s = self.settings
        return DGP(s.widths(inputs, outputs), s.k, s.weighted, s.two_phase, s.bias, s.slope)

    def adjacencies(self, hierarchy: Hierarchy) -> list[Adjacency]:
        s = self.settings
        sides = ("descendants", "ancestors") if s.two_phase else ("both", "both")
        kinds = [hop_groups(hierarchy, side, s.k) if s.weighted else all_hops(hierarchy, side) for side in sides]
        return [kinds[layer % 2] for layer in range(s.layers + 1)]


@dataclass(frozen=True)
class SGCNSettings(HiddenSettings):
    """Settings of SGCN, besides those of all graph networks.

    Args:
        normalisation: `row` is D^-1 A, `symmetric` D^-1/2 A D^-1/2.
    """

    normalisation: Literal["row", "symmetric"] = "row"


class SGCNMethod(GraphMethod):
    """H_{l+1} = act(D^-1 A H_l Theta_l + b_l), with A the edges in both directions and self-loops.

    Shapes: X = H_0 is N x S, Theta_0 S x hidden, Theta_1 hidden x P, A N x N. More hidden layers are the paper's study
    of depth. The last layer has no act; its rows are scaled to length 1.
    """

    name = "sgcn"
    Settings = SGCNSettings

    def build(self, inputs: int, outputs: int) -> GraphNetwork:
        s = self.settings
        return GraphNetwork(convolutions(s.widths(inputs, outputs), s.bias), s.slope)

    def adjacencies(self, hierarchy: Hierarchy) -> list[Adjacency]:
        return [neighbours(hierarchy, self.settings.normalisation)] * (self.settings.layers + 1)


@dataclass(frozen=True)
class GCNZSettings(GraphSettings):
    """Settings of GCNZ, besides those of all graph networks.

    Args:
        hidden: Widths of the hidden layers.
        normalisation: `symmetric` is D^-1/2 A D^-1/2, `row` D^-1 A.
        dropped_layers: How many of the last layers drop inputs; the papers do not say.
    """

    hidden: Annotated[list[int], AT_LEAST_1] = field(default_factory=lambda: [2048, 2048, 1024, 1024, 512])
    normalisation: Literal["row", "symmetric"] = "symmetric"
    dropped_layers: Annotated[int | None, NOT_NEGATIVE] = 2


class GCNZMethod(GraphMethod):
    """H_{l+1} = act(D^-1/2 A D^-1/2 H_l Theta_l + b_l), six times, with A the edges both ways and self-loops.

    Trained as DGP's authors train their networks. The code that Wang et al. released differs: it drops nothing, has no
    biases b_l, and its loss is N^2 / M times as large as the mean here, and its weight decay as much weaker.

    Shapes: X = H_0 is N x S, Theta_l as wide as layers l and l + 1, the last P, A N x N. The last layer has no act; its
    rows are scaled to length 1.
    """

    name = "gcnz"
    Settings = GCNZSettings

    def build(self, inputs: int, outputs: int) -> GraphNetwork:
        s = self.settings
        return GraphNetwork(convolutions([inputs, *s.hidden, outputs], s.bias), s.slope)

    def adjacencies(self, hierarchy: Hierarchy) -> list[Adjacency]:
        return [neighbours(hierarchy, self.settings.normalisation)] * (len(self.settings.hidden) + 1)
