"""Run the paper's tables on whatever data is there, once each, and keep what came out.

    WORK/bundles/<run>        a bundle for every (method, settings, seed), shared by all tables
    WORK/features/<...>       features of the photos, by network
    WORK/results/<table>.json what the report is made of

Levels, never mixed in one column:  paper     ImageNet on disk, timm's ResNet-50, GloVe 300-d
                                    photos    any folder of photos by class id, built-in network and vectors
                                    embedded  no photos: how well the classifiers of hidden seen classes are found
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unseen.assets import find_asset
from unseen.bundle import Bundle
from unseen.classifier import ZeroShotClassifier
from unseen.errors import UnseenError
from unseen.evaluate import evaluate
from unseen.features import FeatureStore, build_store
from unseen.methods import get_method
from unseen.pipeline import train
from unseen.recipes import Recipe, Row, load_recipe
from unseen.run import Run, write_atomically

GRAPH_NETWORKS = ("dgp", "sgcn", "gcnz", "gat")
HOLDOUT = 0.2  # of the seen classes, at the embedded level


@dataclass(frozen=True)
class Level:
    """What data there is, and what it stands for."""

    name: str  # paper, photos or embedded
    graph: str
    vectors: str
    backbone: str
    unseen: Path | None = None
    seen_train: Path | None = None
    seen_val: Path | None = None
    has_lists: bool = True

    def candidates(self, spec: str) -> str:
        """The authors' list, or what comes nearest to it without their files."""
        if self.has_lists:
            return spec
        plain, plus, _ = spec.partition("+")
        near = {"2-hops": "hops:2", "3-hops": "hops:3", "all": "unseen"}.get(plain, plain)
        return f"{near}+1K" if plus else near


