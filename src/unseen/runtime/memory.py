"""How much memory this process has held."""

from __future__ import annotations

import sys

try:
    import resource
except ImportError:  # Windows
    resource = None


def peak_memory_mb() -> float | None:
    """The most memory this process has held so far, in MB; None where the system does not tell."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 * 1024 if sys.platform == "darwin" else 1024))
