"""How the death of a worker process reaches the program: torch's report, or a connection that breaks before it."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from unseen.errors import UnseenError
from unseen.runtime import workers
from unseen.runtime.workers import watch_workers

REPORT = "DataLoader worker (pid 7) is killed by signal: Killed."


def raising(error: Exception):
    def work():
        raise error

    return work


def test_the_report_of_a_death_is_passed_on_with_advice():
    with pytest.raises(UnseenError, match=r"ended unexpectedly: DataLoader worker \(pid 7\).* Killed\. Go on\.$"):
        watch_workers(raising(RuntimeError(f"{REPORT}\nand more")), "Go on.")


def test_the_report_that_follows_a_broken_connection_is_waited_for(monkeypatch):
    """torch raises it from the handler of a signal."""

    def report(*_):
        raise RuntimeError(REPORT)

    before = signal.signal(signal.SIGUSR1, report)
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        with pytest.raises(UnseenError, match=r"ended unexpectedly: DataLoader worker \(pid 7\)"):
            watch_workers(raising(ConnectionResetError(104, "Connection reset by peer")), "Go on.")
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    monkeypatch.setattr(workers, "SIGNAL_SECONDS", 0.0)
    with pytest.raises(UnseenError, match=r"ended unexpectedly: ConnectionResetError: .*reset by peer\. Go on\."):
        watch_workers(raising(ConnectionResetError(104, "Connection reset by peer")), "Go on.")


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError, match="out of memory"):
        watch_workers(raising(RuntimeError("out of memory")), "Go on.")
