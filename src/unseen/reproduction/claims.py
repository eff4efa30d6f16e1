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
    "Hit@1 is averaged over classes here. Each verdict is a paired test over classes: the signs of their differences "
    f"are flipped at random {FLIPS:,} times, and p is how often the mean is as large as the one found, adjusted by "
    f"Holm's method for the {{tests}} tests of this list. From p = {LEVEL} on the difference is within chance, which "
    "shows neither that there is one nor that there is none: the 95 % interval in brackets, not adjusted, tells how "
    "large it may be. The tests are about these trained networks; another seed gives others."
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
    """That one row is better than each of some others."""

    text: str
    figures: str
    tests: list[Comparison] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """No if any of the others is better, yes if all are worse, beyond chance."""
        found = {test.verdict for test in self.tests}
        return "no" if "no" in found else found.pop() if len(found) == 1 else "within chance"

    def __str__(self) -> str:
        tested = [test for test in self.tests if test.p is not None]
        told = ", ".join(f"{test.difference}, {told_p(test.p)}" for test in tested)
        evidence = f"; difference {told} over {tested[0].classes:,} classes" if tested else ""
        return f"{self.text}: {self.verdict} ({self.figures}{evidence})."


def told_p(p: float | None) -> str:
    return "p –" if p is None else "p < 0.001" if p < 0.001 else f"p {p:.3f}"


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


def holm(chances: Sequence[float]) -> list[float]:
    """The p of several tests, so adjusted that the chance of any false finding among them stays below the level.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted, so_far = [0.0] * len(chances), 0.0
    for place, i in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        so_far = max(so_far, min(1.0, (len(chances) - place) * chances[i]))
        adjusted[i] = so_far
    return adjusted


def check_claims(results: Results) -> tuple[list[str], int]:
    """One sentence for each claim that the results at hand can speak to, the paper's main one first; and the number of
    tests behind them."""
    makers = {"unseen-classes": _main, "layers": _layers, "ablation": _ablation, "two-phase": _two_phase,
              "gcnz-steps": _gcnz, "gat": _gat, "hop-weights": _hop_weights}  # fmt: skip
    claims = [claim for name, maker in makers.items() if name in results for claim in maker(results[name]["rows"])]
    tests = [(claim, i) for claim in claims if isinstance(claim, Claim) for i in range(len(claim.tests))]
    tests = [(claim, i) for claim, i in tests if claim.tests[i].p is not None]
    for (claim, i), p in zip(tests, holm([claim.tests[i].p or 0.0 for claim, i in tests]), strict=True):
        claim.tests[i] = claim.tests[i]._replace(p=p)
    return [str(claim) for claim in claims], len(tests)


def _main(rows: list[dict]) -> list[Claim | str]:
    by, found = _by_label(rows), []
    if {"DGP", "SGCN"} <= set(by):
        for spec in by["DGP"]["measured"]:
            claim = f"DGP is at least level with SGCN on {spec}"
            found.append(_compare(claim, by["DGP"], by["SGCN"], "DGP", "SGCN", spec))
    order = sorted(by.values(), key=lambda row: _hit(row) or 0.0, reverse=True)
    listed = ", ".join(f"{row['label']} {_hit(row):.1f}{_length(row)}" for row in order)
    return [*found, f"Order on unseen classes, first list, not tested; epochs in brackets: {listed}."] if by else []


def _layers(rows: list[dict]) -> list[Claim]:
    values = [value for row in rows if (value := _hit(row)) is not None]
    if len(values) < max(2, len(rows)):
        return []
    figures = "Hit@1 with 1, 2, 3 hidden layers: " + ", ".join(f"{value:.1f}" for value in values)
    return [Claim("Deeper is not better", figures, [compare_rows(rows[0], other) for other in rows[1:]])]


def _ablation(rows: list[dict]) -> list[Claim]:
    by, found = _by_label(rows), []
    for after, before in (("SGCN", "SGCN(-f)"), ("DGP", "DGP(-f)"), ("DGP(-w)", "DGP(-wf)")):
        # Without photos there is no stage 2 to speak of.
        if after in by and before in by and by[after].get("finetune_epochs", 1):
            found.append(_compare(f"Finetuning helps {after}", by[after], by[before], "after", "before"))
    if "DGP(-f)" in by and "DGP(-wf)" in by:
        found.append(_compare("Hop weights help DGP", by["DGP(-f)"], by["DGP(-wf)"], "with", "without"))
    return found


def _two_phase(rows: list[dict]) -> list[Claim]:
    by = _by_label(rows)
    return [_compare("Two phases help", by["with"], by["without"], "with", "without")] if len(by) == 2 else []


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
    figures = "Hit@1 " + ", ".join(f"{label} {_hit(by[label]):.1f}" for label in ("GCN-1", "GAT-1", "GAT-2"))
    tests = [compare_rows(by["GCN-1"], by[label]) for label in ("GAT-1", "GAT-2")]
    return [Claim("Attention is no better than a plain GCN", figures, tests)]


def _hop_weights(rows: list[dict]) -> list[str]:
    """What one training learned: there is nothing to test it against."""
    found = []
    for phase, weights in (rows[0]["measured"] if rows else {}).items():
        figures = ", ".join(f"{weight:.3f}" for weight in weights)
        shares = f"0 and 1 hop together {sum(weights[:2]):.2f}, 3 and more {sum(weights[3:]):.2f}"
        found.append(f"Hop weights from {phase}, of one training: {figures}; {shares}.")
    return found


def _compare(claim: str, high: dict, low: dict, first: str, second: str, spec: str | None = None) -> Claim:
    test = compare_rows(high, low, spec)
    return Claim(claim, f"Hit@1 {test.first:.1f} {first}, {test.second:.1f} {second}", [test])


def compare_rows(one: dict, other: dict, spec: str | None = None) -> Comparison:
    """Two rows of a table over one of its lists, the first by default, on the classes that both were measured on."""
    spec = spec or next(iter(one["measured"]))
    ours, theirs = ((row.get("by_class") or {}).get(spec) or {} for row in (one, other))
    shared = sorted(ours.keys() & theirs.keys())
    if len(shared) < 2:
        return Comparison(_hit(one, spec) or 0.0, _hit(other, spec) or 0.0, None, len(shared))
    first, second = (np.array([row[id] for id in shared]) for row in (ours, theirs))
    error = (first - second).std(ddof=1) / len(shared) ** 0.5
    means = float(first.mean()), float(second.mean())
    return Comparison(*means, sign_flip(first - second), len(shared), float(error))


def _length(row: dict) -> str:
    """How long a graph network was trained, in both stages."""
    if not row.get("epochs"):
        return ""
    tuned = row.get("finetune_epochs")
    return f" ({row['epochs']:,}+{tuned})" if tuned else f" ({row['epochs']:,})"


def _by_label(rows: list[dict]) -> dict[str, dict]:
    return {row["label"]: row for row in rows if _hit(row) is not None}


def _hit(row: dict[str, Any], spec: str | None = None) -> float | None:
    """Hit@1 of a row over a list, the first by default, averaged over classes: there are few photos of each."""
    measured = row.get("measured", {})
    figures = measured.get(spec or next(iter(measured), ""), {})
    return figures.get("class", {}).get("hit@1")
