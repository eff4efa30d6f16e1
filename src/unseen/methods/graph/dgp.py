"""Graph networks: DGP and SGCN ("Rethinking Knowledge Graph Propagation for Zero-Shot Learning"), GCNZ (Wang et al.,
"Zero-shot Recognition via Semantic Embeddings and Knowledge Graphs"), and GAT, with attention in the place of fixed
neighbour weights (Velickovic et al., "Graph Attention Networks").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from unseen.hierarchy.core import Hierarchy
from unseen.methods.graph.adjacency import Adjacency, all_hops, hop_groups, neighbours
from unseen.methods.graph.layers import GraphLayer, GraphNetwork, Operator, convolutions
from unseen.methods.graph.training import GraphMethod, GraphSettings, HiddenSettings
from unseen.util.errors import UnseenError
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


def softmax_of_rows(energy: Tensor, operator: Operator) -> Tensor:
    """The softmax of the operator's entries, row by row."""
    # The largest of a row is taken off for exp()'s range; it cancels, so it needs no gradient.
    largest = energy.new_full((operator.rows,), -torch.inf)
    largest.scatter_reduce_(0, operator.row, energy.detach(), "amax")
    share = (energy - largest.index_select(0, operator.row)).exp()
    total = share.new_zeros(operator.rows).index_add(0, operator.row, share)
    return share / total.index_select(0, operator.row)


class GraphAttention(GraphLayer):
    """out_i = sum_j a_ij W h_j + b,  a_ij = softmax over j of LeakyReLU(u . W h_i + v . W h_j).

    j runs over i itself and the nodes adjacent to it.
    Shapes: h is columns x inputs, W inputs x outputs, u and v outputs long; the operator is rows x columns.
    u . W h = h . (W u) and sum_j a_ij W h_j = W (sum_j a_ij h_j): the scores and the sums are taken of h, so that W
    multiplies only the rows that are wanted. Each of several heads has its own W, u and v.

    Args:
        inputs: Width of h.
        outputs: Width of the result.
        heads: How many there are; they divide `outputs`.
        concatenate: Place the heads side by side, each outputs / heads wide; without, take their mean.
        bias: Whether b is added.
        slope: Of the leaky ReLU of the scores for negative numbers.
    """

    def __init__(
        self, inputs: int, outputs: int, heads: int = 1, concatenate: bool = True, bias: bool = True, slope: float = 0.2
    ):
        super().__init__(outputs)
        self.heads, self.concatenate, self.slope = heads, concatenate, slope
        width = outputs // heads if concatenate else outputs
        self.weight = nn.Parameter(torch.empty(heads, inputs, width))
        self.attention = nn.Parameter(torch.empty(heads, width, 2))  # u and v side by side
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        for head in range(heads):
            nn.init.xavier_uniform_(self.weight[head])
            nn.init.xavier_uniform_(self.attention[head])

    def forward(self, hidden: Tensor, operator: Operator, alpha: Tensor | None = None) -> Tensor:
        gathered = [operator.product(shares, hidden) for shares in self.shares(hidden, operator)]
        return self._join(gathered)

    def shares(self, hidden: Tensor, operator: Operator) -> list[Tensor]:
        """a_ij of each head, for the operator's entries."""
        return [self._softmax(hidden @ (w @ uv), operator) for w, uv in zip(self.weight, self.attention, strict=True)]

    def chunks(self, hidden: Tensor, operator: Operator, alpha: Tensor | None, size: int) -> Iterator[Tensor]:
        shares = self.shares(hidden, operator)
        for start in range(0, operator.rows, size):
            rows = slice(start, min(start + size, operator.rows))
            yield self._join([operator.rows_of_product(rows, values, hidden) for values in shares])

    def _softmax(self, scores: Tensor, operator: Operator) -> Tensor:
        receiver = scores[:, 0].index_select(0, operator.diagonal).index_select(0, operator.row)
        sender = scores[:, 1].index_select(0, operator.column)
        return softmax_of_rows(nn.functional.leaky_relu(receiver + sender, self.slope), operator)

    def _join(self, gathered: list[Tensor]) -> Tensor:
        parts = [rows @ weight for rows, weight in zip(gathered, self.weight, strict=True)]
        if self.heads == 1:
            result = parts[0]
        else:
            result = torch.cat(parts, 1) if self.concatenate else torch.stack(parts).mean(0)
        return result if self.bias is None else result.add_(self.bias)


class GAT(GraphNetwork):
    """H_{l+1} = act(attention over the hierarchy's edges, both ways, and self-loops), see `GraphAttention`.

    Hidden layers place their heads side by side, the last one takes their mean.
    Shapes: X = H_0 is N x S, the result N x P.

    Args:
        widths: S, the hidden layers', P.
        heads: Of each layer.
        bias: Whether layers add one.
        slope: Of the leaky ReLU between layers for negative numbers.
    """

    def __init__(self, widths: Sequence[int], heads: int = 1, bias: bool = True, slope: float = 0.2):
        last = len(widths) - 2
        layers = [
            GraphAttention(inputs, outputs, heads, concatenate=index < last, bias=bias)
            for index, (inputs, outputs) in enumerate(pairwise(widths))
        ]
        super().__init__(layers, slope)


@dataclass(frozen=True)
class GATSettings(HiddenSettings):
    """Settings of GAT, besides those of all graph networks.

    Args:
        heads: Of each layer; they divide the hidden width.
    """

    heads: Annotated[int, AT_LEAST_1] = 1


class GATMethod(GraphMethod):
    """Stage 1 with `GAT`, which has the formula."""

    name = "gat"
    Settings = GATSettings

    def build(self, inputs: int, outputs: int) -> GAT:
        s = self.settings
        if s.hidden % s.heads:
            raise UnseenError(f"heads must divide the hidden width: {s.hidden} / {s.heads} is not an integer")
        return GAT(s.widths(inputs, outputs), s.heads, s.bias, s.slope)

    def adjacencies(self, hierarchy: Hierarchy) -> list[Adjacency]:
        return [neighbours(hierarchy)] * (self.settings.layers + 1)
