"""Worker processes that read photos: what their death looks like from here, and what to tell of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.utils.data import get_worker_info

from unseen.errors import UnseenError

SIGNAL_SECONDS = 2.0  # more than the news of a death takes


def shared(batch: torch.Tensor) -> torch.Tensor:
    """A worker's batch in shared memory, so that it can be handed over.

    torch would move it there itself, in a thread whose error nobody hears of where there is no room for it: the batch
    would never come, and the reader wait for ever.
    """
    return batch if get_worker_info() is None else batch.share_memory_()


def watch_workers(work: Callable[[], None], advice: str) -> None:
    """Do `work`, which reads from worker processes; where one of them dies, an error tells it, with `advice`."""
    died = None
    try:
        work()
    except (RuntimeError, ConnectionError, EOFError) as error:
        died = _told_of_death(error)
        if died is None:
            raise
    if died is not None:  # raised here, where nothing holds the loader any more: torch would report it again
        raise UnseenError(f"a process that reads photos ended unexpectedly: {died} {advice}")


def _told_of_death(error: Exception) -> str | None:
    """What torch says of a worker's death; None where `error` is about something else.

    torch raises it from a signal, wherever the program is then. A batch that the worker was handing over breaks off
    before that: then the signal is waited for, or it would be raised somewhere later.
    """
    if isinstance(error, (ConnectionError, EOFError)):
        try:
            time.sleep(SIGNAL_SECONDS)
        except RuntimeError as report:
            return _told_of_death(report)
        return f"{type(error).__name__}: {error}."
    said = str(error).partition("\n")[0]
    return said if "DataLoader worker" in said else None
