"""Ctrl-C and termination, noticed between two steps of long work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
