"""Connections that hold a place and do nothing: one that is opened, or kept open, must begin a request and finish its
headers in time, and take the answer that it asked for.

uvicorn waits for ever for both. Bodies are in `limits.BodyLimit`.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from unseen.web.limits import HEADER_SECONDS, SEND_SECONDS

_Protocol: Any = AutoHTTPProtocol  # whichever is installed: both have `loop`, `transport` and `cycle`


class ImpatientProtocol(_Protocol):
    """uvicorn's HTTP protocol with an end to its patience for headers, and for clients that do not read."""

    _timer: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _unsent = math.inf  # bytes at the last look, if none were taken since then

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_headers()
        self._watch = self.loop.call_later(SEND_SECONDS, self._look)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._timer is None:  # the beginning of another request
            self._await_headers()

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

    def _look(self) -> None:
        """Hang up on a client that took nothing of its answer since the last look; closing would wait for it."""
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent >= self._unsent:
            self.transport.abort()
            return
        self._unsent = unsent or math.inf
        self._watch = self.loop.call_later(SEND_SECONDS, self._look)
