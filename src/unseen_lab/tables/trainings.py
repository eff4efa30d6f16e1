"""The bundles, networks and features that the paper's tables share: each is made once and found again on disk.

WORK/bundles/<run>              a bundle for every (method, settings, seed)
WORK/features/<...>             features of the photos, by folder and network
WORK/frozen/<...>               what the frozen stages of a network make of the photos of stage 2; may be deleted
WORK/choices/<trial>.json       how the learning rate of stage 2 was chosen: what each trial did
WORK/choices/photos-<...>/      links to the photos of each part

With few photos, the learning rate of stage 2 is chosen for the network: 0.01 lifts EfficientNet-Lite0 and costs
ResNet-50 a dozen points. 70 % of the seen classes train, but for a fifth of their photos (*known*), and photos of the
*other* classes stand for those that stage 2 does not see. Rates are tried upwards until one falls behind; the best mean
of both accuracies wins.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unseen.bundle import Bundle
from unseen.bundle.file import is_bundle
from unseen.data import AWA2_CLASSES, AWA2_TRAIN
from unseen.evaluation.protocol import evaluate
from unseen.methods import get_method
from unseen.methods.graph.training import GraphMethod
from unseen.model import Model
from unseen.networks.folders import match_folders, open_features
from unseen.networks.loading import load_network
from unseen.photos import list_classes, photos_in
from unseen.training.settings import FinetuneSettings, TrainSettings
from unseen.training.stage1 import train
from unseen.training.stage2 import finetune
from unseen.util.errors import UnseenError
from unseen.util.files import replacing_folder, write_atomically
from unseen.util.run import Run
from unseen_lab.tables.levels import Attributes, Lengths, Level, Row

if TYPE_CHECKING:
    from unseen.networks import Features
    from unseen.util.processes import Processes

NETWORK_ALONE = Row("network alone", method="network")
logger = logging.getLogger(__name__)
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
    lacks_rate: bool = False  # it is to be finetuned, with a learning rate that is not chosen yet

    @property
    def is_done(self) -> bool:
        return not self.lacks_rate and is_bundle(self.tuned or self.place)


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
    _rate: float | None = field(default=None, init=False)

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
        if self.is_finetuned(row) and not holdout:
            self.choose_rate()
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
            model, settings = Model(self._open(plan.place), device="cpu"), self.finetune_settings(self.choose_rate())
            finetune(model, level.seen_train, settings, out=plan.tuned, run=self.run_settings(seed),
                     skip_unknown=True, shared=self.work / "frozen")  # fmt: skip
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
                  "graph": level.hierarchy, "backbone": level.network}  # fmt: skip
        if level.weights is not None:
            choice["weights"] = str(level.weights)
        if self.learns_from_photos(row):
            choice["photos"] = self.mark(level.awa2 if vectors == ATTRIBUTES else level.seen_train)
        place = self.work / "bundles" / _key(row.runs, choice)
        if not self.is_finetuned(row) or holdout:
            return Plan(settings, vectors, place, None)
        rate = self.find_rate()
        if rate is None:
            return Plan(settings, vectors, place, None, lacks_rate=True)
        choice |= {"finetune": asdict(self.finetune_settings(rate)), "photos": self.mark(level.seen_train)}
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

    def find_rate(self) -> float | None:
        """The learning rate of stage 2: what is asked for, or what the trials on disk choose. None: not chosen yet."""
        if self.lengths.finetune_rate is not None:
            return self.lengths.finetune_rate
        self._rate = self._rate or find_rate(self)
        return self._rate

    def choose_rate(self) -> float:
        """That rate; where it is not chosen yet, by running the trials."""
        self._rate = self.find_rate() or choose_rate(self)
        return self._rate

    def finetune_settings(self, rate: float) -> FinetuneSettings:
        """How stage 2 is run with a learning rate."""
        lengths, world = self.lengths, 1 if self.processes is None else self.processes.world
        if lengths.finetune_batch % world:
            batch = f"a step of stage 2 has {lengths.finetune_batch} photos"
            raise UnseenError(f"{batch}, which {world} processes cannot share evenly: give it a multiple of {world}")
        return FinetuneSettings(
            epochs=lengths.finetune_epochs, batch=lengths.finetune_batch // world, learning_rate=rate,
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


TRIED = Row("DGP", "dgp")
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
BEHIND = 1.0  # points that a rate may lack, so that chance does not end the search
CAREFUL = 3e-4  # where there are too few photos to choose by
FEWEST = 100  # photos, of either kind
ASIDE, OTHERS = 0.2, 0.3  # shares of a class's photos, and of the classes
JUDGED = 500  # photos of either kind at most

Trial = dict[str, Any]


def find_rate(work: Trainings) -> float | None:
    """The rate that the trials on disk choose; None if some are missing. Nothing is trained."""
    place = _photos_place(work)
    if not place.exists():
        return None
    if min(_count(place / "known"), _count(place / "other")) < FEWEST:
        return CAREFUL
    return best_rate(lambda rate: _read_trial(place_of(work, TRIED, work.finetune_settings(rate))))


def choose_rate(work: Trainings) -> float:
    """The rate that suits the level's network: trials that are missing are run now."""
    split_photos(work)
    rate = find_rate(work)
    if rate is None:
        rate = best_rate(lambda rate: try_out(work, TRIED, work.finetune_settings(rate)))
        assert rate is not None  # no trial is missing
        logger.info("  learning rate of stage 2: %g", rate)
    return rate


