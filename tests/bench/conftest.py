"""A clock that stands still but for what is said to take time, so that a benchmark's figures are known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *seconds: float) -> Callable[..., Any]:
        """A function that does nothing, and takes so long: the first time, the second, and so on in turns."""
        turns = cycle(seconds)

        def work(*args: Any, **kwargs: Any) -> None:
            self.now += next(turns)

        return work


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    return clock
