"""Binding a port, and running the application on it until Ctrl-C, with an end to its patience for silent clients."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import signal
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from unseen.apps.web.guards import HEADER_SECONDS, MAX_CONNECTIONS, MAX_HELD_BYTES, MB, RATE, SEND_SECONDS
from unseen.util.errors import UnseenError

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None

TRIES = 20  # ports after the first one that are tried


def bind(host: str, port: int | None, default: int = 8000) -> socket.socket:
    """A bound socket. A port that was asked for must be free; without one, the first free from `default` on."""
    ports = [port] if port is not None else list(range(default, default + TRIES))
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, ports[0], type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise UnseenError(f"{host} is not an address of this machine: {error.strerror or error}") from None
    for number in ports:
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address[0], number, *address[2:]))
            return bound
        except OSError as error:
            bound.close()
            if error.errno != errno.EADDRINUSE:
                raise UnseenError(f"cannot listen on {host}, port {number}: {error.strerror or error}") from None
    if port is not None:
        raise UnseenError(f"port {port} is in use: choose another, or omit it to pick a free one")
    raise UnseenError(f"all ports from {ports[0]} to {ports[-1]} are in use: choose another one")


def address_of(bound: socket.socket, host: str) -> str:
    """The address to open in a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "localhost", "": "127.0.0.1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{bound.getsockname()[1]}"


def run(app: Any, bound: socket.socket, workers: int = 1, grace: int = 30) -> None:
    """Serve until Ctrl-C, in one process or, with an application given as "module:factory", in several, which uvicorn
    restarts on SIGHUP or when they die. Requests under way at the end have `grace` seconds."""
    config = uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        http=ImpatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",  # there is nothing to begin or to end
        timeout_graceful_shutdown=grace,
        timeout_worker_healthcheck=60,  # loading a model may take as long
    )
    server = uvicorn.Server(config)
    _allow_files(2 * (MAX_CONNECTIONS + MAX_HELD_BYTES // MB))  # a file a photo under way, and room for the rest
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # uvicorn, once it has ended, raises the signal again that ended it: the caller still has to clean up.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if workers == 1:
            server.run(sockets=[bound])
        else:
            Multiprocess(config, sockets=[bound]).run()
    except KeyboardInterrupt:  # Ctrl-C is how a server ends
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        bound.close()


def _allow_files(number: int) -> None:
    """Raise the number of files that this process may have open, as far as the system allows: many begin with 1,024."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = number if hard == resource.RLIM_INFINITY else min(number, hard)
        if resource.RLIM_INFINITY != soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _is_news(record: logging.LogRecord) -> bool:
    """Not that a request was cut off, if somebody pressed Ctrl-C twice."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, asyncio.CancelledError)


def when_ready(address: str, token: str | None, act: Callable[[list[dict]], None]) -> None:
    """Call `act` with what is served, in a thread, as soon as requests are answered."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}

    def ask() -> None:
        while True:
            try:
                request = urllib.request.Request(f"{address}/api/bundles", headers=headers)
                with urllib.request.urlopen(request, timeout=5) as answer:
                    return act(json.load(answer)["bundles"])
            except OSError:
                time.sleep(0.05)

    threading.Thread(target=ask, daemon=True).start()


_Protocol: Any = AutoHTTPProtocol  # whichever is installed: both have `loop`, `transport` and `cycle`


class ImpatientProtocol(_Protocol):
    """uvicorn's HTTP protocol with an end to its patience: for headers, for readers, for the silent."""

    _timer: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _unsent = math.inf  # bytes at the last look
    _looked_at: Any = None  # the request whose answer they are part of
    _is_cut = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._began = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)
        self._watch = self.loop.call_later(SEND_SECONDS, self._look)

    def _make_room(self) -> None:
        """Hang up on a connection of the address that has most: the oldest that waits for its client, if one does."""
        others = [other for other in self.connections if not other._is_cut]
        crowd = Counter(other._address for other in others)
        oldest = max(others, key=lambda other: (crowd[other._address], other._is_waiting(), -other._began))
        oldest._is_cut = True
        oldest.transport.abort()

    def _is_waiting(self) -> bool:
        """For a request, or for the rest of its body."""
        return not self._is_answering() or self.cycle.more_body

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._timer is None:  # the beginning of another request
            self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def resume_writing(self) -> None:
        self._unsent = math.inf
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()

    def _look(self) -> None:
        """Hang up on a client that took too little of its answer since the last look; closing would wait for it."""
        unsent = self.transport.get_write_buffer_size()
        if self.cycle is self._looked_at and 0 < unsent > self._unsent - SEND_SECONDS * RATE:
            self.transport.abort()
            return
        self._unsent, self._looked_at = unsent or math.inf, self.cycle
        self._watch = self.loop.call_later(SEND_SECONDS, self._look)
