"""The JSON API. Every function here only translates: the work is done by `Service` and the library."""

from __future__ import annotations

import platform
import time
from importlib.metadata import version
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
    SHOWN_ONLY,
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
PROBLEMS = {
    400: "The request cannot be carried out.",
    403: "Sent by another web site, or the server is read-only.",
    404: "Not found.",
    409: "In conflict with what exists.",
    413: "Too large.",
    422: "A field is missing or wrong.",
}


def _router(tag: str, *statuses: int) -> APIRouter:
    """Routes under a heading of the documentation, and how they may be refused."""
    responses: dict = {status: {"model": s.Problem, "description": PROBLEMS[status]} for status in statuses}
    return APIRouter(prefix="/api", tags=[tag], responses=responses, route_class=BoundedRoute)


photos_api, classes_api, server_api = (_router(tag, 400, 403, 404, 413, 422) for tag in ("photos", "classes", "server"))
grow_api = _router("grow", *PROBLEMS)

Id = Annotated[
    str, UrlPath(min_length=1, max_length=MAX_NAME, description="The id of a class.", examples=["n02439033"])
]
BundleQuery = Annotated[str | None, Query(max_length=MAX_NAME, description=s.BUNDLE_HELP)]


def _service(request: Request) -> Service:
    return request.app.state.service


def _client(request: Request) -> str:
    """The address that a request comes from."""
    return request.client.host if request.client else ""


ServiceOf = Annotated[Service, Depends(_service)]


async def _options(request: Request, query: Annotated[s.RankOptions, Query()]) -> s.RankOptions:
    """How to rank, from form fields or from the query; the form counts where both are given."""
    form = {name: value for name, value in (await request.form()).items() if name in s.RankOptions.model_fields}
    try:
        return s.RankOptions.model_validate(query.model_dump(exclude_unset=True) | form)
    except ValidationError as error:
        raise RequestValidationError([{**item, "loc": ("body", *item["loc"])} for item in error.errors()]) from None


@photos_api.post("/classify", summary="Name what photos show", response_model=s.Ranking)
def classify(
    request: Request,
    service: ServiceOf,
    files: Annotated[list[UploadFile], File(min_length=1, description=f"One photo or more, at most {MAX_FILES}.")],
    options: Annotated[s.RankOptions, Depends(_options)],
) -> dict:
    """Send photos in the multipart field `files`, in any format that Pillow reads, whatever they are called.
    Photos are not stored: only their features are kept in memory, under the token."""
    started = time.perf_counter()
    view = service.view(options.bundle, options.among)
    if len(files) > MAX_FILES:
        raise Refused(413, f"{len(files)} files are too many: send at most {MAX_FILES} at a time.")
    candidates, count = _candidates(view, options.candidates)
    named = ((file.filename or f"photo {number}", file) for number, file in enumerate(files, 1))
    contents = ((escape_hidden(name)[:MAX_NAME], _read(file)) for name, file in named)
    photos, unreadable = service.look_at(contents, _client(request))
    listed = [item.as_dict() for item in unreadable]
    if not photos:
        why = "; ".join(f"{item.photo}: {item.why}" for item in unreadable)
        raise Refused(422, f"No photo could be read. {why}", unreadable=listed)
    if request.app.state.metrics.photos is not None:
        request.app.state.metrics.photos.inc(len(photos))
    ranked = service.rank(view, photos, options.model_copy(update={"candidates": candidates}))
    return _ranking(view, options, count, ranked, started, unreadable=listed)


@photos_api.post("/rank", summary="Rank remembered photos again", response_model=s.Ranking)
def rank(service: ServiceOf, request: s.RankRequest) -> dict:
    """Other candidates, another trade-off, another bundle: from the features that /api/classify left, in
    milliseconds. `forgotten` lists the tokens that are no longer remembered; if all are, the answer is 404."""
    started = time.perf_counter()
    view = service.view(request.bundle, request.among)
    for id in request.watch:
        _known(view, id)
    candidates, count = _candidates(view, request.candidates)
    kept = [(token, service.photos.get(token)) for token in dict.fromkeys(request.tokens)]
    photos = [(token, photo) for token, photo in kept if photo is not None]
    if not photos:
        service.recall(request.tokens[0])
    ranked = service.rank(view, photos, request.model_copy(update={"candidates": candidates}), request.watch)
    forgotten = [token for token, photo in kept if photo is None]
    return _ranking(view, request, count, ranked, started, forgotten=forgotten)


