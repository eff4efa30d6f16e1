"""Products with a sparse matrix whose pattern is fixed and whose values may be learned (hop weights, attention).

One compressed-row product forward; for the backward pass the transposed pattern is kept, and the gradient of a value is
the dot product of the two rows that it connects, computed for the pattern's entries only.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from unseen.methods.graph.adjacency import Adjacency

# Where a device has no compressed-row kernels (MPS), edges are gathered this many numbers at a time.
GATHERED_NUMBERS = 1 << 24


class Operator(nn.Module):
    """An adjacency (rows x columns) as tensors: pattern, weights, hop groups, and the transposed pattern.

    Args:
        adjacency: Which entries there are.
        dtype: Of the weights.
    """

    pointer: Tensor  # rows + 1: entries of row i are pointer[i]:pointer[i + 1]
    row: Tensor  # entries
    column: Tensor  # entries
    group: Tensor  # entries
    weight: Tensor  # entries
    group_sums: Tensor  # rows x groups: what a row sums to in a group
    own: Tensor  # rows: the column that stands for the same node
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
            "own": torch.from_numpy(adjacency.own),
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
        """Some rows of the product, without gradients: for results too large to be made at once."""
        first, last = int(self.pointer[rows.start]), int(self.pointer[rows.stop])
        pointer = self.pointer[rows.start : rows.stop + 1] - first
        return _multiply(pointer, self.column[first:last], values[first:last], dense)


class SparseProduct(torch.autograd.Function):
    """Y = A(v) X;  dX = A(v)^T dY,  dv_ij = dY_i . X_j for the entries (i, j) of the pattern."""

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
    if dense.device.type == "mps":
        return _gathered_product(pointer, column, values, dense)
    matrix = _compressed(pointer, column, values, dense.shape[0])
    if dense.device.type == "cpu":
        return torch.sparse.mm(matrix, dense, "sum")  # twice as fast as `@` on a CPU, which is all that it runs on
    return matrix @ dense


def _dots(operator: Operator, left: Tensor, right: Tensor) -> Tensor:
    """left_i . right_j for every entry (i, j)."""
    if left.device.type == "mps":
        return _gathered_dots(operator, left, right)
    pattern = _compressed(operator.pointer, operator.column, torch.zeros_like(operator.weight), right.shape[0])
    return torch.sparse.sampled_addmm(pattern, left.contiguous(), right.t(), beta=0).values()


def _compressed(pointer: Tensor, column: Tensor, values: Tensor, columns: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        size = (len(pointer) - 1, columns)
        return torch.sparse_csr_tensor(pointer, column, values, size, check_invariants=False)


def _gathered_product(pointer: Tensor, column: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    row = torch.repeat_interleave(torch.arange(len(pointer) - 1, device=pointer.device), pointer.diff())
    result = dense.new_zeros(len(pointer) - 1, dense.shape[1])
    for part in torch.arange(len(column), device=column.device).split(max(1, GATHERED_NUMBERS // dense.shape[1])):
        result.index_add_(0, row[part], values[part, None] * dense[column[part]])
    return result


def _gathered_dots(operator: Operator, left: Tensor, right: Tensor) -> Tensor:
    size = max(1, GATHERED_NUMBERS // left.shape[1])
    pairs = zip(operator.row.split(size), operator.column.split(size), strict=True)
    return torch.cat([(left[row] * right[column]).sum(1) for row, column in pairs])
