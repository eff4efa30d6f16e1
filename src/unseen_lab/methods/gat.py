"""GAT: attention in the place of fixed neighbour weights (Velickovic et al., "Graph Attention Networks", ICLR 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor, nn

from unseen import Hierarchy, UnseenError
from unseen.methods.graph import Adjacency, GraphLayer, GraphMethod, GraphNetwork, HiddenSettings, Operator, neighbours
from unseen.util import AT_LEAST_1


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
