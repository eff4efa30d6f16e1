"""TrGCN: a class gathers from its neighbours by the attention of transformers, after ZSL-KG (Nayak and Bach, "Zero-Shot
Learning with Common Sense Knowledge Graphs", TMLR 2022), which lets all pairs of neighbours attend to each other on a
common-sense graph. Here each class has one query, on the hierarchy's edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor, nn

from unseen import Hierarchy
from unseen.methods.graph import Adjacency, GraphLayer, GraphMethod, GraphNetwork, HiddenSettings, Operator, neighbours
from unseen.util import AT_LEAST_1
from unseen_lab.methods.gat import softmax_of_rows


class TransformerLayer(GraphLayer):
    """out_i = W sum_j a_ij h_j + S h_i + b,  a_ij = softmax over j of (Q h_i) . (K h_j) / sqrt(d).

    j runs over i itself and the nodes adjacent to it.
    Shapes: h is columns x inputs, Q and K inputs x d, W and S inputs x outputs; the operator is rows x columns.
    """

    def __init__(self, inputs: int, outputs: int, keys: int = 64, bias: bool = True):
        super().__init__(outputs)
        self.weight, self.skip = (nn.Parameter(torch.empty(inputs, outputs)) for _ in range(2))
        self.query, self.key = (nn.Parameter(torch.empty(inputs, keys)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        for matrix in (self.weight, self.skip, self.query, self.key):
            nn.init.xavier_uniform_(matrix)

    def forward(self, hidden: Tensor, operator: Operator, alpha: Tensor | None = None) -> Tensor:
        gathered = operator.product(self.shares(hidden, operator), hidden)
        return self._join(gathered, hidden.index_select(0, operator.diagonal))

    def shares(self, hidden: Tensor, operator: Operator) -> Tensor:
        """a_ij, for the operator's entries."""
        queries = (hidden @ self.query).index_select(0, operator.diagonal).index_select(0, operator.row)
        keys = (hidden @ self.key).index_select(0, operator.column)
        return softmax_of_rows((queries * keys).sum(1) / self.query.shape[1] ** 0.5, operator)

    def chunks(self, hidden: Tensor, operator: Operator, alpha: Tensor | None, size: int) -> Iterator[Tensor]:
        shares = self.shares(hidden, operator)
        for start in range(0, operator.rows, size):
            rows = slice(start, min(start + size, operator.rows))
            gathered = operator.rows_of_product(rows, shares, hidden)
            yield self._join(gathered, hidden.index_select(0, operator.diagonal[rows]))

    def _join(self, gathered: Tensor, itself: Tensor) -> Tensor:
        result = torch.addmm(gathered @ self.weight, itself, self.skip)
        return result if self.bias is None else result.add_(self.bias)


@dataclass(frozen=True)
class TrGCNSettings(HiddenSettings):
    """Settings of TrGCN, besides those of all graph networks.

    Args:
        keys: d, the width of queries and keys.
    """

    keys: Annotated[int, AT_LEAST_1] = 64


class TrGCNMethod(GraphMethod):
    """H_{l+1} = act(transformer attention over the hierarchy's edges, both ways, and self-loops): `TransformerLayer`.

    Shapes: X = H_0 is N x S, the result N x P; trained as DGP is.
    """

    name = "trgcn"
    Settings = TrGCNSettings

    def build(self, inputs: int, outputs: int) -> GraphNetwork:
        s = self.settings
        layers = [TransformerLayer(*widths, s.keys, s.bias) for widths in pairwise(s.widths(inputs, outputs))]
        return GraphNetwork(layers, s.slope)

    def adjacencies(self, hierarchy: Hierarchy) -> list[Adjacency]:
        return [neighbours(hierarchy)] * (self.settings.layers + 1)
