"""Recording formulas as an ONNX graph: a `Symbol` stands for an array of NumPy, and each operation becomes a node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 18
Shape: TypeAlias = "Sequence[str | int]"
Operand: TypeAlias = "Symbol | np.ndarray | float | int"


class Graph:
    """Nodes and constants in the order in which they were made."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def input(self, name: str, width: int) -> Symbol:
        return Symbol(self, name, width)

    def record(
        self, operation: str, operands: Sequence[Operand], width: int, outputs: int = 1, **attributes: Any
    ) -> Symbol:
        """A node for this operation; `width` is the number of columns of its first output."""
        inputs = [operand.name if isinstance(operand, Symbol) else self._constant(operand) for operand in operands]
        name = f"{operation.lower()}_{len(self._nodes)}"
        names = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self._nodes.append(helper.make_node(operation, inputs, names, **attributes))
        return Symbol(self, name, width)

    def _constant(self, value: Any) -> str:
        array = np.asarray(value)
        name = f"constant_{len(self._constants)}"
        self._constants.append(
            numpy_helper.from_array(array.astype(np.float32) if array.dtype.kind == "f" else array, name)
        )
        return name

    def model(self, inputs: dict[str, Shape], outputs: dict[str, Symbol], shape: Shape | None = None) -> ModelProto:
        """The graph from inputs of these shapes to these outputs, B x their width if no shape is given."""
        for name, symbol in outputs.items():
            self._nodes.append(helper.make_node("Identity", [symbol.name], [name]))
        shapes = {name: shape or ["batch", symbol.width] for name, symbol in outputs.items()}
        given, made = (
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in some.items()]
            for some in (inputs, shapes)
        )
        graph = helper.make_graph(self._nodes, "scores", given, made, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


class Symbol:
    """A matrix, B x width, that the graph will compute; it takes what `answers.algebra` and the projections ask."""

    __array_ufunc__ = None  # so that NumPy leaves `array * symbol` to the symbol

    def __init__(self, graph: Graph, name: str, width: int):
        self.graph, self.name, self.width = graph, name, width

    @property
    def shape(self) -> tuple[None, int]:
        return None, self.width

    def _binary(self, operation: str, a: Operand, b: Operand) -> Symbol:
        width = max(
            one.width if isinstance(one, Symbol) else np.shape(one)[-1] if np.ndim(one) else 1 for one in (a, b)
        )
        a, b = (one if isinstance(one, Symbol) else np.asarray(one, np.float32) for one in (a, b))
        return self.graph.record(operation, [a, b], width)

    def __add__(self, other: Operand) -> Symbol:
        return self._binary("Add", self, other)

    def __radd__(self, other: Operand) -> Symbol:
        return self._binary("Add", other, self)

    def __sub__(self, other: Operand) -> Symbol:
        return self._binary("Sub", self, other)

    def __rsub__(self, other: Operand) -> Symbol:
        return self._binary("Sub", other, self)

    def __mul__(self, other: Operand) -> Symbol:
        return self._binary("Mul", self, other)

    def __rmul__(self, other: Operand) -> Symbol:
        return self._binary("Mul", other, self)

    def __truediv__(self, other: Operand) -> Symbol:
        return self._binary("Div", self, other)

    def __rtruediv__(self, other: Operand) -> Symbol:
        return self._binary("Div", other, self)

    def __neg__(self) -> Symbol:
        return self._unary("Neg")

    def __matmul__(self, matrix: np.ndarray) -> Symbol:
        return self.graph.record("MatMul", [self, np.asarray(matrix, np.float32)], matrix.shape[1])

    def __getitem__(self, key: tuple[slice, Any]) -> Symbol:
        """Columns, as in `values[:, columns]`."""
        columns = np.arange(self.width)[key[1]]
        return self.graph.record("Gather", [self, columns], len(columns), axis=1)

    def _unary(self, operation: str) -> Symbol:
        return self.graph.record(operation, [self], self.width)

    def exp(self) -> Symbol:
        return self._unary("Exp")

    def log(self) -> Symbol:
        return self._unary("Log")

    def sqrt(self) -> Symbol:
        return self._unary("Sqrt")

    def clip(self, least: float) -> Symbol:
        return self._binary("Max", self, least)

    def log_softmax(self) -> Symbol:
        return self.graph.record("LogSoftmax", [self], self.width, axis=1)

    def softmax(self) -> Symbol:
        return self.graph.record("Softmax", [self], self.width, axis=1)

    def largest(self, count: int) -> Symbol:
        """The largest of each row as they are, the others minus infinity."""
        best = self.graph.record("TopK", [self, np.array([count])], count, outputs=2)
        kept = self.graph.record("GreaterOrEqual", [self, best[:, count - 1 :]], self.width)
        return self.graph.record("Where", [kept, self, -math.inf], self.width)

    def _reduce(self, operation: str) -> Symbol:
        return self.graph.record(operation, [self, np.array([1])], 1, keepdims=1)

    def logsumexp(self) -> Symbol:
        return self._reduce("ReduceLogSumExp")

    def sum(self, axis: int, keepdims: bool) -> Symbol:
        return self._reduce("ReduceSum")

    def std(self, axis: int, keepdims: bool) -> Symbol:
        away = self - self._reduce("ReduceMean")
        return (away * away)._reduce("ReduceMean").sqrt()

    def length(self) -> Symbol:
        """B x 1: of each row."""
        return self._reduce("ReduceL2")

    def logaddexp(self, other: Symbol) -> Symbol:
        larger, away = self._binary("Max", self, other), (self - other)._unary("Abs")
        return larger + ((-away).exp() + 1.0).log()

    def concatenate(self, others: Sequence[Symbol]) -> Symbol:
        parts = [self, *others]
        return self.graph.record("Concat", parts, sum(part.width for part in parts), axis=1)
