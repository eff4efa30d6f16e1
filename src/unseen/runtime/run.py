"""Where a long job writes, and how it reports: folder, seed, device, log."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from unseen.errors import UnseenError
from unseen.runtime.devices import choose_device
from unseen.runtime.files import write_atomically, writing

if TYPE_CHECKING:
    import torch


@dataclass
class Run:
    """The circumstances of a fit: they do not change what is computed, but for the seed.

    Args:
        folder: Where checkpoints and log.jsonl go; None keeps nothing on disk.
        seed: From which all chance follows.
        device: cpu, cuda and the like; auto takes a GPU if there is one.
        resume: Continue from the checkpoint in `folder`.
        show_progress: Show a progress bar.
        checkpoint_every: Steps from one checkpoint to the next; in stage 1 a step is an epoch.
        records: What `log` was told, for the bundle.
        started: When this process began, on the monotonic clock.
        spent: Seconds that the processes before this one took, where it goes on with their work.

    >>> import unseen
    >>> run = unseen.Run(seed=7, device="cpu")
    >>> run.log(epoch=1, loss=0.5)
    >>> run.records
    [{'seconds': ..., 'epoch': 1, 'loss': 0.5}]
    """

    folder: Path | None = None
    seed: int = 0
    device: str = "auto"
    resume: bool = False
    show_progress: bool = True
    checkpoint_every: int = 100
    records: list[dict] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    spent: float = 0.0

    def __post_init__(self):
        if not 0 <= self.seed < 2**63:
            raise UnseenError(f"the seed must be an integer from 0 to 2^63 - 1, not {self.seed}")

    def go_on(self, records: list[dict]) -> None:
        """Take over the log of an interrupted run, and its clock with it."""
        self.records[:] = records
        self.spent = records[-1]["seconds"] if records else 0.0

    def log(self, **fields) -> None:
        """Keep a record, and append it to `log.jsonl` in the folder."""
        record = {"seconds": round(self.spent + time.monotonic() - self.started, 3), **fields}
        self.records.append(record)
        if self.folder is not None:
            with writing(self.folder), open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def torch_device(self) -> torch.device:
        return choose_device(self.device)

    def start_log(self) -> None:
        """Begin `log.jsonl` with what is known: a resumed run's log reads as one, a new run's starts empty."""
        if self.folder is not None:
            lines = "".join(json.dumps(record) + "\n" for record in self.records)
            write_atomically(self.folder / "log.jsonl", lines.encode())
