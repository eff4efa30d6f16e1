"""What keeps other web sites out of a server on this machine, and the page itself from loading anything foreign.

A browser lets any site send requests to 127.0.0.1. So: a request must name a host that is ours (else a foreign domain
name could be pointed here, "DNS rebinding"), and one that changes something must come from our page or from no page.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
READING = ("GET", "HEAD", "OPTIONS")


def is_loopback(host: str) -> bool:
    """True for names and addresses that only this machine can reach."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware: checks Host and Origin, and adds the security headers to every answer.

    `host` is the address that the server is bound to, `more` are further names that it may be called by.
    """

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", more: Iterable[str] = ()):
        self.app = app
        self.names = {host.lower(), *(name.lower() for name in more)}
        self.any_address = host in ("", "0.0.0.0", "::")
        if self.any_address:
            self.names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope["method"], Headers(scope=scope))
        app = JSONResponse({"error": refusal}, 403) if refusal else self.app
        await app(scope, receive, with_headers)

    def refusal(self, method: str, headers: Headers) -> str | None:
        """Why a request is not answered; None if it is."""
        host = headers.get("host", "")
        if not self.is_ours(host):
            return f"This server does not answer to the name {host!r}. Open it by the address that it printed."
        if method in READING:
            return None
        foreign = "Only the page of this server itself may send this, not another web site."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return foreign
        origin = headers.get("origin")
        return foreign if origin is not None and origin.partition("://")[2].lower() != host.lower() else None

    def is_ours(self, host: str) -> bool:
        name = _without_port(host).lower().rstrip(".")
        if is_loopback(name) or name in self.names:
            return True
        if not self.any_address:
            return False
        try:  # bound to all addresses: any of them is fine, since rebinding needs a name
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _without_port(host: str) -> str:
    """'[::1]:8000' -> '::1', 'localhost:8000' -> 'localhost'."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