@photos_api.post("/heatmap", summary="Where in a photo a score comes from", response_model=s.HeatMaps)
def heatmap(
    request: Request,
    service: ServiceOf,
    file: Annotated[UploadFile, File(description="One photo.")],
    ids: Annotated[list[str], Form(min_length=1, max_length=MAX_LABELS, description="Ids of classes.")],
    among: Annotated[str, Form(max_length=s.MAX_AMONG, pattern=SHOWN_ONLY, description=s.AMONG_HELP)] = "",
    bundle: Annotated[str | None, Form(max_length=MAX_NAME, description=s.BUNDLE_HELP)] = None,
) -> dict:
    """For each class its score, split exactly over the cells of the network's last feature map. The difference of
    two classes' cells tells why it is the one and not the other. Networks that have no such map say so."""
    view = service.view(bundle, among)
    known = [_known(view, id) for id in ids]
    name = escape_hidden(file.filename or "photo")[:MAX_NAME]
    return {"bundle": view.name, "photo": name} | service.heatmaps(view, name, _read(file), known, _client(request))


@photos_api.post("/compare", summary="The network alone and bundles side by side", response_model=s.Comparison)
def compare(service: ServiceOf, request: s.CompareRequest) -> dict:
    """The network alone always answers with the classes it was trained on; the bundles with the candidates."""
    photo = service.recall(request.token)
    columns = service.compare(photo, request)
    return {"photo": photo.name, "candidates": request.candidates, "columns": columns}


@classes_api.get("/classes", summary="Search the hierarchy", response_model=s.Search)
def search(
    service: ServiceOf,
    query: Annotated[str, Query(max_length=MAX_NAME, description="A name, a part of one, or an id.")] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 12,
    bundle: BundleQuery = None,
) -> dict:
    """Classes whose names are, begin with or contain the query, best first; without a query, the roots."""
    return {"query": query, "classes": service.view(bundle).search(query, limit)}


@classes_api.get("/classes/{id:path}", summary="A class and its surroundings", response_model=s.Details)
def details(
    service: ServiceOf,
    id: Id,
    nearest: Annotated[int, Query(ge=0, le=50)] = 8,
    after: Annotated[int, Query(ge=0, description="How many of the classes below it to skip.")] = 0,
    bundle: BundleQuery = None,
) -> dict:
    """`below` lists at most 500 of its `children`, by name; `after` gives the next ones."""
    view = service.view(bundle)
    return view.details(_known(view, id), nearest, after)


@classes_api.get("/explain/{id:path}", summary="Why a class answers as it does", response_model=s.Why)
def explain(
    service: ServiceOf,
    id: Id,
    n: Annotated[int, Query(ge=1, le=20)] = 5,
    bundle: BundleQuery = None,
) -> dict:
    """The seen classes that it borrows its classifier from, their shares, and the way to them."""
    view = service.view(bundle)
    return view.why(_known(view, id), n)


@classes_api.post("/explain", summary="The same for a class of a list", response_model=s.Why)
def explain_among(service: ServiceOf, request: s.ExplainRequest) -> dict:
    """A list may have classes that are new, and take seconds to place."""
    view = service.view(request.bundle, request.among)
    return view.why(_known(view, request.id), request.n)


@classes_api.get("/topics", summary="Where to begin in the hierarchy", response_model=s.Topics)
def topics(service: ServiceOf, bundle: BundleQuery = None) -> dict:
    """Familiar topics such as animals, food and tools; else the first fork from the top."""
    return {"topics": service.view(bundle).topics()}


@classes_api.get("/map", summary="All classes, side by side", response_model=s.Map)
def the_map(service: ServiceOf, bundle: BundleQuery = None) -> dict:
    """`marks` has a letter for each class: s (seen), u (unseen) or g (guesswork). Whatever is below a node of the
    hierarchy is one stretch of it; `regions` are the larger ones: first place, places, depth, name, id."""
    return service.view(bundle).map()


@classes_api.get("/map/places", summary="Who lies there", response_model=s.MapPlaces)
def map_places(
    service: ServiceOf,
    start: Annotated[int, Query(ge=0)],
    count: Annotated[int, Query(ge=1, le=2_000)] = 500,
    bundle: BundleQuery = None,
) -> dict:
    """The id and the name of each class in a stretch of the map."""
    return {"start": start, "places": service.view(bundle).places(start, count)}


@grow_api.post("/suggest", summary="Where a new class may go", response_model=s.Proposal)
def suggest(service: ServiceOf, request: s.SuggestRequest) -> dict:
    """Classes that have this name already, and what a new one may be a kind of."""
    return service.view(request.bundle).propose(request.name)


