"""The one loop of long trainings: steps with a progress bar, a log and checkpoints.

A training can be interrupted at any time: it continues from its last checkpoint and ends, bit for bit, where it would
have ended. A checkpoint is one file with a checksum, replaced in one step: there is always the earlier or the new one.
"""

from __future__ import annotations

import hashlib
import json
import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar

from torch import Generator, Tensor, as_tensor, from_numpy, nn
from torch.optim import Optimizer

from unseen.util.arrays import read_arrays, write_arrays
from unseen.util.errors import UnseenError
from unseen.util.files import DAMAGE
from unseen.util.processes import Processes
from unseen.util.run import Run, progress

CHECKPOINT = "checkpoint.safetensors"  # in a run's folder
KIND = "checkpoint"
AGAIN = "overwrite it to start again"


class TrainingLoop(ABC):
    """A training of `total` steps. A subclass says what a step does, what is logged and what a checkpoint holds.

    Args:
        identity: JSON; what two trainings must share for one to go on where the other stopped.
        processes: Those that train together. They stop at the same step; the first one writes.
    """

    unit: ClassVar[str] = "step"  # what a step is called
    log_every: ClassVar[int] = 10

    def __init__(self, run: Run, total: int, identity: dict[str, Any], processes: Processes):
        self.run, self.total, self.identity, self.processes = run, total, identity, processes
        self.step = 0  # steps that are done
        self.begun = 0  # steps that earlier processes did
        self.spent = 0.0  # seconds that they took
        self.started = time.monotonic()

    @abstractmethod
    def update(self, batch: Any) -> None:
        """Do one step."""

    @abstractmethod
    def log(self) -> dict[str, str]:
        """Log the steps since the last record; return what the progress bar shows."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON facts that the next step depends on."""

    @abstractmethod
    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Restore what `pack` returned."""

    def batches(self) -> Iterable[Any]:
        """What each remaining step gets; by default None."""
        return repeat(None)

    def is_logged(self) -> bool:
        """Whether to log the step just done; steps with a checkpoint are always logged."""
        return self.step % self.log_every == 0

    def is_enough(self) -> bool:
        """Whether to end before all steps are done."""
        return False

    def end_step(self) -> None:  # noqa: B027 (nothing, by default)
        """What follows a step and its record, such as a validation at the end of an epoch."""

    def seconds(self) -> float:
        """Duration of the training, including the time before an interruption."""
        return self.spent + time.monotonic() - self.started

    def check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            where = f"{self.unit} {self.step}"
            raise UnseenError(f"the loss became {loss} by {where}: lower the learning rate. A checkpoint is kept.")

    def do_steps(self, title: str) -> None:
        """Do all steps that are left; interrupted, save a checkpoint and raise."""
        self._restore()
        shown: dict[str, str] = {}
        bar_options = (title, self.total, self.run.show_progress, self.step)
        with progress(*bar_options) as bar, interruption() as interrupted:
            # A local name: nothing may hold the loader of batches once a worker process of it has died.
            batches = iter(self.batches())
            while self.step < self.total and not self.is_enough():
                self.update(next(batches))
                self.step += 1
                stop = self.processes.any(interrupted())
                save = stop or self.step == self.total or self.step % self.run.checkpoint_every == 0
                if save or self.is_logged():
                    shown = self.log()
                self.end_step()
                bar.advance(1, **shown)
                if save:
                    self._save()
                if stop and self.step < self.total:
                    advice = "resume it with the same settings" if self.run.folder else "nothing is kept"
                    raise UnseenError(f"stopped after {self.unit} {self.step} of {self.total}; {advice}")

    def _restore(self) -> None:
        """Start from the checkpoint if the run resumes one, else from the first step."""
        run = self.run
        saved = load_checkpoint(run.folder, self.identity) if run.resume and run.folder is not None else None
        if saved is not None:
            tensors, facts = saved
            done = facts[self.unit]
            if done > self.total:
                raise UnseenError(
                    f"the checkpoint in {run.folder} has {done} {self.unit}s already, more than the {self.total} asked "
                    f"for: ask for more, or {AGAIN}"
                )
            self.unpack(tensors, facts)
            run.take_over(facts["records"])
            self.step, self.spent = done, facts["seconds"]
        digest = hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:12]
        self.processes.agree((self.step, digest), "the checkpoint or the data")
        if self.processes.rank == 0:
            run.start_log()
        self.begun, self.started = self.step, time.monotonic()

    def _save(self) -> None:
        tensors, facts = self.pack()
        if self.processes.rank == 0 and self.run.folder is not None:
            progress = {self.unit: self.step, "seconds": self.seconds(), "records": self.run.records}
            save_checkpoint(self.run.folder, tensors, {**facts, **progress, "identity": self.identity})
        self.processes.wait()


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON facts; where that fails, the earlier checkpoint stays as it was."""
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    write_arrays(folder / CHECKPOINT, KIND, arrays, facts)


def load_checkpoint(folder: Path, identity: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and facts that were saved last, None without any. Refused if they were made with another `identity`."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        facts, arrays = read_arrays(path, KIND)
    except DAMAGE as error:
        raise UnseenError(f"{path} is damaged ({error}): {AGAIN}") from None
    then, now = _flat(facts["identity"]), _flat(json.loads(json.dumps(identity)))
    changed = sorted(key for key in now | then if then.get(key) != now.get(key))
    if changed:
        differences = "; ".join(f"{key} was {then.get(key)}, now {now.get(key)}" for key in changed)
        raise UnseenError(
            f"{path} belongs to another training: {differences}. Use the same settings to continue it, or {AGAIN}"
        )
    return {name: from_numpy(array) for name, array in arrays.items()}, facts


def pack_training(network: nn.Module, optimiser: Optimizer, generator: Generator) -> dict[str, Tensor]:
    """All that the next step depends on: weights, the optimiser's moments, the state of the random numbers."""
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{name}": as_tensor(value) for name, value in state.items()}
    return tensors | {"generator": generator.get_state()}


def unpack_training(tensors: dict[str, Tensor], network: nn.Module, optimiser: Optimizer, generator: Generator) -> None:
    """Restore what `pack_training` returned."""
    weights: dict[str, Tensor] = {}
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        if part == "network":
            weights[rest] = tensor
        elif part == "optimiser":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = tensor
    network.load_state_dict(weights)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
    generator.set_state(tensors["generator"])


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    """Nested settings as one level, for a comparison that can be read."""
    flat = {}
    for key, value in facts.items():
        flat |= _flat(value) if isinstance(value, dict) else {key: value}
    return flat


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """A function that says whether Ctrl-C or SIGTERM arrived. The current step ends first, so that no half-made update
    is saved; a second Ctrl-C stops at once."""
    came = threading.Event()

    def note(number, frame):
        came.set()
        signal.signal(number, previous[number])

    main = threading.current_thread() is threading.main_thread()  # signals reach it alone
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if main}
    for number in previous:
        signal.signal(number, note)
    try:
        yield came.is_set
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