def best_rate(trial_of: Callable[[float], Trial | None]) -> float | None:
    """Rates upwards until one falls behind; the best mean of both accuracies wins. None once a trial is missing."""
    best, highest = RATES[0], -np.inf
    for rate in RATES:
        trial = trial_of(rate)
        if trial is None:
            return None
        reached = float(np.mean(list(trial["after"].values())))
        if reached > highest:
            best, highest = rate, reached
        elif reached < highest - BEHIND:
            break
    return best


def _read_trial(place: Path) -> Trial | None:
    return json.loads(place.read_text(encoding="utf-8")) if place.exists() else None


def try_out(work: Trainings, row: Row, settings: FinetuneSettings) -> Trial:
    """Finetune a row's bundle on a part of seen-train, once, and measure it on the rest."""
    place, judged = place_of(work, row, settings), ("known", "other")
    trial = _read_trial(place)
    if trial is None:
        logger.info("  trying stage 2 with learning rate %g", settings.learning_rate)
        parts, before = split_photos(work), work.model(row)
        tuned = finetune(Model(before.bundle, device="cpu"), parts["train"], settings, out=place.with_suffix(""),
                         run=work.run_settings(0), shared=work.work / "frozen")  # fmt: skip
        after = Model(tuned, device=work.device)
        trial = {
            "network": work.level.network,
            "method": row.method,
            "settings": asdict(settings),
            "photos": {part: _count(folder) for part, folder in parts.items()},
            "before": {part: _accuracy(before, work.store(before, parts[part])) for part in judged},
            "after": {part: _accuracy(after, work.store(after, parts[part])) for part in judged},
        }
        logger.info("  %s", ", ".join(f"{part} {trial['before'][part]} -> {trial['after'][part]} %" for part in judged))
        if work.is_first:
            write_atomically(place, json.dumps(trial, indent=1).encode())
            place.with_suffix("").unlink()
        work.wait()
    return trial


def place_of(work: Trainings, row: Row, settings: FinetuneSettings) -> Path:
    """Where a trial is kept: by the bundle that it finetunes, how, and with which photos."""
    asked = json.dumps([asdict(settings), work.mark(work.level.seen_train)], sort_keys=True)
    return work.work / "choices" / f"{work.plan(replace(row, finetune=False)).place.name}-{_hash(asked)}.json"


def split_photos(work: Trainings) -> dict[str, Path]:
    """Folders with links to the photos that a trial learns from (train) and is judged by (known, other)."""
    place, photos = _photos_place(work), work.level.seen_train
    assert photos is not None  # or there would be no stage 2
    if not place.exists():
        seen = set(work.bundle(TRIED).seen_ids)
        if work.is_first:
            with replacing_folder(place) as unfinished:
                _link_parts(photos, unfinished, seen)
    work.wait()
    return {part: place / part for part in ("train", "known", "other")}


def _link_parts(photos: Path, place: Path, seen: Collection[str]) -> None:
    rng = np.random.default_rng(0)
    parts: dict[str, list[Path]] = {"train": [], "known": [], "other": []}
    for id in list_classes(photos):
        files = [photos / id / name for name in rng.permutation(photos_in(photos / id))]
        other = rng.random() < OTHERS
        aside = 0 if other else round(ASIDE * len(files))
        if id in seen:
            parts["other" if other else "train"] += files[aside:]
            parts["known"] += files[:aside]
    for part, files in parts.items():
        (place / part).mkdir(parents=True)
        for file in files if part == "train" else [files[i] for i in rng.permutation(len(files))[:JUDGED]]:
            link = place / part / file.parent.name / file.name
            link.parent.mkdir(exist_ok=True)
            os.symlink(file.resolve(), link)


def _accuracy(model: Model, photos: Features) -> float:
    """Hit@1 among the seen classes, averaged over photos."""
    return evaluate(model, photos, "seen", ks=(1,), confidence=None).image["hit@1"] or 0.0


def _photos_place(work: Trainings) -> Path:
    return work.work / "choices" / f"photos-{_hash(work.mark(work.level.seen_train))}"


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.glob("*/*"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
