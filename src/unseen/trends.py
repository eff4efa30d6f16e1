"""The paper's qualitative claims, held against saved results: stated as they came out, agreeing or not."""

from __future__ import annotations

from typing import Any


def trends(results: dict[str, dict[str, Any]]) -> list[str]:
    """One sentence a claim that the results at hand can speak to."""
    found = []
    if "layers" in results:
        values = [_first(row) for row in results["layers"]["rows"]]
        if None not in values:
            agrees = values[0] >= max(values[1:])
            figures = ", ".join(f"{value:.1f}" for value in values)
            found.append(f"Deeper is not better: {_verdict(agrees)} (Hit@1 with 1, 2, 3 hidden layers: {figures}).")
    if "ablation" in results:
        found += _ablation({row["label"]: _first(row) for row in results["ablation"]["rows"]})
    if "two-phase" in results:
        by = {row["label"]: _first(row) for row in results["two-phase"]["rows"]}
        if None not in by.values():
            found.append(_compare("Two phases help", by["with"], by["without"], "with", "without"))
    if "hop-weights" in results:
        for phase, weights in results["hop-weights"]["rows"][0]["measured"].items():
            near, far = sum(weights[:2]), sum(weights[3:])
            figures = ", ".join(f"{weight:.3f}" for weight in weights)
            found.append(f"Near hops weigh more than far ones, from {phase}: {_verdict(near > far)} ({figures}).")
    if "unseen-classes" in results:
        by = {row["label"]: _first(row) for row in results["unseen-classes"]["rows"] if "measured" in row}
        by = {label: value for label, value in by.items() if value is not None}
        if by:
            order = sorted(by, key=by.get, reverse=True)
            listed = ", ".join(f"{label} {by[label]:.1f}" for label in order)
            found.append(f"Order on unseen classes (first list, Hit@1): {listed}.")
    return found


def _ablation(by: dict[str, float | None]) -> list[str]:
    found = []
    for tuned, plain in (("SGCN", "SGCN(-f)"), ("DGP", "DGP(-f)"), ("DGP(-w)", "DGP(-wf)")):
        if by.get(tuned) is not None and by.get(plain) is not None:
            found.append(_compare(f"Finetuning helps {tuned}", by[tuned], by[plain], "after", "before"))
    if by.get("DGP(-f)") is not None and by.get("DGP(-wf)") is not None:
        found.append(_compare("Hop weights help DGP", by["DGP(-f)"], by["DGP(-wf)"], "with", "without"))
    return found


def _compare(claim: str, high: float, low: float, first: str, second: str) -> str:
    return f"{claim}: {_verdict(high > low)} (Hit@1 {high:.1f} {first}, {low:.1f} {second})."


def _verdict(agrees: bool) -> str:
    return "yes, as in the paper" if agrees else "not here"


def _first(row: dict[str, Any]) -> float | None:
    """Hit@1 of a row over its first list: class-averaged where there are photos, since they are few for each class."""
    figures = next(iter(row.get("measured", {}).values()), {})
    return figures.get("class", figures.get("image", {})).get("hit@1")
