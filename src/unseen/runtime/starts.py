"""How a command of a few seconds starts quickly."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_start() -> Iterator[None]:
    """Within it modules are imported and files loaded without looking for garbage among them.

    All of it is needed until the end of the process, and the more there is, the longer each search takes: importing
    torch alone takes a quarter less without. What was loaded is never searched later either, not even at the end.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # once: a process that starts again and again would keep all its garbage
            gc.freeze()
        if enabled:
            gc.enable()
