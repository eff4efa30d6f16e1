"""How much a client may ask for. The numbers bound memory and time; the page reads them from /api/version."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MB = 1_000_000
MAX_FILE_BYTES = 20 * MB
MAX_FILES = 32
MAX_UPLOAD_BYTES = 200 * MB  # all files of a request together
MAX_BODY_BYTES = MB  # requests without photos
MAX_PIXELS = 64_000_000  # by width x height, 4 bytes each: 256 MB for each of DECODERS at a time
DECODERS = 4  # photos decoded at the same time
MAX_LABELS = 100
MAX_NAME = 200  # characters of a class name, of a search
MAX_DEFINITION = 2_000
MAX_PARENTS = 20
MAX_ADDED = 500  # classes that the page may add to a bundle
MAX_RANKED = 200  # remembered photos ranked in one request
KEPT_PHOTOS = 2_000  # photos whose features are remembered, 5 kB each

UPLOADS = ("/api/classify", "/api/heatmap")


class BodyLimit:
    """ASGI middleware: refuse a body that is too large, by its announced length or as soon as it grows beyond."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        most = MAX_UPLOAD_BYTES if scope["path"] in UPLOADS else MAX_BODY_BYTES
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        received = int(announced) if announced.isdigit() else 0
        counted = 0

        async def counting() -> Message:
            nonlocal counted
            message = await receive()
            counted += len(message.get("body", b""))
            # An HTTPException passes through the framework's body parsers, which hide any other error behind a 400.
            if max(received, counted) > most:
                raise HTTPException(413, f"The request is larger than {most // MB} MB: send fewer or smaller photos.")
            return message

        await self.app(scope, counting, send)
