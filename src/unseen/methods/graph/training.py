"""Equals `reference.train`: stage 1 trains a graph network to predict the known classifiers, then predicts all nodes.

    loss = 1 / (2M) * sum over the M seen classes of |known classifier - predicted classifier|^2

Only the receptive field of the seen rows is computed.
"""

from __future__ import annotations

import hashlib
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import FitRecord, Method, Problem, Solution, State
from unseen.methods.graph.adjacency import Adjacency, Field, receptive_field, whole_graph
from unseen.methods.graph.layers import GraphNetwork, Operator
from unseen.methods.graph.loop import TrainingLoop, check_finite
from unseen.methods.projections import Append1
from unseen.networks.devices import choose_device
from unseen.networks.processes import Processes
from unseen.util.devices import peak_memory_mb
from unseen.util.errors import UnseenError
from unseen.util.names import list_some
from unseen.util.run import Run
from unseen.util.settings import AT_LEAST_1, BELOW_1, NOT_NEGATIVE

LOG_EVERY = 10  # epochs


class Masks:
    """Draws the dropout mask of each layer's input: 0 with the layer's probability r, else 1 / (1 - r).

    At r = 0.5 on a CPU, each random byte is looked up in a table of 256 x 8 factors, which takes a tenth of the time of
    a uniform number for each entry. A mask is valid until the next one is drawn for the same layer.

    Args:
        rates: Share of the entries that are 0, for each layer.
        generator: Where the random numbers come from, and on which device.
        dtype: Of the masks.
    """

    def __init__(self, rates: Sequence[float], generator: torch.Generator, dtype: torch.dtype = torch.float32):
        self.rates, self.generator, self.dtype = rates, generator, dtype
        bits = (torch.arange(256)[:, None] >> torch.arange(8)) & 1
        self._table = (bits * 2).to(generator.device, dtype)
        self._memory: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, layer: int, shape: torch.Size) -> Tensor | None:
        rate = self.rates[layer]
        if rate == 0:
            return None
        if layer not in self._memory or self._memory[layer][1].numel() < shape.numel():
            words = -(-shape.numel() // 64)
            random = torch.empty(words, dtype=torch.int64, device=self.generator.device)
            self._memory[layer] = random, torch.empty(words * 8, 8, dtype=self.dtype, device=self.generator.device)
        random, mask = self._memory[layer]
        flat = mask.view(-1)[: shape.numel()]
        if rate == 0.5 and random.device.type == "cpu":
            random.random_(-(2**63), None, generator=self.generator)
            torch.index_select(self._table, 0, random.view(torch.uint8).int(), out=mask)
        else:
            flat.uniform_(generator=self.generator)
            torch.ge(flat, rate, out=flat).mul_(1 / (1 - rate))
        return flat.view(shape)


class Training:
    """One training in memory: network, field, optimiser and random numbers. `step()` is an epoch."""

    def __init__(
        self,
        network: GraphNetwork,
        field: Field,
        x: np.ndarray,
        targets: np.ndarray,
        settings: GraphSettings,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ):
        device, dtype = torch.device(device), getattr(torch, settings.dtype)
        self.network = network.to(device, dtype)
        self.operators = [Operator(adjacency, dtype).to(device) for adjacency in field.layers]
        self.x = torch.from_numpy(x).to(device, dtype)
        self.targets = torch.from_numpy(targets).to(device, dtype)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.masks = Masks(settings.dropout_rates(len(field.layers), x.shape[1]), self.generator, dtype)
        self.optimiser = torch.optim.Adam(
            network.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=device.type in ("cpu", "cuda"),
        )

    def step(self) -> Tensor:
        """One epoch; its loss, before the update."""
        self.optimiser.zero_grad()
        loss = half_squares(self.network(self.x, self.operators, self.masks), self.targets)
        loss.backward()
        self.optimiser.step()
        return loss.detach()


def half_squares(predicted: Tensor, known: Tensor) -> Tensor:
    """Sum of squared differences (both M x P), divided by 2M."""
    return torch.nn.functional.mse_loss(predicted, known, reduction="sum") / (2 * len(known))


class Stage1(TrainingLoop):
    """The loop of one training."""

    def __init__(self, training: Training, run: Run, epochs: int, identity: dict[str, Any], processes: Processes):
        super().__init__(run, epochs, identity, training.network, training.optimiser, processes)
        self.training = training
        self.loss = torch.tensor(torch.nan)
        self.logged, self.logged_at = 0, time.monotonic()  # the last epoch in the log

    def train_epoch(self) -> None:
        self.loss = self.training.step()

    def end_epoch(self, saves: bool) -> None:
        self.bar.advance(1, **(self._log() if saves or self.epoch == 1 or self.epoch % LOG_EVERY == 0 else {}))

    def _log(self) -> dict[str, str]:
        """Log the epoch; return what the progress bar shows."""
        loss, now = float(self.loss), time.monotonic()
        check_finite(loss, self.epoch)
        speed = (self.epoch - self.logged) / max(now - self.logged_at, 1e-9)
        self.logged, self.logged_at = self.epoch, now
        hops = self.training.network.hop_weights()
        self.run.log(
            epoch=self.epoch,
            loss=loss,
            epochs_per_second=round(speed, 3),
            **({"hop_weights": hops} if hops else {}),
            peak_memory_mb=peak_memory_mb(),
        )
        return {"loss": f"{loss:.4f}", "epochs/s": f"{speed:.2f}"}

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"generator": self.training.generator.get_state()}, {"loss": float(self.loss)}

    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.training.generator.set_state(tensors["generator"])
        self.loss = torch.tensor(facts["loss"])
        self.logged = facts["epoch"]


