"""Ports."""

from __future__ import annotations

import socket

import pytest

from unseen.apps.web.server import address_of, bind
from unseen.util.errors import UnseenError


def test_ports():
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        number = taken.getsockname()[1]
        with pytest.raises(UnseenError, match=f"port {number} is in use"):
            bind("127.0.0.1", number)
        with bind("127.0.0.1", None, default=number) as other:
            assert number < other.getsockname()[1] < number + 20
            assert address_of(other, "127.0.0.1") == f"http://127.0.0.1:{other.getsockname()[1]}"
            assert address_of(other, "0.0.0.0").startswith("http://127.0.0.1:")
    with pytest.raises(UnseenError, match="no-such-host"):
        bind("no-such-host.invalid", None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    bind("127.0.0.1", number).close()
