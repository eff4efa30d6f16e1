"""The loop of both stages: epochs with a progress bar, a log and checkpoints.

A training can be interrupted at any time. It resumes after the last epoch that a checkpoint holds, and ends bit for bit
where an uninterrupted one ends.
"""

from __future__ import annotations

import hashlib
import json
import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unseen.networks.processes import Processes
from unseen.util.arrays import read_arrays, write_arrays
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE
from unseen.util.run import Bar, Run, progress

CHECKPOINT = "checkpoint.safetensors"  # in a run's folder
KIND = "checkpoint"
AGAIN = "overwrite it to start again"


class TrainingLoop(ABC):
    """A training of `total` epochs. A subclass trains one epoch, and moves the progress bar.

    Args:
        identity: JSON facts that must be equal for one training to resume another.
        network, optimiser: Every checkpoint holds their state.
        processes: They train together and stop after the same epoch; the first one writes.
    """

    steps = 1  # of the progress bar, in an epoch

    def __init__(
        self,
        run: Run,
        total: int,
        identity: dict[str, Any],
        network: nn.Module,
        optimiser: Optimizer,
        processes: Processes,
    ):
        self.run, self.total, self.identity, self.processes = run, total, identity, processes
        self._network, self._optimiser = network, optimiser
        self.save_every = run.checkpoint_every
        self.epoch = 0  # epochs that are done
        self.resumed = 0  # epochs that earlier processes did
        self.spent = 0.0  # seconds that they took
        self.started = time.monotonic()
        self.bar: Bar
        self._interrupted: Callable[[], bool]  # whether this process was interrupted

    @abstractmethod
    def train_epoch(self) -> None:
        """Train one epoch."""

    @abstractmethod
    def end_epoch(self, saves: bool) -> None:
        """Log, after an epoch and before its checkpoint, if it `saves` one."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON facts that the next epoch depends on, besides network and optimiser."""

    @abstractmethod
    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Restore what `pack` returned."""

    def is_enough(self) -> bool:
        """Whether to end before all epochs are done."""
        return False

    def seconds(self) -> float:
        """Duration of the training, including the time before an interruption."""
        return self.spent + time.monotonic() - self.started

    def is_interrupted(self) -> bool:
        """Whether any process was interrupted; all must ask."""
        return self.processes.any(self._interrupted())

    def stopped(self) -> UnseenError:
        advice = "resume it with the same settings" if self.run.folder else "nothing is kept"
        return UnseenError(f"stopped after epoch {self.epoch} of {self.total}; {advice}")

    def do_epochs(self, title: str) -> None:
        """Do all epochs that are left."""
        self._restore()
        bar = progress(title, self.total * self.steps, self.run.show_progress, self.epoch * self.steps)
        with bar as self.bar, interruption() as self._interrupted:
            while self.epoch < self.total and not self.is_enough():
                self.train_epoch()
                self.epoch += 1
                stop, is_last = self.is_interrupted(), self.epoch == self.total
                saves = stop or is_last or self.epoch % self.save_every == 0
                self.end_epoch(saves)
                if saves:
                    self._save()
                if stop and not is_last:
                    raise self.stopped()

    def _restore(self) -> None:
        """Start from the checkpoint if the run resumes one, else from the first epoch."""
        run = self.run
        saved = load_checkpoint(run.folder, self.identity) if run.resume and run.folder is not None else None
        if saved is not None:
            tensors, facts = saved
            if facts["epoch"] > self.total:
                raise UnseenError(
                    f"the checkpoint in {run.folder} has {facts['epoch']} epochs already, more than the {self.total} "
                    f"asked for: ask for more, or {AGAIN}"
                )
            restore_state(self._network, self._optimiser, tensors)
            self.unpack(tensors, facts)
            run.take_over(facts["records"])
            self.epoch, self.spent = facts["epoch"], facts["seconds"]
        digest = hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:12]
        self.processes.agree((self.epoch, digest), "the checkpoint or the data")
        if self.processes.rank == 0:
            run.start_log()
        self.resumed, self.started = self.epoch, time.monotonic()

    def _save(self) -> None:
        tensors, facts = self.pack()
        if self.processes.rank == 0 and self.run.folder is not None:
            facts |= {"epoch": self.epoch, "seconds": self.seconds(), "records": self.run.records}
            tensors |= state_tensors(self._network, self._optimiser)
            save_checkpoint(self.run.folder, tensors, facts | {"identity": self.identity})
        self.processes.wait()


def check_finite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        raise UnseenError(f"the loss became {loss} by epoch {epoch}: lower the learning rate")


def state_tensors(network: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
    """The weights of a network, and the moments of its optimiser."""
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items() if value is not None}
    return tensors


def restore_state(network: nn.Module, optimiser: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore what `state_tensors` returned."""
    network.load_state_dict(tensors_within("network.", tensors))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors_within("optimiser.", tensors).items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
    for parameter, moments in optimiser.state.items():
        for key, moment in moments.items():
            if moment.shape == parameter.shape:  # in the parameter's layout: another one would round differently
                moments[key] = torch.empty_like(parameter, requires_grad=False).copy_(moment)


def tensors_within(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON facts; if that fails, the earlier checkpoint stays as it was."""
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    write_arrays(folder / CHECKPOINT, KIND, arrays, facts)


def load_checkpoint(folder: Path, identity: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The tensors and facts saved last, or None. Refuses those of a training with another `identity`."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        facts, arrays = read_arrays(path, KIND)
    except DAMAGE as error:
        raise UnseenError(f"{path} is damaged ({error}): {AGAIN}") from None
    then, now = facts["identity"], json.loads(json.dumps(identity))
    changed = sorted(key for key in now | then if then.get(key) != now.get(key))
    if changed:
        differences = "; ".join(f"{key} was {then.get(key)}, now {now.get(key)}" for key in changed)
        raise UnseenError(
            f"{path} belongs to another training: {differences}. Use the same settings to continue it, or {AGAIN}"
        )
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, facts


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """A function that tells whether Ctrl-C or SIGTERM has arrived; a second one ends the program at once."""
    arrived = threading.Event()

    def note(number, frame):
        arrived.set()
        signal.signal(number, previous[number])

    main = threading.current_thread() is threading.main_thread()  # signals reach it alone
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if main}
    for number in previous:
        signal.signal(number, note)
    try:
        yield arrived.is_set
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
