"""The JSON API. Every function here only translates: the work is done by `Service` and the library."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Query, Request, UploadFile
from fastapi import Path as UrlPath
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from unseen import __version__
from unseen.answers.words import LEVELS
from unseen.apps.web import samples
from unseen.apps.web import schemas as s
from unseen.apps.web.guards import (
    HIDDEN,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_LABELS,
    MAX_NAME,
    MAX_PIXELS,
    BoundedRoute,
    escape_hidden,
    is_loopback,
)
from unseen.apps.web.service import Refused, Service
from unseen.util.devices import memory_mb

LIMITS = {"file_bytes": MAX_FILE_BYTES, "files": MAX_FILES, "pixels": MAX_PIXELS, "among": s.MAX_AMONG}
MARK_WORDS = {
    "seen": "Trained on photos of it",
    "unseen": "Known by its relatives: trained on kinds of it, or on things like it",
    "guesswork": "Hardly related to anything that it was trained on",
    "link": "Only connects others; it is never an answer itself",
}
SUPPORT_WORDS = {
    "well supported": "Well supported: things that it was trained on are much like it.",
    "partly supported": "Partly supported: things that it was trained on are somewhat like it.",
    "hardly supported": "Hardly supported: nothing that it was trained on is much like it. Take it as guesswork.",
}
REFUSALS = (400, 403, 404, 409, 413, 422)  # each with {"error": "what was wrong and what to do"}
RESPONSES: dict = {status: {"description": HTTPStatus(status).phrase} for status in REFUSALS}

api = APIRouter(prefix="/api", responses=RESPONSES, route_class=BoundedRoute)

Id = Annotated[
    str, UrlPath(min_length=1, max_length=MAX_NAME, description="The id of a class.", examples=["n02439033"])
]


def _service(request: Request) -> Service:
    return request.app.state.service


ServiceOf = Annotated[Service, Depends(_service)]


def _is_local(request: Request) -> bool:
    """Whether the client is on this machine; a test's client has no address."""
    client = request.client.host if request.client else ""
    return is_loopback(client) or client in ("", "testclient")


async def _options(request: Request, query: Annotated[s.RankOptions, Query()]) -> s.RankOptions:
    """How to rank, from form fields or from the query; the form counts where both are given."""
    form = {name: value for name, value in (await request.form()).items() if name in s.RankOptions.model_fields}
    try:
        return s.RankOptions.model_validate(query.model_dump(exclude_unset=True) | form)
    except ValidationError as error:
        raise RequestValidationError([{**item, "loc": ("body", *item["loc"])} for item in error.errors()]) from None


# -- photos ------------------------------------------------------------------------------------------------------------


@api.post("/classify", summary="Name what photos show")
def classify(
    service: ServiceOf,
    files: Annotated[list[UploadFile], File(min_length=1, description=f"One photo or more, at most {MAX_FILES}.")],
    options: Annotated[s.RankOptions, Depends(_options)],
) -> dict:
    """Send photos in the multipart field `files`, in any format that Pillow reads, whatever they are called.
    Photos are not stored: only their features are kept in memory, under the token."""
    started = time.perf_counter()
    view = service.view_of(options.among)
    classes = len(view.model.candidates(options.candidates))  # a wrong name is an error before any work begins
    named = ((file.filename or f"photo {number}", file) for number, file in enumerate(files, 1))
    photos, unreadable = service.look_at((escape_hidden(name)[:MAX_NAME], _read(file)) for name, file in named)
    listed = [item.to_dict() for item in unreadable]
    if not photos:
        why = "; ".join(f"{item.photo}: {item.why}" for item in unreadable)
        raise Refused(422, f"No photo could be read. {why}", unreadable=listed)
    return _ranking(view, classes, service.rank(view, photos, options), started, unreadable=listed)


@api.post("/rank", summary="Rank remembered photos again")
def rank(service: ServiceOf, request: s.RankRequest) -> dict:
    """Other candidates or another confidence: from the features that /api/classify left, in milliseconds.
    `forgotten` lists the tokens that are no longer remembered; if all are, the answer is 404."""
    started = time.perf_counter()
    view = service.view_of(request.among)
    for id in request.watch:
        _known(view, id)
    classes = len(view.model.candidates(request.candidates))
    photos = service.photos.known(request.tokens)
    forgotten = [token for token in dict.fromkeys(request.tokens) if token not in dict(photos)]
    return _ranking(view, classes, service.rank(view, photos, request, request.watch), started, forgotten=forgotten)


@api.post("/heatmap", summary="Where in a photo a score comes from")
def heatmap(
    service: ServiceOf,
    file: Annotated[UploadFile, File(description="One photo.")],
    ids: Annotated[list[str], Form(min_length=1, max_length=MAX_LABELS, description="Ids of classes.")],
    among: Annotated[s.Among, Form()] = "",
) -> dict:
    """For each class its score, split exactly over the cells of the network's last feature map. The difference of
    two classes' cells tells why it is the one and not the other. Networks that have no such map say so."""
    view = service.view_of(among)
    known = [_known(view, id) for id in ids]
    name = escape_hidden(file.filename or "photo")[:MAX_NAME]
    return {"photo": name} | service.heatmaps(view, name, _read(file), known)


# -- classes -----------------------------------------------------------------------------------------------------------


@api.get("/classes", summary="Search the hierarchy")
def search(
    service: ServiceOf,
    query: Annotated[str, Query(max_length=MAX_NAME, description="A name, a part of one, or an id.")] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 12,
) -> dict:
    """Classes whose names are, begin with or contain the query, best first; without a query, the roots."""
    return {"query": query, "classes": service.view.search(query, limit)}


