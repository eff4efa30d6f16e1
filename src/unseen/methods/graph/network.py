"""A stack of graph layers that maps word vectors to classifiers. The four models differ in their layers only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from unseen.methods.graph.layers import GraphConvolution, GraphLayer, LeakyDropout, UnitRows
from unseen.methods.graph.sparse import Operator

# Layer number and shape of its input -> the factors to multiply it with, or None. Their memory may be overwritten.
MaskSource = Callable[[int, torch.Size], "Tensor | None"]


class GraphNetwork(nn.Module):
    """H_0 = X;  H_{l+1} = act(A_l drop(H_l) Theta_l + b_l);  rows of the last, which has no act, scaled to length 1.

    The same code runs on the full graph and on a receptive field: only the operators A_l and the rows of X differ.

    Shapes: X is nodes x S, H_l nodes x widths[l], the result rows x P.

    Args:
        layers: The first one takes X.
        slope: Of act, the leaky ReLU, for negative numbers.
    """

    def __init__(self, layers: Iterable[GraphLayer], slope: float = 0.2):
        super().__init__()
        self.layers = cast("Sequence[GraphLayer]", nn.ModuleList(layers))
        self.slope = slope

    def mixing(self, layer: int) -> Tensor | None:
        """The weights of the hop groups in a layer (K + 1), for models that have them."""
        return None

    def hop_weights(self) -> dict[str, list[float]]:
        """The learned weights of the hop groups by phase, for people."""
        return {}

    def weight_count(self) -> int:
        """Trainable numbers without the biases, as the paper counts them."""
        return sum(p.numel() for name, p in self.named_parameters() if not name.endswith("bias"))

    def forward(self, x: Tensor, operators: Sequence[Operator], masks: MaskSource | None = None) -> Tensor:
        mask = masks(0, x.shape) if masks else None
        hidden = x if mask is None else mask.mul_(x)
        for index, (layer, operator) in enumerate(zip(self.layers, operators, strict=True)):
            hidden = layer(hidden, operator, self.mixing(index))
            if index + 1 < len(self.layers):
                mask = masks(index + 1, hidden.shape) if masks else None
                hidden = LeakyDropout.apply(hidden, self.slope, mask)
        return UnitRows.apply(hidden)

    @torch.no_grad()
    def chunks(self, x: Tensor, operators: Sequence[Operator], size: int) -> Iterator[Tensor]:
        """The rows of forward() without dropout, `size` at a time. Each layer is computed once, in such chunks."""
        hidden = x
        for index, (layer, operator) in enumerate(zip(self.layers, operators, strict=True)):
            chunks = layer.chunks(hidden, operator, self.mixing(index), size)
            if index + 1 == len(self.layers):
                yield from map(nn.functional.normalize, chunks)
            else:
                result = x.new_empty(operator.rows, layer.outputs)
                for part, chunk in zip(result.split(size), chunks, strict=True):
                    part.copy_(nn.functional.leaky_relu_(chunk, self.slope))
                hidden = result


def convolutions(widths: Sequence[int], bias: bool = True, propagate_bias: bool = False) -> list[GraphConvolution]:
    """A convolution between every two widths that follow each other."""
    return [GraphConvolution(inputs, outputs, bias, propagate_bias) for inputs, outputs in pairwise(widths)]
