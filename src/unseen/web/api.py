"""The JSON API. Every function here only translates: the work is done by `Service` and the library."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Query, UploadFile
from fastapi import Path as UrlPath

from unseen import __version__
from unseen.recognition.recogniser import SURE
from unseen.runtime.memory import memory_mb
from unseen.web import schemas as s
from unseen.web.limits import MAX_FILE_BYTES, MAX_FILES, MAX_LABELS, MAX_NAME, MAX_PIXELS, BoundedRoute
from unseen.web.names import escape_hidden
from unseen.web.service import Refused, Service

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": s.Problem, "description": what}
    for status, what in {
        400: "The request cannot be carried out.",
        403: "Sent by another web site, or the server is read-only.",
        404: "Not found.",
        413: "Too large.",
        422: "A field is missing or wrong.",
    }.items()
}
CONFLICT: dict[int | str, dict[str, Any]] = {409: {"model": s.Problem, "description": "In conflict with what exists."}}

Id = Annotated[
    str, UrlPath(min_length=1, max_length=MAX_NAME, description="The id of a class.", examples=["n02439033"])
]
BundleQuery = Annotated[str | None, Query(max_length=MAX_NAME, description=s.BUNDLE_HELP)]


@dataclass
class Options:
    """How to rank, from form fields or from the query; the form counts where both are given."""

    k: int
    candidates: str
    seen_shift: float | None
    sure: float
    bundle: str | None


def options(
    k: Annotated[int | None, Form(ge=1, le=MAX_LABELS, description="Labels for each photo.")] = None,
    candidates: Annotated[str | None, Form(pattern=s.CANDIDATES, description=s.CANDIDATES_HELP)] = None,
    seen_shift: Annotated[float | None, Form(ge=-1e6, le=1e6, allow_inf_nan=False, description=s.SHIFT_HELP)] = None,
    sure: Annotated[float | None, Form(gt=0, lt=1, description=s.SURE_HELP)] = None,
    bundle: Annotated[str | None, Form(max_length=MAX_NAME, description=s.BUNDLE_HELP)] = None,
    query_k: Annotated[int | None, Query(alias="k", ge=1, le=MAX_LABELS)] = None,
    query_candidates: Annotated[str | None, Query(alias="candidates", pattern=s.CANDIDATES)] = None,
    query_shift: Annotated[float | None, Query(alias="seen_shift", ge=-1e6, le=1e6, allow_inf_nan=False)] = None,
    query_sure: Annotated[float | None, Query(alias="sure", gt=0, lt=1)] = None,
    query_bundle: Annotated[str | None, Query(alias="bundle", max_length=MAX_NAME)] = None,
) -> Options:
    def first(*values: Any) -> Any:
        return next((value for value in values if value is not None), None)

    return Options(
        k=first(k, query_k, 5),
        candidates=first(candidates, query_candidates, "any"),
        seen_shift=first(seen_shift, query_shift),
        sure=first(sure, query_sure, SURE),
        bundle=first(bundle, query_bundle),
    )


def make_router(service: Service) -> APIRouter:
    """All routes of the API, on this service."""
    router = APIRouter(prefix="/api", responses=PROBLEMS, route_class=BoundedRoute)

    # -- photos ----------------------------------------------------------------------------------------------------

    @router.post("/classify", tags=["photos"], summary="Name what photos show", response_model=s.Ranking)
    def classify(
        files: Annotated[list[UploadFile], File(min_length=1, description=f"One photo or more, at most {MAX_FILES}.")],
        options: Annotated[Options, Depends(options)],
    ) -> dict:
        """Send photos in the multipart field `files`, in any format that Pillow reads. The format is detected from the
        content, not from the name. Photos are not stored: only their features are kept in memory, under the token.
        """
        started = time.perf_counter()
        served = service.served(options.bundle)
        if len(files) > MAX_FILES:
            raise Refused(413, f"{len(files)} files are too many: send at most {MAX_FILES} at a time.")
        candidates, count = _candidates(served, options.candidates)
        named = ((file.filename or f"photo {number}", file) for number, file in enumerate(files, 1))
        photos, unreadable = service.look_at((escape_hidden(name)[:MAX_NAME], _read(file)) for name, file in named)
        told = [item.as_dict() for item in unreadable]
        if not photos:
            listed = "; ".join(f"{item.photo}: {item.why}" for item in unreadable)
            raise Refused(422, f"No photo could be read. {listed}", unreadable=told)
        ranked = service.rank(
            served, photos, k=options.k, candidates=candidates, shift=options.seen_shift, sure=options.sure
        )
        return _ranking(served, options, count, ranked, started, unreadable=told)

    @router.post("/rank", tags=["photos"], summary="Rank remembered photos again", response_model=s.Ranking)
    def rank(request: s.RankRequest) -> dict:
        """Other candidates, another trade-off, another bundle: from the features that /api/classify left, in
        milliseconds. `forgotten` lists the tokens that are no longer remembered; if all are, the answer is 404."""
        started = time.perf_counter()
        served = service.served(request.bundle)
        for id in request.watch:
            _known(served, id)
        candidates, count = _candidates(served, request.candidates)
        kept = [(token, service.photos.get(token)) for token in dict.fromkeys(request.tokens)]
        photos = [(token, photo) for token, photo in kept if photo is not None]
        if not photos:
            service.recall(request.tokens[0])
        ranked = service.rank(
            served,
            photos,
            k=request.k,
            candidates=candidates,
            shift=request.seen_shift,
            sure=request.sure,
            watch=request.watch,
        )
        forgotten = [token for token, photo in kept if photo is None]
        return _ranking(served, request, count, ranked, started, forgotten=forgotten)

    @router.post("/heatmap", tags=["photos"], summary="Where in a photo a score comes from", response_model=s.HeatMaps)
    def heatmap(
        file: Annotated[UploadFile, File(description="One photo.")],
        ids: Annotated[list[str], Form(min_length=1, max_length=MAX_LABELS, description="Ids of classes.")],
        bundle: Annotated[str | None, Form(max_length=MAX_NAME, description=s.BUNDLE_HELP)] = None,
    ) -> dict:
        """For each class its score, split exactly over the cells of the network's last feature map. The difference of
        two classes' cells tells why it is the one and not the other. Networks that have no such map say so."""
        served = service.served(bundle)
        known = [_known(served, id) for id in ids]
        name = escape_hidden(file.filename or "photo")[:MAX_NAME]
        return {"bundle": served.name, "photo": name} | service.heatmaps(served, name, _read(file), known)

    @router.post(
        "/compare", tags=["photos"], summary="The network alone and bundles side by side", response_model=s.Comparison
    )
    def compare(request: s.CompareRequest) -> dict:
        """The network alone always answers with the classes it was trained on; the bundles with the candidates."""
        photo = service.recall(request.token)
        columns = service.compare(photo, request.bundles, request.k, request.candidates)
        return {"photo": photo.name, "candidates": request.candidates, "columns": columns}

    # -- the hierarchy ---------------------------------------------------------------------------------------------

    @router.get("/classes", tags=["classes"], summary="Search the hierarchy", response_model=s.Search)
    def search(
        query: Annotated[str, Query(max_length=MAX_NAME, description="A name, a part of one, or an id.")] = "",
        limit: Annotated[int, Query(ge=1, le=100)] = 12,
        bundle: BundleQuery = None,
    ) -> dict:
        """Classes whose names are, begin with or contain the query, best first; without a query, the roots."""
        return {"query": query, "classes": service.served(bundle).search(query, limit)}

    @router.get(
        "/classes/{id:path}", tags=["classes"], summary="A class and its surroundings", response_model=s.Details
    )
    def details(id: Id, nearest: Annotated[int, Query(ge=0, le=50)] = 8, bundle: BundleQuery = None) -> dict:
        served = service.served(bundle)
        return served.details(_known(served, id), nearest)

    @router.get("/explain/{id:path}", tags=["classes"], summary="Why a class answers as it does", response_model=s.Why)
    def explain(id: Id, n: Annotated[int, Query(ge=1, le=20)] = 5, bundle: BundleQuery = None) -> dict:
        """The seen classes that it borrows its classifier from, their shares, and the way to them."""
        served = service.served(bundle)
        return served.why(_known(served, id), n)

    @router.get("/topics", tags=["classes"], summary="Where to begin in the hierarchy", response_model=s.Topics)
    def topics(bundle: BundleQuery = None) -> dict:
        """Things that everybody knows, such as animals, food and tools; else the first fork from the top."""
        return {"topics": service.served(bundle).topics()}

    # -- more classes ----------------------------------------------------------------------------------------------

    @router.get("/suggest", tags=["grow"], summary="Where a new class may go", response_model=s.Proposal)
    def suggest(
        name: Annotated[str, Query(min_length=1, max_length=MAX_NAME, description="The name of the new class.")],
        bundle: BundleQuery = None,
    ) -> dict:
        """Classes that have this name already, and what a new one may be a kind of."""
        return service.served(bundle).propose(name)

    @router.post(
        "/add", tags=["grow"], summary="Add a class", status_code=201, response_model=s.Added, responses=CONFLICT
    )
    def add(request: s.AddRequest) -> dict:
        """It takes part in all answers at once. The bundle on disk stays as it is: see /api/save."""
        id = service.add(request.bundle, request.name, request.parents, request.definition, request.names)
        served = service.served(request.bundle)
        return {"id": id, "bundle": served.name, "added": served.info()["added"]}

    @router.post("/teach", tags=["grow"], summary="This photo is a ...", response_model=s.Taught, responses=CONFLICT)
    def teach(request: s.TeachRequest) -> dict:
        """Let a remembered photo be an example of a class, known or new. Answers change at once; see /api/save."""
        if request.id is not None:
            _known(service.served(request.bundle), request.id)
        elif not request.parents:
            raise Refused(422, "parents: a new class needs at least one, and a known one its id.")
        id = service.teach(request.bundle, request.token, request.id, request.name, request.parents)
        served = service.served(request.bundle)
        return {"id": id, "bundle": served.name, "taught": served.info()["taught"]}

    @router.delete("/teach/{id:path}", tags=["grow"], summary="Forget the photos of a class", response_model=s.Taught)
    def forget(id: Id, bundle: BundleQuery = None) -> dict:
        """As if it had never been taught."""
        service.forget(bundle, id)
        served = service.served(bundle)
        return {"id": id, "bundle": served.name, "taught": served.info()["taught"]}

    @router.delete(
        "/classes/{id:path}",
        tags=["grow"],
        summary="Remove an added class",
        response_model=s.Removed,
        responses=CONFLICT,
    )
    def remove(id: Id, bundle: BundleQuery = None) -> dict:
        """Only classes that were added can be removed."""
        service.remove(bundle, id)
        served = service.served(bundle)
        return {"removed": id, "bundle": served.name, "added": served.info()["added"]}

    @router.post(
        "/save",
        tags=["grow"],
        summary="Save as a bundle",
        status_code=201,
        response_model=s.Saved,
        responses=CONFLICT,
    )
    def save(request: s.SaveRequest) -> dict:
        """Write it into a new folder inside the server's save folder; the folder's name is made from the name given."""
        path: Path = service.save(request.bundle, request.name)
        return {"name": path.name, "path": str(path), "command": f"unseen serve {path}"}

    # -- the server ------------------------------------------------------------------------------------------------

    @router.get("/bundles", tags=["server"], summary="What is served", response_model=s.Bundles)
    def bundles() -> dict:
        listed = [served.info() for served in list(service.bundles.values())]
        return {"bundles": listed, "read_only": service.read_only}

    @router.get("/health", tags=["server"], summary="Health of the server", response_model=s.Health)
    def health() -> dict:
        workers = service.workers.values()
        return {
            "status": "ok",
            "bundles": list(service.bundles),
            "seconds": round(time.monotonic() - service.started, 1),
            "photos": sum(worker.batcher.items for worker in workers),
            "batches": sum(worker.batcher.batches for worker in workers),
            "remembered": len(service.photos),
            "memory_mb": memory_mb(),
        }

    @router.get("/version", tags=["server"], summary="Versions and limits", response_model=s.Version)
    def versions() -> dict:
        return {
            "unseen": __version__,
            "python": platform.python_version(),
            "torch": version("torch"),
            "limits": {"file_bytes": MAX_FILE_BYTES, "files": MAX_FILES, "pixels": MAX_PIXELS},
        }

    return router


def _read(file: UploadFile) -> bytes:
    """One byte more than allowed is read, so that a larger file is noticed without being held."""
    return file.file.read(MAX_FILE_BYTES + 1)


def _known(served, id: str) -> str:
    if id not in served.taxonomy:
        raise Refused(404, f"There is no class with the id {id!r}. Search for its name with /api/classes?query=NAME.")
    return id


def _candidates(served, spec: str) -> tuple[str, int]:
    """The candidates, and how many classes they are; a wrong name is told before any work begins."""
    candidates = served.candidates(spec)
    return candidates, len(served.model.candidates(candidates))


def _ranking(served, options, classes: int, photos: list[dict], started: float, **more: Any) -> dict:
    return {
        "bundle": served.name,
        "candidates": options.candidates,
        "classes": classes,
        "seen_shift": options.seen_shift,
        "photos": photos,
        "seconds": round(time.perf_counter() - started, 4),
    } | more
