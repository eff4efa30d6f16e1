"""Who may use the server, how much of it, and what may be shown: hosts, origins, a token, limits, hidden characters.

A browser lets any site send requests to 127.0.0.1. So a request must name a host that is ours (else a foreign domain
name could be pointed here, "DNS rebinding"), and one that changes something must come from our page or from no page.
With a token, programs send `Authorization: Bearer TOKEN`; a person opens the page once with `?token=TOKEN`, and a
cookie remembers it.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
import secrets
import socket
import string
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
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


# -- limits: they bound memory and time, and the page reads some of them from /api/version -----------------------------

MB = 1_000_000
MAX_FILE_BYTES = 20 * MB
MAX_FILES = 32
MAX_UPLOAD_BYTES = 200 * MB  # all files of a request together; beyond 1 MB each they wait on disk
MAX_BODY_BYTES = MB  # requests without photos
MAX_PIXELS = 64_000_000  # by width x height: a JPEG or PNG then fits the memory of a decoder, 1 GB
DECODERS = 4  # processes, each for a photo at a time
DECODE_SECONDS = 10.0  # for one photo
MAX_LABELS = 100
MAX_FORM_FIELDS = MAX_LABELS + 8  # other fields than files, each of
MAX_FIELD_BYTES = 2_000  # at most: they wait in memory
MAX_NAME = 200  # characters of a class name, of a search
MAX_DEFINITION = 2_000
MAX_PARENTS = 20
MAX_ADDED = 500  # classes that the page may add to a bundle
MAX_SAVED = 20  # bundles that the page may save, up to 100 MB each
MAX_RANKED = 200  # remembered photos ranked in one request
MAX_RANKED_LABELS = MAX_FILES * MAX_LABELS  # of all photos of a request
RANKED_TOGETHER = 16  # photos, before it is another request's turn
KEPT_PHOTOS = 2_000  # photos whose features are remembered, 5 kB each
MAX_AMONG_NAMES = 200  # classes of a list that was asked for: new ones are placed and predicted
MAX_LISTED = 500  # classes in a list of an answer: children, parents, added ones
MAX_CONNECTIONS = 512  # beyond them, those are closed that wait for their client
RATE = 20_000  # bytes a second that a client must send, and take of an answer, but for
HEADER_SECONDS = 15.0  # that it may take to send the first line and the headers of a request,
BODY_SECONDS = 15.0  # that it may be behind with the body,
SEND_SECONDS = 15.0  # and from one look at what it has taken to the next
MOST_BODY_SECONDS = 600.0
MAX_HELD_BYTES = 2_000 * MB  # of all bodies together; half of it for one client
MAX_WAITING = 400  # requests of a kind in line
WAIT_SECONDS = 60.0  # in line

UPLOADS = ("/api/classify", "/api/heatmap")
CHANGES = ("POST /api/add", "POST /api/suggest", "POST /api/try", "POST /api/teach", "POST /api/save", "DELETE ")
FREE = "/api/health"
# Requests of a kind that are answered at a time. A thread answers each, and there are 40.
AT_A_TIME = {"upload": 24, "change": 4, "other": 8}


class Busy(HTTPException):
    def __init__(self):
        super().__init__(503, "The server is busy: send it again in some seconds.", {"retry-after": "5"})


class Line:
    """`most` requests at a time; the others wait. The next place goes to the client with the fewest under way, as long
    as more places are free than it has: so the first one gets half of them, and there is room for the next. If the line
    is full, the newest of the client that has most in it is turned away."""

    def __init__(self, most: int):
        self.free = most
        self.under_way: Counter[str] = Counter()
        self.waiting: dict[asyncio.Future[None], str] = {}  # -> the client, in the order of their coming

    @asynccontextmanager
    async def place(self, client: str, left: Awaitable[Any] | None = None) -> AsyncIterator[None]:
        """Hold a place; raises Busy if none becomes free in time, or if the client leaves first, which ends `left`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[turn] = client
        self._move_up()
        if len(self.waiting) > MAX_WAITING:
            self._turn_away()
        leaving = set() if left is None else {asyncio.ensure_future(left)}
        try:
            await asyncio.wait({turn, *leaving}, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in leaving:
                task.cancel()
            if not turn.done() or turn.cancelled():
                raise Busy
            yield
        finally:
            if self.waiting.pop(turn, None) is None and not turn.cancelled():
                self.free += 1
                self.under_way -= Counter([client])  # which drops a client that has none left
                self._move_up()

    def _move_up(self) -> None:
        while self.waiting:
            turn = min(self.waiting, key=lambda turn: self.under_way[self.waiting[turn]])
            if self.under_way[self.waiting[turn]] >= self.free:
                break
            self.under_way[self.waiting.pop(turn)] += 1
            self.free -= 1
            turn.set_result(None)

    def _turn_away(self) -> None:
        (crowd, _), *_ = Counter(self.waiting.values()).most_common(1)
        last = next(turn for turn, client in reversed(self.waiting.items()) if client == crowd)
        del self.waiting[last]
        last.cancel()


class Limits:
    """ASGI middleware: ends a body that is too large, by its announced length or as soon as it grows beyond, and one
    that arrives too slowly; and lets requests wait for their turn, those with a body as soon as all of it is there."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self.lines = {kind: Line(most) for kind, most in AT_A_TIME.items()}
        self.held: Counter[str] = Counter()  # bytes by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == FREE:
            return await self.app(scope, receive, send)
        client, headers = (scope.get("client") or ("",))[0], Headers(scope=scope)
        line = self.lines[_kind(scope)]
        most = MAX_UPLOAD_BYTES if scope["path"] in UPLOADS else MAX_BODY_BYTES
        announced = headers.get("content-length", "0")
        expected = int(announced) if announced.isdigit() and len(announced) < 20 else 0
        received, complete, now, patience = 0, False, asyncio.get_running_loop().time, BODY_SECONDS
        end = now() + MOST_BODY_SECONDS

        async def receive_more() -> Message:
            nonlocal received, complete, patience
            if complete:  # what is left to come is that the client leaves
                return await receive()
            asked = now()  # only the time that we wait counts
            # An HTTPException passes through the framework's body parsers, which hide any other error behind a 400.
            try:
                message = await asyncio.wait_for(receive(), max(0.0, min(patience, end - asked)))
            except asyncio.TimeoutError:
                why = "The request did not arrive in time: send it again."
                raise HTTPException(408, why, {"connection": "close"}) from None
            size = len(message.get("body", b""))
            patience = min(BODY_SECONDS, patience - (now() - asked) + size / RATE)
            received, complete = received + size, not message.get("more_body", False)
            self.held[client] += size
            if max(expected, received) > most:
                raise HTTPException(413, f"The request is larger than {most // MB} MB: send fewer or smaller photos.")
            if self.held[client] > MAX_HELD_BYTES // 2 or sum(self.held.values()) > MAX_HELD_BYTES:
                raise Busy
            if complete and has_body and message["type"] == "http.request":
                await places.enter_async_context(line.place(client, receive()))
            return message

        async def send_answer(message: Message) -> None:
            await places.aclose()  # whoever takes long to read it holds no place
            await send(message)

        # Of other requests nobody reads the body, if there is one.
        has_body = scope["method"] == "POST" and (expected > 0 or "transfer-encoding" in headers)
        try:
            async with AsyncExitStack() as places:
                if not has_body:
                    await places.enter_async_context(line.place(client))
                await self.app(scope, receive_more, send_answer)
        except Busy as busy:  # before the application has begun
            await JSONResponse({"error": busy.detail}, 503, busy.headers)(scope, receive, send)
        finally:
            self.held -= Counter({client: received})


def _kind(scope: Scope) -> str:
    if scope["path"] in UPLOADS:
        return "upload"
    return "change" if f"{scope['method']} {scope['path']}".startswith(CHANGES) else "other"


class BoundedRequest(Request):
    """A request whose form has a few short fields besides its files: fields are held in memory."""

    def form(self, **limits: Any):
        return super().form(max_files=MAX_FILES, max_fields=MAX_FORM_FIELDS, max_part_size=MAX_FIELD_BYTES)


class BoundedRoute(APIRoute):
    def get_route_handler(self):
        answer = super().get_route_handler()

        async def bounded(request: Request):
            try:
                return await answer(BoundedRequest(request.scope, request.receive))
            except HTTPException as error:
                if error.status_code == 400 and "Too many files" in str(error.detail):
                    raise HTTPException(413, f"Too many files: send at most {MAX_FILES} at a time.") from None
                if isinstance(error.__cause__, OSError):  # the framework takes any error for a bad body
                    why = f"The server could not keep the photos for a moment ({error.__cause__.strerror})"
                    raise HTTPException(507, f"{why}: free its temporary folder, or send fewer.") from None
                raise

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