@grow_api.post("/add", summary="Add a class", status_code=201, response_model=s.Added)
def add(service: ServiceOf, request: s.AddRequest) -> dict:
    """It takes part in all answers at once. The bundle on disk stays as it is: see /api/save."""
    id, view = service.add(request)
    return {"id": id, "bundle": view.name, "added": view.added()}


@grow_api.post("/try", summary="Where a class would stand", response_model=s.Tried)
def try_out(service: ServiceOf, request: s.TryRequest) -> dict:
    """On remembered photos, if it were added with these words: for a page that answers while one types."""
    return {"places": service.try_out(request)}


@grow_api.post("/teach", summary="This photo is a ...", response_model=s.Taught)
def teach(service: ServiceOf, request: s.TeachRequest) -> dict:
    """Let a remembered photo be an example of a class, known or new. Answers change at once; see /api/save."""
    if request.id is not None:
        _known(service.view(request.bundle), request.id)
    elif not request.parents:
        raise Refused(422, "parents: a new class needs at least one, and a known one its id.")
    id, view = service.teach(request)
    return {"id": id, "bundle": view.name, "taught": view.taught()}


@grow_api.delete("/teach/{id:path}", summary="Forget the photos of a class", response_model=s.Taught)
def forget(service: ServiceOf, id: Id, bundle: BundleQuery = None) -> dict:
    """As if it had never been taught."""
    view = service.forget(bundle, id)
    return {"id": id, "bundle": view.name, "taught": view.taught()}


@grow_api.delete("/classes/{id:path}", summary="Remove an added class", response_model=s.Removed)
def remove(service: ServiceOf, id: Id, bundle: BundleQuery = None) -> dict:
    """Only classes that were added can be removed."""
    view = service.remove(bundle, id)
    return {"removed": id, "bundle": view.name, "added": view.added()}


@grow_api.post("/save", summary="Save as a bundle", status_code=201, response_model=s.Saved)
def save(service: ServiceOf, request: s.SaveRequest) -> dict:
    """Write it into a new folder inside the server's save folder; the folder's name is made from the name given."""
    path = service.save(request.bundle, request.name)
    return {"name": path.name, "path": str(path), "command": f"unseen serve {path}"}


@server_api.get("/bundles", summary="What is served", response_model=s.Bundles)
def bundles(service: ServiceOf) -> dict:
    return _bundles(service)


@server_api.get("/start", summary="What a page needs to begin", response_model=s.Start)
def start(service: ServiceOf, request: Request) -> dict:
    """Limits, bundles, and what is said in the same words everywhere, in one request."""
    client = _client(request)
    return {
        "unseen": __version__,
        "limits": LIMITS,
        "local": is_loopback(client) or client in ("", "testclient"),
        "words": {"marks": MARK_WORDS, "support": SUPPORT_WORDS, "levels": LEVELS, "hidden": HIDDEN},
        "samples": samples(),
    } | _bundles(service)


def _bundles(service: Service) -> dict:
    views = list(service.views.values())
    return {"bundles": [view.info() for view in views], "read_only": service.read_only, "run": service.run}


@server_api.get("/health", summary="Health of the server", response_model=s.Health)
async def health(service: ServiceOf) -> dict:
    workers = service.workers.values()
    return {
        "status": "ok",
        "bundles": list(service.views),
        "seconds": round(time.monotonic() - service.started, 1),
        "photos": sum(worker.batcher.items for worker in workers),
        "batches": sum(worker.batcher.batches for worker in workers),
        "remembered": len(service.photos),
        "memory_mb": memory_mb(),
    }


@server_api.get("/version", summary="Versions and limits", response_model=s.Version)
def versions() -> dict:
    return {
        "unseen": __version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "limits": LIMITS,
    }


def _read(file: UploadFile) -> bytes:
    """One byte more than allowed is read, so that a larger file is noticed without being held."""
    return file.file.read(MAX_FILE_BYTES + 1)


def _known(view, id: str) -> str:
    if id not in view.hierarchy:
        raise Refused(404, f"There is no class with the id {id!r}. Search for its name with /api/classes?query=NAME.")
    return id


def _candidates(view, spec: str) -> tuple[str, int]:
    """The candidates, and how many classes they are; a wrong name is an error before any work begins."""
    candidates = view.candidates(spec)
    return candidates, len(view.model.candidates(candidates))


def _ranking(view, options, classes: int, photos: list[dict], started: float, **more: Any) -> dict:
    return {
        "bundle": view.name,
        "candidates": options.candidates,
        "classes": classes,
        "seen_shift": options.seen_shift,
        "photos": photos,
        "unreadable": [],
        "forgotten": [],
        "listed": [item.as_dict() for item in view.model.listed],
        "seconds": round(time.perf_counter() - started, 4),
    } | more
