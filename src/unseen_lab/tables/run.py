"""Run tables on whatever data is there, once each, and keep what came out.

WORK/bundles, WORK/features   what the tables share, see `unseen_lab.tables.trainings`
WORK/results/<table>.json     what the report is made of; analysis.json is for the plots that belong to no table
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from unseen import Bundle, Hierarchy, Model
from unseen.evaluation import evaluate_lists
from unseen.photos import Photo, list_classes, photos_in
from unseen.util import write_atomically
from unseen_lab.tables.levels import Recipe, Row, load_recipe
from unseen_lab.tables.trainings import UNFINISHED, Trainings

logger = logging.getLogger("unseen.lab")  # below the logger that the command line shows
ON_IMAGENET = ", ImageNet photos"
HOLDOUT = 0.2  # of the seen classes, at the embedded level
# What is analysed beyond the tables: the first ones on photos, all of them by their training.
ANALYSED = (Row("DGP", "dgp"), Row("SGCN", "sgcn"), Row("structural", "structural"), Row("kin", "kin"))
TRAINED = (*ANALYSED, Row("GCNZ", "gcnz"), Row("GAT", "gat", {"layers": 1}, study=True))  # each is in some table
DIGITS = 4  # of a per cent
POINTS = 200  # of a curve in a plot


class Reproduction:
    """Runs tables with the trainings that they share."""

    def __init__(self, trainings: Trainings):
        self.trainings, self.level = trainings, trainings.level

    def run(self, name: str, rows: Sequence[Row] = ()) -> dict[str, Any]:
        """The table's result: from disk if it was made with the same settings, else made now.

        With `rows` in the place of the recipe's, nothing is kept but trainings and features.
        """
        recipe, trainings = load_recipe(name), self.trainings
        place = trainings.work / "results" / f"{name}.json"
        if rows:
            recipe = replace(recipe, rows=tuple(rows))
        elif (saved := read_result(place, trainings.settings())) is not None:
            return saved
        logger.info("%s: %s (%s), level %s", name, recipe.title, recipe.paper, self.level.name)
        started = time.monotonic()
        trainings.used.clear()
        runners = {"hop-weights": self._hop_weights, "scalability": self._scalability, "qualitative": self._qualitative}
        body = runners.get(recipe.kind, self._hits)(recipe)
        result = {
            "table": name,
            **{key: getattr(recipe, key) for key in ("title", "paper", "shows", "kind")},
            "level": self.level.name,
            "notes": list(recipe.notes),
            "made_with": trainings.settings(),
            "made": circumstances(),
            "seconds": round(time.monotonic() - started, 1),
            "trainings": dict(trainings.used),
            "partial": trainings.only_done and self._is_partial(recipe),
            **body,
        }
        if trainings.is_first and not rows:
            save_result(place, result)
        return result

    def _is_partial(self, recipe: Recipe) -> bool:
        rows = (row for row in recipe.rows if row.method is not None)
        return any(self.trainings.lacks(row, recipe.seeds, self.holdout) == UNFINISHED for row in rows)

    @property
    def holdout(self) -> float:
        return HOLDOUT if self.level.name == "embedded" else 0.0

    def _hits(self, recipe: Recipe) -> dict[str, Any]:
        """Hit@k for every row and list of candidates; for several seeds their mean and standard deviation."""
        body = {"hits": list(recipe.hits), "candidates": list(recipe.candidates), "seeds": list(recipe.seeds)}
        on_imagenet = recipe.kind == "awa2" and self.level.unseen is not None
        if self.level.name != "embedded" and self._photos(recipe) is None and not on_imagenet:
            lack = f"It is measured on photos of {recipe.photos} classes: there are none here."
            return body | {"rows": [], "coverage": {}, "left_out": lack}
        rows, coverage = [], {}
        for row in recipe.rows:
            entry: dict[str, Any] = {"label": row.label, "ours": row.ours, "published": row.published}
            entry |= {key: getattr(row, key) for key in ("norm", "published_as", "published_deviation")
                      if getattr(row, key)}  # fmt: skip
            if row.method is not None:
                entry |= {"method": row.method} | self._row(recipe, row, coverage)
            rows.append(entry)
        if on_imagenet:
            rows += [self._on_imagenet(recipe, row, coverage) for row in recipe.rows if row.method is not None]
        return body | {"rows": rows, "coverage": coverage}

    def _on_imagenet(self, recipe: Recipe, row: Row, coverage: dict) -> dict[str, Any]:
        """A row of AWA2's table on ImageNet's photos of the same classes: no published figure is about those."""
        covered: dict[str, Any] = {}
        figures = self._row(replace(recipe, photos="unseen"), row, covered)
        coverage |= {f"{spec}{ON_IMAGENET}": entry | {"as": entry["as"] + ON_IMAGENET}
                     for spec, entry in covered.items()}  # fmt: skip
        return {"label": row.label + ON_IMAGENET, "ours": row.ours, "published": {}, "method": row.method} | figures

    def _photos(self, recipe: Recipe) -> Path | None:
        """The folder of photos that a table is measured on, if there is one."""
        level = self.level
        return {"seen-val": level.seen_val, "awa2": level.awa2}.get(recipe.photos or "", level.unseen)

    def _row(self, recipe: Recipe, row: Row, coverage: dict) -> dict[str, Any]:
        """A row's figures and how long it was trained; or why it was left out."""
        trainings, embedded = self.trainings, self.level.name == "embedded"
        lack = trainings.lacks(row, recipe.seeds, self.holdout)
        if lack is None and not embedded and self._photos(recipe) is None:
            lack = "it is measured on AWA2's own photos: name their folder with --awa2"
        if lack is not None:
            return {"left_out": lack}
        by_class: list[dict[str, dict[str, float]]] = []
        runs = [self._measure(recipe, row, seed, coverage, by_class) for seed in recipe.seeds]
        tuned = trainings.lengths.finetune_epochs if trainings.is_finetuned(row) and not embedded else 0
        entry = {"epochs": trainings.epochs(row), "finetune_epochs": tuned, "finetuned_in_paper": row.finetune,
                 "measured": combine(runs, np.mean)}  # fmt: skip
        if tuned:
            entry["finetune_rate"] = trainings.finetune_rate
        if by_class:
            entry["by_class"] = combine(by_class, np.mean)
        return entry | ({"deviation": combine(runs, deviation)} if len(runs) > 1 else {})

    def _measure(
        self, recipe: Recipe, row: Row, seed: int, coverage: dict, by_class: list[dict[str, dict[str, float]]]
    ) -> dict[str, Any]:
        """Hit@k by list; also Hit@1 of each class, for tests of one row against another."""
        trainings, level = self.trainings, self.level
        if level.name == "embedded":
            held = trainings.bundle(row, seed, self.holdout).training.holdout
            assert held is not None  # there are classes to hide
            coverage["hidden"] = {"classes": held.classes}
            return {"hidden": {"class": {"hit@1": held.hit_1, "hit@5": held.hit_5}}}
        model = trainings.model(row, seed)
        lists = [level.candidates(spec) for spec in recipe.candidates]
        results = evaluate_lists(model.bundle, trainings.store(model, self._photos(recipe)), lists, ks=recipe.hits,
                                 processes=trainings.processes, photo_names=False,
                                 confidence=None if level.name == "paper" else 0.9)  # fmt: skip
        figures: dict[str, Any] = {}
        by_class.append({})
        for spec, candidates, result in zip(recipe.candidates, lists, results, strict=True):
            figures[spec] = {"image": result.image, "class": result.class_}
            if level.name != "paper":  # of millions of photos only the paper's own figures
                figures[spec] |= {"verdict": result.verdict, "hierarchical": result.hierarchical}
            by_class[-1][spec] = {entry["id"]: entry["hit@1"] for entry in result.per_class}
            coverage[spec] = {"listed": result.listed_classes, "classes": result.classes, "images": result.images,
                              "as": candidates}  # fmt: skip
        return figures

    def _hop_weights(self, recipe: Recipe) -> dict[str, Any]:
        row, trainings = recipe.rows[0], self.trainings
        if (lack := trainings.lacks(row)) is not None:
            return {"rows": [], "left_out": f"{row.label}: {lack}."}
        weights, epochs = trainings.bundle(row).solution.record.hop_weights, trainings.epochs(row)
        return {"rows": [{"label": row.label, "published": row.published, "measured": weights, "epochs": epochs}]}

    def _scalability(self, recipe: Recipe) -> dict[str, Any]:
        measured = weight_counts() | densities(Hierarchy.load(self.level.hierarchy))
        return {"published": recipe.published, "measured": measured, "hierarchy": self.level.hierarchy}

    def _qualitative(self, recipe: Recipe) -> dict[str, Any]:
        """Top-5 labels of every row's model for a few photos of unseen classes, chosen by a fixed seed."""
        trainings = self.trainings
        if self.level.unseen is None:
            return {"photos": [], "left_out": "There are no photos at this level: nothing to show."}
        rows = [row for row in recipe.rows if trainings.lacks(row) is None]
        if not rows:
            return {"photos": [], "left_out": f"Its networks are {UNFINISHED}."}
        first = trainings.bundle(rows[0])  # which all processes make, while one of them lists photos and answers
        chosen = self._examples(first, recipe.examples) if trainings.is_first else []
        photos = [{"photo": str(photo.path), "id": photo.class_id, "answers": []} for photo in chosen]
        for row in rows:  # one model at a time
            model = trainings.model(row)
            if not trainings.is_first:
                continue
            candidates = "seen" if row.method == "network" else self.level.candidates("all")
            answers = model.answers(model.features([photo.path for photo in chosen]), 5, candidates)
            for entry, labels in zip(photos, answers, strict=True):
                entry["name"] = model.bundle.hierarchy.name(entry["id"])
                given = [{"id": label.id, "name": label.name} for label in labels]
                entry["answers"].append({"label": row.label, "labels": given})
        return {"photos": photos}

    def _examples(self, bundle: Bundle, count: int) -> list[Photo]:
        """Photos of different unseen classes, the same ones at every run; only their own folders are listed."""
        assert self.level.unseen is not None  # or the figure would be left out
        folder, photos = self.level.unseen, []
        unseen = {bundle.ids[row] for row in Model(bundle).candidates(self.level.candidates("all"))}
        ids = sorted(unseen.intersection(list_classes(folder)))
        for i in np.random.default_rng(0).permutation(len(ids)):
            photos += [Photo(ids[i], folder / ids[i] / name) for name in photos_in(folder / ids[i])[-1:]]
            if len(photos) == count:
                break
        return photos

    def analyse(self) -> dict[str, Any]:
        """Figures for plots: loss and time of trainings, the seen/unseen trade-off, accuracy by distance."""
        trainings, level = self.trainings, self.level
        place, settings = trainings.work / "results" / "analysis.json", trainings.settings()
        if (saved := read_result(place, settings)) is not None:
            return saved
        result: dict[str, Any] = {"made_with": settings, "training": {}, "trade_off": {}, "by_distance": {}}
        done = [row for row in TRAINED if trainings.lacks(row, holdout=self.holdout) is None]
        result["partial"] = len(done) < len(TRAINED)
        for row in done:
            bundle = trainings.bundle(row, 0, self.holdout)
            losses = [[entry["epoch"], entry["loss"]] for entry in bundle.log if "epoch" in entry and "loss" in entry]
            facts = {"seconds": bundle.training.seconds, "epochs": trainings.epochs(row), "losses": losses}
            result["training"][row.label] = facts
        options: dict[str, Any] = {"confidence": None, "photo_names": False, "processes": trainings.processes}
        for row in [row for row in done if row in ANALYSED and level.unseen is not None]:
            model = trainings.model(row)
            unseen = trainings.store(model, level.unseen)
            near = model.evaluate(unseen, level.candidates("all"), **options)
            result["by_distance"][row.label] = _by_distance(model.bundle, near.per_class)
            if level.seen_val is not None:
                both = [unseen, trainings.store(model, level.seen_val)]
                balance = model.evaluate(both, level.candidates("2-hops+1K"), **options)
                result["trade_off"][row.label] = _curve(balance.curve)
        if trainings.is_first:
            save_result(place, result)
        return result


