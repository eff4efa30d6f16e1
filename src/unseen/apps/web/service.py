"""The server's state: the model, the photos it remembers, the classes that were added."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from unseen.answers.answer import Unreadable
from unseen.apps.web import sample_photos
from unseen.apps.web.decoder import Decoder, TookTooLong
from unseen.apps.web.guards import (
    KEPT_PHOTOS,
    MAX_ADDED,
    MAX_AMONG_NAMES,
    MAX_FILE_BYTES,
    MAX_NAME,
    MAX_PIXELS,
    MAX_RANKED_LABELS,
    MAX_SAVED,
    MB,
)
from unseen.apps.web.schemas import AddRequest, RankOptions, TeachRequest, TryRequest
from unseen.apps.web.view import View
from unseen.bundle.teach import Photos, teach
from unseen.hierarchy.core import Node
from unseen.model import Model
from unseen.naming.meaning import find_class
from unseen.photos import UnreadablePhoto
from unseen.util.errors import UnseenError
from unseen.util.files import cache_folder
from unseen.util.names import slug


class Refused(UnseenError):
    """A request that cannot be answered, with the HTTP status that says so."""

    def __init__(self, status: int, message: str, **more: Any):
        super().__init__(message)
        self.status, self.more = status, more


@dataclass(frozen=True)
class Remembered:
    """A photo as the server keeps it: never its pixels."""

    name: str
    features: np.ndarray  # D


class PhotoMemory:
    """The features of recent photos, under random tokens: a photo is ranked again without being sent again."""

    def __init__(self, most: int = KEPT_PHOTOS):
        self.most = most
        self._photos: OrderedDict[str, Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._photos)

    def keep(self, photo: Remembered) -> str:
        token = secrets.token_urlsafe(16)
        with self._lock:
            self._photos[token] = photo
            while len(self._photos) > self.most:
                self._photos.popitem(last=False)
        return token

    def get(self, token: str) -> Remembered:
        photo = self._photos.get(token)
        if photo is None:
            raise Refused(404, "This photo is no longer remembered: send it again to /api/classify.")
        return photo

    def known(self, tokens: Iterable[str]) -> list[tuple[str, Remembered]]:
        """The photos that are still remembered, each once; one must be."""
        photos = [(token, self._photos[token]) for token in dict.fromkeys(tokens) if token in self._photos]
        return photos or [(token, self.get(token)) for token in tokens]


class Service:
    """Everything behind the API. Safe to use from many threads.

    `name` is what the model's bundle is called; `save_folder` is the only place that the server writes to.
    """

    def __init__(self, model: Model, name: str = "default", save_folder: Path | None = None, read_only: bool = False):
        if not model.network.takes_photos:
            raise UnseenError(f"{model.network.name} takes no photos, so that there is nothing to serve.")
        self.run = secrets.token_urlsafe(6)  # tells a page that this is another run of the server
        self.save_folder = save_folder or cache_folder() / "bundles"
        self.read_only = read_only
        self.started = time.monotonic()
        self.view = View(name, model)
        self.photos, self.photos_seen = PhotoMemory(), 0
        self.decoder = Decoder(model.network.transform, MAX_PIXELS)
        # One thread runs the network and ranks: several would fight over the cores.
        self._compute = ThreadPoolExecutor(1, "unseen-compute")
        self._growing, self._listing = threading.Lock(), threading.Lock()

    def warm_up(self) -> None:
        """Do once what the first visitor would otherwise wait for."""
        features = self.view.model.features(sample_photos())
        self.view.rank(features, RankOptions())
        self.view.search("cat", 5)
        self.view.why(self.view.bundle.seen_ids[0], 3)
        threading.Thread(target=self._try_growing, name="unseen-grower", daemon=True).start()

    def _try_growing(self) -> None:
        """Add a class to a copy that nobody sees: what that needs (an encoder of definitions) is loaded before someone
        waits for it. If it fails, adding a class reports it."""
        with suppress(UnseenError):
            copy = self.view.model.with_bundle(self.view.bundle)
            copy.add("warm-up", self.view.bundle.seen_ids[0], "a first try", "unseen-warm-up", looks="a thing to try")

    def close(self) -> None:
        self._compute.shutdown()
        self.decoder.close()

    def view_of(self, among: str) -> View:
        """The model, knowing only the classes of a list if there is one. `Model.among` keeps the last few lists."""
        names = list(dict.fromkeys(" ".join(part.split()) for part in re.split(r"[,;\n]", among) if part.strip()))
        if not names:
            return self.view
        if len(names) > MAX_AMONG_NAMES:
            raise Refused(422, f"{len(names)} names are too many: a list may have {MAX_AMONG_NAMES}.")
        if max(map(len, names)) > MAX_NAME:
            raise Refused(422, f"a name in a list may have {MAX_NAME} characters: separate names by commas.")
        with self._listing:
            return View(self.view.name, self.view.model.among(names))

    # -- photos --------------------------------------------------------------------------------------------------------

    def look_at(self, files: Iterator[tuple[str, bytes]]) -> tuple[list[tuple[str, Remembered]], list[Unreadable]]:
        """Features of the photos, remembered under a token each; and the unreadable ones."""
        promised, unreadable = [], []
        for name, data in files:
            try:
                promised.append((name, self._compute.submit(self._features, self._decode(name, data).pixels)))
            except UnreadablePhoto as error:
                unreadable.append(Unreadable(name, error.why))
                if isinstance(error, TookTooLong):  # once in a request: others wait for the decoder
                    why = "was not read, since one before it took too long."
                    unreadable += [Unreadable(name, why) for name, _ in files]
        photos = [Remembered(name, promise.result()) for name, promise in promised]
        self.photos_seen += len(photos)
        return [(self.photos.keep(photo), photo) for photo in photos], unreadable

    def _decode(self, name: str, photo: bytes):
        if len(photo) > MAX_FILE_BYTES:
            raise UnreadablePhoto(name, f"is larger than {MAX_FILE_BYTES // MB} MB: make it smaller.")
        return self.decoder.decode(name, photo)

    def _features(self, pixels: np.ndarray) -> np.ndarray:
        network = self.view.model.network
        return network.features_of(network.transform.normalise_array(pixels)[None])[0]

    def rank(
        self, view: View, photos: Sequence[tuple[str, Remembered]], options: RankOptions, watch: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Answers for remembered photos."""
        if len(photos) * options.k > MAX_RANKED_LABELS:
            what = f"{options.k} labels for each of {len(photos)} photos are too many"
            raise Refused(422, f"{what}: ask for {MAX_RANKED_LABELS:,} in all, or in several requests.")
        features = np.stack([photo.features for _, photo in photos])
        answers = self._compute.submit(view.rank, features, options, watch).result()
        return [
            {"photo": photo.name, "token": token} | answer
            for (token, photo), answer in zip(photos, answers, strict=True)
        ]

    def heatmaps(self, view: View, name: str, data: bytes, ids: Sequence[str]) -> dict[str, Any]:
        try:
            photo = self._decode(name, data)
        except UnreadablePhoto as error:
            unreadable = [Unreadable(name, error.why).to_dict()]
            raise Refused(422, f"No photo could be read. {name}: {error.why}", unreadable=unreadable) from None
        return self._compute.submit(view.heatmaps, photo, ids).result()

    # -- growth --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[Model]:
        """A copy of the model to change, which then takes its place; running requests keep the old one."""
        with self._growing:
            self._may_change()
            model = self.view.model.with_bundle(self.view.bundle)
            yield model
            self.view = View(self.view.name, model)

    def _may_change(self) -> None:
        if self.read_only:
            raise Refused(403, "This server was started with --read-only: nothing can be added or saved.")

    def add(self, request: AddRequest) -> str:
        """Add a class in memory. Returns its id."""
        with self._changing() as model:
            return _add(model, (request.name, *request.names), request.parents, request.definition, request.looks)

    def try_out(self, request: TryRequest) -> list[dict[str, Any]]:
        """Where a class would stand on remembered photos if it were added; nothing is changed."""
        photos, view = self.photos.known(request.tokens), self.view
        copy = view.model.with_bundle(view.bundle)
        _add(copy, (request.name, *request.names), request.parents, request.definition, request.looks)
        features = np.stack([photo.features for _, photo in photos])
        classifier = copy.bundle.solution.classifiers[-1]
        places = self._compute.submit(view.places_of, classifier, features, request.candidates).result()
        return [{"token": token} | place for (token, _), place in zip(photos, places, strict=True)]

    def teach(self, request: TeachRequest) -> str:
        """Let a remembered photo be an example of a class, known by its id or new by name and parents."""
        features = self.photos.get(request.token).features[None]
        with self._changing() as model:
            id = request.id or _add(model, (request.name,), request.parents)
            checksum = hashlib.sha256(features.tobytes()).hexdigest()
            model.replace_bundle(teach(model.bundle, {id: Photos(features, [checksum])}))
        return id

    def forget(self, id: str) -> None:
        """As if a class had never been taught; one that was added stays."""
        with self._changing() as model:
            if id not in model.bundle.taught:
                raise Refused(404, f"No class with the id {id!r} was taught here.")
            model.forget(id)

    def remove(self, id: str) -> None:
        """Take an added class out again."""
        with self._changing() as model:
            hierarchy = model.bundle.hierarchy
            if id not in hierarchy:
                raise Refused(404, f"There is no class with the id {id!r}.")
            if id not in model.bundle.added:
                raise Refused(409, f"{hierarchy.name(id)} ({id}) was not added: only added classes can be removed.")
            model.remove(id)

    def save(self, name: str) -> Path:
        """Write the bundle with all its added classes into the save folder."""
        self._may_change()
        path = self.save_folder / slug(name)
        with self._growing:
            if path.exists():
                raise Refused(409, f"The name {path.name} is taken: choose another one.")
            saved = sum(1 for _ in self.save_folder.glob("*"))
            if saved >= MAX_SAVED:
                raise Refused(409, f"{saved} bundles were saved already: remove some from the server's save folder.")
            return self.view.bundle.save(path)


def _add(model: Model, names: Sequence[str], parents: Sequence[str], definition: str = "", looks: str = "") -> str:
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
