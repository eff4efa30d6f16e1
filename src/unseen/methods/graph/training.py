"""Stage 1: train a graph network to predict the known classifiers.

    loss = 1 / (2M) * sum over the M seen classes of |known classifier - predicted classifier|^2

Only the receptive field of the seen rows is computed.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unseen.methods.graph.adjacency import Field
from unseen.methods.graph.dropout import Masks
from unseen.methods.graph.network import GraphNetwork
from unseen.methods.graph.settings import GraphSettings
from unseen.methods.graph.sparse import Operator
from unseen.methods.records import FitRecord
from unseen.runtime.checkpoints import pack_training, unpack_training
from unseen.runtime.loops import TrainingLoop
from unseen.runtime.memory import peak_memory_mb
from unseen.runtime.processes import Processes
from unseen.runtime.run import Run


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
        dropped = len(field.layers) if settings.dropped_layers is None else settings.dropped_layers
        self.masks = Masks(settings.dropout, self.generator, dtype, first=max(0, len(field.layers) - dropped))
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
    """The loop of one training: a step is an epoch."""

    unit = "epoch"

    def __init__(self, training: Training, run: Run, epochs: int, identity: dict[str, Any], processes: Processes):
        super().__init__(run, epochs, identity, processes)
        self.training = training
        self.loss = torch.tensor(torch.nan)
        self.logged_step, self.logged_at = 0, time.monotonic()

    def update(self, batch: None) -> None:
        self.loss = self.training.step()

    def is_logged(self) -> bool:
        return self.step == 1 or super().is_logged()

    def log(self) -> dict[str, str]:
        loss, now = float(self.loss), time.monotonic()
        self.check_finite(loss)
        speed = (self.step - self.logged_step) / max(now - self.logged_at, 1e-9)
        self.logged_step, self.logged_at = self.step, now
        hops = self.training.network.hop_weights()
        self.run.log(
            epoch=self.step,
            loss=loss,
            epochs_per_second=round(speed, 3),
            **({"hop_weights": hops} if hops else {}),
            peak_memory_mb=peak_memory_mb(),
        )
        return {"loss": f"{loss:.4f}", "epochs/s": f"{speed:.2f}"}

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        training = self.training
        return pack_training(training.network, training.optimiser, training.generator), {"loss": float(self.loss)}

    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        training = self.training
        unpack_training(tensors, training.network, training.optimiser, training.generator)
        self.loss = torch.tensor(facts["loss"])
        self.logged_step = facts["epoch"]


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

    With `run.resume` it goes on from the checkpoint in `run.folder`.
    """
    processes = Processes(run.device, alone=True)  # stage 1 is short: torchrun's other processes wait for it
    training = Training(network, field, x, targets, settings, run.seed, processes.device)
    loop = Stage1(training, run, settings.epochs, _identity(name, settings, run, field, x, targets), processes)
    loop.do_steps(f"Training {name}")
    return FitRecord(
        loss=float(loop.loss),
        epochs=settings.epochs,
        seconds=round(loop.seconds(), 2),
        weights=network.weight_count(),
        hop_weights=network.hop_weights(),
        field_sizes=[len(nodes) for nodes in field.nodes],
        fit_peak_memory_mb=peak_memory_mb(),
    )


def _identity(name: str, settings: GraphSettings, run: Run, field: Field, x: np.ndarray, targets: np.ndarray) -> dict:
    """What two trainings must share for one to go on where the other stopped. More epochs are allowed."""
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