@api.get("/classes/{id:path}", summary="A class and its surroundings")
def details(
    service: ServiceOf,
    id: Id,
    nearest: Annotated[int, Query(ge=0, le=50)] = 8,
    after: Annotated[int, Query(ge=0, description="How many of the classes below it to skip.")] = 0,
) -> dict:
    """`below` lists at most 500 of its `children`, by name; `after` gives the next ones."""
    return service.view.details(_known(service.view, id), nearest, after)


@api.post("/explain", summary="Why a class answers as it does")
def explain(service: ServiceOf, request: s.ExplainRequest) -> dict:
    """The seen classes that it borrows its classifier from, their shares, and the way to them."""
    view = service.view_of(request.among)
    return view.why(_known(view, request.id), request.n)


@api.get("/topics", summary="Where to begin in the hierarchy")
def topics(service: ServiceOf) -> dict:
    """Familiar topics such as animals, food and tools; else the first fork from the top."""
    return {"topics": service.view.topics()}


@api.get("/map", summary="All classes, side by side")
def the_map(service: ServiceOf) -> dict:
    """`marks` has a letter for each class: s (seen), u (unseen) or g (guesswork). Whatever is below a node of the
    hierarchy is one stretch of it; `regions` are the larger ones: first position, length, depth, name, id."""
    return service.view.map()


@api.get("/map/places", summary="Classes in a stretch of the map")
def map_places(
    service: ServiceOf,
    start: Annotated[int, Query(ge=0)],
    count: Annotated[int, Query(ge=1, le=2_000)] = 500,
) -> dict:
    """The id and the name of each class in a stretch of the map."""
    return {"start": start, "places": service.view.places(start, count)}


# -- growth ------------------------------------------------------------------------------------------------------------


@api.post("/suggest", summary="Where a new class may go")
def suggest(service: ServiceOf, request: s.SuggestRequest) -> dict:
    """Classes that have this name already, and what a new one may be a kind of."""
    return service.view.propose(request.name)


@api.post("/add", summary="Add a class", status_code=201)
def add(service: ServiceOf, request: s.AddRequest) -> dict:
    """It takes part in all answers at once. The bundle on disk stays as it is: see /api/save."""
    return {"id": service.add(request), "added": service.view.added()}


@api.post("/try", summary="Where a class would stand")
def try_out(service: ServiceOf, request: s.TryRequest) -> dict:
    """On remembered photos, if it were added with these words: for a page that answers while one types."""
    return {"places": service.try_out(request)}


@api.post("/teach", summary="This photo is a ...")
def teach(service: ServiceOf, request: s.TeachRequest) -> dict:
    """Let a remembered photo be an example of a class, known or new. Answers change at once; see /api/save."""
    if request.id is not None:
        _known(service.view, request.id)
    elif not request.parents:
        raise Refused(422, "parents: a new class needs at least one, and a known one its id.")
    return {"id": service.teach(request), "taught": service.view.taught()}


@api.delete("/teach/{id:path}", summary="Forget the photos of a class")
def forget(service: ServiceOf, id: Id) -> dict:
    """As if it had never been taught."""
    service.forget(id)
    return {"id": id, "taught": service.view.taught()}


@api.delete("/classes/{id:path}", summary="Remove an added class")
def remove(service: ServiceOf, id: Id) -> dict:
    """Only classes that were added can be removed."""
    service.remove(id)
    return {"removed": id, "added": service.view.added()}


@api.post("/save", summary="Save as a bundle", status_code=201)
def save(service: ServiceOf, request: Request, body: s.SaveRequest) -> dict:
    """Write it into a new folder inside the server's save folder; the folder's name is made from the name given. Only
    a client on the same machine learns where that is."""
    path = service.save(body.name)
    return {"name": path.name} | ({"path": str(path), "command": f"unseen serve {path}"} if _is_local(request) else {})


# -- the server --------------------------------------------------------------------------------------------------------


@api.get("/bundle", summary="What is served")
def bundle(service: ServiceOf) -> dict:
    """`run` differs after a restart."""
    return {"bundle": service.view.info(), "read_only": service.read_only, "run": service.run}


@api.get("/start", summary="What a page needs to begin")
def start(service: ServiceOf, request: Request) -> dict:
    """Limits, the bundle, and what is said in the same words everywhere, in one request."""
    return {
        "unseen": __version__,
        "limits": LIMITS,
        "local": _is_local(request),
        "words": {"marks": MARK_WORDS, "support": SUPPORT_WORDS, "levels": LEVELS, "hidden": HIDDEN},
        "samples": samples(),
    } | bundle(service)


@api.get("/health", summary="Health of the server")
async def health(service: ServiceOf) -> dict:
    return {
        "status": "ok",
        "bundle": service.view.name,
        "seconds": round(time.monotonic() - service.started, 1),
        "photos": service.photos_seen,
        "remembered": len(service.photos),
        "memory_mb": memory_mb(),
    }


def _read(file: UploadFile) -> bytes:
    """One byte more than allowed is read, so that a larger file is noticed without being held."""
    return file.file.read(MAX_FILE_BYTES + 1)


def _known(view, id: str) -> str:
    if id not in view.hierarchy:
        raise Refused(404, f"There is no class with the id {id!r}. Search for its name with /api/classes?query=NAME.")
    return id


def _ranking(view, classes: int, photos: list[dict], started: float, **more: Any) -> dict:
    return {
        "classes": classes,
        "photos": photos,
        "unreadable": [],
        "forgotten": [],
        "listed": [item.to_dict() for item in view.model.listed],
        "seconds": round(time.perf_counter() - started, 4),
    } | more
