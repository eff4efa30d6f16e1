"""Equals `reference.forward`: a stack of graph layers from word vectors to classifiers, on any part of the graph.

Each layer multiplies with a sparse matrix whose pattern is fixed and whose values may be learned (hop weights,
attention).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from unseen.methods.graph.adjacency import Adjacency


class Operator(nn.Module):
    """An adjacency (rows x columns) as tensors: pattern, weights, hop groups, and the transposed pattern."""

    pointer: Tensor  # rows + 1: entries of row i are pointer[i]:pointer[i + 1]
    row: Tensor  # entries
    column: Tensor  # entries
    group: Tensor  # entries
    weight: Tensor  # entries
    group_sums: Tensor  # rows x groups: what a row sums to in a group
    diagonal: Tensor  # rows: the column that stands for the same node
    pointer_t: Tensor  # columns + 1: of the transposed matrix
    column_t: Tensor  # entries, in the order of the transposed matrix
    transposed: Tensor  # entries: that order

    def __init__(self, adjacency: Adjacency, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.rows, self.columns, self.groups = adjacency.rows, adjacency.columns, adjacency.groups
        row, column = torch.from_numpy(adjacency.row), torch.from_numpy(adjacency.column)
        transposed = torch.argsort(column * self.rows + row)
        counts = torch.bincount(column, minlength=self.columns)
        sums = torch.zeros(self.rows * self.groups, dtype=torch.float64)
        group, weight = torch.from_numpy(adjacency.group), torch.from_numpy(adjacency.weight)
        sums.index_add_(0, row * self.groups + group, weight)
        for name, tensor in {
            "pointer": torch.from_numpy(adjacency.pointer),
            "row": row,
            "column": column,
            "group": group,
            "weight": weight.to(dtype),
            "group_sums": sums.view(self.rows, self.groups).to(dtype),
            "diagonal": torch.from_numpy(adjacency.diagonal),
            "pointer_t": torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            "column_t": row[transposed],
            "transposed": transposed,
        }.items():
            self.register_buffer(name, tensor, persistent=False)

    def values(self, alpha: Tensor | None) -> Tensor:
        """The matrix's entries: weight * alpha[group], or the weights themselves."""
        return self.weight if alpha is None else self.weight * alpha.index_select(0, self.group)

    def row_sums(self, alpha: Tensor) -> Tensor:
        """A 1 (rows)."""
        return self.group_sums @ alpha

    def product(self, values: Tensor, dense: Tensor) -> Tensor:
        """A(values) @ dense, differentiable in both."""
        return SparseProduct.apply(values, dense, self)

    def rows_of_product(self, rows: slice, values: Tensor, dense: Tensor) -> Tensor:
        """Some rows of the product, without gradients, for results that are too large as a whole."""
        first, last = int(self.pointer[rows.start]), int(self.pointer[rows.stop])
        pointer = self.pointer[rows.start : rows.stop + 1] - first
        return _multiply(pointer, self.column[first:last], values[first:last], dense)


class SparseProduct(torch.autograd.Function):
    """Y = A(v) X;  dX = A(v)^T dY,  dv_ij = dY_i . X_j for each entry (i, j) of the pattern."""

    @staticmethod
    def forward(ctx, values: Tensor, dense: Tensor, operator: Operator) -> Tensor:
        ctx.save_for_backward(values, dense)
        ctx.operator = operator
        return _multiply(operator.pointer, operator.column, values, dense)

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (values, dense), operator = ctx.saved_tensors, ctx.operator
        grad_values = grad_dense = None
        if ctx.needs_input_grad[0]:
            grad_values = _dots(operator, grad, dense)
        if ctx.needs_input_grad[1]:
            ordered = values.index_select(0, operator.transposed)
            grad_dense = _multiply(operator.pointer_t, operator.column_t, ordered, grad)
        return grad_values, grad_dense, None


def _multiply(pointer: Tensor, column: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    matrix = _compressed(pointer, column, values, dense.shape[0])
    if dense.device.type == "cpu":
        return torch.sparse.mm(matrix, dense, "sum")  # only for CPUs, and twice as fast there as `@`
    return matrix @ dense


def _dots(operator: Operator, left: Tensor, right: Tensor) -> Tensor:
    """left_i . right_j for every entry (i, j)."""
    pattern = _compressed(operator.pointer, operator.column, torch.zeros_like(operator.weight), right.shape[0])
    return torch.sparse.sampled_addmm(pattern, left.contiguous(), right.t(), beta=0).values()


def _compressed(pointer: Tensor, column: Tensor, values: Tensor, columns: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        size = (len(pointer) - 1, columns)
        return torch.sparse_csr_tensor(pointer, column, values, size, check_invariants=False)


# A multiplication in a sparse product takes about as long as this many in a dense one.
SPARSE_COST = 16


class GraphLayer(nn.Module):
    """One propagation step along an operator (rows x columns), without its activation.

    Shapes: columns x inputs -> rows x outputs.
    """

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs

    def forward(self, hidden: Tensor, operator: Operator, alpha: Tensor | None = None) -> Tensor:
        """All rows; `alpha` has the weights of the hop groups, if the model has any."""
        raise NotImplementedError

    def chunks(self, hidden: Tensor, operator: Operator, alpha: Tensor | None, size: int) -> Iterator[Tensor]:
        """The rows of forward(), `size` at a time, without gradients."""
        raise NotImplementedError


class GraphConvolution(GraphLayer):
    """One propagation step without its activation:  A (H Theta) + b,  or  A (H Theta + b)  with `propagate_bias`.

    The product is computed as (A H) Theta if that is cheaper. A bias inside the brackets is scaled by A's row sums,
    which differ from 1 if some hop groups of a node are empty.

    Shapes: H is columns x inputs, A rows x columns, Theta inputs x outputs, the result rows x outputs.
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
        # The backward pass of torch.outer() would make two matrices of this size.
        return operator.row_sums(alpha)[rows].unsqueeze(1) @ self.bias.unsqueeze(0)


class LeakyDropout(torch.autograd.Function):
    """max(h, slope h) * mask, in place, with one pass over the activations less than in two steps.

    The backward pass needs only the result: it has the input's sign where the mask is not 0, and where the mask is 0
    the gradient is 0.
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

    Rows of zeros stay zero and pass no gradient: divided by their length, it would drown all others.
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
        """The weights of the hop groups in a layer (K + 1), if the model has any."""
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
