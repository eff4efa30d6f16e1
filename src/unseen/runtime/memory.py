"""How much memory this process holds."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: among millions of small objects that all stay, it searches long in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def peak_memory_mb() -> float | None:
    """The most memory this process has held so far, in MB; None where the system does not tell."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 * 1024 if sys.platform == "darwin" else 1024))


def memory_mb() -> float | None:
    """The memory this process holds now, in MB; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration):
        return None
