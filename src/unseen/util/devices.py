"""The machine: threads, memory, garbage collection."""

from __future__ import annotations

import gc
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

try:
    import resource
except ImportError:  # Windows
    resource = None

T = TypeVar("T")
R = TypeVar("R")


def cpu_count() -> int:
    """Threads to compute with: OMP_NUM_THREADS, or else the CPUs that this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_rank() -> int:
    """The rank of this process under torchrun; 0 without it."""
    return int(os.environ.get("RANK", "0"))


def in_threads(work: Callable[[T], R], items: Iterable[T], threads: int | None = None) -> Iterator[tuple[T, R]]:
    """Each item, in their order, with what `work` makes of it in a thread; by default a thread a CPU.

    Only a few items are under way, however many there are: they may come from a generator.
    """
    threads = max(1, threads) if threads is not None else cpu_count()
    if isinstance(items, Sized) and len(items) < 2:  # all CPUs share each operation
        yield from ((item, work(item)) for item in items)
        return
    waiting: deque[tuple[T, Future[R]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > 2 * threads:
                    done, result = waiting.popleft()
                    yield done, result.result()
            while waiting:
                done, result = waiting.popleft()
                yield done, result.result()
        finally:  # nobody waits for items that were not begun when an error or Ctrl-C came
            for _, future in waiting:
                future.cancel()


def peak_memory_mb() -> float | None:
    """Peak memory of this process, in MB; None if the system does not report it."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 * 1024 if sys.platform == "darwin" else 1024))


def memory_mb() -> float | None:
    """Memory of this process now, in MB; None if the system does not report it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return None


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection: millions of long-lived objects make it slow, and it frees nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def quick_start() -> Iterator[None]:
    """For imports and first loads of a short command: garbage collection is paused, and skips what was loaded.

    Importing torch alone takes a quarter less.
    """
    with uncollected():
        try:
            yield
        finally:
            if not gc.get_freeze_count():  # once: a process that starts again and again would keep all its garbage
                gc.freeze()