def _by_distance(bundle: Bundle, per_class: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Class-averaged Hit@1 by hops to the nearest seen class."""
    hops, groups = bundle.hierarchy.hops_from(bundle.seen_ids), defaultdict(list)
    for entry in per_class:
        groups[int(hops[bundle.hierarchy.index(entry["id"])])].append(entry["hit@1"])
    return {str(h): {"hit@1": round(float(np.mean(v)), DIGITS), "classes": len(v)} for h, v in sorted(groups.items())}


def _curve(curve) -> dict[str, Any]:
    """The curve and its area; empty without photos of both groups."""
    if curve.area("class") is None:
        return {"seen": [], "unseen": [], "ausuc": None}
    _, seen, unseen = curve.curve("class")
    chosen = np.unique(np.linspace(0, len(seen) - 1, POINTS).astype(int))
    rounded = {"seen": seen[chosen].round(2).tolist(), "unseen": unseen[chosen].round(2).tolist()}
    return rounded | {"ausuc": round(curve.area("class"), 4)}


def densities(hierarchy: Hierarchy) -> dict[str, float]:
    """Share of non-zeros of A with self-loops: edges in both directions; and (node, ancestor) pairs in both."""
    n, (child, _) = len(hierarchy), hierarchy.edges()
    sizes = {"nodes": n, "edges": len(child), "density_sparse": (n + 2 * len(child)) / n**2}
    return sizes | {"density_dense": len(hierarchy.ancestor_pairs()[0]) / n**2}  # of A_a, and so of its transpose A_d


def weight_counts(vector: int = 300, output: int = 2049) -> dict[str, int]:
    """Weights without biases for the paper's word vectors and last layer, counted on the networks themselves."""
    import torch

    from unseen.methods.graph import DGPMethod, GCNZMethod, SGCNMethod

    with torch.device("meta"):  # no memory is filled
        networks = {method.name: method.build(vector, output) for method in (SGCNMethod(), DGPMethod(), GCNZMethod())}
    return {f"weights_{name}": network.weight_count() for name, network in networks.items()}


def save_result(place: Path, result: dict[str, Any]) -> None:
    write_atomically(place, json.dumps(result, indent=1).encode())


def read_result(place: Path, made_with: dict[str, Any]) -> dict[str, Any] | None:
    """A saved result, if it was made with these settings and is complete."""
    try:
        saved = json.loads(place.read_bytes())
    except (FileNotFoundError, ValueError):  # not made yet, or damaged
        return None
    complete = isinstance(saved, dict) and saved.get("made_with") == made_with and not saved.get("partial")
    return saved if complete else None


def circumstances() -> dict[str, str]:
    """When and with what a result was made."""
    versions = {name: version(name) for name in ("unseen", "torch", "numpy")}
    made = {"at": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    return made | {"python": platform.python_version(), "machine": platform.machine(), **versions}


def deviation(values: Sequence[float]) -> float:
    """What follows a ± everywhere: the standard deviation of a few runs, with n - 1 below."""
    return float(np.std(values, ddof=1))


def combine(runs: Sequence[Any], reduce: Callable) -> Any:
    """Figures of the same shape, reduced leaf by leaf; None where any of them is."""
    if isinstance(runs[0], dict):
        return {key: combine([run[key] for run in runs], reduce) for key in runs[0]}
    return None if any(run is None for run in runs) else round(float(reduce(runs)), DIGITS)
