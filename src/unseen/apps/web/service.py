"""The server's state: models, the networks that they share, the photos remembered, the classes added."""

from __future__ import annotations

import hashlib
import json
import queue
import re
import secrets
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unseen.answers.answer import Unreadable
from unseen.apps.web import sample_photos
from unseen.apps.web.guards import (
    DECODE_SECONDS,
    DECODERS,
    KEPT_PHOTOS,
    MAX_ADDED,
    MAX_AMONG_NAMES,
    MAX_FILE_BYTES,
    MAX_PIXELS,
    MAX_RANKED_LABELS,
    MAX_SAVED,
    MB,
    RANKED_TOGETHER,
    Busy,
)
from unseen.apps.web.schemas import AddRequest, CompareRequest, RankOptions, TeachRequest, TryRequest
from unseen.apps.web.view import NETWORK, View
from unseen.bundle.teach import Photos, teach
from unseen.hierarchy.core import Node
from unseen.model import Model, load
from unseen.naming.meaning import find_class
from unseen.photos import UnreadablePhoto
from unseen.photos.decoding import Decoded, Decoders, TookTooLong
from unseen.util.errors import UnseenError
from unseen.util.files import cache_folder
from unseen.util.names import slug

if TYPE_CHECKING:
    from unseen.networks.base import Network

ENVIRONMENT = "UNSEEN_SERVE"  # holds ServiceOptions as JSON for the processes of --workers
DEFAULT = Path("default")


@dataclass(frozen=True)
class ServiceOptions:
    """What `unseen serve` was asked for; `shared` is a folder that several processes share."""

    bundles: list[str] = field(default_factory=list)
    host: str = "127.0.0.1"
    allow_host: list[str] = field(default_factory=list)
    save_folder: str | None = None
    read_only: bool = False
    batch: int = 16
    device: str = "auto"
    trust_code: bool = False
    token: str | None = None
    shared: str | None = None
    workers: int = 1


class Refused(UnseenError):
    """A request that cannot be answered, with the HTTP status that says so."""

    def __init__(self, status: int, message: str, **more: Any):
        super().__init__(message)
        self.status, self.more = status, more


@dataclass(frozen=True)
class Remembered:
    """A photo as the server keeps it: its name and features, never its pixels."""

    name: str
    features: dict[str, np.ndarray]  # network -> D


class PhotoMemory:
    """The features of recent photos, under random tokens: a photo is ranked again without being sent again.

    They are files in a folder, which several processes may share; each forgets the oldest of its own beyond `most`.
    """

    def __init__(self, folder: Path, most: int = KEPT_PHOTOS):
        self.folder, self.most = folder, most
        self._tokens: deque[str] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tokens)

    def keep(self, photo: Remembered) -> str:
        token = secrets.token_urlsafe(16)
        about = json.dumps({"name": photo.name, "networks": list(photo.features)}).encode()
        arrays: dict[str, Any] = {f"features.{at}": features for at, features in enumerate(photo.features.values())}
        with open(self.folder / token, "xb") as file:
            np.savez(file, about=np.frombuffer(about, np.uint8), **arrays)
        with self._lock:
            self._tokens.append(token)
            forgotten = [self._tokens.popleft() for _ in range(max(0, len(self._tokens) - self.most))]
        for old in forgotten:
            (self.folder / old).unlink(missing_ok=True)
        return token

    def get(self, token: str) -> Remembered | None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{22}", token):  # nothing else becomes the name of a file
            return None
        try:
            with np.load(self.folder / token, allow_pickle=False) as saved:
                about = json.loads(bytes(saved["about"]))
                features = {key: saved[f"features.{at}"] for at, key in enumerate(about["networks"])}
        except FileNotFoundError:
            return None
        return Remembered(about["name"], features)


