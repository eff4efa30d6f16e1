"""What each method's answers are worth: verdicts of a calibrated bundle, on photos that nothing was fitted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.calibration import calibrate
from unseen.evaluation.protocol import Evaluation, evaluate
from unseen.recognition import Recogniser
from unseen.reproduction.recipe import Row
from unseen.reproduction.trainings import Trainings, is_bundle

SURENESS = 0.9
RIGHT = 90.0  # per cent: where information is compared
KINDS = ("unseen", "seen")
HEADER = ["method", "bits", "unseen", "seen", "right, unseen", "right, seen", "precision@5", "severity", "F1", "area"]


def measure_verdicts(work: Trainings, row: Row) -> dict[str, Any] | None:
    """Verdicts over every class, on photos of unseen classes and of seen ones; None without photos of both."""
    level = work.level
    if level.seen_train is None or level.seen_val is None or level.unseen is None:
        return None
    model = _calibrated(work, row)
    found = {
        kind: evaluate(model, work.store(model, photos), "any", show_progress=False, sure=SURENESS)
        for kind, photos in zip(KINDS, (level.unseen, level.seen_val), strict=True)
    }
    return {
        "calibrated": model.numbers is not None,
        "information@90": information_at(found["unseen"], found["seen"]),
        **{kind: _figures(result) for kind, result in found.items()},
    }


def _calibrated(work: Trainings, row: Row) -> Recogniser:
    """The row's bundle with a calibration; the network alone has no unseen classes to weigh against."""
    bundle = work.bundle(row)
    if row.method == "network":
        return Recogniser(bundle, device=work.device)
    assert bundle.path is not None and work.level.seen_train is not None  # it was loaded; there are photos
    place = bundle.path.with_name(f"{bundle.path.name}-calibrated")
    if not is_bundle(place):
        model = Recogniser(bundle, device=work.device)
        work.say(f"  calibrating {row.label}")
        calibrate(bundle, work.store(model, work.level.seen_train), say=work.say, backbone=model.backbone, out=place)
    return Recogniser(Bundle.load(place, verify=False), device=work.device)


def _figures(result: Evaluation) -> dict[str, Any]:
    return {
        "verdict": result.verdict,
        "hierarchical": result.hierarchical,
        "curve": result.verdict_curve,
        "reliability": result.reliability,
    }


def information_at(*results: Evaluation, right: float = RIGHT) -> dict[str, float | None]:
    """Bits where so many per cent of verdicts are right: for each kind, and for the mean of both at one sureness."""
    curves = [np.array([(p["right"], p["information"]) for p in r.verdict_curve or ()]) for r in results]
    told = dict(zip(KINDS, (_bits_at(curve, right) for curve in curves), strict=True))
    return {"mean": _bits_at(np.mean(curves, axis=0), right), **told}


def _bits_at(curve: np.ndarray, right: float) -> float | None:
    """Interpolated between the surenesses; None where no sureness gives so many."""
    rates = np.maximum.accumulate(curve[:, 0])
    if rates[-1] < right:
        return None
    return round(float(np.interp(right, rates, curve[:, 1])), 2)


def named_verdicts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """(name, verdict) of the rows that have one; the same method with other vectors or networks is told apart."""
    judged = [row for row in rows if row.get("verdict")]
    names = [row["method"] for row in judged]
    for part in ("vectors", "network"):
        if len({row[part] for row in judged}) > 1:
            names = [
                name if names.count(name) == 1 else f"{name}, {row[part]}"
                for name, row in zip(names, judged, strict=True)
            ]
    return [(name, row["verdict"]) for name, row in zip(names, judged, strict=True)]


def verdict_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Text cells, header first; bits are those at 90 % right, precision and the rest on photos of unseen classes."""
    cells = [list(HEADER)]
    for name, told in named_verdicts(rows):
        bits, near = told["information@90"], told["unseen"]["hierarchical"]
        cells.append(
            [name if told["calibrated"] else f"{name}, not calibrated"]
            + [_number(bits[key], 2) for key in ("mean", "unseen", "seen")]
            + [_number(told[kind]["verdict"]["right"], 1) for kind in KINDS]
            + [_number(near["precision@5"], 1), _number(near["severity"], 2), _number(near["f1"], 1)]
            + [_number(near["area"], 3)]
        )
    return cells


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
