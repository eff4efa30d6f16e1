"""The paper's qualitative claims, held against saved results: stated as they came out, agreeing or not.

A claim compares two rows on the same photos, so it is tested on the differences between them, class by class: were the
rows equally good, each class's difference could as well have the other sign. The verdict is yes or no where fewer than
5 % of random signs give a mean difference as large, adjusted for the number of tests that stand together, and "within
chance" otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Results = dict[str, dict[str, Any]]
FLIPS = 10_000
LEVEL = 0.05
BATCH = 500  # flips at once
NORMAL_95 = 1.96  # standard errors on either side hold 95 %
HOW = (
    "Hit@1 is averaged over classes, with the average over images, which is the paper's, and the paper's own figures "
    "in brackets. The paper finds DGP ahead of SGCN after 20 epochs of finetuning; before it, in its Table 3, DGP(-f) "
    "is behind SGCN(-f) at every k, and with seen classes as candidates (Table 2) SGCN leads at small k. "
    "Each verdict is a paired test over classes: the signs of their differences "
    f"are flipped at random {FLIPS:,} times, and p is how often the mean is as large as the one found, adjusted by "
    f"Holm's method for the {{tests}} tests of this list. From p = {LEVEL} on the difference is within chance, which "
    "shows neither that there is one nor that there is none: the 95 % interval in brackets, not adjusted, says how "
    "large it may be. The tests are about these trained networks; another seed gives others."
)
# Claim, the better row, the other one, and what the two are called in the sentence.
PAIRS = (
    ("Finetuning helps SGCN", "SGCN", "SGCN(-f)", "after", "before"),
    ("Finetuning helps DGP", "DGP", "DGP(-f)", "after", "before"),
    ("Finetuning helps DGP(-w)", "DGP(-w)", "DGP(-wf)", "after", "before"),
    ("DGP is at least level with SGCN before finetuning", "DGP(-f)", "SGCN(-f)", "DGP(-f)", "SGCN(-f)"),
    ("Hop weights help DGP", "DGP(-f)", "DGP(-wf)", "with", "without"),
    ("Two phases help", "with", "without", "with", "without"),
)


class Comparison(NamedTuple):
    """Two rows on the same classes."""

    first: float  # Hit@1, averaged over the classes that both have
    second: float
    p: float | None  # None: not told class by class
    classes: int
    error: float = 0.0  # standard error of the mean difference

    @property
    def verdict(self) -> str:
        """Whether the first is better: yes, no, or within chance."""
        if self.p is None:
            return "not tested"
        if self.p >= LEVEL:
            return "within chance"
        return "yes" if self.first > self.second else "no"

    @property
    def difference(self) -> str:
        """With its 95 % interval."""
        mean, half = self.first - self.second, NORMAL_95 * self.error
        return f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]"


@dataclass
class Claim:
    """The claim that one row is better than each of several others."""

    text: str
    figures: str
    tests: list[Comparison] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """No if any of the others is better, yes if all are worse, beyond chance."""
        verdicts = {test.verdict for test in self.tests}
        return "no" if "no" in verdicts else verdicts.pop() if len(verdicts) == 1 else "within chance"

    def __str__(self) -> str:
        tested = [test for test in self.tests if test.p is not None]
        differences = ", ".join(f"{test.difference}, {show_p(test.p)}" for test in tested)
        evidence = f"; difference {differences} over {tested[0].classes:,} classes" if tested else ""
        return f"{self.text}: {self.verdict} ({self.figures}{evidence})."


def show_p(p: float | None) -> str:
    return "p –" if p is None else "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def sign_flip(differences: np.ndarray, flips: int = FLIPS, seed: int = 0) -> float:
    """p of the mean of paired differences, two-sided, by random signs."""
    return float(sign_flips(np.asarray(differences)[:, None], flips, seed)[0])


def sign_flips(differences: np.ndarray, flips: int = FLIPS, seed: int = 0) -> np.ndarray:
    """The same for each column (n x m), all with the same signs."""
    differences = np.asarray(differences, np.float64)
    means, random = np.abs(differences.mean(axis=0)), np.random.default_rng(seed)
    reached = np.zeros(len(means), int)
    for start in range(0, flips, BATCH):
        signs = random.integers(0, 2, (min(BATCH, flips - start), len(differences))) * 2 - 1
        reached += (np.abs(signs @ differences / len(differences)) >= means - 1e-9).sum(axis=0)
    return np.where(means > 1e-9, np.minimum(1.0, (1 + reached) / (1 + flips)), 1.0)


def holm(chances: Sequence[float]) -> list[float]:
    """The p of several tests, so adjusted that the chance of any false finding among them stays below the level."""
    adjusted, so_far = [0.0] * len(chances), 0.0
    for place, i in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        so_far = max(so_far, min(1.0, (len(chances) - place) * chances[i]))
        adjusted[i] = so_far
    return adjusted


def check_claims(results: Results) -> tuple[list[str], int]:
    """One sentence for each claim that these results cover, the paper's main one first; and the number of
    tests behind them."""
    makers = {"unseen-classes": _main, "layers": _layers, "ablation": _pairs, "two-phase": _pairs,
              "gcnz-steps": _gcnz, "gat": _gat, "hop-weights": _hop_weights}  # fmt: skip
    claims = [claim for name, maker in makers.items() if name in results for claim in maker(results[name]["rows"])]
    tests = [(claim, i) for claim in claims if isinstance(claim, Claim) for i in range(len(claim.tests))]
    tests = [(claim, i) for claim, i in tests if claim.tests[i].p is not None]
    for (claim, i), p in zip(tests, holm([claim.tests[i].p or 0.0 for claim, i in tests]), strict=True):
        claim.tests[i] = claim.tests[i]._replace(p=p)
    return [str(claim) for claim in claims], len(tests)


def _main(rows: list[dict]) -> list[Claim | str]:
    by = _by_label(rows)
    claims = [_compare(f"DGP is at least level with SGCN on {spec}", by["DGP"], by["SGCN"], "DGP", "SGCN", spec)
              for spec in (by["DGP"]["measured"] if {"DGP", "SGCN"} <= set(by) else ())]  # fmt: skip
    order = sorted(by.values(), key=lambda row: _hit(row) or 0.0, reverse=True)
    listed = ", ".join(f"{row['label']} {_hit(row):.1f}{_length(row)}" for row in order)
    return [*claims, f"Order on unseen classes, first list, not tested; epochs in brackets: {listed}."] if by else []


def _layers(rows: list[dict]) -> list[Claim]:
    values = [value for row in rows if (value := _hit(row)) is not None]
    if len(values) < max(2, len(rows)):
        return []
    figures = "Hit@1 with 1, 2, 3 hidden layers: " + ", ".join(f"{value:.1f}" for value in values) + _others(rows)
    return [Claim("Deeper is not better", figures, [compare_rows(rows[0], other) for other in rows[1:]])]


def _pairs(rows: list[dict]) -> list[Claim]:
    """Claims that one row is better than another, of the tables whose rows have these labels."""
    by = _by_label(rows)
    # Where there are no photos to finetune with, stage 2 was not tried.
    return [_compare(claim, by[one], by[other], first, second) for claim, one, other, first, second in PAIRS
            if {one, other} <= set(by) and (first != "after" or by[one].get("finetune_epochs", 1))]  # fmt: skip


def _gcnz(rows: list[dict]) -> list[Claim | str]:
    by = _by_label(rows)
    if "SGCN" not in by or "GCNZ" not in by:
        return []
    claim = "The shallow SGCN is better than the deep GCNZ"
    epochs = [by[label].get("epochs") for label in ("SGCN", "GCNZ")]
    if epochs[0] != epochs[1]:
        return [f"{claim}: not compared, for SGCN was trained for {epochs[0]} epochs and GCNZ for {epochs[1]}."]
    return [_compare(claim, by["SGCN"], by["GCNZ"], "SGCN", "GCNZ")]


def _gat(rows: list[dict]) -> list[Claim]:
    by = _by_label(rows)
    if not {"GAT-1", "GAT-2", "GCN-1"} <= set(by):
        return []
    compared = [by[label] for label in ("GCN-1", "GAT-1", "GAT-2")]
    figures = "Hit@1 " + ", ".join(f"{row['label']} {_hit(row):.1f}" for row in compared) + _others(compared)
    tests = [compare_rows(compared[0], other) for other in compared[1:]]
    return [Claim("Attention is no better than a plain GCN", figures, tests)]


def _hop_weights(rows: list[dict]) -> list[str]:
    """What one training learned: there is nothing to test it against."""
    sentences = []
    for phase, weights in (rows[0]["measured"] if rows else {}).items():
        figures = ", ".join(f"{weight:.3f}" for weight in weights)
        shares = f"0 and 1 hop together {sum(weights[:2]):.2f}, 3 and more {sum(weights[3:]):.2f}"
        sentences.append(f"Hop weights from {phase}, of one training: {figures}; {shares}.")
    return sentences


def _compare(claim: str, high: dict, low: dict, first: str, second: str, spec: str | None = None) -> Claim:
    test = compare_rows(high, low, spec)
    figures = f"Hit@1 {test.first:.1f} {first}, {test.second:.1f} {second}"
    return Claim(claim, figures + _others([high, low], spec), [test])


def _others(rows: list[dict], spec: str | None = None) -> str:
    """The figures of these rows averaged over images, and as published."""
    spec = spec or next(iter(rows[0]["measured"]))
    images = [row["measured"].get(spec, {}).get("image", {}).get("hit@1") for row in rows]
    published = [(row.get("published", {}).get(spec) or [None])[0] for row in rows]
    parts = [f"{name} {', '.join(f'{value:.1f}' for value in values)}"
             for name, values in (("images", images), ("paper", published)) if None not in values]  # fmt: skip
    return f" [{'; '.join(parts)}]" if parts else ""


def compare_rows(one: dict, other: dict, spec: str | None = None) -> Comparison:
    """Two rows of a table over one of its lists, the first by default, on the classes that both were measured on."""
    spec = spec or next(iter(one["measured"]))
    ours, theirs = ((row.get("by_class") or {}).get(spec) or {} for row in (one, other))
    shared = sorted(ours.keys() & theirs.keys())
    if len(shared) < 2:
        return Comparison(_hit(one, spec) or 0.0, _hit(other, spec) or 0.0, None, len(shared))
    first, second = (np.array([row[id] for id in shared]) for row in (ours, theirs))
    error = float((first - second).std(ddof=1) / len(shared) ** 0.5)
    return Comparison(float(first.mean()), float(second.mean()), sign_flip(first - second), len(shared), error)


def _length(row: dict) -> str:
    """How long a graph network was trained, in both stages."""
    tuned = f"+{row['finetune_epochs']}" if row.get("finetune_epochs") else ""
    return f" ({row['epochs']:,}{tuned})" if row.get("epochs") else ""


def _by_label(rows: list[dict]) -> dict[str, dict]:
    return {row["label"]: row for row in rows if _hit(row) is not None}


def _hit(row: dict[str, Any], spec: str | None = None) -> float | None:
    """Hit@1 of a row over a list, the first by default, averaged over classes: there are few photos of each."""
    measured = row.get("measured", {})
    return measured.get(spec or next(iter(measured), ""), {}).get("class", {}).get("hit@1")
