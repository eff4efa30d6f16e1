"""Progress bars on standard error, so that standard output stays free for results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

console = Console(stderr=True)


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
    """A bar with count, time spent and time left. Off when not `enabled`, when nobody looks, and on all ranks but 0."""
    quiet = not enabled or not sys.stderr.isatty() or int(os.environ.get("RANK", "0")) > 0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("[cyan]{task.fields[fields]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=quiet, refresh_per_second=4) as bars:
        yield Bar(bars, bars.add_task(description, total=total, completed=done, fields=""))