def fit(
    network: GraphNetwork,
    field: Field,
    x: np.ndarray,
    targets: np.ndarray,
    settings: GraphSettings,
    run: Run,
    name: str,
) -> FitRecord:
    """Train `network` in place on `x` (rows of field.inputs) towards `targets` (rows of field.nodes[-1]).

    `run.resume` continues from the checkpoint in `run.folder`.
    """
    processes = Processes("cpu", alone=True)  # stage 1 is short: torchrun's other processes wait for it
    training = Training(network, field, x, targets, settings, run.seed, graph_device(run.device))
    loop = Stage1(training, run, settings.epochs, _identity(name, settings, run, field, x, targets), processes)
    loop.do_epochs(f"Training {name}")
    return FitRecord(
        loss=float(loop.loss),
        epochs=settings.epochs,
        seconds=round(loop.seconds(), 2),
        weights=network.weight_count(),
        hop_weights=network.hop_weights(),
        field_sizes=[len(nodes) for nodes in field.nodes],
        fit_peak_memory_mb=peak_memory_mb(),
    )


def graph_device(name: str) -> torch.device:
    """The device of that name, but the CPU instead of MPS, which has no sparse products."""
    device = choose_device(name)
    return torch.device("cpu") if device.type == "mps" else device


def _identity(name: str, settings: GraphSettings, run: Run, field: Field, x: np.ndarray, targets: np.ndarray) -> dict:
    """The facts that must be equal for one training to resume another; the number of epochs may differ."""
    shared = {key: value for key, value in asdict(settings).items() if key != "epochs"}
    graph = [array for layer in field.layers for array in (layer.pointer, layer.column, layer.weight, layer.group)]
    return {
        "method": name,
        **shared,
        "seed": run.seed,
        "vectors": _digest([x]),
        "classifiers": _digest([targets]),
        "hierarchy": _digest([*field.nodes, *graph]),
    }


