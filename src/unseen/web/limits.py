"""How much a client may ask for. The numbers bound memory and time; the page reads them from /api/version."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MB = 1_000_000
MAX_FILE_BYTES = 20 * MB
MAX_FILES = 32
MAX_UPLOAD_BYTES = 200 * MB  # all files of a request together; beyond 1 MB each they wait on disk
MAX_BODY_BYTES = MB  # requests without photos
MAX_PIXELS = 64_000_000  # by width x height, 4 bytes each: 256 MB for each of DECODERS at a time
DECODERS = 4  # photos decoded at the same time
MAX_LATE = 4  # decoders that were given up and still run
DECODE_SECONDS = 20.0  # for one photo
DECODE_WAIT = 30.0  # seconds until a decoder is free
MAX_LABELS = 100
MAX_FORM_FIELDS = MAX_LABELS + 8  # other fields than files, each of
MAX_FIELD_BYTES = 2_000  # at most: they wait in memory
MAX_NAME = 200  # characters of a class name, of a search
MAX_DEFINITION = 2_000
MAX_PARENTS = 20
MAX_ADDED = 500  # classes that the page may add to a bundle
MAX_SAVED = 20  # bundles that the page may save, up to 100 MB each
MAX_RANKED = 200  # remembered photos ranked in one request
KEPT_PHOTOS = 2_000  # photos whose features are remembered, 5 kB each
MAX_CONNECTIONS = 256
SEND_SECONDS = 15.0  # in which a client must take something of the answer that waits for it
HEADER_SECONDS = 15.0  # for the first line and the headers of a request
BODY_SECONDS = 15.0  # for its body, and one second more for every
BODY_RATE = 20_000  # bytes that have arrived

UPLOADS = ("/api/classify", "/api/heatmap")
CHANGES = ("POST /api/add", "POST /api/teach", "POST /api/save", "DELETE ")  # method and how the path begins
# Requests of a kind that are answered at a time. A thread answers each, and there are 40: some are left for the others.
AT_A_TIME = {"upload": 24, "change": 4}


class BodyLimit:
    """ASGI middleware: refuse a body that is too large, by its announced length or as soon as it grows beyond; one that
    does not arrive; and more uploads and changes at a time than there are threads for."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        kind = _kind(scope)
        if self._under_way[kind] >= AT_A_TIME.get(kind, MAX_CONNECTIONS):
            busy = JSONResponse({"error": "The server is busy: send it again in some seconds."}, 503)
            busy.headers["retry-after"] = "5"
            return await busy(scope, receive, send)
        with self._counted(kind):
            await self.app(scope, _bounded(scope, receive), send)

    @contextmanager
    def _counted(self, kind: str) -> Iterator[None]:
        self._under_way[kind] += 1
        try:
            yield
        finally:
            self._under_way[kind] -= 1


def _kind(scope: Scope) -> str:
    if scope["path"] in UPLOADS:
        return "upload"
    return "change" if f"{scope['method']} {scope['path']}".startswith(CHANGES) else "other"


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """`receive`, as long as the body is small enough and keeps arriving."""
    most = MAX_UPLOAD_BYTES if scope["path"] in UPLOADS else MAX_BODY_BYTES
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    expected = int(announced) if announced.isdigit() and len(announced) < 20 else 0
    received, whole, started = 0, False, asyncio.get_running_loop().time()

    async def receive_more() -> Message:
        nonlocal received, whole
        if whole:  # what is left to come is that the client goes
            return await receive()
        until = started + BODY_SECONDS + received / BODY_RATE
        # An HTTPException passes through the framework's body parsers, which hide any other error behind a 400.
        try:
            message = await asyncio.wait_for(receive(), max(0.0, until - asyncio.get_running_loop().time()))
        except asyncio.TimeoutError:
            raise HTTPException(
                408, "The request did not arrive whole in time: send it again.", {"connection": "close"}
            ) from None
        received += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if max(expected, received) > most:
            raise HTTPException(413, f"The request is larger than {most // MB} MB: send fewer or smaller photos.")
        return message

    return receive_more


class BoundedRequest(Request):
    """A request whose form has a few short fields besides its files: fields are held in memory."""

    def form(self, **limits: Any):
        return super().form(max_files=MAX_FILES, max_fields=MAX_FORM_FIELDS, max_part_size=MAX_FIELD_BYTES)


class BoundedRoute(APIRoute):
    """A route whose requests are bounded."""

    def get_route_handler(self):
        answer = super().get_route_handler()

        async def bounded(request: Request):
            try:
                return await answer(BoundedRequest(request.scope, request.receive))
            except HTTPException as error:
                if error.status_code == 400 and "Too many files" in str(error.detail):
                    raise HTTPException(413, f"Too many files: send at most {MAX_FILES} at a time.") from None
                raise

        return bounded
