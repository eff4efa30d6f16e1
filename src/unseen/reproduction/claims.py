"""The paper's qualitative claims, held against saved results: stated as they came out, agreeing or not."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

Results = dict[str, dict[str, Any]]
COMPARED = ("unseen-classes", "layers", "ablation", "two-phase", "gcnz-steps", "gat")  # in claims


def check_claims(results: Results) -> list[str]:
    """One sentence for each claim that the results at hand can speak to."""
    makers = {"layers": _layers, "ablation": _ablation, "two-phase": _two_phase, "gcnz-steps": _gcnz, "gat": _gat,
              "hop-weights": _hop_weights, "unseen-classes": _order}  # fmt: skip
    return [claim for name, maker in makers.items() if name in results for claim in maker(results[name]["rows"])]


def describe_chance(results: Results) -> str:
    """How far figures on so many photos lie apart by chance."""
    first = [next(iter((results[name].get("coverage") or {}).values()), {}) for name in COMPARED if name in results]
    photos = [entry["images"] for entry in first if "images" in entry]
    if not photos:
        return ""
    error = 100 * math.sqrt(0.4 * 0.6 / min(photos))
    return (
        f"At 40 % a figure on {min(photos):,} photos has a standard error of {error:.1f} points: "
        "smaller differences may be chance."
    )


def _layers(rows: list[dict]) -> list[str]:
    values = [value for row in rows if (value := _first(row)) is not None]
    if len(values) < max(2, len(rows)):
        return []
    figures = ", ".join(f"{value:.1f}" for value in values)
    verdict = _verdict(values[0] >= max(values[1:]))
    return [f"Deeper is not better: {verdict} (Hit@1 with 1, 2, 3 hidden layers: {figures})."]


def _ablation(rows: list[dict]) -> list[str]:
    by, tuned = _by_label(rows), {row["label"]: row.get("finetune_epochs", 1) for row in rows}
    found = []
    for after, before in (("SGCN", "SGCN(-f)"), ("DGP", "DGP(-f)"), ("DGP(-w)", "DGP(-wf)")):
        if after in by and before in by and tuned[after]:  # without photos there is no stage 2 to speak of
            found.append(_compare(f"Finetuning helps {after}", by[after], by[before], "after", "before"))
    if "DGP(-f)" in by and "DGP(-wf)" in by:
        found.append(_compare("Hop weights help DGP", by["DGP(-f)"], by["DGP(-wf)"], "with", "without"))
    return found


def _two_phase(rows: list[dict]) -> list[str]:
    by = _by_label(rows)
    return [_compare("Two phases help", by["with"], by["without"], "with", "without")] if len(by) == 2 else []


def _gcnz(rows: list[dict]) -> list[str]:
    by = _by_label(rows)
    if "SGCN" not in by or "GCNZ" not in by:
        return []
    return [_compare("The shallow SGCN is better than the deep GCNZ", by["SGCN"], by["GCNZ"], "SGCN", "GCNZ")]


def _gat(rows: list[dict]) -> list[str]:
    by = _by_label(rows)
    if not {"GAT-1", "GAT-2", "GCN-1"} <= set(by):
        return []
    verdict = _verdict(by["GCN-1"] >= max(by["GAT-1"], by["GAT-2"]))
    figures = f"GCN-1 {by['GCN-1']:.1f}, GAT-1 {by['GAT-1']:.1f}, GAT-2 {by['GAT-2']:.1f}"
    return [f"Attention is no better than a plain GCN: {verdict} (Hit@1 {figures})."]


def _hop_weights(rows: list[dict]) -> list[str]:
    found = []
    for phase, weights in (rows[0]["measured"] if rows else {}).items():
        near, far = sum(weights[:2]), sum(weights[3:])
        figures = ", ".join(f"{weight:.3f}" for weight in weights)
        falling = all(nearer >= farther for nearer, farther in pairwise(weights[1:]))
        steadily = "falling steadily from 1 hop on" if falling else "though not falling at every hop from 1 on"
        found.append(
            f"Near hops weigh more than far ones, from {phase}: {_verdict(near > far)} ({figures}; {steadily})."
        )
    return found


def _order(rows: list[dict]) -> list[str]:
    by = _by_label(rows)
    listed = ", ".join(f"{label} {by[label]:.1f}" for label in sorted(by, key=lambda label: by[label], reverse=True))
    return [f"Order on unseen classes (first list, Hit@1): {listed}."] if by else []


def _compare(claim: str, high: float, low: float, first: str, second: str) -> str:
    verdict = "makes no difference here" if high == low else _verdict(high > low)
    return f"{claim}: {verdict} (Hit@1 {high:.1f} {first}, {low:.1f} {second})."


def _verdict(agrees: bool) -> str:
    return "yes, as in the paper" if agrees else "not here"


def _by_label(rows: list[dict]) -> dict[str, float]:
    values = {row["label"]: _first(row) for row in rows}
    return {label: value for label, value in values.items() if value is not None}


def _first(row: dict[str, Any]) -> float | None:
    """Hit@1 of a row over its first list, averaged over classes: there are few photos of each."""
    figures = next(iter(row.get("measured", {}).values()), {})
    return figures.get("class", {}).get("hit@1")
