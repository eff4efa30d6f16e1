"""What the graph networks share as methods: settings, stage 1 on the receptive field, prediction for all nodes."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch

from unseen.errors import UnseenError
from unseen.methods.base import Method, Solution
from unseen.methods.graph.adjacency import Adjacency, Field, receptive_field, whole_graph
from unseen.methods.graph.network import GraphNetwork
from unseen.methods.graph.settings import GraphSettings
from unseen.methods.graph.sparse import Operator
from unseen.methods.graph.training import fit
from unseen.methods.problem import Problem
from unseen.methods.projections import Append1
from unseen.runtime.run import Run
from unseen.taxonomy import Taxonomy

CHUNK_ROWS = 2048  # rows of a layer that prediction computes at a time


class GraphMethod(Method):
    """Regresses the known classifiers (M x P) with a graph network over class vectors (N x S). Subclasses give the
    network and its graph; `unseen.methods.graph.training` has the loss.

    Args:
        settings: A `GraphSettings`, or the subclass's own.
    """

    Settings = GraphSettings

    @abstractmethod
    def build(self, inputs: int, outputs: int) -> GraphNetwork:
        """The untrained network for S = inputs and P = outputs."""

    @abstractmethod
    def adjacencies(self, taxonomy: Taxonomy) -> list[Adjacency]:
        """The adjacency of each layer, over all nodes."""

    def fit(self, problem: Problem, run: Run) -> Solution:
        if not len(problem.seen):
            raise UnseenError(f"{self.name} learns from seen classes, and there are none")
        vectors = _finite_vectors(problem)
        adjacencies = self.adjacencies(problem.taxonomy)
        field = receptive_field(adjacencies, problem.seen)
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
            torch.manual_seed(run.seed)
            network = self.build(vectors.shape[1], problem.classifiers.shape[1])
        record = fit(network, field, vectors[field.inputs], problem.targets(), self.settings, run, self.name)
        classifiers = predict_rows(network, whole_graph(adjacencies), vectors)
        state = {name: tensor.float().cpu().numpy() for name, tensor in network.state_dict().items()}
        return Solution(classifiers, Append1(), state, record)

    def predict(self, problem: Problem, state: dict[str, np.ndarray], rows: np.ndarray | None = None) -> np.ndarray:
        """Classifiers (n x P) of `rows`, or of all nodes, computed from just the nodes that they depend on."""
        vectors = _finite_vectors(problem)
        network = self.build(vectors.shape[1], problem.classifiers.shape[1])
        try:
            network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state.items()})
        except RuntimeError as error:
            raise UnseenError(f"the fitted {self.name} does not fit these vectors and classifiers: {error}") from None
        network.to(Run().torch_device())
        if rows is not None and not len(rows):
            return np.empty((0, problem.classifiers.shape[1]), np.float32)
        layers = self.adjacencies(problem.taxonomy)
        field = whole_graph(layers) if rows is None else receptive_field(layers, rows)
        return predict_rows(network, field, vectors[field.inputs])


def predict_rows(network: GraphNetwork, field: Field, x: np.ndarray) -> np.ndarray:
    """The network's output for the field's last nodes (n x P, float32), in chunks of rows."""
    network = network.float()
    device = next(network.parameters()).device
    operators = [Operator(adjacency).to(device) for adjacency in field.layers]
    result, start = np.empty((len(field.nodes[-1]), network.layers[-1].outputs), np.float32), 0
    for chunk in network.chunks(torch.from_numpy(x).to(device), operators, CHUNK_ROWS):
        result[start : start + len(chunk)] = chunk.cpu().numpy()
        start += len(chunk)
    return result


def _finite_vectors(problem: Problem) -> np.ndarray:
    matrix = np.ascontiguousarray(problem.vectors.matrix, np.float32)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        some = ", ".join(problem.taxonomy.ids[row] for row in bad[:5]) + (", ..." if len(bad) > 5 else "")
        raise UnseenError(f"the vectors of {len(bad)} classes hold NaN or infinity: {some}. Check the vectors' file.")
    return matrix
