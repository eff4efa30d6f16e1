"""Connections that say nothing: one that is opened, or kept open, must begin a request and finish its headers in time.

uvicorn waits for ever for the rest of a request's headers. Bodies are in `limits.BodyLimit`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from unseen.web.limits import HEADER_SECONDS

_Protocol: Any = AutoHTTPProtocol  # whichever is installed: both have `loop`, `transport` and `cycle`


class ImpatientProtocol(_Protocol):
    """uvicorn's HTTP protocol with an end to its patience for headers."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._timer is None:  # the beginning of another request
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_headers(self) -> None:
        self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()
