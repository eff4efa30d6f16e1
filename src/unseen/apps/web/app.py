"""The ASGI application: the API, the static page, and errors that say what to do."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from unseen import __version__
from unseen.apps.web import STATIC
from unseen.apps.web.api import classes_api, grow_api, photos_api, server_api
from unseen.apps.web.guards import SHOWN_ONLY, Guard, Limits, PlainJSONResponse, TokenGuard
from unseen.apps.web.service import ENVIRONMENT, Refused, Service, ServiceOptions, open_service
from unseen.util.errors import UnseenError
from unseen.util.names import how_to_install

DESCRIPTION = """Name what photos show, among every class of a hierarchy: those the network was trained on, and those it
never saw. Scores rank classes for one photo; they are not probabilities.

Errors are JSON, `{"error": "what was wrong and what to do"}`."""


def from_environment() -> FastAPI:
    """What each process of `unseen serve --workers` runs."""
    options = ServiceOptions(**json.loads(os.environ[ENVIRONMENT]))
    return create_app(open_service(options), options.host, options.allow_host, options.token)


def create_app(
    service: Service, host: str = "127.0.0.1", allowed_hosts: Iterable[str] = (), token: str | None = None
) -> FastAPI:
    """The page and the API for `service`. `host` is the address it will be bound to: requests must name it, and know
    the `token`, if there is one."""
    metrics = Metrics()
    # FastAPI's own documentation pages load scripts from elsewhere; ours is static/docs.html.
    app = FastAPI(
        title="unseen",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        default_response_class=PlainJSONResponse,
    )
    app.add_middleware(GZipMiddleware, minimum_size=2_000)
    app.add_middleware(Limits)
    app.add_middleware(TokenGuard, token=token)
    app.add_middleware(Guard, host=host, more=tuple(allowed_hosts))
    if metrics.registry is not None:
        app.middleware("http")(metrics.measure)
    app.state.service, app.state.metrics = service, metrics
    for router in (photos_api, classes_api, grow_api, server_api):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    for path, file in {"/": "index.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}.items():
        app.get(path, include_in_schema=False)(_sender(STATIC / file))

    @app.get("/metrics", include_in_schema=False)
    def measured() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    app.add_exception_handler(UnseenError, _mistake)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)
    return app


def _sender(file: Path) -> Callable[[], FileResponse]:
    return lambda: FileResponse(file)


class Metrics:
    """/metrics for Prometheus, with the extra `metrics`. Processes share a folder, as prometheus-client does it."""

    def __init__(self):
        try:
            import prometheus_client as client
            from prometheus_client import multiprocess
        except ModuleNotFoundError:
            self.registry = self.photos = None
            return
        self.registry, shared = client.CollectorRegistry(), "PROMETHEUS_MULTIPROC_DIR" in os.environ
        if shared:
            multiprocess.MultiProcessCollector(self.registry)
        home = None if shared else self.registry
        labels = ["route", "method", "status"]
        self.requests = client.Counter("unseen_requests", "Requests answered.", labels, registry=home)
        self.seconds = client.Histogram("unseen_request_seconds", "Seconds to an answer.", ["route"], registry=home)
        self.photos = client.Counter("unseen_photos", "Photos that went through a network.", registry=home)

    async def measure(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        started = time.perf_counter()
        response = await call_next(request)
        # An address or a method of a client's own invention is "other", so that nobody can fill the memory.
        route = getattr(request.scope.get("route"), "path", "other")
        method = request.method if request.method in ("GET", "HEAD", "POST", "DELETE") else "other"
        self.requests.labels(route, method, str(response.status_code)).inc()
        self.seconds.labels(route).observe(time.perf_counter() - started)
        return response

    def text(self) -> bytes:
        if self.registry is None:
            raise Refused(404, f"Metrics need prometheus-client: {how_to_install('metrics')}.")
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


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
        problems.append(f"{field}: {'It holds control or direction characters' if hidden else item['msg']}")
    if any(text.startswith("files: ") for text in problems):
        problems.append("Send one photo or more in the multipart field `files`")
    return PlainJSONResponse({"error": ". ".join(problems) + "."}, 422)


def _http(request: Request, error: Any) -> JSONResponse:
    nothing = f"There is nothing at {request.url.path}. The API is described at /docs."
    text = nothing if error.status_code == 404 else str(error.detail)
    return PlainJSONResponse({"error": text}, error.status_code, error.headers)


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger("unseen.apps.web").error("%s %s failed", request.method, request.url.path, exc_info=error)
    return PlainJSONResponse({"error": "Internal error: the server's terminal shows the details."}, 500)