@dataclass
class Reproduction:
    """Settings of a reproduction. `scale` shortens every training: 0.1 trains for a tenth of the epochs."""

    work: Path
    level: Level
    epochs: int = 3000
    finetune_epochs: int = 20
    finetune_batch: int = 64
    kin_vectors: str = "glove+text"
    device: str = "auto"
    workers: int = 2
    show_progress: bool = True
    say: Callable[[str], None] = lambda message: None
    _models: dict[str, ZeroShotClassifier] = field(default_factory=dict)

    # -- one table -------------------------------------------------------------------------------------------------

    def run(self, name: str) -> dict[str, Any]:
        """The table's result: from disk if it was made with the same settings, else made now."""
        recipe = load_recipe(name)
        place = self.work / "results" / f"{name}.json"
        made_with = self.settings()
        if place.exists():
            saved = json.loads(place.read_text(encoding="utf-8"))
            if saved["made_with"] == made_with:
                return saved
        self.say(f"[bold]{name}[/bold]: {recipe.title} ({recipe.paper}), level {self.level.name}")
        started = time.monotonic()
        runners = {"hop-weights": self._hop_weights, "scalability": self._scalability, "qualitative": self._qualitative}
        body = runners.get(recipe.kind, self._hits)(recipe)
        result = {
            "table": name,
            "title": recipe.title,
            "paper": recipe.paper,
            "shows": recipe.shows,
            "kind": recipe.kind,
            "level": self.level.name,
            "notes": list(recipe.notes),
            "made_with": made_with,
            "seconds": round(time.monotonic() - started, 1),
            **body,
        }
        write_atomically(place, json.dumps(result, indent=1, ensure_ascii=False).encode())
        return result

    def settings(self) -> dict[str, Any]:
        level = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self.level).items()}
        return {"level": level, "epochs": self.epochs, "finetune_epochs": self.finetune_epochs,
                "finetune_batch": self.finetune_batch, "kin_vectors": self.kin_vectors}  # fmt: skip

    def _hits(self, recipe: Recipe) -> dict[str, Any]:
        """Hit@k for every row and list of candidates; for several seeds their mean and standard deviation."""
        rows, coverage = [], {}
        for row in recipe.rows:
            entry = {"label": row.label, "ours": row.ours, "published": row.published}
            entry |= {key: getattr(row, key) for key in ("norm", "published_as", "published_deviation")
                      if getattr(row, key)}  # fmt: skip
            if row.method is not None:
                runs = [self._measure(recipe, row, seed, coverage) for seed in recipe.seeds]
                entry |= {"method": row.method, "finetune": row.finetune, "measured": _mean(runs)}
                if len(runs) > 1:
                    entry["deviation"] = _deviation(runs)
            rows.append(entry)
        return {"rows": rows, "hits": list(recipe.hits), "candidates": list(recipe.candidates), "coverage": coverage}

    def _measure(self, recipe: Recipe, row: Row, seed: int, coverage: dict) -> dict[str, Any]:
        if self.level.name == "embedded":
            bundle = self.bundle(row, seed, holdout=HOLDOUT)
            held = bundle.solution.details["holdout"]
            coverage["hidden"] = {"classes": held["classes"]}
            return {"hidden": {"image": {key: held[key] for key in ("hit@1", "hit@5")}}}
        model = self.model(row, seed)
        folder = self.level.seen_val if recipe.photos == "seen-val" else self.level.unseen
        if folder is None:
            raise UnseenError(f"{recipe.name} needs photos of {recipe.photos} classes: there is no such folder here")
        store = self.store(model, folder)
        found = {}
        for spec in recipe.candidates:
            result = evaluate(model, store, self.level.candidates(spec), ks=recipe.hits, show_progress=False)
            found[spec] = {"image": result.image, "class": result.class_}
            coverage[spec] = {"listed": result.listed_classes, "classes": result.classes, "images": result.images,
                              "as": self.level.candidates(spec)}  # fmt: skip
        return found

    def _hop_weights(self, recipe: Recipe) -> dict[str, Any]:
        row = recipe.rows[0]
        weights = self.bundle(row, 0).solution.details["hop_weights"]
        return {"rows": [{"label": row.label, "published": row.published, "measured": weights}]}

    def _scalability(self, recipe: Recipe) -> dict[str, Any]:
        from unseen.scalability import densities, weight_counts

        measured = weight_counts()
        measured |= densities(self.level.graph)
        return {"published": recipe.published, "measured": measured, "graph": self.level.graph}

    def _qualitative(self, recipe: Recipe) -> dict[str, Any]:
        """Top-5 labels of every row's model for a few photos of unseen classes, chosen by a fixed seed."""
        if self.level.unseen is None:
            return {"photos": [], "notes": [*recipe.notes, "No photos at this level: nothing to show."]}
        from unseen.photos import list_photos

        by_class = {photo.class_id: photo for photo in list_photos(self.level.unseen)}
        known = ZeroShotClassifier(self.bundle(recipe.rows[0], 0)).candidates(self.level.candidates("all"))
        names = {self.bundle(recipe.rows[0], 0).ids[r] for r in known}
        ids = sorted(i for i in by_class if i in names)
        chosen = [ids[i] for i in np.random.default_rng(0).permutation(len(ids))[: recipe.examples]]
        photos = []
        for id in chosen:
            entry = {"photo": str(by_class[id].path), "id": id, "answers": []}
            for row in recipe.rows:
                model = self.model(row, 0)
                entry["name"] = model.bundle.taxonomy.name(id)
                candidates = "seen" if row.method == "network" else self.level.candidates("all")
                labels = model.classify(by_class[id].path, 5, candidates)
                answers = [{"id": label.id, "name": label.name} for label in labels]
                entry["answers"].append({"label": row.label, "labels": answers})
            photos.append(entry)
        return {"photos": photos}

    # -- what tables share -----------------------------------------------------------------------------------------

    def bundle(self, row: Row, seed: int, holdout: float = 0.0) -> Bundle:
        """The bundle of a row, finetuned if the row is and there are photos for it; trained only if it is not there."""
        settings = dict(row.settings)
        if row.method in GRAPH_NETWORKS:
            settings["epochs"] = max(1, round(self.epochs * row.epochs_share))
        vectors = self.kin_vectors if row.method == "kin" else self.level.vectors
        choice = {"method": row.method, "settings": settings, "seed": seed, "holdout": holdout, "vectors": vectors,
                  "graph": self.level.graph, "backbone": self.level.backbone}  # fmt: skip
        place = self.work / "bundles" / _key(row.method, choice)
        if not (place / "bundle.json").exists():
            self.say(f"  training {row.method} {settings or ''} seed {seed}")
            features = None
            if get_method(row.method).needs_features:
                features = self._seen_features()
            train(row.method, self.level.graph, vectors, self.level.backbone, place, features=features, holdout=holdout,
                  run=Run(seed=seed, device=self.device, resume=True, show_progress=self.show_progress),
                  precision="fp16", **settings)  # fmt: skip
        if not row.finetune or self.level.seen_train is None or holdout:
            return Bundle.load(place, verify=False)
        return self._finetuned(place, choice, seed)

    def _finetuned(self, place: Path, choice: dict, seed: int) -> Bundle:
        from unseen.finetune import FinetuneSettings, finetune

        settings = FinetuneSettings(epochs=self.finetune_epochs, batch=self.finetune_batch)
        tuned = self.work / "bundles" / _key(f"{choice['method']}-tuned", choice | asdict(settings))
        if not (tuned / "bundle.json").exists():
            self.say(f"  finetuning {place.name}")
            run = Run(seed=seed, device=self.device, resume=True, show_progress=self.show_progress)
            photos = self.level.seen_train
            finetune(Bundle.load(place), photos, tuned, settings, run, skip_unknown=True, workers=self.workers)
        return Bundle.load(tuned, verify=False)

    def model(self, row: Row, seed: int) -> ZeroShotClassifier:
        bundle = self.bundle(row, seed)
        key = str(bundle.path)
        if key not in self._models:
            self._models = {key: ZeroShotClassifier(bundle, device=self.device)}  # one at a time: they are large
        return self._models[key]

    def store(self, model: ZeroShotClassifier, folder: Path) -> FeatureStore:
        name = f"{folder.name}-{model.bundle.backbone.checksum[:12]}"
        place = self.work / "features" / name
        build_store(folder, place, model.backbone, workers=self.workers, show_progress=self.show_progress)
        return FeatureStore.open(place, model.backbone)

    def _seen_features(self):
        if self.level.seen_train is None:
            raise UnseenError("methods that learn from photos need photos of seen classes: there are none here")
        network = Row("network", method="network")
        model = self.model(network, 0)
        return self.store(model, self.level.seen_train).seen_matrix(model.bundle.seen_ids)


