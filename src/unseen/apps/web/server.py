"""Binding a port, and running the application on it until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from unseen.util.errors import UnseenError

TRIES = 20  # ports after the first one that are tried
MAX_CONNECTIONS = 100  # beyond them the answer is 503
GRACE = 30  # seconds that running requests have at the end


def bind(host: str, port: int | None, default: int = 8000) -> socket.socket:
    """A listening socket. A port that was asked for must be free; without one, the first free from `default` on."""
    ports = [port] if port is not None else list(range(default, default + TRIES))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in ports:
        try:
            return socket.create_server((host, number), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise UnseenError(f"cannot listen on {host}, port {number}: {error.strerror or error}") from None
    if port is not None:
        raise UnseenError(f"port {port} is in use: choose another, or omit it to pick a free one")
    raise UnseenError(f"all ports from {ports[0]} to {ports[-1]} are in use: choose another one")


def address_of(bound: socket.socket, host: str) -> str:
    """The address to open in a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "localhost", "": "127.0.0.1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{bound.getsockname()[1]}"


class Server(uvicorn.Server):
    """Calls `ready` once requests are answered."""

    def __init__(self, app: Any, ready: Callable[[], None] = lambda: None):
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",  # the caller opens and closes what is served
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()


def run(app: Any, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    server = Server(app, ready)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # uvicorn, once it has ended, raises the signal again that ended it: the caller still has to clean up.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:  # Ctrl-C is how a server ends
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        bound.close()


def _is_news(record: logging.LogRecord) -> bool:
    """Not that a request was cut off, if somebody pressed Ctrl-C twice."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, asyncio.CancelledError)
