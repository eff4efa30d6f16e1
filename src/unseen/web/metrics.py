"""What /metrics tells, as text that Prometheus reads: requests, their durations, photos, memory.

All numbers lie in one array with a row for each process of the server (`--workers`), in a file that they share:
whichever answers tells the sums.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unseen.runtime.memory import memory_mb
from unseen.web.service import Service

# What is counted apart; an address of a client's own invention is "other", so that nobody can fill the memory.
ROUTES = (
    "/", "/api/classify", "/api/rank", "/api/heatmap", "/api/compare", "/api/classes", "/api/classes/{id}",
    "/api/explain/{id}", "/api/topics", "/api/suggest", "/api/add", "/api/teach", "/api/teach/{id}", "/api/save",
    "/api/bundles", "/api/health", "/api/version", "/metrics", "/static", "other",
)  # fmt: skip
STATUSES = ("2xx", "3xx", "4xx", "5xx")
SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, float("inf"))
GAUGES = {
    "unseen_requests_in_progress": "Requests under way.",
    "unseen_photos_remembered": "Photos whose features are kept.",
    "unseen_memory_bytes": "Memory of all processes.",
    "unseen_workers": "Processes that have answered.",
}
TOTALS = {"unseen_photos_total": "Photos that went through a network.", "unseen_batches_total": "Runs of a network."}
_CELLS = {name: at for at, name in enumerate((*GAUGES, *TOTALS))}
_WIDTH = len(STATUSES) + len(SECONDS) + 1  # of a route: answers by status, by duration, and the sum of seconds
_ROW = len(_CELLS) + len(ROUTES) * _WIDTH


class Metrics:
    """The numbers of this process, and of those that share its file. `row` is its own among them."""

    def __init__(self, file: Path | None = None, row: int = 0):
        self.all = np.zeros((1, _ROW)) if file is None else np.memmap(file, np.float64, "r+").reshape(-1, _ROW)
        self.own = self.all[row]
        self.own[: len(GAUGES)] = 0.0
        self.routes = self.own[len(_CELLS) :].reshape(len(ROUTES), _WIDTH)
        self._photos = [self.own[_CELLS[name]] for name in TOTALS]  # of processes that had the row before
        self._weighed = 0.0

    @staticmethod
    def create(file: Path, rows: int) -> None:
        """A file for so many processes."""
        file.write_bytes(bytes(rows * _ROW * 8))

    @staticmethod
    def retire(file: Path, row: int) -> None:
        """A process has ended: what it held is free, what it did is counted."""
        Metrics(file, row)

    def begin(self) -> float:
        self.own[_CELLS["unseen_requests_in_progress"]] += 1
        return time.monotonic()

    def end(self, path: str, status: int, started: float, service: Service) -> None:
        seconds = time.monotonic() - started
        cells = self.routes[ROUTES.index(_route(path))]
        cells[min(max(status // 100 - 2, 0), 3)] += 1
        cells[len(STATUSES) + next(at for at, most in enumerate(SECONDS) if seconds <= most)] += 1
        cells[-1] += seconds
        self.own[_CELLS["unseen_requests_in_progress"]] -= 1
        self._look_at(service)

    def _look_at(self, service: Service) -> None:
        batchers = [worker.batcher for worker in service.workers.values()]
        done = (sum(batcher.items for batcher in batchers), sum(batcher.batches for batcher in batchers))
        for name, before, now in zip(TOTALS, self._photos, done, strict=True):
            self.own[_CELLS[name]] = before + now
        self.own[_CELLS["unseen_photos_remembered"]] = len(service.photos)
        self.own[_CELLS["unseen_workers"]] = 1
        if time.monotonic() - self._weighed > 1:  # reading it costs as much as a small request
            self._weighed = time.monotonic()
            self.own[_CELLS["unseen_memory_bytes"]] = (memory_mb() or 0) * 1024 * 1024

    def text(self) -> str:
        """Everything, in Prometheus's text format."""
        total = self.all.sum(axis=0)
        lines = []
        for name, what in (GAUGES | TOTALS).items():
            kind = "counter" if name in TOTALS else "gauge"
            lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}", f"{name} {total[_CELLS[name]]:.0f}"]
        routes = total[len(_CELLS) :].reshape(len(ROUTES), _WIDTH)
        name = "unseen_requests_total"
        lines += [f"# HELP {name} Requests answered.", f"# TYPE {name} counter"]
        for route, cells in zip(ROUTES, routes, strict=True):
            for status, count in zip(STATUSES, cells, strict=False):
                if count:
                    lines.append(f'{name}{{path="{route}",status="{status}"}} {count:.0f}')
        name = "unseen_request_seconds"
        lines += [f"# HELP {name} How long answers took.", f"# TYPE {name} histogram"]
        for route, cells in zip(ROUTES, routes, strict=True):
            counts = np.cumsum(cells[len(STATUSES) : -1])
            if counts[-1]:
                for most, count in zip(SECONDS, counts, strict=True):
                    bound = "+Inf" if most == float("inf") else f"{most:g}"
                    lines.append(f'{name}_bucket{{path="{route}",le="{bound}"}} {count:.0f}')
                lines.append(f'{name}_sum{{path="{route}"}} {cells[-1]:.6f}')
                lines.append(f'{name}_count{{path="{route}"}} {counts[-1]:.0f}')
        return "\n".join(lines) + "\n"


def _route(path: str) -> str:
    if path in ROUTES:
        return path
    for beginning, route in (
        ("/api/classes/", "/api/classes/{id}"),
        ("/api/explain/", "/api/explain/{id}"),
        ("/static/", "/static"),
    ):
        if path.startswith(beginning):
            return route
    return "other"


class MetricsMiddleware:
    """ASGI middleware: every request is counted when it is answered, refused ones too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, service: Service):
        self.app, self.metrics, self.service = app, metrics, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status = self.metrics.begin(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            self.metrics.end(scope["path"], status, started, self.service)
