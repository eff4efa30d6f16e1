"""How long an epoch of stage 1 takes: on the full graph, on the receptive field, and its bare matrix products.

    python benchmarks/stage1.py --json

At the paper's size (S = 300, P = 2049, 1,000 seen classes; vectors and targets are random numbers), for DGP, SGCN and
GCNZ with their default settings. The three are timed in turns, and the best time of each counts, as other work on the
machine can only add to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from figures import main
from unseen import Hierarchy
from unseen.data import find_asset, imagenet_1k
from unseen.methods import make_method, normalise_rows
from unseen.methods.graph import Adjacency, GraphMethod, GraphNetwork, reference
from unseen.methods.graph.adjacency import Field, receptive_field
from unseen.methods.graph.layers import GraphConvolution, MaskSource
from unseen.methods.graph.training import Training, half_squares
from unseen.util import progress

METHODS = ("dgp", "sgcn", "gcnz")


def run(
    hierarchy: Hierarchy | None = None,
    seen: np.ndarray | None = None,
    *,
    methods: tuple[str, ...] = METHODS,
    widths: tuple[int, int] = (300, 2049),
    rounds: int = 3,
    turn: float = 2.0,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Seconds an epoch, and their ratios, for each method. Without a hierarchy: the paper's, else the built-in one.

    In each round the full graph has one step, the field and the bare products two turns of that many seconds.
    """
    if hierarchy is None:
        hierarchy = Hierarchy.paper() if find_asset("imagenet-split.json") else Hierarchy.imagenet()
    if seen is None:
        seen = hierarchy.indices(imagenet_1k())
    random = np.random.default_rng(0)
    x = normalise_rows(random.standard_normal((len(hierarchy), widths[0]), dtype=np.float32))
    targets = normalise_rows(random.standard_normal((len(seen), widths[1]), dtype=np.float32))
    results: dict[str, Any] = {}
    with progress("Timing", rounds * len(methods), True) as bar:
        for name in methods:
            timing = _Timing(_make(name, settings or {}), hierarchy, seen, x, targets)
            for _ in range(rounds):
                timing.round(turn)
                bar.advance(1, method=name)
            results[name] = timing.result()
    return results | {
        "hierarchy": {"kind": hierarchy.source.get("kind"), "nodes": len(hierarchy), "seen": len(seen)},
        "threads": torch.get_num_threads(),
    }


def _make(name: str, settings: dict[str, Any]) -> GraphMethod:
    method = make_method(name, settings)
    assert isinstance(method, GraphMethod)
    return method


class _Timing:
    """One method, both ways: the same network trained on all rows as the equation is written, and on its field."""

    def __init__(self, method: GraphMethod, hierarchy: Hierarchy, seen: np.ndarray, x: np.ndarray, targets: np.ndarray):
        layers = method.adjacencies(hierarchy)
        self.field = receptive_field(layers, seen)
        with torch.random.fork_rng(devices=[]):  # the same weights in every run, whatever came before
            torch.manual_seed(0)
            self.network = method.build(x.shape[1], targets.shape[1])
        self.training = Training(self.network, self.field, x[self.field.inputs], targets, method.settings)
        self.plain, self.seen = _PlainTraining(method, self.network, layers, x), torch.from_numpy(seen)
        self.products = _products(self.network, self.training)
        self.difference = _difference(self.plain, self.training, self.field)
        self.best: dict[str, float] = dict.fromkeys(("full_graph_s", "receptive_field_s", "matmul_s"), float("inf"))

    def round(self, turn: float) -> None:
        self._time("full_graph_s", lambda: self.plain.step(self.seen, self.training.targets), 0)
        for _ in range(2):
            self._time("matmul_s", self.products, turn)
            self._time("receptive_field_s", self.training.step, turn)

    def _time(self, name: str, step: Callable[[], Any], turn: float) -> None:
        """Once, and again until a turn of that many seconds is over."""
        began = now = time.perf_counter()
        while now == began or now - began < turn:
            started = now
            step()
            now = time.perf_counter()
            self.best[name] = min(self.best[name], now - started)

    def result(self) -> dict[str, Any]:
        full, ours, products = self.best.values()
        return {
            **self.best,
            "speedup": full / ours,
            "over_matmul": ours / products,
            "max_difference": self.difference,
            "field": [len(nodes) for nodes in self.field.nodes],
        }


