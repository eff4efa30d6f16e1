"""Where a long job writes, and how it reports: folder, seed, device, log, and a progress bar on standard error."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unseen.util.devices import own_rank
from unseen.util.errors import UnseenError
from unseen.util.files import write_atomically, writing
from unseen.util.safe_text import SafeConsole

console = SafeConsole(stderr=True)


@dataclass
class Run:
    """How a fit is run. Only the seed changes the result.

    Args:
        folder: Where checkpoints and log.jsonl go; None keeps nothing on disk.
        seed: The seed of all random numbers.
        device: cpu, cuda and the like; auto takes a GPU if there is one.
        resume: Continue from the checkpoint in `folder`.
        workers: Processes that read photos.
        show_progress: Show a progress bar.
        checkpoint_every: Epochs of stage 1 from one checkpoint to the next; stage 2 saves one after each epoch.
        records: What was logged, for the bundle.
        started: When this process began, on the monotonic clock.
        spent: Seconds that earlier processes took, if this run resumes their work.

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
    workers: int = 2
    records: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    spent: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise UnseenError(f"the seed must be an integer from 0 to 2^63 - 1, not {self.seed}")
        if self.workers < 0:
            raise UnseenError(f"the number of workers must be 0 or more, not {self.workers}")

    def take_over(self, records: list[dict[str, Any]]) -> None:
        """Continue the log and the clock of an interrupted run."""
        self.records[:] = records
        self.spent = records[-1]["seconds"] if records else 0.0

    def log(self, **fields: Any) -> None:
        """Keep a record, and append it to `log.jsonl` in the folder."""
        record = {"seconds": round(self.spent + time.monotonic() - self.started, 3), **fields}
        self.records.append(record)
        if self.folder is not None:
            with writing(self.folder), open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def start_log(self) -> None:
        """Start `log.jsonl` with the records so far: a resumed run's log reads as one, a new run's is empty."""
        if self.folder is not None:
            lines = "".join(json.dumps(record) + "\n" for record in self.records)
            write_atomically(self.folder / "log.jsonl", lines.encode())


class Bar:
    """A handle on one bar: `bar.advance(1, loss="0.41")` moves it and shows the fields behind it."""

    def __init__(self, progress: Progress, task):
        self._progress, self._task = progress, task

    def advance(self, steps: int = 1, **fields) -> None:
        text = "  ".join(f"{key} {value}" for key, value in fields.items())
        shown: dict[str, Any] = {"fields": text} if fields else {}
        self._progress.update(self._task, advance=steps, **shown)


@contextmanager
def progress(description: str, total: int | None, enabled: bool = True, done: int = 0) -> Iterator[Bar]:
    """A bar with count, time spent and time left. Off when not `enabled`, without a terminal, on all ranks but 0,
    and where the log is kept to warnings."""
    silenced = not enabled or logging.getLogger("unseen").level > logging.INFO
    quiet = silenced or not sys.stderr.isatty() or own_rank() > 0
    text, fields = TextColumn("{task.description}"), TextColumn("[cyan]{task.fields[fields]}")
    spent, left = TimeElapsedColumn(), (TextColumn("left"), TimeRemainingColumn())
    columns = (text, BarColumn(bar_width=30), MofNCompleteColumn(), fields, spent, *left)
    with Progress(*columns, console=console, disable=quiet, refresh_per_second=4) as bars:
        yield Bar(bars, bars.add_task(description, total=total, completed=done, fields=""))
