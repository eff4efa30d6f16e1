"""The ASGI application: the API, the static page, and errors that say what to do."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from unseen import __version__
from unseen.errors import UnseenError
from unseen.web.api import make_router
from unseen.web.guard import Guard
from unseen.web.limits import BodyLimit
from unseen.web.metrics import Metrics, MetricsMiddleware
from unseen.web.names import SHOWN_ONLY, PlainJSONResponse
from unseen.web.service import Refused, Service
from unseen.web.token import TokenGuard

STATIC = Path(__file__).resolve().parent / "static"
DESCRIPTION = """Name what photos show, among every class of a hierarchy: those the network was trained on, and those it
never saw. Scores rank classes for one photo; they are not probabilities.

Errors are JSON, `{"error": "what was wrong and what to do"}`."""


def create_app(
    service: Service,
    host: str = "127.0.0.1",
    allowed_hosts: Iterable[str] = (),
    token: str | None = None,
    metrics: Metrics | None = None,
) -> FastAPI:
    """The page and the API for `service`. `host` is the address it will be bound to: requests must name it, and know
    the `token`, if there is one. `metrics` are those that several processes share."""
    metrics = metrics or Metrics()
    # FastAPI's own documentation pages load scripts from elsewhere; ours is static/docs.html.
    app = FastAPI(
        title="unseen",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        default_response_class=PlainJSONResponse,
    )
    app.add_middleware(BodyLimit)
    app.add_middleware(TokenGuard, token=token)
    app.add_middleware(Guard, host=host, more=tuple(allowed_hosts))
    app.add_middleware(MetricsMiddleware, metrics=metrics, service=service)
    app.include_router(make_router(service))
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    @app.get("/metrics", include_in_schema=False)
    def measured() -> PlainTextResponse:
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> FileResponse:
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")

    app.add_exception_handler(UnseenError, _mistake)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)
    return app


# Starlette calls a handler only with the errors that it was added for, but its types say that any may come.
def _mistake(request: Request, error: Any) -> JSONResponse:
    if isinstance(error, Refused):
        return PlainJSONResponse({"error": str(error)} | error.more, error.status)
    return PlainJSONResponse({"error": str(error)}, 400)


def _invalid(request: Request, error: Any) -> JSONResponse:
    """'k: Input should be less than or equal to 100': the field and what it should be, never what was sent."""
    problems = []
    for item in error.errors()[:5]:
        field = ".".join(str(part) for part in item["loc"][1:]) or "the body"
        hidden = item.get("ctx", {}).get("pattern") == SHOWN_ONLY
        problems.append(f"{field}: {'It holds control or direction characters' if hidden else item['msg']}")
    if any(text.startswith("files: ") for text in problems):
        problems.append("Send one photo or more in the multipart field `files`")
    return PlainJSONResponse({"error": ". ".join(problems) + "."}, 422)


def _http(request: Request, error: Any) -> JSONResponse:
    text = f"There is nothing at {request.url.path}. The API is described at /docs."
    return PlainJSONResponse(
        {"error": text if error.status_code == 404 else str(error.detail)}, error.status_code, error.headers
    )


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger("unseen.web").error("%s %s failed", request.method, request.url.path, exc_info=error)
    return PlainJSONResponse({"error": "Internal error: the server's terminal shows the details."}, 500)