class _PlainTraining:
    """A step as the paper's equation is written, on every row: the reference with sparse matrices."""

    def __init__(self, method: GraphMethod, network: GraphNetwork, layers: list[Adjacency], x: np.ndarray):
        settings = method.settings
        self.network, self.rates = network, settings.dropout_rates(len(layers), x.shape[1])
        made = {id(layer): [_sparse(layer, group) for group in range(layer.groups)] for layer in layers}
        self.matrices = [made[id(layer)] for layer in layers]
        self.x = torch.from_numpy(x)
        self.optimiser = torch.optim.Adam(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def forward(self, masks: MaskSource | None = None) -> Tensor:
        def drop(index: int, hidden: Tensor) -> Tensor:
            if masks is not None:
                return hidden * masks(index, hidden.shape)
            return torch.nn.functional.dropout(hidden, self.rates[index])

        hops = getattr(self.network, "hops", {})
        phases = getattr(self.network, "phases", ("", ""))
        convolutions = _convolutions(self.network)
        layers = [
            reference.Layer(matrices, layer.weight, layer.bias, hops[phases[i % 2]] if hops else None)
            for i, (layer, matrices) in enumerate(zip(convolutions, self.matrices, strict=True))
        ]
        return reference.forward(self.x, layers, drop)

    def step(self, seen: Tensor, targets: Tensor) -> None:
        self.optimiser.zero_grad()
        half_squares(self.forward()[seen], targets).backward()
        self.optimiser.step()


def _convolutions(network: GraphNetwork) -> list[GraphConvolution]:
    """The layers of a network that has no others."""
    return [layer for layer in network.layers if isinstance(layer, GraphConvolution)]


def _sparse(layer: Adjacency, group: int) -> Tensor:
    chosen = layer.group == group
    index = torch.from_numpy(np.stack([layer.row[chosen], layer.column[chosen]]))
    values = torch.from_numpy(layer.weight[chosen].astype(np.float32))
    return torch.sparse_coo_tensor(index, values, (layer.rows, layer.columns), check_invariants=True).coalesce()


def _products(network: GraphNetwork, training: Training) -> Callable[[], None]:
    """The dense products of an epoch on the field and nothing else: forward, dTheta, and dH where one is needed."""
    work = []
    for index, (layer, operator) in enumerate(zip(_convolutions(network), training.operators, strict=True)):
        rows = operator.rows if layer.propagates_first(operator) else operator.columns
        inputs, outputs = layer.weight.shape
        hidden, grad, weight = torch.randn(rows, inputs), torch.randn(rows, outputs), torch.randn(inputs, outputs)
        work.append((hidden, weight, torch.empty_like(grad)))
        work.append((hidden.t(), grad, torch.empty_like(weight)))
        if index > 0 or network.mixing(index) is not None:  # the first layer's input needs none but for hop weights
            work.append((grad, weight.t(), torch.empty_like(hidden)))

    def multiply() -> None:
        for left, right, result in work:
            torch.mm(left, right, out=result)

    return multiply


def _difference(plain: _PlainTraining, training: Training, field: Field) -> float:
    """Largest difference of the outputs and of every gradient, both ways with the same dropout masks.

    Each is relative to the largest entry of its matrix, so that small gradients count as much as large ones. In a deep
    network, rounding moves a few units to the other side of leaky ReLU's kink: their gradients then differ by a factor
    of five, though the outputs agree. In float64 none do, as the tests of the models show.
    """
    network, generator = training.network, torch.Generator().manual_seed(1)

    def mask(index: int, shape: torch.Size) -> Tensor:
        return (torch.rand(len(plain.x), shape[1], generator=generator.manual_seed(index)) < 0.5) * 2.0

    def on_field(index: int, shape: torch.Size) -> Tensor:
        return mask(index, shape)[torch.from_numpy(field.nodes[index])]

    def results(output: Tensor) -> list[Tensor]:
        network.zero_grad()
        half_squares(output, training.targets).backward()
        grads = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
        return [output.detach(), *grads]

    ours = results(network(training.x, training.operators, on_field))
    full = results(plain.forward(mask)[torch.from_numpy(field.nodes[-1])])
    network.zero_grad()
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, full, strict=True))


if __name__ == "__main__":
    main(run, __doc__)
