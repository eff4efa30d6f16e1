"""Run the paper's tables on whatever data is there, once each, and keep what came out.

WORK/bundles, WORK/features   what the tables share, see `unseen.reproduction.trainings`
WORK/results/<table>.json     what the report is made of
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.evaluation.protocol import evaluate_lists
from unseen.photos import Photo, list_classes, photos_in
from unseen.recognition import Recogniser
from unseen.reproduction.recipe import Recipe, Row, load_recipe
from unseen.reproduction.trainings import UNFINISHED, Trainings
from unseen.runtime.files import write_atomically

ON_IMAGENET = ", ImageNet photos"
HOLDOUT = 0.2  # of the seen classes, at the embedded level


class Reproduction(Trainings):
    """Runs tables with the trainings that they share."""

    def run(self, name: str) -> dict[str, Any]:
        """The table's result: from disk if it was made with the same settings, else made now."""
        recipe = load_recipe(name)
        place = self.work / "results" / f"{name}.json"
        saved = read_result(place, self.settings())
        if saved is not None:
            return saved
        self.say(f"[bold]{name}[/bold]: {recipe.title} ({recipe.paper}), level {self.level.name}")
        started = time.monotonic()
        self.used.clear()
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
            "made_with": self.settings(),
            "made": circumstances(),
            "seconds": round(time.monotonic() - started, 1),
            "trainings": dict(self.used),
            "partial": self.only_done and not all(self.is_done(row, recipe) for row in recipe.rows),
            **body,
        }
        if self.is_first:
            write_atomically(place, json.dumps(result, indent=1, ensure_ascii=False).encode())
        return result

    def is_done(self, row: Row, recipe: Recipe) -> bool:
        """Whether a row's trainings are all there."""
        return row.method is None or self.lacks(row, recipe.seeds, self.holdout) != UNFINISHED

    @property
    def holdout(self) -> float:
        return HOLDOUT if self.level.name == "embedded" else 0.0

    def _hits(self, recipe: Recipe) -> dict[str, Any]:
        """Hit@k for every row and list of candidates; for several seeds their mean and standard deviation."""
        body = {"hits": list(recipe.hits), "candidates": list(recipe.candidates), "seeds": list(recipe.seeds)}
        lack = self._lacks_data(recipe)
        if lack is not None:
            return body | {"rows": [], "coverage": {}, "left_out": lack}
        rows, coverage = [], {}
        on_imagenet: list[dict[str, Any]] = []
        for row in recipe.rows:
            entry: dict[str, Any] = {"label": row.label, "ours": row.ours, "published": row.published}
            entry |= {key: getattr(row, key) for key in ("norm", "published_as", "published_deviation")
                      if getattr(row, key)}  # fmt: skip
            if row.method is not None:
                entry |= {"method": row.method} | self._row(recipe, row, coverage)
                if recipe.kind == "awa2" and self.level.unseen is not None:
                    on_imagenet.append(self._on_imagenet(recipe, row, coverage))
            rows.append(entry)
        return body | {"rows": rows + on_imagenet, "coverage": coverage}

    def _on_imagenet(self, recipe: Recipe, row: Row, coverage: dict) -> dict[str, Any]:
        """A row of AWA2's table on ImageNet's photos of the same classes: no published figure is about those."""
        found: dict[str, Any] = {}
        figures = self._row(replace(recipe, photos="unseen"), row, found)
        coverage |= {f"{spec}{ON_IMAGENET}": entry | {"as": entry["as"] + ON_IMAGENET} for spec, entry in found.items()}
        return {"label": row.label + ON_IMAGENET, "ours": row.ours, "published": {}, "method": row.method} | figures

    def _photos(self, recipe: Recipe) -> Path | None:
        """The folder of photos that a table is measured on, if there is one."""
        level = self.level
        return {"seen-val": level.seen_val, "awa2": level.awa2}.get(recipe.photos or "", level.unseen)

    def _lacks_data(self, recipe: Recipe) -> str | None:
        """Why a table cannot be measured on this data; None if it can."""
        level = self.level
        if level.name == "embedded":
            return None
        if self._photos(recipe) is None and (recipe.kind != "awa2" or level.unseen is None):
            return f"It is measured on photos of {recipe.photos} classes: there are none here."
        return None

    def _row(self, recipe: Recipe, row: Row, coverage: dict) -> dict[str, Any]:
        """A row's figures and how long it was trained; or why it was left out."""
        lack = self.lacks(row, recipe.seeds, self.holdout)
        if lack is None and self.level.name != "embedded" and self._photos(recipe) is None:
            lack = "it is measured on AWA2's own photos: name their folder with --awa2"
        if lack is not None:
            return {"left_out": lack}
        by_class: list[dict[str, dict[str, float]]] = []
        runs = [self._measure(recipe, row, seed, coverage, by_class) for seed in recipe.seeds]
        tuned = self.lengths.finetune_epochs if self.is_finetuned(row) and self.level.name != "embedded" else 0
        entry = {"epochs": self.epochs(row), "finetune_epochs": tuned, "finetuned_in_paper": row.finetune,
                 "measured": combine(runs, np.mean)}  # fmt: skip
        if tuned:
            entry["finetune_rate"] = self.find_rate()
        if by_class:
            entry["by_class"] = combine(by_class, np.mean)
        return entry | ({"deviation": combine(runs, deviation)} if len(runs) > 1 else {})

    def _measure(
        self, recipe: Recipe, row: Row, seed: int, coverage: dict, by_class: list[dict[str, dict[str, float]]]
    ) -> dict[str, Any]:
        """Hit@k by list; also Hit@1 of each class, for tests of one row against another."""
        if self.level.name == "embedded":
            held = self.bundle(row, seed, self.holdout).training.holdout
            assert held is not None  # there are classes to hide
            coverage["hidden"] = {"classes": held.classes}
            return {"hidden": {"class": {"hit@1": held.hit_1, "hit@5": held.hit_5}}}
        model = self.model(row, seed)
        store = self.store(model, self._photos(recipe))
        lists = [self.level.candidates(spec) for spec in recipe.candidates]
        results = evaluate_lists(model, store, lists, ks=recipe.hits, show_progress=False, processes=self.processes,
                                 sure=None if self.level.name == "paper" else 0.9)  # fmt: skip
        found = {}
        by_class.append({})
        for spec, candidates, result in zip(recipe.candidates, lists, results, strict=True):
            found[spec] = {"image": result.image, "class": result.class_}
            if self.level.name != "paper":  # of millions of photos only the paper's own figures
                found[spec] |= {"verdict": result.verdict, "hierarchical": result.hierarchical}
            by_class[-1][spec] = {entry["id"]: entry["hit@1"] for entry in result.per_class}
            coverage[spec] = {"listed": result.listed_classes, "classes": result.classes, "images": result.images,
                              "as": candidates}  # fmt: skip
        return found

    def _hop_weights(self, recipe: Recipe) -> dict[str, Any]:
        row = recipe.rows[0]
        lack = self.lacks(row)
        if lack is not None:
            return {"rows": [], "left_out": f"{row.label}: {lack}."}
        weights = self.bundle(row).solution.record.hop_weights
        entry = {"label": row.label, "published": row.published, "measured": weights, "epochs": self.epochs(row)}
        return {"rows": [entry]}

    def _scalability(self, recipe: Recipe) -> dict[str, Any]:
        from unseen.reproduction.scalability import densities, weight_counts

        measured = weight_counts() | densities(self.level.graph)
        return {"published": recipe.published, "measured": measured, "graph": self.level.graph}

    def _qualitative(self, recipe: Recipe) -> dict[str, Any]:
        """Top-5 labels of every row's model for a few photos of unseen classes, chosen by a fixed seed."""
        if self.level.unseen is None:
            return {"photos": [], "left_out": "There are no photos at this level: nothing to show."}
        rows = [row for row in recipe.rows if self.lacks(row) is None]
        if not rows:
            return {"photos": [], "left_out": f"Its networks are {UNFINISHED}."}
        first = self.bundle(rows[0])  # which all processes make, while one of them lists photos and answers
        chosen = self._examples(first, recipe.examples) if self.is_first else []
        photos = [{"photo": str(photo.path), "id": photo.class_id, "answers": []} for photo in chosen]
        for row in rows:  # one model at a time
            model = self.model(row)
            if not self.is_first:
                continue
            candidates = "seen" if row.method == "network" else self.level.candidates("all")
            answers = model.answers(model.features([photo.path for photo in chosen]), 5, candidates)
            for entry, labels in zip(photos, answers, strict=True):
                entry["name"] = model.bundle.taxonomy.name(entry["id"])
                given = [{"id": label.id, "name": label.name} for label in labels]
                entry["answers"].append({"label": row.label, "labels": given})
        return {"photos": photos}

    def _examples(self, bundle: Bundle, count: int) -> list[Photo]:
        """Photos of different unseen classes, the same ones at every run; only their own folders are listed."""
        assert self.level.unseen is not None  # or the figure would be left out
        folder, found = self.level.unseen, []
        unseen = {bundle.ids[row] for row in Recogniser(bundle).candidates(self.level.candidates("all"))}
        ids = sorted(unseen.intersection(list_classes(folder)))
        for i in np.random.default_rng(0).permutation(len(ids)):
            names = photos_in(folder / ids[i])
            found += [Photo(ids[i], folder / ids[i] / name) for name in names[-1:]]
            if len(found) == count:
                break
        return found


def read_result(place, made_with: dict[str, Any]) -> dict[str, Any] | None:
    """A saved result, if it was made with these settings and is whole."""
    try:
        saved = json.loads(place.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # not made yet, or damaged
        return None
    whole = isinstance(saved, dict) and saved.get("made_with") == made_with and not saved.get("partial")
    return saved if whole else None


def circumstances() -> dict[str, str]:
    """When and with what a result was made."""
    versions = {name: version(name) for name in ("unseen", "torch", "numpy")}
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"at": now, "python": platform.python_version(), "machine": platform.machine(), **versions}


def deviation(values: Sequence[float]) -> float:
    """What follows a ± everywhere: the standard deviation of a few runs, with n - 1 below."""
    return float(np.std(values, ddof=1))


def combine(runs: Sequence[Any], reduce: Callable) -> Any:
    """Figures of the same shape, reduced leaf by leaf; None where any of them is."""
    if isinstance(runs[0], dict):
        return {key: combine([run[key] for run in runs], reduce) for key in runs[0]}
    return None if any(run is None for run in runs) else round(float(reduce(runs)), 2)
