"""GCNZ: Wang et al., "Zero-shot Recognition via Semantic Embeddings and Knowledge Graphs"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from unseen.methods.graph.adjacency import Adjacency, neighbours
from unseen.methods.graph.method import GraphMethod
from unseen.methods.graph.network import GraphNetwork, convolutions
from unseen.methods.graph.settings import GraphSettings
from unseen.methods.registry import register
from unseen.methods.settings import AT_LEAST_1, NOT_NEGATIVE
from unseen.taxonomy import Taxonomy


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


@register("gcnz")
class GCNZMethod(GraphMethod):
    """H_{l+1} = act(D^-1/2 A D^-1/2 H_l Theta_l + b_l), six times, with A the edges both ways and self-loops.

    Trained as DGP's authors train their own networks; how they ran the GCNZ of their tables, a reimplementation, they
    did not publish. The code that Wang et al. released differs: it names dropout for the last two layers but never
    switches it on, so that nothing is dropped; it has no biases b_l; and it multiplies predictions and targets by N / M
    before it takes half the sum of their squared differences, which makes its loss N^2 / M times as large as the mean
    here, and its weight decay as much weaker.

    Shapes: X = H_0 is N x S, Theta_l as wide as layers l and l + 1, the last P, A N x N. The last layer has no act; its
    rows are scaled to length 1.

    Args:
        settings: See `GCNZSettings`.
    """

    Settings = GCNZSettings

    def build(self, inputs: int, outputs: int) -> GraphNetwork:
        s = self.settings
        return GraphNetwork(convolutions([inputs, *s.hidden, outputs], s.bias), s.slope)

    def adjacencies(self, taxonomy: Taxonomy) -> list[Adjacency]:
        return [neighbours(taxonomy, self.settings.normalisation)] * (len(self.settings.hidden) + 1)
