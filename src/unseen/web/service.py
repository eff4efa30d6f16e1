"""The server's state: the bundles, the networks that they share, the photos remembered, the classes added."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.bundle.growth import add, remove
from unseen.bundle.teaching import Photos, forget, teach
from unseen.classifier import ZeroShotClassifier
from unseen.errors import UnseenError
from unseen.photos import UnreadablePhoto
from unseen.photos.reading import read_photo
from unseen.recognition import Unreadable
from unseen.runtime.folders import cache_folder
from unseen.runtime.text import slug
from unseen.taxonomy import Node
from unseen.web.batching import Batcher, NetworkWorker
from unseen.web.limits import MAX_ADDED, MAX_FILE_BYTES, MAX_PIXELS, MAX_SAVED, MB
from unseen.web.memory import PhotoMemory, Remembered
from unseen.web.samples import sample_photos
from unseen.web.served import NETWORK, Served


class Refused(UnseenError):
    """A request that cannot be answered, with the HTTP status that says so."""

    def __init__(self, status: int, message: str, **more: Any):
        super().__init__(message)
        self.status, self.more = status, more


class Service:
    """Everything behind the API. Safe to use from many threads.

    `models` by the name of their bundle; the first one is the default. `save_folder` is the only place it writes to.
    `batch` is how many photos go through a network at a time.
    """

    def __init__(
        self,
        models: dict[str, ZeroShotClassifier],
        save_folder: Path | None = None,
        read_only: bool = False,
        batch: int = 16,
    ):
        if not models:
            raise UnseenError("there is no bundle to serve")
        self.save_folder = save_folder or cache_folder() / "bundles"
        self.read_only = read_only
        self.started = time.monotonic()
        self.photos = PhotoMemory()
        self.workers: dict[str, NetworkWorker] = {}  # by `Served.network`
        self.bundles: dict[str, Served] = {}
        self._growing = threading.Lock()
        self._looking = threading.Lock()
        self._ranker = Batcher("ranker", _rank_together, most=64)
        for name, model in models.items():
            self.bundles[name] = served = Served(name, model)
            if served.network not in self.workers:
                self.workers[served.network] = NetworkWorker(model.backbone, batch)

    def warm_up(self) -> None:
        """Run the sample photos through all of it, so that the first visitor waits no longer than the next.

        They also give the range of the trade-off slider: as far as the answers of some sample photo still change.
        """
        samples = [path.read_bytes() for path in sample_photos()]
        threading.Thread(target=self._try_growing, name="unseen-grower", daemon=True).start()
        for served in list(self.bundles.values()):
            worker = self.workers[served.network]
            features = np.stack([promise.result() for promise in [worker.submit(photo) for photo in samples]])
            served.reach = _reach(served, features)
            served.search("cat", 5)
            served.why(served.bundle.ids[int(served.bundle.seen[0])], 3)

    def _try_growing(self) -> None:
        """Add a class to a copy that nobody sees: what that needs (an encoder of definitions) is loaded before someone
        waits for it. Where it fails, whoever adds a class will be told."""
        for served in list(self.bundles.values()):
            with suppress(UnseenError):
                parent = served.bundle.ids[int(served.bundle.seen[0])]
                add(served.bundle, [Node("unseen-warm-up", ("warm-up",), (parent,), "a first try")])

    def close(self) -> None:
        self._ranker.close()
        for worker in self.workers.values():
            worker.close()

    def served(self, name: str | None) -> Served:
        """The bundle of that name; the first one without a name."""
        if name is None:
            return next(iter(self.bundles.values()))
        if name not in self.bundles:
            raise Refused(404, f"There is no bundle named {name!r}. There are: {', '.join(self.bundles)}.")
        return self.bundles[name]

    # -- photos ----------------------------------------------------------------------------------------------------

    def look_at(self, files: Iterable[tuple[str, bytes]]) -> tuple[list[tuple[str, Remembered]], list[Unreadable]]:
        """Features of the photos by every network served, remembered under a token each; and the unreadable ones."""
        promised, unreadable = [], []
        for name, data in files:
            try:
                if len(data) > MAX_FILE_BYTES:
                    raise UnreadablePhoto(name, f"is larger than {MAX_FILE_BYTES // MB} MB: make it smaller.")
                promised.append((name, {key: worker.submit(data) for key, worker in self.workers.items()}))
            except UnreadablePhoto as error:
                unreadable.append(Unreadable(name, error.why))
        found = []
        for name, promises in promised:
            photo = Remembered(name, {key: promise.result() for key, promise in promises.items()})
            found.append((self.photos.keep(photo), photo))
        return found, unreadable

    def recall(self, token: str) -> Remembered:
        photo = self.photos.get(token)
        if photo is None:
            raise Refused(404, "This photo is no longer remembered: send it again to /api/classify.")
        return photo

    def rank(self, served: Served, photos: Sequence[tuple[str, Remembered]], **options: Any) -> list[dict[str, Any]]:
        """Answers for remembered photos."""
        if not photos:
            return []
        features = np.stack([photo.features[served.network] for _, photo in photos])
        answers = self._ranker.submit((served, options, features)).result()
        return [
            {"photo": photo.name, "token": token} | answer
            for (token, photo), answer in zip(photos, answers, strict=True)
        ]

    def heatmaps(self, served: Served, name: str, data: bytes, ids: Sequence[str]) -> dict[str, Any]:
        """Heat maps of classes for a photo, one photo at a time."""
        try:
            if len(data) > MAX_FILE_BYTES:
                raise UnreadablePhoto(name, f"is larger than {MAX_FILE_BYTES // MB} MB: make it smaller.")
            side = getattr(served.model.backbone.transform, "resize", None)
            decoders = self.workers[served.network].decoders
            photo = decoders.run(lambda: read_photo(data, MAX_PIXELS, short_side=side))
        except UnreadablePhoto as error:
            told = Unreadable(name, error.why).as_dict()
            raise Refused(422, f"No photo could be read. {name}: {error.why}", unreadable=[told]) from None
        with self._looking:
            return served.heatmaps(photo, ids)

    def compare(self, photo: Remembered, names: Sequence[str], k: int, candidates: str) -> list[dict[str, Any]]:
        """One column for each network alone and for each of the named bundles."""
        chosen = [self.served(name) for name in names or self.bundles]
        columns, met = [], set()
        for served in chosen:
            if served.network not in met:
                met.add(served.network)
                alone = served.network_alone(photo.features[served.network], k)
                columns.append({"bundle": NETWORK, "title": served.bundle.backbone.name, "method": NETWORK} | alone)
        for served in chosen:
            options = {"k": k, "candidates": served.candidates(candidates)}
            answer = self.rank(served, [("", photo)], **options)[0]
            columns.append({"bundle": served.name, "title": served.name, "method": served.bundle.method} | answer)
        return columns

    # -- more classes ----------------------------------------------------------------------------------------------

    def add(
        self, bundle: str | None, name: str, parents: Sequence[str], definition: str, more_names: Sequence[str]
    ) -> str:
        """Add a class to a bundle in memory; answers from now on take it into account. Returns its id."""
        with self._growing:
            self._may_change()
            served = self.served(bundle)
            id, grown = self._grown(served, name, parents, definition, more_names)
            self._replace(served, grown)
        return id

    def _grown(
        self, served: Served, name: str, parents: Sequence[str], definition: str = "", more_names: Sequence[str] = ()
    ) -> tuple[str, Bundle]:
        """The id of a new class, and the bundle with it."""
        lemmas = tuple(dict.fromkeys(" ".join(text.split()) for text in (name, *more_names) if text.strip()))
        if not lemmas:
            raise Refused(422, "A new class needs a name.")
        if len(served.bundle.added) >= MAX_ADDED:
            raise Refused(409, f"{MAX_ADDED} classes were added already: remove some, or train a bundle with them.")
        parents = [served.taxonomy.resolve(parent) for parent in parents]
        id = _unused(slug(lemmas[0]), served.taxonomy)
        node = Node(id, lemmas, tuple(dict.fromkeys(parents)), " ".join(definition.split()))
        return id, add(served.bundle, [node])

    def teach(self, bundle: str | None, token: str, id: str | None, name: str, parents: Sequence[str]) -> str:
        """Let a remembered photo be an example of a class, known by its id or new by name and parents. Its id."""
        photo = self.recall(token)
        with self._growing:
            self._may_change()
            served = self.served(bundle)
            grown = served.bundle
            if id is None:
                id, grown = self._grown(served, name, parents)
            features = photo.features[served.network][None]
            checksum = hashlib.sha256(features.tobytes()).hexdigest()
            self._replace(served, teach(grown, {id: Photos(features, [checksum])}))
        return id

    def forget(self, bundle: str | None, id: str) -> None:
        """As if a class had never been taught; one that was added stays."""
        with self._growing:
            self._may_change()
            served = self.served(bundle)
            if id not in served.bundle.taught:
                raise Refused(404, f"No class with the id {id!r} was taught here.")
            self._replace(served, forget(served.bundle, [id]))

    def remove(self, bundle: str | None, id: str) -> None:
        """Take an added class out again."""
        with self._growing:
            self._may_change()
            served = self.served(bundle)
            if id not in served.taxonomy:
                raise Refused(404, f"There is no class with the id {id!r}.")
            if id not in served.bundle.added:
                raise Refused(
                    409, f"{served.taxonomy.name(id)} ({id}) was not added: only added classes can be removed."
                )
            self._replace(served, remove(served.bundle, [id]))

    def save(self, bundle: str | None, name: str) -> Path:
        """Write the bundle with all its added classes into a new folder of the save folder."""
        self._may_change()
        folder = self.save_folder / slug(name)
        with self._growing:
            if folder.exists():
                raise Refused(409, f"The name {folder.name} is taken: choose another one.")
            saved = sum(1 for _ in self.save_folder.glob("*/bundle.json"))
            if saved >= MAX_SAVED:
                raise Refused(409, f"{saved} bundles were saved already: remove some from the server's save folder.")
            return self.served(bundle).bundle.save(folder)

    def _may_change(self) -> None:
        if self.read_only:
            raise Refused(403, "This server was started with --read-only: nothing can be added or saved.")

    def _replace(self, served: Served, bundle: Bundle) -> None:
        """Requests under way go on with the old one."""
        model = ZeroShotClassifier(bundle, self.workers[served.network].backbone, served.model.device)
        self.bundles[served.name] = Served(served.name, model, served.reach)


def _rank_together(jobs: list[tuple[Served, dict[str, Any], np.ndarray]]) -> list[list[dict] | Exception]:
    """Answers for each job (bundle, options, features n x D); those that ask for the same are ranked in one go, since
    the ranking of sixteen photos costs hardly more than that of one."""
    answers: list[Any] = [None] * len(jobs)
    alike: dict[tuple[int, str], list[int]] = {}
    for at, (served, options, _) in enumerate(jobs):
        alike.setdefault((id(served), repr(options)), []).append(at)
    for places in alike.values():
        served, options, _ = jobs[places[0]]
        try:
            ranked = iter(served.rank(np.concatenate([jobs[at][2] for at in places]), **options))
            for at in places:
                answers[at] = [next(ranked) for _ in jobs[at][2]]
        except Exception as error:  # only those who asked for it hear of it
            for at in places:
                answers[at] = error
    return answers


def _unused(id: str, taken) -> str:
    number = 2
    fresh = id
    while fresh in taken:
        fresh, number = f"{id}-{number}", number + 1
    return fresh


def _reach(served: Served, features: np.ndarray, k: int = 5) -> float:
    """The shift beyond which the k best of every given photo are all unseen, or all seen if it is taken negative."""
    scores = served.model.scores(features, "any")
    seen = served.is_seen[served.model.candidates("any")]
    gaps = [0.0]
    for row in scores:
        for ours, others in ((row[seen], row[~seen]), (row[~seen], row[seen])):
            ours, others = ours[np.isfinite(ours)], others[np.isfinite(others)]
            if len(ours) and len(others) >= k:
                gaps.append(float(ours.max() - np.partition(others, -k)[-k]))
    return float(f"{1.25 * max(gaps):.2g}") or 1.0