def find_level(photos: Path | None = None, imagenet_21k: Path | None = None, imagenet_1k: Path | None = None) -> Level:
    """The best level that the data allow. A folder of photos has unseen/, and perhaps seen-train/ and seen-val/."""
    lists = find_asset("imagenet-testsets.json") is not None and find_asset("imagenet-split.json") is not None
    graph = "paper" if lists else "imagenet"
    if imagenet_21k is not None and imagenet_1k is not None:
        for folder in (imagenet_21k, imagenet_1k / "train", imagenet_1k / "val"):
            if not folder.is_dir():
                raise UnseenError(f"{folder}: there is no such folder; ImageNet-1k is expected with train/ and val/")
        return Level("paper", "paper", "glove.6B.zip#glove.6B.300d.txt", "timm/resnet50.tv_in1k",
                     imagenet_21k, imagenet_1k / "train", imagenet_1k / "val")  # fmt: skip
    if photos is not None:
        if not (photos / "unseen").is_dir():
            raise UnseenError(f"{photos}: has no folder unseen/ with photos of unseen classes by id")
        train_, val = (photos / name if (photos / name).is_dir() else None for name in ("seen-train", "seen-val"))
        return Level("photos", graph, "glove", "efficientnet-lite0", photos / "unseen", train_, val, lists)
    return Level("embedded", graph, "glove", "efficientnet-lite0", has_lists=lists)


def _key(method: str, choice: dict) -> str:
    text = json.dumps(choice, sort_keys=True)
    return f"{method}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _mean(runs: list[dict]) -> dict:
    return _combine(runs, lambda values: round(float(np.mean(values)), 2))


def _deviation(runs: list[dict]) -> dict:
    return _combine(runs, lambda values: round(float(np.std(values)), 2))


def _combine(runs: list, reduce: Callable) -> Any:
    """Figures of the same shape, reduced leaf by leaf."""
    if isinstance(runs[0], dict):
        return {key: _combine([run[key] for run in runs], reduce) for key in runs[0]}
    return None if any(run is None for run in runs) else reduce(runs)
