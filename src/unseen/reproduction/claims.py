"""The paper's qualitative claims, held against saved results: stated as they came out, agreeing or not.

A claim compares two rows on the same photos, so it is tested on the differences between them, class by class: were the
rows equally good, each class's difference could as well have the other sign. The verdict is yes or no where fewer than
5 % of random signs give a mean difference as large, and "within chance" otherwise.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Results = dict[str, dict[str, Any]]
FLIPS = 10_000
LEVEL = 0.05
BATCH = 500  # flips at once
HOW = (
    "Each verdict is a paired test over classes: the signs of the classes' differences in Hit@1 are flipped at random "
    f"{FLIPS:,} times, p is how often their mean is as large as the one found, and from p = {LEVEL} on the difference "
    "is within chance. Claims without a p are not tested."
)


class Comparison(NamedTuple):
    """Two rows on the same classes."""

    first: float  # Hit@1, averaged over classes
    second: float
    p: float | None  # None: not told class by class
    classes: int

    @property
    def verdict(self) -> str:
        """Whether the first is better: yes, no, or within chance."""
        if self.p is None:
            return "not tested"
        if self.p >= LEVEL:
            return "within chance"
        return "yes" if self.first > self.second else "no"

    @property
    def evidence(self) -> str:
        return "" if self.p is None else f"; p {self.p:.3f} over {self.classes:,} classes"


def sign_flip(differences: np.ndarray, flips: int = FLIPS, seed: int = 0) -> float:
    """p of the mean of paired differences, two-sided, by random signs.

    >>> sign_flip(np.array([3.0, 2.0, 4.0, 1.0, 2.0, 5.0, 3.0, 2.0, 1.0, 2.0])) < 0.01
    True
    >>> sign_flip(np.array([3.0, -2.0, 1.0, -1.5]))
    1.0
    """
    differences = np.asarray(differences, np.float64)
    found, reached, random = abs(differences.mean()), 0, np.random.default_rng(seed)
    for start in range(0, flips, BATCH):
        signs = random.integers(0, 2, (min(BATCH, flips - start), len(differences))) * 2 - 1
        reached += int((np.abs(signs @ differences / len(differences)) >= found - 1e-9).sum())
    return min(1.0, (1 + reached) / (1 + flips)) if found > 1e-9 else 1.0


def check_claims(results: Results) -> list[str]:
    """One sentence for each claim that the results at hand can speak to; the paper's main one first."""
    makers = {"unseen-classes": _main, "layers": _layers, "ablation": _ablation, "two-phase": _two_phase,
              "gcnz-steps": _gcnz, "gat": _gat, "hop-weights": _hop_weights}  # fmt: skip
    return [claim for name, maker in makers.items() if name in results for claim in maker(results[name]["rows"])]


def _main(rows: list[dict]) -> list[str]:
    by = _by_label(rows)
    found = []
    if {"DGP", "SGCN"} <= set(by):
        found.append(_compare("DGP is at least level with SGCN", by["DGP"], by["SGCN"], "DGP", "SGCN"))
    values = {label: _first(row) for label, row in by.items()}
    order = sorted(by, key=lambda label: values[label] or 0.0, reverse=True)
    listed = ", ".join(f"{label} {values[label]:.1f}" for label in order)
    return [*found, f"Order on unseen classes (first list, Hit@1): {listed}."] if by else []


def _layers(rows: list[dict]) -> list[str]:
    values = [value for row in rows if (value := _first(row)) is not None]
    if len(values) < max(2, len(rows)):
        return []
    figures = ", ".join(f"{value:.1f}" for value in values)
    return [_against_all("Deeper is not better", rows[0], rows[1:], f"with 1, 2, 3 hidden layers: {figures}")]


def _ablation(rows: list[dict]) -> list[str]:
    by, found = _by_label(rows), []
    for after, before in (("SGCN", "SGCN(-f)"), ("DGP", "DGP(-f)"), ("DGP(-w)", "DGP(-wf)")):
        # Without photos there is no stage 2 to speak of.
        if after in by and before in by and by[after].get("finetune_epochs", 1):
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
    claim = "The shallow SGCN is better than the deep GCNZ"
    epochs = [by[label].get("epochs") for label in ("SGCN", "GCNZ")]
    if epochs[0] != epochs[1]:
        return [f"{claim}: not compared, for SGCN was trained for {epochs[0]} epochs and GCNZ for {epochs[1]}."]
    return [_compare(claim, by["SGCN"], by["GCNZ"], "SGCN", "GCNZ")]


def _gat(rows: list[dict]) -> list[str]:
    by = _by_label(rows)
    if not {"GAT-1", "GAT-2", "GCN-1"} <= set(by):
        return []
    figures = ", ".join(f"{label} {_first(by[label]):.1f}" for label in ("GCN-1", "GAT-1", "GAT-2"))
    return [_against_all("Attention is no better than a plain GCN", by["GCN-1"], [by["GAT-1"], by["GAT-2"]], figures)]


def _hop_weights(rows: list[dict]) -> list[str]:
    found = []
    for phase, weights in (rows[0]["measured"] if rows else {}).items():
        near, far = sum(weights[:2]), sum(weights[3:])
        figures = ", ".join(f"{weight:.3f}" for weight in weights)
        falling = all(nearer >= farther for nearer, farther in pairwise(weights[1:]))
        steadily = "falling steadily from 1 hop on" if falling else "though not falling at every hop from 1 on"
        verdict = "yes" if near > far else "no"
        found.append(f"Near hops weigh more than far ones, from {phase}: {verdict} ({figures}; {steadily}).")
    return found


def _compare(claim: str, high: dict, low: dict, first: str, second: str) -> str:
    tested = compare_rows(high, low)
    figures = f"Hit@1 {tested.first:.1f} {first}, {tested.second:.1f} {second}"
    return f"{claim}: {tested.verdict} ({figures}{tested.evidence})."


def _against_all(claim: str, one: dict, others: list[dict], figures: str) -> str:
    """That none of the others is better: no if one is, yes if all are worse, beyond chance."""
    tested = [compare_rows(one, other) for other in others]
    verdicts = {comparison.verdict for comparison in tested}
    verdict = "no" if "no" in verdicts else verdicts.pop() if len(verdicts) == 1 else "within chance"
    told = ", ".join(f"{comparison.p:.3f}" for comparison in tested if comparison.p is not None)
    evidence = f"; p {told} over {tested[0].classes:,} classes" if told else ""
    return f"{claim}: {verdict} (Hit@1 {figures}{evidence})."


def compare_rows(one: dict, other: dict) -> Comparison:
    """Two rows of a table, over the classes that both were measured on."""
    ours, theirs = one.get("by_class") or {}, other.get("by_class") or {}
    shared = sorted(ours.keys() & theirs.keys())
    p = sign_flip(np.array([ours[id] - theirs[id] for id in shared])) if len(shared) > 1 else None
    return Comparison(_first(one) or 0.0, _first(other) or 0.0, p, len(shared))


def _by_label(rows: list[dict]) -> dict[str, dict]:
    return {row["label"]: row for row in rows if _first(row) is not None}


def _first(row: dict[str, Any]) -> float | None:
    """Hit@1 of a row over its first list, averaged over classes: there are few photos of each."""
    figures = next(iter(row.get("measured", {}).values()), {})
    return figures.get("class", {}).get("hit@1")
