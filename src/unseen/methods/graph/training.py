"""Stage 1: train a graph network to predict the known classifiers.

    loss = 1 / (2M) * sum over the M seen classes of |known classifier - predicted classifier|^2

Only the receptive field of the seen rows is computed. A run can be interrupted at any time: it goes on from its last
checkpoint and ends, bit for bit, where it would have ended.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unseen.errors import UnseenError
from unseen.methods.graph.adjacency import Field
from unseen.methods.graph.dropout import Masks
from unseen.methods.graph.network import GraphNetwork
from unseen.methods.graph.sparse import Operator
from unseen.runtime.checkpoints import load_checkpoint, pack_training, save_checkpoint, unpack_training
from unseen.runtime.memory import peak_memory_mb
from unseen.runtime.progress import progress
from unseen.runtime.run import Run
from unseen.runtime.signals import interruption

LOG_EVERY = 10  # epochs


@dataclass
class FitSettings:
    """The paper's training, shared by all graph networks."""

    epochs: int = 3000
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4  # L2, on every parameter
    dropout: float = 0.5
    dropped_layers: int | None = None  # how many of the last layers drop inputs; None: all
    dtype: str = "float32"  # or "float64"


class Training:
    """One training in memory: network, field, optimiser and random numbers. `step()` is an epoch."""

    def __init__(
        self,
        network: GraphNetwork,
        field: Field,
        x: np.ndarray,
        targets: np.ndarray,
        settings: FitSettings,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ):
        if settings.dtype not in ("float32", "float64"):
            raise UnseenError(f"dtype must be float32 or float64, not {settings.dtype!r}")
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


def fit(
    network: GraphNetwork, field: Field, x: np.ndarray, targets: np.ndarray, settings: FitSettings, run: Run, name: str
) -> dict[str, Any]:
    """Train `network` in place on `x` (rows of field.inputs) towards `targets` (rows of field.nodes[-1]).

    Returns the facts that a bundle keeps. With `run.resume` it goes on from the checkpoint in `run.folder`.
    """
    training = Training(network, field, x, targets, settings, run.seed, run.torch_device())
    identity = _identity(name, settings, run, field, x, targets)
    done, loss, spent = _restore(training, run, identity, settings.epochs)
    started = time.monotonic() - spent
    logged_epoch, logged_at, shown = done, time.monotonic(), {}
    with progress(f"Training {name}", settings.epochs, run.show_progress, done) as bar, interruption() as interrupted:
        for epoch in range(done + 1, settings.epochs + 1):
            loss = training.step()
            stop = epoch == settings.epochs or interrupted()
            keep = stop or epoch % run.checkpoint_every == 0
            if keep or epoch == 1 or epoch % LOG_EVERY == 0:
                _check_finite(loss, epoch)
                now = time.monotonic()
                speed = (epoch - logged_epoch) / max(now - logged_at, 1e-9)
                logged_epoch, logged_at = epoch, now
                run.log(**_record(network, epoch, loss, speed))
                shown = {"loss": f"{float(loss):.4f}", "epochs/s": f"{speed:.2f}"}
            bar.advance(1, **shown)
            if keep and run.folder is not None:
                facts = {"epoch": epoch, "loss": float(loss), "seconds": time.monotonic() - started}
                facts |= {"records": run.records, "identity": identity}
                save_checkpoint(run.folder, pack_training(network, training.optimiser, training.generator), facts)
            if stop and epoch < settings.epochs:
                raise UnseenError(_stopped(epoch, settings.epochs, run))

    return {
        "loss": float(loss),
        "epochs": settings.epochs,
        "seconds": round(time.monotonic() - started, 2),
        "weights": network.weight_count(),
        "hop_weights": network.hop_weights(),
        "field": [len(nodes) for nodes in field.nodes],
        "fit_peak_memory_mb": round(peak_memory_mb()),
    }


def _record(network: GraphNetwork, epoch: int, loss: Tensor, speed: float) -> dict[str, Any]:
    record = {"epoch": epoch, "loss": float(loss), "epochs_per_second": round(speed, 3)}
    hops = network.hop_weights()
    return record | ({"hop_weights": hops} if hops else {}) | {"peak_memory_mb": round(peak_memory_mb())}


def _check_finite(loss: Tensor, epoch: int) -> None:
    if not torch.isfinite(loss):
        raise UnseenError(
            f"the loss became {float(loss)} by epoch {epoch}: lower the learning rate. The last checkpoint is kept."
        )


def _restore(training: Training, run: Run, identity: dict[str, Any], epochs: int) -> tuple[int, Tensor, float]:
    """Epochs done, the last loss and seconds spent: from the checkpoint where one is to be resumed, else nothing."""
    saved = load_checkpoint(run.folder, identity) if run.resume and run.folder is not None else None
    if saved is None:
        run.start_log()
        return 0, torch.tensor(torch.nan), 0.0
    tensors, facts = saved
    if facts["epoch"] > epochs:
        raise UnseenError(
            f"the checkpoint in {run.folder} has {facts['epoch']} epochs already, more than the {epochs} asked for: "
            "ask for more epochs, or begin anew with --overwrite instead of --resume"
        )
    unpack_training(tensors, training.network, training.optimiser, training.generator)
    run.go_on(facts["records"])
    run.start_log()
    return facts["epoch"], torch.tensor(facts["loss"]), facts["seconds"]


def _identity(name: str, settings: FitSettings, run: Run, field: Field, x: np.ndarray, targets: np.ndarray) -> dict:
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


def _stopped(epoch: int, epochs: int, run: Run) -> str:
    if run.folder is None:
        return f"stopped after epoch {epoch} of {epochs}; nothing is kept, as no output folder was given"
    return f"stopped after epoch {epoch} of {epochs}; go on with the same command and --resume"
