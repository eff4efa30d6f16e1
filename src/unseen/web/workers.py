"""Several processes behind one socket (`unseen serve --workers N`), and a restart that loses no request.

The first process holds the socket and serves nothing itself. On SIGHUP it starts a new worker for each old one, and
ends the old one when the new one answers; connections wait at the socket meanwhile. A worker that dies is started anew.
All end when the first one ends, even if it is killed: they notice that the pipe from it is closed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError
from unseen.web.metrics import Metrics

GRACE = 20  # seconds for requests under way in a worker that ends
START = 300.0  # seconds until a worker must answer
READY = "unseen: ready"
WORKER = "from unseen.cli.serve import serve_as_worker; serve_as_worker()"


@dataclass
class Worker:
    """A process that serves; `row` is its own in the metrics."""

    process: subprocess.Popen[str]
    row: int
    started: float = field(default_factory=time.monotonic)
    ready: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Pass on what it says; note when it is ready."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == READY:
                self.ready.set()
            else:
                print(line, end="", file=sys.stderr)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Let it finish what is under way."""
        if self.is_alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


class Supervisor:
    """Keeps `count` workers running on a bound socket. `options` is what each is told, as JSON; `folder` is theirs."""

    def __init__(
        self, bound: socket.socket, count: int, options: dict[str, Any], folder: Path, say: Callable[[str], None]
    ):
        if os.name != "posix":
            raise UnseenError("workers need a system with signals and inherited sockets: omit them here", "workers")
        self.bound, self.count, self.options, self.folder, self.say = bound, count, options, folder, say
        self.metrics = folder / "metrics"
        Metrics.create(self.metrics, 2 * count)  # old and new ones run side by side during a restart
        self.workers: list[Worker] = []
        self._stop, self._restart = threading.Event(), threading.Event()

    def run(self, when_ready: Callable[[], None]) -> None:
        """Serve until SIGINT or SIGTERM; `when_ready` is called once all workers answer."""
        self.bound.listen(2048)
        handlers = {
            number: signal.signal(number, self._noted)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # pyright: ignore[reportAttributeAccessIssue]
        }
        try:
            self.workers = [self._start(row) for row in range(self.count)]
            for worker in self.workers:
                if not self._await(worker) and not self._stop.is_set():
                    raise UnseenError("a worker could not be started: the lines above say why")
            if not self._stop.is_set():
                when_ready()
            while not self._stop.wait(0.2):
                if self._restart.is_set():
                    self._restart.clear()
                    self._renew()
                self._revive()
        finally:
            self._end_all()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self.bound.close()

    def _noted(self, number: int, frame: Any) -> None:
        (self._restart if number == signal.SIGHUP else self._stop).set()  # pyright: ignore[reportAttributeAccessIssue]

    def _start(self, row: int) -> Worker:
        socket_number = self.bound.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(socket_number,),
            start_new_session=True,  # Ctrl-C is for the first process, which then ends them
        )
        told = self.options | {"socket": socket_number, "row": row, "folder": str(self.folder), "grace": GRACE}
        assert process.stdin is not None
        process.stdin.write(json.dumps(told) + "\n")  # not as arguments, which everybody on the machine can read
        process.stdin.flush()  # and kept open: its end tells the worker that this process is gone
        worker = Worker(process, row)
        threading.Thread(target=worker.watch, daemon=True).start()
        return worker

    def _await(self, worker: Worker) -> bool:
        """Whether it answers; False if it ended before that."""
        until = time.monotonic() + START
        while not worker.ready.wait(0.1):
            if not worker.is_alive() or self._stop.is_set() or time.monotonic() > until:
                return False
        return True

    def _renew(self) -> None:
        """A new worker for each old one, one after the other."""
        self.say("Restarting the workers ...")
        for place, old in enumerate(self.workers):
            fresh = self._start(self._free_row())
            if not self._await(fresh):
                fresh.end()
                Metrics.retire(self.metrics, fresh.row)
                if not self._stop.is_set():
                    self.say("The new worker could not be started: the old ones go on.")
                return
            self.workers[place] = fresh
            old.end()
            Metrics.retire(self.metrics, old.row)
        self.say("The workers have been restarted.")

    def _free_row(self) -> int:
        return min(set(range(2 * self.count)) - {worker.row for worker in self.workers})

    def _revive(self) -> None:
        for place, worker in enumerate(self.workers):
            if not worker.is_alive() and not self._stop.is_set():
                self.say(f"A worker ended with status {worker.process.returncode}: starting another one.")
                worker.end()
                Metrics.retire(self.metrics, worker.row)
                if time.monotonic() - worker.started < 5:  # it would fail again at once
                    self._stop.wait(5)
                self.workers[place] = self._start(worker.row)

    def _end_all(self) -> None:
        for worker in self.workers:
            if worker.is_alive():
                worker.process.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.end()


def end_with(pipe: Any) -> None:
    """End this process, gracefully, when the other end of a pipe is closed."""

    def wait() -> None:
        while pipe.readline():
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
