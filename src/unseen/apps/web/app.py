"""The ASGI application: the API, the static page, and errors that say what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from unseen import __version__
from unseen.apps.web import STATIC
from unseen.apps.web.api import api
from unseen.apps.web.guards import SHOWN_ONLY, BodyLimit, Guard, PlainJSONResponse, TokenGuard
from unseen.apps.web.service import Refused, Service
from unseen.util.errors import UnseenError

DESCRIPTION = """Name what photos show, among every class of a hierarchy: those the network was trained on, and those it
never saw. Errors are JSON, `{"error": "what was wrong and what to do"}`."""


def create_app(
    service: Service, host: str = "127.0.0.1", allowed_hosts: Iterable[str] = (), token: str | None = None
) -> FastAPI:
    """The page and the API for `service`. `host` is the address it will be bound to: requests must name it, and know
    the `token`, if there is one."""
    app = FastAPI(
        title="unseen",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
        default_response_class=PlainJSONResponse,
    )
    app.add_middleware(GZipMiddleware, minimum_size=2_000)
    app.add_middleware(BodyLimit)
    app.add_middleware(TokenGuard, token=token)
    app.add_middleware(Guard, host=host, more=tuple(allowed_hosts))
    app.state.service = service
    app.include_router(api)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for path, file in {"/": "index.html", "/favicon.ico": "icon.svg"}.items():
        app.get(path, include_in_schema=False)(lambda file=STATIC / file: FileResponse(file))
    app.add_exception_handler(UnseenError, _mistake)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)
    return app


# Starlette calls a handler only with the errors that it was added for, but its types say that any may come.
def _mistake(request: Request, error: Any) -> JSONResponse:
    more, status = (error.more, error.status) if isinstance(error, Refused) else ({}, 400)
    return PlainJSONResponse({"error": str(error)} | more, status)


def _invalid(request: Request, error: Any) -> JSONResponse:
    """'k: Input should be less than or equal to 100': the field and what it should be, never what was sent."""
    problems = []
    for item in error.errors()[:5]:
        field = ".".join(str(part) for part in item["loc"][1:]) or "the body"
        hidden = item.get("ctx", {}).get("pattern") == SHOWN_ONLY
        why = "It holds control or direction characters" if hidden else item["msg"].removeprefix("Value error, ")
        problems.append(f"{field}: {why}")
    if any(text.startswith("files: ") for text in problems):
        problems.append("Send one photo or more in the multipart field `files`")
    return PlainJSONResponse({"error": ". ".join(problems) + "."}, 422)


def _http(request: Request, error: Any) -> JSONResponse:
    nothing = f"There is nothing at {request.url.path}. The API is described at /openapi.json."
    text = nothing if error.status_code == 404 else str(error.detail)
    return PlainJSONResponse({"error": text}, error.status_code, error.headers)


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger("unseen.apps.web").error("%s %s failed", request.method, request.url.path, exc_info=error)
    return PlainJSONResponse({"error": "Internal error: the server's terminal shows the details."}, 500)
