"""Who may use the server, how much of it, and what may be shown: hosts, origins, a token, limits, hidden characters.

A browser lets any site send requests to 127.0.0.1. So a request must name a host that is ours (else a foreign domain
name could be pointed here, "DNS rebinding"), and one that changes something must come from our page or from no page.
With a token, programs send `Authorization: Bearer TOKEN`; a person opens the page once with `?token=TOKEN`, and a
cookie remembers it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
import socket
import string
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unseen.util.errors import UnseenError
from unseen.util.safe_text import HIDDEN

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

        refusal = self.refusal(scope["method"], scope["path"], Headers(scope=scope))
        app = JSONResponse({"error": refusal}, 403) if refusal else self.app
        await app(scope, receive, with_headers)

    def refusal(self, method: str, path: str, headers: Headers) -> str | None:
        """Why a request is not answered; None if it is."""
        host = headers.get("host", "")
        if not self.is_ours(host):
            return f"This server does not answer to the name {host!r}. Open it by the address that it printed."
        if method in READING and not path.startswith("/api/"):  # another site may link to the page, and no more
            return None
        foreign = "Only the page of this server itself may send this, not another web site."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return foreign
        origin = headers.get("origin")
        return foreign if origin is not None and origin.partition("://")[2].lower() != host.lower() else None

    def is_ours(self, host: str) -> bool:
        written = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\s]+)(:\d+)?", host.lower())
        if written is None:
            return False
        name = written[1].strip("[]").rstrip(".")
        if is_loopback(name) or name in self.names:
            return True
        if not self.any_address:
            return False
        try:  # bound to all addresses: any of them is fine, since rebinding needs a name
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


# -- the token --------------------------------------------------------------------------------------------------------

COOKIE = "unseen_token"
SHORTEST = 8
_ALLOWED = set(string.ascii_letters + string.digits + "-._~")


def check_token(token: str | None) -> str | None:
    """The token, if it can be sent in a header and in an address, and is not guessed at once."""
    if token is not None and (len(token) < SHORTEST or not set(token) <= _ALLOWED):
        raise UnseenError(
            f"the token must have at least {SHORTEST} characters, and only letters, digits and - . _ ~: "
            "`openssl rand -hex 16` makes one"
        )
    return token


class TokenGuard:
    """ASGI middleware: lets those in who know the token."""

    def __init__(self, app: ASGIApp, token: str | None):
        self.app, self.token = app, token
        self.cookie = hashlib.sha256(f"unseen {token}".encode()).hexdigest()  # the token itself is stored nowhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        free = self.token is None or scope["type"] != "http"
        app = self.app if free or self._knows(Headers(scope=scope)) else self._answer(scope)
        await app(scope, receive, send)

    def _knows(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(given.strip(), self.token):
            return True
        # Cookies of other servers on this machine come along, in any shape, and others of the same name.
        cookies = (text.partition("=") for text in ";".join(headers.getlist("cookie")).split(";"))
        return any(_same(value.strip(), self.cookie) for name, _, value in cookies if name.strip() == COOKIE)

    def _answer(self, scope: Scope) -> Response:
        """The page itself, once its address had the token; else what is missing."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and _same(given, self.token):
            answer: Response = RedirectResponse("/" + scope["path"].lstrip("/"), 303)  # without the token
            answer.set_cookie(COOKIE, self.cookie, httponly=True, samesite="strict", path="/")
            return answer
        what = "Open the page with ?token=TOKEN at the end of its address, or send `Authorization: Bearer TOKEN`."
        return JSONResponse({"error": f"This server needs its token. {what}"}, 401, {"www-authenticate": "Bearer"})


def _same(given: str, wanted: str | None) -> bool:
    return wanted is not None and secrets.compare_digest(given.encode(), wanted.encode())


# -- limits: they bound memory and time, and the page reads some of them from /api/start -------------------------------

MB = 1_000_000
MAX_FILE_BYTES = 20 * MB
MAX_FILES = 32
MAX_UPLOAD_BYTES = 200 * MB  # all files of a request together; beyond 1 MB each they wait on disk
MAX_BODY_BYTES = MB  # requests without photos
MAX_PIXELS = 64_000_000  # by width x height
MAX_LABELS = 100
MAX_FORM_FIELDS = MAX_LABELS + 8  # other fields than files, each of
MAX_FIELD_BYTES = 80_000  # at most, such as a list of 20,000 characters: they wait in memory
MAX_NAME = 200  # characters of a class name, of a search
MAX_DEFINITION = 2_000
MAX_PARENTS = 20
MAX_ADDED = 500  # classes that the page may add to a bundle
MAX_SAVED = 20  # bundles that the page may save, up to 100 MB each
MAX_RANKED = 200  # remembered photos ranked in one request
MAX_RANKED_LABELS = MAX_FILES * MAX_LABELS  # of all photos of a request
KEPT_PHOTOS = 2_000  # photos whose features are remembered, 5 kB each
MAX_AMONG_NAMES = 200  # classes of a list that was asked for: new ones are placed and predicted
MAX_LISTED = 500  # classes in a list of an answer: children, parents, added ones

UPLOADS = ("/api/classify", "/api/heatmap")


class BodyLimit:
    """ASGI middleware: ends a body that is too large, by its announced length or as soon as it grows beyond."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        most = MAX_UPLOAD_BYTES if scope["path"] in UPLOADS else MAX_BODY_BYTES
        announced = Headers(scope=scope).get("content-length", "0")
        expected = int(announced) if announced.isdigit() and len(announced) < 20 else 0
        received = 0

        async def receive_more() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if max(expected, received) > most:
                # An HTTPException passes through the framework's body parsers, which turn any other error into a 400.
                raise HTTPException(413, f"The request is larger than {most // MB} MB: send fewer or smaller photos.")
            return message

        await self.app(scope, receive_more, send)


class BoundedRequest(Request):
    """A request whose form has a few short fields besides its files: fields are held in memory."""

    def form(self, **limits: Any):
        return super().form(max_files=MAX_FILES, max_fields=MAX_FORM_FIELDS, max_part_size=MAX_FIELD_BYTES)


class BoundedRoute(APIRoute):
    def get_route_handler(self):
        answer = super().get_route_handler()

        async def bounded(request: Request):
            return await answer(BoundedRequest(request.scope, request.receive))

        return bounded


# -- hidden characters ------------------------------------------------------------------------------------------------

SHOWN_ONLY = rf"^[^{HIDDEN}]*$"
"""A pattern for names that people are going to read."""


def escape_hidden(name: str) -> str:
    r"""A name from outside, with \u202e where it has such a character, so that everyone sees that it has."""
    name = " ".join(name.split())
    return re.sub(rf"[{HIDDEN}\ud800-\udfff]", lambda match: match[0].encode("unicode_escape").decode(), name)


class PlainJSONResponse(JSONResponse):
    """JSON with these characters as JSON escapes: the same meaning, safe to show in a terminal."""

    def render(self, content: Any) -> bytes:
        text = super().render(content).decode()
        return re.sub(rf"[{HIDDEN}]", lambda match: f"\\u{ord(match[0]):04x}", text).encode()
