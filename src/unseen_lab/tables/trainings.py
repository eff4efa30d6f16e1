"""The bundles, networks and features that the paper's tables share: each is made once and found again on disk.

WORK/bundles/<run>              a bundle for every (method, settings, seed)
WORK/features/<...>             features of the photos, by folder and network
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unseen import Bundle, FinetuneSettings, Model, Run, TrainSettings, UnseenError, load_network, train
from unseen.bundle import is_bundle
from unseen.methods import get_method
from unseen.methods.graph import GraphMethod
from unseen.networks import match_folders, open_features
from unseen.photos import list_classes, photos_in
from unseen_lab.data.attributes import Attributes
from unseen_lab.data.awa2 import AWA2_CLASSES, AWA2_TRAIN
from unseen_lab.tables.levels import Lengths, Level, Row

if TYPE_CHECKING:
    from unseen.networks import Features, Processes

NETWORK_ALONE = Row("network alone", method="network")
RATES = {"efficientnet-lite0": 1e-2, "resnet50": 3e-4}
"""Learning rate of stage 2 with a few thousand photos, by network: the best of 1e-4, 3e-4, ... 3e-2 on photos of seen
classes that stage 2 had not been trained on. docs/results/finetuning.md has the trials."""
USUAL_RATE = 3e-4  # harmed neither network
logger = logging.getLogger("unseen.lab")  # below the logger that the command line shows
UNFINISHED = "not trained yet"
PACKAGES = {"sklearn": "scikit-learn"}  # imported by another name than they are installed by
ATTRIBUTES = Attributes.name  # a row's vectors, instead of names of word vectors


@dataclass(frozen=True)
class Plan:
    """What a row needs, and where it is."""

    settings: dict[str, Any]
    vectors: str
    place: Path  # the bundle after stage 1
    tuned: Path | None  # after stage 2, if the row is finetuned

    @property
    def is_done(self) -> bool:
        return is_bundle(self.tuned or self.place)


@dataclass
class Trainings:
    """What is trained in `work`, on the data of a level."""

    work: Path
    level: Level
    lengths: Lengths
    kin_vectors: str = "glove+text+looks"
    device: str = "auto"
    workers: int = 2
    show_progress: bool = True
    processes: Processes | None = None  # under torchrun
    only_done: bool = False  # leave out rows whose bundles are not there, instead of training them
    used: dict[str, float] = field(default_factory=dict, init=False)  # bundles of a table -> what both stages took
    _models: dict[str, Model] = field(default_factory=dict, init=False)
    _stores: dict[tuple[Path, str], Features] = field(default_factory=dict, init=False)
    _marks: dict[Path | None, str] = field(default_factory=dict, init=False)

    def settings(self) -> dict[str, Any]:
        """All that a result depends on besides its recipe."""
        return {"level": self.level.to_json(), **asdict(self.lengths), "kin_vectors": self.kin_vectors}

    @property
    def is_first(self) -> bool:
        """Whether this process trains stage 1, writes results and logs."""
        return self.processes is None or self.processes.rank == 0

    def wait(self) -> None:
        """For all processes to come as far."""
        if self.processes is not None:
            self.processes.wait()

    def epochs(self, row: Row) -> int | None:
        """Epochs of stage 1 for a row; None where the method is no graph network: others keep their own settings."""
        if not issubclass(get_method(row.runs), GraphMethod):
            return None
        usual = self.lengths.study_epochs if row.study else self.lengths.epochs
        full = self.lengths.gcnz_epochs if "gcnz" in (row.method, row.as_long_as) else usual
        return max(1, round(full * row.epochs_share))

    def lacks(self, row: Row, seeds: Sequence[int] = (0,), holdout: float = 0.0) -> str | None:
        """Why a row cannot be run on this data, or may not be run now; None if it can."""
        if row.needs is not None and find_spec(row.needs) is None:
            return f"it needs another package: pip install {PACKAGES.get(row.needs, row.needs)}"
        if row.vectors == ATTRIBUTES and self.level.attributes is None:
            return "it learns from AWA2's photos and attributes: name AWA2's folder with --awa2"
        if self.level.seen_train is None and row.vectors != ATTRIBUTES and self.learns_from_photos(row):
            return f"{row.method} learns from photos of seen classes: there are none here"
        if self.only_done and not all(self.plan(row, seed, holdout).is_done for seed in seeds):
            return UNFINISHED
        return None

    def learns_from_photos(self, row: Row) -> bool:
        """Whether a row's method does: because it must, or because it can and there are photos; see SYNC."""
        kind = get_method(row.runs)
        way = row.settings.get("learn_from", getattr(kind.Settings(), "learn_from", "classifiers"))
        return kind.needs_features or way == "features" or (way == "auto" and self.level.seen_train is not None)

    def is_finetuned(self, row: Row) -> bool:
        """A row is finetuned if the paper's is, and there are photos to do it with."""
        wanted = row.finetune and (self.lengths.finetune_studies or not row.study)
        return wanted and self.level.seen_train is not None and self.lengths.finetune_epochs > 0

    def bundle(self, row: Row, seed: int = 0, holdout: float = 0.0) -> Bundle:
        """The bundle of a row, after stage 2 if it is finetuned; trained only if it is not there."""
        level, plan, features = self.level, self.plan(row, seed, holdout), None
        if self.learns_from_photos(row) and not is_bundle(plan.place):
            features = self._seen_features(row)
        if self.is_first and not is_bundle(plan.place):
            logger.info("  training %s %s seed %d", row.method, plan.settings or "", seed)
            settings = TrainSettings(holdout, self._precision, features=features)
            network = load_network(level.network, weights=level.weights)
            attributes = level.attributes if plan.vectors == ATTRIBUTES else None
            vectors = plan.vectors if attributes is None else Attributes(attributes)
            train(level.hierarchy, network, row.runs, vectors, settings,
                  out=plan.place, run=self.run_settings(seed), **plan.settings)  # fmt: skip
        self.wait()
        if plan.tuned is None:
            return self._load(plan.place)
        if not is_bundle(plan.tuned):
            assert level.seen_train is not None  # or nothing would be finetuned
            logger.info("  finetuning %s", plan.place.name)
            model = Model(self._open(plan.place), device="cpu")
            model.finetune(level.seen_train, self.finetune_settings(), out=plan.tuned, run=self.run_settings(seed),
                           skip_unknown=True)  # fmt: skip
        return self._load(plan.tuned)

    def _open(self, place: Path, verify: bool = True) -> Bundle:
        bundle = Bundle.load(place, verify)
        bundle.trust_code = bundle.network.name == self.level.network  # which the user named
        return bundle

    def _load(self, place: Path) -> Bundle:
        bundle = self._open(place, verify=False)
        tuning = 0.0 if bundle.finetuning is None else bundle.finetuning.seconds
        self.used[place.name] = round((bundle.training.seconds or 0.0) + tuning, 1)
        return bundle

    def plan(self, row: Row, seed: int = 0, holdout: float = 0.0) -> Plan:
        """Where the bundles of a row lie: the names follow from all that they depend on. Nothing is trained."""
        settings, epochs, level = dict(row.settings), self.epochs(row), self.level
        if epochs is not None:
            settings["epochs"] = epochs
        vectors = row.vectors or (self.kin_vectors if row.method == "kin" else level.vectors)
        # With the defaults, and choices as they come out: rows that mean the same share a bundle.
        complete = asdict(get_method(row.runs).Settings(**settings))
        if complete.get("learn_from") == "auto":
            complete["learn_from"] = "features" if self.learns_from_photos(row) else "classifiers"
        choice = {"method": row.method, "settings": complete, "seed": seed, "holdout": holdout, "vectors": vectors,
                  "hierarchy": level.hierarchy, "network": level.network}  # fmt: skip
        if level.weights is not None:
            choice["weights"] = str(level.weights)
        if self.learns_from_photos(row):
            choice["photos"] = self.mark(level.awa2 if vectors == ATTRIBUTES else level.seen_train)
        place = self.work / "bundles" / _key(row.runs, choice)
        if not self.is_finetuned(row) or holdout:
            return Plan(settings, vectors, place, None)
        choice |= {"finetune": asdict(self.finetune_settings()), "photos": self.mark(level.seen_train)}
        return Plan(settings, vectors, place, self.work / "bundles" / _key(f"{row.method}-tuned", choice))

    def mark(self, folder: Path | None) -> str:
        """A folder of photos and how many of each class are there: with others, trainings on them are others."""
        if folder not in self._marks:
            counts = [] if folder is None else [(id, len(photos_in(folder / id))) for id in list_classes(folder)]
            self._marks[folder] = f"{folder} {_hash(json.dumps(counts))}"
        return self._marks[folder]

    @property
    def _precision(self) -> Literal["fp32", "fp16"]:
        """Of stored classifiers. Stage 2 freezes them as they are stored, and the authors' are in full precision."""
        return "fp32" if self.level.name == "paper" else "fp16"

    @property
    def finetune_rate(self) -> float:
        return self.lengths.finetune_rate or RATES.get(self.level.network, USUAL_RATE)

    def finetune_settings(self) -> FinetuneSettings:
        lengths, world = self.lengths, 1 if self.processes is None else self.processes.world
        if lengths.finetune_batch % world:
            batch = f"a step of stage 2 has {lengths.finetune_batch} photos"
            raise UnseenError(f"{batch}, which {world} processes cannot share evenly: give it a multiple of {world}")
        return FinetuneSettings(
            epochs=lengths.finetune_epochs, batch=lengths.finetune_batch // world, learning_rate=self.finetune_rate,
            scale=lengths.finetune_scale, freeze_stages=lengths.finetune_freeze,
            mixed_precision=self.level.name != "paper",  # as the authors train
        )  # fmt: skip

    def run_settings(self, seed: int) -> Run:
        return Run(seed=seed, device=self.device, resume=True, show_progress=self.show_progress, workers=self.workers)

    def model(self, row: Row, seed: int = 0) -> Model:
        bundle = self.bundle(row, seed)
        key = str(bundle.path)
        if key not in self._models:
            self._models = {key: Model(bundle, device=self.device)}  # one at a time: they are large
        return self._models[key]

    def store(self, model: Model, photos: Path | None) -> Features:
        """Features of one of the level's folders of photos; only photos that are not there yet are read."""
        if photos is None:
            raise UnseenError(f"these figures need photos that the level {self.level.name} does not have")
        key = (photos, model.network.checksum)
        if key not in self._stores:
            cache = self.work / "features"
            self._stores[key] = open_features(photos, lambda: model.network, workers=self.workers, cache=cache)
        return self._stores[key]

    def _seen_features(self, row: Row) -> Any:
        """What a row learns from; made by all processes, but loaded only by the one that trains."""
        model = self.model(NETWORK_ALONE)
        if row.vectors != ATTRIBUTES:
            store = self.store(model, self.level.seen_train)
            return store.seen_matrix(model.bundle.seen_ids) if self.is_first else None
        # AWA2's own photos of its training classes, of which the network knows 24
        store = self.store(model, self.level.awa2)
        store = store.relabel(match_folders(list(store.classes()), model.bundle.hierarchy, AWA2_CLASSES.values()))
        ids = tuple(id for id in AWA2_TRAIN.values() if id in store.classes() and id in model.bundle.hierarchy)
        return replace(store.seen_matrix(ids), ids=ids) if self.is_first else None


def _key(method: str, choice: dict) -> str:
    return f"{method.replace(':', '-')}-{_hash(json.dumps(choice, sort_keys=True))}"  # method may be module:Class


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
