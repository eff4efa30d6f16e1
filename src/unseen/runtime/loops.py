"""The one loop of long trainings: steps with a progress bar, a log and checkpoints.

A training can be interrupted at any time: it goes on from its last checkpoint and ends, bit for bit, where it would
have ended.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import repeat
from typing import Any, ClassVar

from torch import Tensor

from unseen.errors import UnseenError
from unseen.runtime.checkpoints import (
    AGAIN,
    AGAIN_ARGUMENTS,
    DAMAGE,
    Checkpoint,
    load_checkpoint,
    remove_damaged,
    save_checkpoint,
)
from unseen.runtime.modules import announce
from unseen.runtime.processes import Processes
from unseen.runtime.progress import progress
from unseen.runtime.run import Run
from unseen.runtime.signals import interruption


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
        self.begun = 0  # those of them that earlier processes did, and
        self.spent = 0.0  # the seconds that these took
        self.started = time.monotonic()

    @abstractmethod
    def update(self, batch: Any) -> None:
        """Do one step."""

    @abstractmethod
    def log(self) -> dict[str, str]:
        """Write a record of the steps since the last one; what the progress bar is to show."""

    @abstractmethod
    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON facts that the next step depends on."""

    @abstractmethod
    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Put back what `pack` gave."""

    def batches(self) -> Iterable[Any]:
        """What the steps that are left are given, one each; by default nothing."""
        return repeat(None)

    def is_logged(self) -> bool:
        """Whether the step just done is one to log; those with a checkpoint always are."""
        return self.step % self.log_every == 0

    def is_enough(self) -> bool:
        """Whether to end before all steps are done."""
        return False

    def end_step(self) -> None:  # noqa: B027 (nothing, by default)
        """What follows a step and its record, such as a validation at the end of an epoch."""

    def seconds(self) -> float:
        """Of the whole training, with those before an interruption."""
        return self.spent + time.monotonic() - self.started

    def check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise UnseenError(
                f"the loss became {loss} by {self.unit} {self.step}: lower the learning rate. "
                "The last checkpoint is kept."
            )

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
                    raise self._stopped()

    def _restore(self) -> None:
        """Begin at the checkpoint where one is to be resumed, else at the first step."""
        run, saved = self.run, None
        folder = run.folder if run.resume else None
        if folder is not None:
            saved = load_checkpoint(
                folder, self.identity, announce if self.processes.rank == 0 else lambda message: None
            )
        if saved is not None:
            self._go_on(saved)
        digest = hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:12]
        self.processes.agree((self.step, digest), "the checkpoint or the data")
        if self.processes.rank == 0:
            if folder is not None:
                remove_damaged(folder, saved)
            run.start_log()
        self.begun, self.started = self.step, time.monotonic()

    def _go_on(self, saved: Checkpoint) -> None:
        """Be where the training was when this was saved."""
        facts = saved.facts
        try:
            if facts[self.unit] > self.total:
                raise UnseenError(
                    f"the checkpoint in {self.run.folder} has {facts[self.unit]} {self.unit}s already, more than the "
                    f"{self.total} asked for: ask for more, or {AGAIN}",
                    *AGAIN_ARGUMENTS,
                )
            self.unpack(saved.tensors, facts)
            self.run.go_on(facts["records"])
            self.step, self.spent = facts[self.unit], facts["seconds"]
        except DAMAGE as error:  # of a version without checksums
            raise UnseenError(f"{saved.path} is damaged ({error}): {AGAIN}", *AGAIN_ARGUMENTS) from None

    def _save(self) -> None:
        tensors, facts = self.pack()
        if self.processes.rank == 0 and self.run.folder is not None:
            told = {self.unit: self.step, "seconds": self.seconds(), "records": self.run.records}
            save_checkpoint(self.run.folder, tensors, {**facts, **told, "identity": self.identity})
        self.processes.wait()

    def _stopped(self) -> UnseenError:
        where = f"stopped after {self.unit} {self.step} of {self.total}"
        if self.run.folder is None:
            return UnseenError(f"{where}; nothing is kept, as no output folder was given")
        if self.run.resume:
            return UnseenError(f"{where}; run the same again to continue")
        return UnseenError(f"{where}; continue with resume=True and the same settings", "resume=True")