class Service:
    """Everything behind the API. Safe to use from many threads.

    `models` by the name of their bundle, the first by default; `save_folder` is the only place that it writes to;
    `batch` photos go through a network at a time."""

    def __init__(
        self, models: dict[str, Model], save_folder: Path | None = None, read_only: bool = False, batch: int = 16
    ):
        self.run = secrets.token_urlsafe(6)  # tells a page that this is another run of the server
        self.save_folder = save_folder or cache_folder() / "bundles"
        self.read_only = read_only
        self.started = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="unseen-photos-")  # of this user alone
        self.photos = PhotoMemory(Path(self._folder.name))
        self.decoders = Decoders(DECODERS, DECODE_SECONDS, MAX_PIXELS)
        self.workers: dict[str, NetworkWorker] = {}  # by `View.network_key`
        self.views: dict[str, View] = {}
        self._growing = threading.Lock()
        self._looking = threading.Lock()
        self._listing = threading.Lock()
        # One thread: each that calls torch has helpers of its own, and they would fight.
        self._ranker = ThreadPoolExecutor(1, "unseen-ranker")
        for name, model in models.items():
            self.views[name] = view = View(name, model)
            if view.network_key not in self.workers:
                self.workers[view.network_key] = NetworkWorker(model.network, batch)

    def warm_up(self) -> None:
        """Run the sample photos through all of it, so that the first visitor waits no longer than the next.

        They also give the range of the trade-off slider: as far as the answers of some sample photo still change.
        """
        samples = [path.read_bytes() for path in sample_photos()]
        threading.Thread(target=self._try_growing, name="unseen-grower", daemon=True).start()
        for view in list(self.views.values()):
            worker = self.workers[view.network_key]
            decoded = [self._decode("a sample", photo, "", worker)[0].pixels for photo in samples]
            features = np.stack([promise.result() for promise in map(worker.submit, decoded)])
            view.reach = _reach(view, features)
            view.search("cat", 5)
            view.why(view.bundle.seen_ids[0], 3)

    def _try_growing(self) -> None:
        """Add a class to a copy that nobody sees: what that needs (an encoder of definitions) is loaded before someone
        waits for it. If it fails, adding a class reports it."""
        for view in list(self.views.values()):
            with suppress(UnseenError):
                copy = view.model.with_bundle(view.bundle)
                copy.add("warm-up", view.bundle.seen_ids[0], "a first try", "unseen-warm-up", looks="a thing to try")

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
        self._ranker.shutdown()
        self.decoders.close()
        self._folder.cleanup()

    def view(self, name: str | None, among: str = "") -> View:
        """The bundle of that name, the first one without a name; knowing only the classes of a list, if there is one.

        `Model.among` keeps the last few lists.
        """
        if name is None:
            view = next(iter(self.views.values()))
        elif name in self.views:
            view = self.views[name]
        else:
            raise Refused(404, f"There is no bundle named {name!r}. There are: {', '.join(self.views)}.")
        names = list(dict.fromkeys(" ".join(part.split()) for part in re.split(r"[,;\n]", among) if part.strip()))
        if not names:
            return view
        if len(names) > MAX_AMONG_NAMES:
            raise Refused(422, f"{len(names)} names are too many: a list may have {MAX_AMONG_NAMES}.")
        with self._listing:
            return View(view.name, view.model.among(names), view.reach)

    def look_at(
        self, files: Iterator[tuple[str, bytes]], client: str = ""
    ) -> tuple[list[tuple[str, Remembered]], list[Unreadable]]:
        """Features of the photos by every network, remembered under a token each; and the unreadable ones."""
        promised, unreadable = [], []
        for name, data in files:
            try:
                decoded = self._decode(name, data, client, *self.workers.values())
                workers = zip(self.workers.items(), decoded, strict=True)
                promised.append((name, {key: worker.submit(photo.pixels) for (key, worker), photo in workers}))
            except UnreadablePhoto as error:
                unreadable.append(Unreadable(name, error.why))
                if isinstance(error, TookTooLong):  # once in a request: decoders are few
                    unreadable += [
                        Unreadable(name, "was not read, since one before it took too long.") for name, _ in files
                    ]
        photos = [
            Remembered(name, {key: promise.result() for key, promise in promises.items()})
            for name, promises in promised
        ]
        return [(self.photos.keep(photo), photo) for photo in photos], unreadable

    def _decode(self, name: str, photo: bytes, client: str, *workers: NetworkWorker) -> list[Decoded]:
        """The photo for each of these networks."""
        if len(photo) > MAX_FILE_BYTES:
            raise UnreadablePhoto(name, f"is larger than {MAX_FILE_BYTES // MB} MB: make it smaller.")
        try:
            return self.decoders.decode(photo, [worker.network.transform for worker in workers], client)
        except queue.Empty:
            raise Busy from None

    def recall(self, token: str) -> Remembered:
        photo = self.photos.get(token)
        if photo is None:
            raise Refused(404, "This photo is no longer remembered: send it again to /api/classify.")
        return photo

    def rank(
        self, view: View, photos: Sequence[tuple[str, Remembered]], options: RankOptions, watch: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Answers for remembered photos, in chunks, so that other requests have their turn between them."""
        if len(photos) * options.k > MAX_RANKED_LABELS:
            what = f"{options.k} labels for each of {len(photos)} photos are too many"
            raise Refused(422, f"{what}: ask for {MAX_RANKED_LABELS:,} in all, or in several requests.")
        features = np.stack([photo.features[view.network_key] for _, photo in photos])
        answers: list[dict[str, Any]] = []
        for start in range(0, len(photos), RANKED_TOGETHER):
            some = features[start : start + RANKED_TOGETHER]
            answers += self._ranker.submit(view.rank, some, options, watch).result()
        return [
            {"photo": photo.name, "token": token} | answer
            for (token, photo), answer in zip(photos, answers, strict=True)
        ]

    def heatmaps(self, view: View, name: str, data: bytes, ids: Sequence[str], client: str = "") -> dict[str, Any]:
        """Heat maps of classes for a photo, one photo at a time."""
        try:
            (photo,) = self._decode(name, data, client, self.workers[view.network_key])
        except UnreadablePhoto as error:
            unreadable = [Unreadable(name, error.why).as_dict()]
            raise Refused(422, f"No photo could be read. {name}: {error.why}", unreadable=unreadable) from None
        with self._looking:
            return view.heatmaps(photo, ids)

    def compare(self, photo: Remembered, request: CompareRequest) -> list[dict[str, Any]]:
        """One column for each network alone and for each of the named bundles."""
        k = request.k
        chosen = [self.view(name, request.among) for name in dict.fromkeys(request.bundles or self.views)]
        networks: dict[str, View] = {}
        for view in chosen:
            networks.setdefault(view.network_key, view)
        columns = [
            {"bundle": NETWORK, "title": view.bundle.network.name, "method": NETWORK}
            | view.network_alone(photo.features[key], k)
            for key, view in networks.items()
        ]
        for view in chosen:
            candidates = view.candidates(request.candidates)
            shift = request.balance * view.reach if request.balance else None
            options = RankOptions(k=k, candidates=candidates, sure=request.sure, seen_shift=shift)
            answer = self.rank(view, [("", photo)], options)[0]
            columns.append({"bundle": view.name, "title": view.name, "method": view.bundle.method} | answer)
        return columns

    @contextmanager
    def _changing(self, name: str | None) -> Iterator[tuple[View, Model]]:
        """A bundle, and a copy of its model to change, which then takes its place; running requests keep the old."""
        with self._growing:
            self._may_change()
            view = self.view(name)
            model = view.model.with_bundle(view.bundle)
            yield view, model
            self.views[view.name] = View(view.name, model, view.reach)

    def _may_change(self) -> None:
        if self.read_only:
            raise Refused(403, "This server was started with --read-only: nothing can be added or saved.")

    def add(self, request: AddRequest) -> tuple[str, View]:
        """Add a class to a bundle in memory. Returns its id and what is served from now on."""
        with self._changing(request.bundle) as (view, model):
            id = _add(model, (request.name, *request.names), request.parents, request.definition, request.looks)
        return id, self.views[view.name]

    def try_out(self, request: TryRequest) -> list[dict[str, Any]]:
        """Where a class would stand on remembered photos if it were added; nothing is changed."""
        view = self.view(request.bundle)
        photos = [(token, photo) for token in request.tokens if (photo := self.photos.get(token)) is not None]
        if not photos:
            self.recall(request.tokens[0])
        copy = view.model.with_bundle(view.bundle)
        _add(copy, (request.name, *request.names), request.parents, request.definition, request.looks)
        features = np.stack([photo.features[view.network_key] for _, photo in photos])
        classifier, candidates = copy.bundle.solution.classifiers[-1], view.candidates(request.candidates)
        places = self._ranker.submit(view.places_of, classifier, features, candidates).result()
        return [{"token": token} | place for (token, _), place in zip(photos, places, strict=True)]

    def teach(self, request: TeachRequest) -> tuple[str, View]:
        """Let a remembered photo be an example of a class, known by its id or new by name and parents."""
        photo = self.recall(request.token)
        with self._changing(request.bundle) as (view, model):
            id = request.id or _add(model, (request.name,), request.parents)
            features = photo.features[view.network_key][None]
            checksum = hashlib.sha256(features.tobytes()).hexdigest()
            model.replace_bundle(teach(model.bundle, {id: Photos(features, [checksum])}))
        return id, self.views[view.name]

    def forget(self, bundle: str | None, id: str) -> View:
        """As if a class had never been taught; one that was added stays."""
        with self._changing(bundle) as (view, model):
            if id not in view.bundle.taught:
                raise Refused(404, f"No class with the id {id!r} was taught here.")
            model.forget(id)
        return self.views[view.name]

    def remove(self, bundle: str | None, id: str) -> View:
        """Take an added class out again."""
        with self._changing(bundle) as (view, model):
            if id not in view.hierarchy:
                raise Refused(404, f"There is no class with the id {id!r}.")
            if id not in view.bundle.added:
                name = view.hierarchy.name(id)
                raise Refused(409, f"{name} ({id}) was not added: only added classes can be removed.")
            model.remove(id)
        return self.views[view.name]

    def save(self, bundle: str | None, name: str) -> Path:
        """Write the bundle with all its added classes into the save folder."""
        self._may_change()
        place = self.save_folder / slug(name)
        with self._growing:
            if place.exists():
                raise Refused(409, f"The name {place.name} is taken: choose another one.")
            saved = sum(1 for _ in self.save_folder.glob("*"))
            if saved >= MAX_SAVED:
                raise Refused(409, f"{saved} bundles were saved already: remove some from the server's save folder.")
            return self.view(bundle).bundle.save(place)


def _add(model: Model, names: Sequence[str], parents: Sequence[str], definition="", looks="") -> str:
    """Add a class under an id made from its name."""
    lemmas = list(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))
    if not lemmas:
        raise Refused(422, "A new class needs a name.")
    if len(model.bundle.added) >= MAX_ADDED:
        raise Refused(409, f"{MAX_ADDED} classes were added already: remove some, or train a bundle with them.")
    hierarchy = model.bundle.hierarchy
    parents = [find_class(parent, hierarchy) for parent in parents]
    id = _unused(slug(lemmas[0]), hierarchy)
    return model.add(Node(id, lemmas, parents, " ".join(definition.split()), " ".join(looks.split())))


def _unused(name: str, taken: Container[str]) -> str:
    """The name, with a number if it is taken."""
    numbered = (f"{name}-{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)


def _reach(view: View, features: np.ndarray, k: int = 5) -> float:
    """The shift beyond which the k best of every given photo are all unseen, or all seen if it is taken negative."""
    scores = view.model.scores(features, "any")
    seen = view.is_seen[view.model.candidates("any")]
    gaps = [0.0]
    for row in scores:
        for ours, others in ((row[seen], row[~seen]), (row[~seen], row[seen])):
            ours, others = ours[np.isfinite(ours)], others[np.isfinite(others)]
            if len(ours) and len(others) >= k:
                gaps.append(float(ours.max() - np.partition(others, -k)[-k]))
    return float(f"{1.25 * max(gaps):.2g}") or 1.0


def open_service(options: ServiceOptions) -> Service:
    """The models, loaded and warm."""
    models = open_models([Path(path) for path in options.bundles], options.device, options.trust_code)
    folder = None if options.save_folder is None else Path(options.save_folder)
    service = Service(models, folder, options.read_only, options.batch)
    if options.shared is not None:
        service.photos = PhotoMemory(Path(options.shared), KEPT_PHOTOS // options.workers)
    service.warm_up()
    return service


def open_models(paths: Sequence[Path], device: str, trust_code: bool = False) -> dict[str, Model]:
    """Models by the names of their files; a name that comes twice gets a number."""
    models: dict[str, Model] = {}
    for path in paths or [DEFAULT]:
        is_default = path == DEFAULT and not path.exists()
        name = _unused("default" if is_default else path.resolve().name, {*models, NETWORK})
        models[name] = load(None if is_default else path, device=device, trust_code=trust_code)
    return models


class Batcher:
    """One thread that answers all that waits, `most` items at a time; the first one waits `wait` seconds for others.

    `answer` turns a list of items into a list of answers.
    """

    def __init__(self, answer: Callable[[list[Any]], list[Any]], most: int, wait: float):
        self.answer, self.most, self.wait = answer, most, wait
        self.items = self.batches = self.largest = 0
        self._cores = _all_cores()
        self._queue: queue.SimpleQueue[tuple[Any, Future] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="unseen-network", daemon=True)
        self._thread.start()

    def submit(self, item: Any) -> Future:
        promise: Future = Future()
        self._queue.put((item, promise))
        if not self._thread.is_alive():
            self._turn_away()
        return promise

    def close(self) -> None:
        """Answer what is waiting, then end the thread. What comes later is turned away: nobody waits for ever."""
        self._queue.put(None)
        self._thread.join()
        self._turn_away()

    def _turn_away(self) -> None:
        with suppress(queue.Empty):
            while entry := self._queue.get_nowait():
                entry[1].set_exception(Busy())

    def _run(self) -> None:
        torch.set_num_threads(self._cores)  # of this thread
        while (entry := self._queue.get()) is not None:
            batch, deadline = [entry], time.monotonic() + self.wait
            while len(batch) < self.most:
                try:
                    entry = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    break
                if entry is None:
                    self._queue.put(None)  # the end comes after this batch
                    break
                batch.append(entry)
            self._settle(batch)

    def _settle(self, batch: list[tuple[Any, Future]]) -> None:
        self.items += len(batch)
        self.batches += 1
        self.largest = max(self.largest, len(batch))
        try:
            answers = self.answer([item for item, _ in batch])
        except Exception as error:  # the requests must hear of it, and the thread must live on
            for _, promise in batch:
                promise.set_exception(error)
        else:
            for (_, promise), answer in zip(batch, answers, strict=True):
                promise.set_result(answer)


class NetworkWorker:
    """A network that serves many threads: photos that wait for it run through it together."""

    def __init__(self, network: Network, most: int = 16, wait: float = 0.004):
        if not network.takes_photos:
            raise UnseenError(f"{network.name} takes no photos, so that there is nothing to serve.")
        self.network = network
        self.batcher = Batcher(self._features, most, wait)

    def submit(self, pixels: np.ndarray) -> Future[np.ndarray]:
        """Promise the features (D) of a photo."""
        return self.batcher.submit(self.network.transform.normalise(pixels))

    def close(self) -> None:
        self.batcher.close()

    def _features(self, photos: list[Tensor]) -> list[np.ndarray]:
        features = self.network.features(torch.stack(photos)).cpu().numpy()
        return [row.copy() for row in features]  # copies, so that a remembered photo does not hold its whole batch


@cache  # asked before any thread changes its own number, which is what threads begun later would start with
def _all_cores() -> int:
    return torch.get_num_threads()
