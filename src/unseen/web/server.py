"""Binding a port, and running the application on it until Ctrl-C."""

from __future__ import annotations

import errno
import socket
import threading
import time
import webbrowser
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from unseen.errors import UnseenError
from unseen.web.connections import ImpatientProtocol
from unseen.web.limits import MAX_CONNECTIONS

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


def run(app: FastAPI, bound: socket.socket, when_ready: Callable[[], None] = lambda: None, grace: int = 3) -> None:
    """Serve until Ctrl-C; `when_ready` is called once requests are answered. Those under way at the end have `grace`
    seconds."""
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        limit_concurrency=MAX_CONNECTIONS,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=grace,
    )
    server = uvicorn.Server(config)

    def wait() -> None:
        while not server.started:
            if server.should_exit:
                return
            time.sleep(0.02)
        when_ready()

    threading.Thread(target=wait, daemon=True).start()
    try:
        server.run(sockets=[bound])
    except KeyboardInterrupt:  # Ctrl-C is how a server ends
        pass
    finally:
        bound.close()


def open_browser(address: str) -> None:
    webbrowser.open(address)
