"""What the report shows beyond the paper's tables: the seen/unseen trade-off, accuracy by distance, training time."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.evaluation.protocol import evaluate
from unseen.reproduction.recipe import Row
from unseen.reproduction.tables import Reproduction, read_result
from unseen.runtime.files import write_atomically

if TYPE_CHECKING:
    from unseen.runtime.processes import Processes

ROWS = (
    Row("DGP", "dgp"),
    Row("SGCN", "sgcn"),
    Row("structural", "structural"),
    Row("kin", "kin"),
)
TRAINED = (*ROWS, Row("GCNZ", "gcnz"), Row("GAT", "gat", {"layers": 1}, study=True))  # each is in some table
POINTS = 200  # of a curve in the plot


def analyse(work: Reproduction) -> dict[str, Any]:
    """Figures for the plots, saved as results/analysis.json."""
    place = work.work / "results" / "analysis.json"
    saved = read_result(place, work.settings())
    if saved is not None:
        return saved
    result: dict[str, Any] = {"made_with": work.settings(), "training": {}, "trade_off": {}, "by_distance": {}}
    level = work.level
    done = [row for row in TRAINED if work.lacks(row, holdout=work.holdout) is None]
    result["partial"] = len(done) < len(TRAINED)
    for row in done:
        bundle = work.bundle(row, 0, work.holdout)
        losses = [[entry["epoch"], entry["loss"]] for entry in bundle.log if "epoch" in entry and "loss" in entry]
        seconds = bundle.training.seconds
        result["training"][row.label] = {"seconds": seconds, "epochs": work.epochs(row), "losses": losses}
    for row in [row for row in done if row in ROWS] if level.unseen is not None else ():
        model = work.model(row)
        unseen = work.store(model, level.unseen)
        result["by_distance"][row.label] = _by_distance(model, unseen, level.candidates("all"), work.processes)
        if level.seen_val is not None:
            both = [unseen, work.store(model, level.seen_val)]
            found = evaluate(model, both, level.candidates("2-hops+1K"), show_progress=False, sure=None,
                             processes=work.processes)  # fmt: skip
            result["trade_off"][row.label] = _curve(found.curve)
    if work.is_first:
        write_atomically(place, json.dumps(result, indent=1).encode())
    return result


def _by_distance(model, store, candidates: str, processes: Processes | None) -> dict[str, dict[str, float]]:
    """Class-averaged Hit@1 by hops to the nearest seen class."""
    taxonomy = model.bundle.taxonomy
    hops = taxonomy.hops_from(model.bundle.seen_ids)
    groups = defaultdict(list)
    found = evaluate(model, store, candidates, show_progress=False, sure=None, processes=processes)
    for entry in found.per_class:
        groups[int(hops[taxonomy.index(entry["id"])])].append(entry["hit@1"])
    return {str(h): {"hit@1": round(float(np.mean(v)), 2), "classes": len(v)} for h, v in sorted(groups.items())}


def _curve(curve) -> dict[str, Any]:
    """The curve and its area; empty without photos of both groups."""
    if curve.area("class") is None:
        return {"seen": [], "unseen": [], "ausuc": None}
    _, seen, unseen = curve.curve("class")
    chosen = np.unique(np.linspace(0, len(seen) - 1, POINTS).astype(int))
    rounded = {"seen": seen[chosen].round(2).tolist(), "unseen": unseen[chosen].round(2).tolist()}
    return rounded | {"ausuc": round(curve.area("class"), 4)}
