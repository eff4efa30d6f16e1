"""The bundles, networks and features that the paper's tables share: each is made once and found again on disk.

WORK/bundles/<run>        a bundle for every (method, settings, seed)
WORK/features/<...>       features of the photos, by folder and network
WORK/frozen/<...>         what the frozen stages of a network make of the photos of stage 2; may be deleted
WORK/choices/<...>        how the learning rate of stage 2 was chosen, see `unseen.reproduction.finetune_rate`
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.evaluation.awa2 import Attributes, by_id
from unseen.features.cache import open_features
from unseen.finetuning import FinetuneSettings, finetune
from unseen.methods import get_method
from unseen.methods.graph.method import GraphMethod
from unseen.photos import list_classes, photos_in
from unseen.recognition import Recogniser
from unseen.reproduction.finetune_rate import TRIED, choose_rate
from unseen.reproduction.levels import Lengths, Level
from unseen.reproduction.recipe import Row
from unseen.runtime.run import Run
from unseen.scoring.awa2_classes import TRAIN
from unseen.training.stage1 import train

if TYPE_CHECKING:
    from unseen.features import FeatureStore
    from unseen.runtime.processes import Processes

NETWORK_ALONE = Row("network alone", method="network")
UNFINISHED = "not trained yet"
PACKAGES = {"sklearn": "scikit-learn"}  # imported by another name than they are installed by
ATTRIBUTES = Attributes.name  # a row's vectors, instead of names of word vectors


@dataclass(frozen=True)
class Plan:
    """What a row needs, and where it lies."""

    settings: dict[str, Any]
    vectors: str
    place: Path  # the bundle after stage 1
    tuned: Path | None  # after stage 2, if there is to be one

    @property
    def is_done(self) -> bool:
        return is_bundle(self.tuned or self.place)


@dataclass
class Trainings:
    """What is trained in `work`, on the data of a level."""

    work: Path
    level: Level
    lengths: Lengths
    kin_vectors: str = "glove+text"
    device: str = "auto"
    workers: int = 2
    show_progress: bool = True
    say: Callable[[str], None] = lambda message: None
    processes: Processes | None = None  # under torchrun
    only_done: bool = False  # leave out rows whose bundles are not there, instead of training them
    used: dict[str, float] = field(default_factory=dict)  # bundles that were asked for -> what both stages took
    _models: dict[str, Recogniser] = field(default_factory=dict)
    _stores: dict[tuple[Path, str], FeatureStore] = field(default_factory=dict)
    _marks: dict[Path | None, str] = field(default_factory=dict)
    _rate: float | None = None

    def settings(self) -> dict[str, Any]:
        """All that a result depends on besides its recipe."""
        level = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self.level).items()}
        return {"level": level, **asdict(self.lengths), "kin_vectors": self.kin_vectors}

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that trains stage 1, writes results and speaks."""
        return self.processes is None or self.processes.rank == 0

    def wait(self) -> None:
        """For all processes to come as far."""
        if self.processes is not None:
            self.processes.wait()

    def epochs(self, row: Row) -> int | None:
        """Epochs of stage 1 for a row; None where the method is no graph network: others keep their own settings."""
        if not issubclass(get_method(row.runs), GraphMethod):
            return None
        lengths = self.lengths
        usual = lengths.study_epochs if row.study else lengths.epochs
        whole = lengths.gcnz_epochs if "gcnz" in (row.method, row.as_long_as) else usual
        return max(1, round(whole * row.epochs_share))

    def lacks(self, row: Row, seeds: Sequence[int] = (0,), holdout: float = 0.0) -> str | None:
        """Why a row cannot be run on this data, or may not be run now; None if it can."""
        if row.needs is not None and find_spec(row.needs) is None:
            return f"it needs another package: pip install {PACKAGES.get(row.needs, row.needs)}"
        if row.vectors == ATTRIBUTES and self.level.attributes is None:
            return "it learns from AWA2's photos and attributes: name AWA2's folder with --awa2"
        if self.level.seen_train is None and row.vectors != ATTRIBUTES and self.learns_from_photos(row):
            return f"{row.method} learns from photos of seen classes: there are none here"
        if self.only_done and not self._is_done(row, seeds, holdout):
            return UNFINISHED
        return None

    def _is_done(self, row: Row, seeds: Sequence[int], holdout: float) -> bool:
        if self.is_finetuned(row) and not holdout and self.find_rate() is None:
            return False
        return all(self._plan(row, seed, holdout).is_done for seed in seeds)

    def learns_from_photos(self, row: Row) -> bool:
        """Whether a row's method does: because it must, or because it can and there are photos; see SYNC."""
        kind = get_method(row.runs)
        way = row.settings.get("learn_from", getattr(kind.Settings(), "learn_from", "classifiers"))
        return kind.needs_features or way == "features" or (way == "auto" and self.level.seen_train is not None)

    def is_finetuned(self, row: Row) -> bool:
        """A row is finetuned if the paper's is, and there are photos to do it with."""
        lengths = self.lengths
        wanted = row.finetune and (lengths.finetune_studies or not row.study)
        return wanted and self.level.seen_train is not None and lengths.finetune_epochs > 0

    def bundle(self, row: Row, seed: int = 0, holdout: float = 0.0) -> Bundle:
        """The bundle of a row, after stage 2 if it is finetuned; trained only if it is not there."""
        level, plan = self.level, self._plan(row, seed, holdout)
        features = None
        if self.learns_from_photos(row) and not is_bundle(plan.place):
            features = self._seen_features(row)
        if self.is_first and not is_bundle(plan.place):
            self.say(f"  training {row.method} {plan.settings or ''} seed {seed}")
            train(row.runs, level.graph, self._vectors(plan.vectors), level.backbone, plan.place, features=features,
                  holdout=holdout, weights=level.weights, run=self.run_settings(seed), precision=self._precision,
                  **plan.settings)  # fmt: skip
        self.wait()
        if plan.tuned is None:
            return self._load(plan.place)
        if not is_bundle(plan.tuned):
            assert level.seen_train is not None  # or nothing would be finetuned
            self.say(f"  finetuning {plan.place.name}")
            finetune(
                self._open(plan.place),
                level.seen_train,
                plan.tuned,
                self.finetune_settings(),
                self.run_settings(seed),
                skip_unknown=True,
                workers=self.workers,
                shared=self.work / "frozen",
            )
        return self._load(plan.tuned)

    def _open(self, place: Path, verify: bool = True) -> Bundle:
        bundle = Bundle.load(place, verify)
        bundle.trust_code = bundle.backbone.name == self.level.backbone  # which the user named
        return bundle

    def _load(self, place: Path) -> Bundle:
        bundle = self._open(place, verify=False)
        tuning = 0.0 if bundle.finetuning is None else bundle.finetuning.seconds
        self.used[place.name] = round((bundle.training.seconds or 0.0) + tuning, 1)
        return bundle

    def place(self, row: Row, seed: int = 0) -> Path:
        """Where a row's bundle is kept, before stage 2."""
        return self._plan(replace(row, finetune=False), seed, 0.0).place

    def _plan(self, row: Row, seed: int, holdout: float) -> Plan:
        """Where the bundles of a row lie: the names follow from all that they depend on."""
        settings, epochs = dict(row.settings), self.epochs(row)
        if epochs is not None:
            settings["epochs"] = epochs
        level = self.level
        vectors = row.vectors or (self.kin_vectors if row.method == "kin" else level.vectors)
        kind = get_method(row.runs)
        whole = asdict(kind.Settings(**settings))  # with the defaults: a row that only names one shares its bundle
        if whole.get("learn_from") == "auto":  # as it turns out, for the same reason
            whole["learn_from"] = "features" if self.learns_from_photos(row) else "classifiers"
        choice = {"method": row.method, "settings": whole, "seed": seed, "holdout": holdout, "vectors": vectors,
                  "graph": level.graph, "backbone": level.backbone}  # fmt: skip
        if level.weights is not None:
            choice["weights"] = str(level.weights)
        if self.learns_from_photos(row):
            choice["photos"] = self.mark(level.awa2 if vectors == ATTRIBUTES else level.seen_train)
        place, tuned = self.work / "bundles" / _key(row.runs, choice), None
        if self.is_finetuned(row) and not holdout:
            choice |= {"finetune": asdict(self.finetune_settings()), "photos": self.mark(level.seen_train)}
            tuned = self.work / "bundles" / _key(f"{row.method}-tuned", choice)
        return Plan(settings, vectors, place, tuned)

    def mark(self, folder: Path | None) -> str:
        """A folder of photos and how many of each class are there: with others, trainings on them are others."""
        if folder not in self._marks:
            counts = [] if folder is None else [(id, len(photos_in(folder / id))) for id in list_classes(folder)]
            self._marks[folder] = f"{folder} {hashlib.sha256(json.dumps(counts).encode()).hexdigest()[:10]}"
        return self._marks[folder]

    @property
    def _precision(self) -> str:
        """Of stored classifiers. Stage 2 freezes them as they are stored, and the authors' are in full precision."""
        return "fp32" if self.level.name == "paper" else "fp16"

    def find_rate(self) -> float | None:
        """The learning rate of stage 2: what is asked for, or what suits the network. None: `only_done`, and it is not
        chosen yet."""
        if self.lengths.finetune_rate is not None:
            return self.lengths.finetune_rate
        if self._rate is None and (not self.only_done or is_bundle(self.place(TRIED))):
            self._rate = choose_rate(self, self.only_done)
        return self._rate

    def finetune_settings(self, rate: float | None = None) -> FinetuneSettings:
        """How stage 2 is run, with another learning rate if one is given."""
        rate = self.find_rate() if rate is None else rate
        assert rate is not None  # or nothing would be finetuned
        lengths, world = self.lengths, 1 if self.processes is None else self.processes.world
        if lengths.finetune_batch % world:
            raise UnseenError(
                f"a step of stage 2 has {lengths.finetune_batch} photos, which {world} processes cannot share evenly: "
                f"give finetune_batch a multiple of {world}",
                "finetune_batch",
            )
        return FinetuneSettings(
            epochs=lengths.finetune_epochs, batch=lengths.finetune_batch // world, learning_rate=rate,
            scale=lengths.finetune_scale, freeze_stages=lengths.finetune_freeze,
            mixed_precision=self.level.name != "paper",  # as the authors train
        )  # fmt: skip

    def run_settings(self, seed: int) -> Run:
        return Run(seed=seed, device=self.device, resume=True, show_progress=self.show_progress)

    def model(self, row: Row, seed: int = 0) -> Recogniser:
        bundle = self.bundle(row, seed)
        key = str(bundle.path)
        if key not in self._models:
            self._models = {key: Recogniser(bundle, device=self.device)}  # one at a time: they are large
        return self._models[key]

    def store(self, model: Recogniser, photos: Path | None) -> FeatureStore:
        """Features of one of the level's folders of photos; only photos that are not there yet are read.

        Whether any are is looked up once: for millions of photos that takes as long as to read their features.
        """
        if photos is None:
            raise UnseenError(f"these figures need photos that the level {self.level.name} does not have")
        key = (photos, model.backbone.checksum)
        if key not in self._stores:
            self._stores[key] = open_features(
                photos, model.backbone, self.workers, self.show_progress, folder=self.work / "features"
            )
        return self._stores[key]

    def _vectors(self, name: str) -> Any:
        """What a row's classes are described by: a name that `train` knows, or AWA2's attributes."""
        return name if name != ATTRIBUTES or self.level.attributes is None else Attributes(self.level.attributes)

    def _seen_features(self, row: Row) -> Any:
        """What a row learns from; made by all processes, but loaded only by the one that trains."""
        if row.vectors == ATTRIBUTES:  # AWA2's own photos of its training classes, of which the network knows 24
            model = self.model(NETWORK_ALONE)
            store = by_id(self.store(model, self.level.awa2), model.bundle.taxonomy)
            ids = tuple(id for id in TRAIN.values() if id in store.classes() and id in model.bundle.taxonomy)
            return replace(store.seen_matrix(ids), ids=ids) if self.is_first else None
        if self.level.seen_train is None:
            raise UnseenError("methods that learn from photos need photos of seen classes: there are none here")
        model = self.model(NETWORK_ALONE)
        store = self.store(model, self.level.seen_train)
        return store.seen_matrix(model.bundle.seen_ids) if self.is_first else None


def is_bundle(place: Path) -> bool:
    return (place / "bundle.json").exists()


def _key(method: str, choice: dict) -> str:
    text = json.dumps(choice, sort_keys=True)
    name = method.replace(":", "-")  # of module:Class; no system minds a hyphen in a folder's name
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
