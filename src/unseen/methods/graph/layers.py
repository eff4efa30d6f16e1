"""The parts that all graph networks are made of."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from unseen.methods.graph.sparse import Operator

# A sparse product moves about this many times fewer numbers a second than a dense one multiplies.
SPARSE_COST = 16


class GraphLayer(nn.Module):
    """One step from the rows of a graph's nodes to those of their neighbours, without its activation.

    Shapes: columns x inputs -> rows x outputs, of an operator that is rows x columns.

    Args:
        outputs: Width of the result.
    """

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs

    def forward(self, hidden: Tensor, operator: Operator, alpha: Tensor | None = None) -> Tensor:
        """All rows; `alpha` are the weights of the hop groups, for models that have them."""
        raise NotImplementedError

    def chunks(self, hidden: Tensor, operator: Operator, alpha: Tensor | None, size: int) -> Iterator[Tensor]:
        """The rows of forward(), `size` at a time, without gradients."""
        raise NotImplementedError


class GraphConvolution(GraphLayer):
    """One propagation step without its activation:  A (H Theta) + b,  or  A (H Theta + b)  with `propagate_bias`.

    The product is associated as (A H) Theta where that is cheaper. A bias inside the brackets comes out scaled by A's
    row sums, which differ from 1 where hop groups are mixed and some are empty.

    Shapes: H is columns x inputs, A rows x columns, Theta inputs x outputs, the result rows x outputs.

    Args:
        inputs: Width of H.
        outputs: Width of the result.
        bias: Whether b is added.
        propagate_bias: Add it before the propagation.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True, propagate_bias: bool = False):
        super().__init__(outputs)
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        self.propagate_bias = propagate_bias
        nn.init.xavier_uniform_(self.weight)

    def forward(self, hidden: Tensor, operator: Operator, alpha: Tensor | None = None) -> Tensor:
        values = operator.values(alpha)
        offset = self._offset(operator, alpha)
        if self.propagates_first(operator):
            gathered = operator.product(values, hidden)
            return gathered @ self.weight if offset is None else torch.addmm(offset, gathered, self.weight)
        product = operator.product(values, hidden @ self.weight)
        return product if offset is None else product.add_(offset)

    def propagates_first(self, operator: Operator) -> bool:
        """Whether (A H) Theta costs less than A (H Theta)."""
        inputs, outputs = self.weight.shape
        entries = len(operator.column) * SPARSE_COST
        return (operator.rows * outputs + entries) * inputs <= (operator.columns * inputs + entries) * outputs

    def chunks(self, hidden: Tensor, operator: Operator, alpha: Tensor | None, size: int) -> Iterator[Tensor]:
        values = operator.values(alpha)
        for start in range(0, operator.rows, size):
            rows = slice(start, min(start + size, operator.rows))
            result = operator.rows_of_product(rows, values, hidden) @ self.weight
            offset = self._offset(operator, alpha, rows)
            yield result if offset is None else result.add_(offset)

    def _offset(self, operator: Operator, alpha: Tensor | None, rows: slice = slice(None)) -> Tensor | None:
        if self.bias is None or not self.propagate_bias or alpha is None:
            return self.bias
        # As a matrix product, whose backward pass is two more; that of torch.outer() makes two matrices of this size.
        return operator.row_sums(alpha)[rows].unsqueeze(1) @ self.bias.unsqueeze(0)


class LeakyDropout(torch.autograd.Function):
    """max(h, slope h) * mask, in place: one pass less over the activations than two separate steps.

    Where the mask is not 0 the sign of the result is that of the input, and where it is 0 there is no gradient: so the
    result is all that the backward pass needs.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor, slope: float, mask: Tensor | None) -> Tensor:
        ctx.mark_dirty(hidden)
        torch.nn.functional.leaky_relu_(hidden, slope)
        if mask is not None:
            hidden.mul_(mask)
        ctx.save_for_backward(hidden, mask)
        ctx.slope = slope
        return hidden

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        result, mask = ctx.saved_tensors
        grad = torch.ops.aten.leaky_relu_backward(grad, result, ctx.slope, True)
        return grad if mask is None else grad.mul_(mask), None, None


class UnitRows(torch.autograd.Function):
    """y = h / |h| for each row, in place;  dh = (dy - y (y . dy)) / |h|.

    Rows of zeros stay zero and pass no gradient: divided by next to nothing, it would drown that of all other rows.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor) -> Tensor:
        ctx.mark_dirty(hidden)
        length = torch.linalg.vector_norm(hidden, dim=1, keepdim=True)
        factor = torch.where(length > 1e-12, 1 / length, 0)
        hidden.mul_(factor)
        ctx.save_for_backward(hidden, factor)
        return hidden

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        unit, factor = ctx.saved_tensors
        along = torch.linalg.vecdot(unit, grad).unsqueeze(1)
        return torch.addcmul(grad, unit, along, value=-1).mul_(factor)
