"""Where a long job writes, and how it reports: folder, seed, device, log."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from unseen.errors import UnseenError

CHECKPOINT = "checkpoint.safetensors"  # in a run's folder


@dataclass
class Run:
    """The circumstances of a fit: they do not change what is computed, but for the seed."""

    folder: Path | None = None  # checkpoints and log.jsonl; None keeps nothing on disk
    seed: int = 0
    device: str = "auto"
    resume: bool = False
    show_progress: bool = True
    checkpoint_every: int = 100
    records: list[dict] = field(default_factory=list)  # what log() was told, for the bundle
    started: float = field(default_factory=time.monotonic)
    spent: float = 0.0  # seconds that the processes before this one took, where it goes on with their work

    def __post_init__(self):
        if not 0 <= self.seed < 2**63:
            raise UnseenError(f"the seed must be a whole number from 0 to 2^63 - 1, not {self.seed}")

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

    def start_log(self) -> None:
        """Begin `log.jsonl` with what is known: a resumed run's log reads as one, a new run's starts empty."""
        if self.folder is not None:
            lines = "".join(json.dumps(record) + "\n" for record in self.records)
            write_atomically(self.folder / "log.jsonl", lines.encode())

    def torch_device(self):
        """The torch device: `auto` takes CUDA, then MPS, then the CPU."""
        import torch

        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        try:
            device = torch.device(name)
            torch.zeros(1, device=device).cpu()  # `meta` takes anything, and gives nothing back
        except (RuntimeError, AssertionError) as error:
            raise UnseenError(f"the device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None
        return device


def peak_memory_mb() -> float:
    """The most memory this process has held so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into an error that says which."""
    try:
        yield
    except OSError as error:
        raise UnseenError(f"cannot write to {path}: {error.strerror or error}") from None


def write_atomically(path: Path, content: bytes) -> None:
    """All of the content or the old file, never half: a temporary file beside it, synced, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """A function that tells whether Ctrl-C or a termination came: the step under way is finished first, so that no
    half-made update is saved. A second Ctrl-C does not wait."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set  # signals reach the main thread only
        return

    def note(number, frame):
        came.set()
        signal.signal(number, previous[number])

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, note)
    try:
        yield came.is_set
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