def _digest(arrays: list[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


CHUNK_ROWS = 2048  # of a layer, in prediction


@dataclass(frozen=True)
class GraphSettings:
    """The paper's training, and what the layers of all graph networks share.

    Args:
        epochs: Steps of training, each on all seen classes.
        learning_rate: Adam's.
        weight_decay: L2, on every parameter.
        dropout: Share of each layer's inputs that an epoch drops.
        input_dropout: The same for the class vectors; None: at most so much that `kept_inputs` numbers are left.
        dropped_layers: How many of the last layers drop inputs; None: all.
        dtype: Precision of training.
        bias: Whether layers add one.
        slope: Of the leaky ReLU for negative numbers.
    """

    epochs: Annotated[int, AT_LEAST_1] = 3000
    learning_rate: Annotated[float, NOT_NEGATIVE] = 1e-3
    weight_decay: Annotated[float, NOT_NEGATIVE] = 5e-4
    dropout: Annotated[float, BELOW_1] = 0.5
    input_dropout: Annotated[float | None, BELOW_1] = None
    dropped_layers: Annotated[int | None, NOT_NEGATIVE] = None
    dtype: Literal["float32", "float64"] = "float32"
    bias: bool = True
    slope: Annotated[float, NOT_NEGATIVE] = 0.2
    # Numbers of a class vector that dropout leaves. With the paper's 300 it is half of them; half of 100 is too few.
    kept_inputs: ClassVar[int] = 75

    def dropout_rates(self, layers: int, inputs: int) -> list[float]:
        """The share of its input that each layer drops; the first one's input has S = `inputs` numbers.

        >>> GraphSettings().dropout_rates(2, 300), GraphSettings().dropout_rates(2, 100)
        ([0.5, 0.5], [0.25, 0.5])
        """
        usual = min(self.dropout, max(0.0, 1 - self.kept_inputs / inputs))
        rates = [usual if self.input_dropout is None else self.input_dropout] + [self.dropout] * (layers - 1)
        still = 0 if self.dropped_layers is None else layers - self.dropped_layers
        return [0.0 if layer < still else rate for layer, rate in enumerate(rates)]


@dataclass(frozen=True)
class HiddenSettings(GraphSettings):
    """Settings of equal hidden layers.

    Args:
        hidden: Width of each hidden layer.
        layers: Number of hidden layers; more than one are the paper's study of depth.
    """

    hidden: Annotated[int, AT_LEAST_1] = 2048
    layers: Annotated[int, AT_LEAST_1] = 1

    def widths(self, inputs: int, outputs: int) -> list[int]:
        """S, the hidden layers', P."""
        return [inputs, *[self.hidden] * self.layers, outputs]


class GraphMethod(Method):
    """Regresses the known classifiers (M x P) with a graph network over class vectors (N x S). A subclass has the
    network and its adjacencies; `unseen.methods.graph.training` has the loss.
    """

    Settings = GraphSettings

    @abstractmethod
    def build(self, inputs: int, outputs: int) -> GraphNetwork:
        """The untrained network for S = inputs and P = outputs."""

    @abstractmethod
    def adjacencies(self, hierarchy: Hierarchy) -> list[Adjacency]:
        """The adjacency of each layer, over all nodes."""

    def fit(self, problem: Problem, run: Run) -> Solution:
        if not len(problem.seen):
            raise UnseenError(f"{self.name} learns from seen classes, and there are none")
        vectors = _finite_vectors(problem)
        adjacencies = self.adjacencies(problem.hierarchy)
        field = receptive_field(adjacencies, problem.seen)
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
            torch.manual_seed(run.seed)
            network = self.build(vectors.shape[1], problem.classifiers.shape[1])
        record = fit(network, field, vectors[field.inputs], problem.targets(), self.settings, run, self.name)
        classifiers = predict_rows(network, whole_graph(adjacencies), vectors)
        state = {name: tensor.float().cpu().numpy() for name, tensor in network.state_dict().items()}
        return Solution(classifiers, Append1(), state, record)

    def predict(self, problem: Problem, state: State, rows: np.ndarray | None = None) -> np.ndarray:
        """Classifiers (n x P) of `rows`, or of all nodes, computed from only the nodes that they depend on."""
        vectors = _finite_vectors(problem)
        network = self.build(vectors.shape[1], problem.classifiers.shape[1])
        try:
            network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state.items()})
        except RuntimeError as error:
            raise UnseenError(f"the fitted {self.name} does not fit these vectors and classifiers: {error}") from None
        network.to(graph_device(str(self.device)))
        if rows is not None and not len(rows):
            return np.empty((0, problem.classifiers.shape[1]), np.float32)
        layers = self.adjacencies(problem.hierarchy)
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
        some = list_some([problem.hierarchy.ids[row] for row in bad])
        raise UnseenError(f"the vectors of {len(bad)} classes hold NaN or infinity: {some}. Check the vectors' file.")
    return matrix
