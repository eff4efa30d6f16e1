"""DGP and SGCN as the paper writes them: dense matrices, every node, one step of Adam an epoch.

    SGCN    H = B act(B X T_1 + b_1) T_2 + b_2,            B = D^-1 A: edges in both directions and self-loops
    DGP     H = B_a (act(B_d (X T_d + b_d)) T_a + b_a),    B_a = sum_k alpha_k D_k^-1 A_k,  alpha = softmax(w)
    loss    1 / (2M) sum over the M seen classes of |W_m - H_m / |H_m||^2

X are the class vectors (N x S), T the layers' weights, W the known classifiers (M x P, rows of length 1). A_k connects
each node to its ancestors k steps away (in B_d: descendants), the last one to all others further away. As in the
authors' code, weighted hops propagate the bias as well.

`layers.py` and `training.py` compute the same numbers a hundred times as fast, with sparse products on the receptive
field of the seen classes; the tests compare them with this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from unseen.hierarchy.core import Hierarchy


class Layer(NamedTuple):
    """One propagation: the matrices D_k^-1 A_k (N x N each), T, b, and w (one number a matrix) if hops are weighted."""

    adjacency: Sequence[Tensor]
    weight: Tensor
    bias: Tensor | None
    hops: Tensor | None = None

    def __call__(self, hidden: Tensor) -> Tensor:
        support, bias = hidden @ self.weight, 0.0 if self.bias is None else self.bias
        if self.hops is None:
            return self.adjacency[0] @ support + bias
        pairs = zip(self.hops.softmax(0), self.adjacency, strict=True)
        return reduce(torch.add, (alpha * (matrix @ (support + bias)) for alpha, matrix in pairs))


def sgcn(hierarchy: Hierarchy, inputs: int, hidden: int, outputs: int) -> list[Layer]:
    """The two untrained layers of SGCN, for S = inputs and P = outputs."""
    steps = steps_up(hierarchy)
    adjacency = [by_degree((steps <= 1) | (steps.T <= 1))]
    return [untrained(adjacency, inputs, hidden), untrained(adjacency, hidden, outputs)]


def dgp(hierarchy: Hierarchy, inputs: int, hidden: int, outputs: int, k: int = 4) -> list[Layer]:
    """The two untrained layers of DGP: every node gathers from its descendants, then from its ancestors."""
    steps = steps_up(hierarchy)
    layers = untrained(hop_matrices(steps.T, k), inputs, hidden), untrained(hop_matrices(steps, k), hidden, outputs)
    return [layer._replace(hops=torch.ones(k + 1, requires_grad=True)) for layer in layers]


def untrained(adjacency: Sequence[Tensor], inputs: int, outputs: int) -> Layer:
    weight = torch.nn.init.xavier_uniform_(torch.empty(inputs, outputs, requires_grad=True))
    return Layer(adjacency, weight, torch.zeros(outputs, requires_grad=True))


def steps_up(hierarchy: Hierarchy) -> Tensor:
    """N x N: the fewest steps from node i up to node j, 0 to itself, infinity where j is not above i."""
    reached = torch.eye(len(hierarchy))  # in exactly `step` steps
    edges, steps, step = torch.zeros_like(reached), torch.full_like(reached, torch.inf), 0
    edges[tuple(torch.tensor(ends).long() for ends in hierarchy.edges())] = 1  # child, parent
    while reached.any():
        steps[(reached > 0) & steps.isinf()] = step
        reached, step = (reached @ edges > 0).float(), step + 1
    return steps


def hop_matrices(steps: Tensor, k: int) -> list[Tensor]:
    """D_0^-1 A_0, ..., D_k^-1 A_k: nodes 0, ..., k - 1 steps away, and those further."""
    return [by_degree(steps == hop) for hop in range(k)] + [by_degree((steps >= k) & steps.isfinite())]


def by_degree(connected: Tensor) -> Tensor:  # D^-1 A
    return connected / connected.sum(1, keepdim=True).clamp(min=1)


def forward(x: Tensor, layers: Sequence[Layer], drop: Callable[[int, Tensor], Tensor] = lambda _, h: h) -> Tensor:
    """The predicted classifiers of all nodes (N x P, rows of length 1); `drop` is applied to each layer's input."""
    hidden = layers[0](drop(0, x))
    for index, layer in enumerate(layers[1:], start=1):
        hidden = layer(drop(index, torch.nn.functional.leaky_relu(hidden, 0.2)))
    return torch.nn.functional.normalize(hidden)


def train(x: Tensor, layers: Sequence[Layer], seen: Tensor, known: Tensor, epochs: int, dropout: float = 0.5) -> Tensor:
    """Stage 1 with the paper's learning rate and weight decay, in place; the loss before the last step."""
    tensors = [tensor for layer in layers for tensor in layer[1:] if tensor is not None]
    optimiser, loss = torch.optim.Adam(tensors, lr=0.001, weight_decay=0.0005), torch.tensor(torch.nan)
    for _ in range(epochs):
        optimiser.zero_grad()
        predicted = forward(x, layers, lambda _, hidden: torch.nn.functional.dropout(hidden, dropout))[seen]
        loss = (predicted - known).square().sum() / (2 * len(known))
        loss.backward()
        optimiser.step()
    return loss.detach()
