"""Saved results as tables of text: our figures, averaged over images and over classes, beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MISSING = "–"


@dataclass(frozen=True)
class Table:
    """Columns stand in named groups: (name, how many); a group without a name has no heading of its own."""

    groups: Sequence[tuple[str, int]]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def flat_header(self, joint: str) -> list[str]:
        """One line of headings: group and column joined."""
        names = [name for name, count in self.groups for _ in range(count)]
        return [f"{name}{joint}{column}" if name else column for name, column in zip(names, self.header, strict=True)]


def tables_of(result: dict[str, Any]) -> list[Table]:
    """The tables of a result; none where it was left out or consists of photos."""
    if "left_out" in result or result["kind"] == "qualitative":
        return []
    makers = {"scalability": _scalability, "hop-weights": _hop_weights}
    return makers.get(result["kind"], _hits)(result)


def _hits(result: dict) -> list[Table]:
    """A table for each list of candidates. AWA2's published figures are class averages, the others image averages."""
    if result["level"] == "embedded":
        return [_hidden(result)]
    hits = [f"hit@{k}" for k in result["hits"]]
    columns = [hit.removeprefix("hit") for hit in hits]
    tables = []
    for key in result["candidates"]:
        rows = []
        for row in result["rows"]:
            measured, deviation = row.get("measured", {}).get(key, {}), row.get("deviation", {}).get(key, {})
            cells = [_label(row), _epochs(row)]
            for average in ("image", "class"):
                cells += [_figure(measured, deviation, average, hit) for hit in hits]
            rows.append(cells + _published(row, key, len(hits)))
        groups = [("", 2), *((name, len(hits)) for name in ("images", "classes", "paper"))]
        tables.append(Table(groups, [key, "epochs", *columns * 3], rows))
    return tables


def _hidden(result: dict) -> Table:
    rows = []
    for row in result["rows"]:
        if "method" in row:
            measured, deviation = row.get("measured", {}).get("hidden", {}), row.get("deviation", {}).get("hidden", {})
            figures = [_figure(measured, deviation, "class", hit) for hit in ("hit@1", "hit@5")]
            rows.append([_label(row), _epochs(row), *figures])
    return Table([("", 2), ("hidden classes", 2)], ["method", "epochs", "@1", "@5"], rows)


def _label(row: dict) -> str:
    return row["label"] + (" *" if row["ours"] else "")


def _epochs(row: dict) -> str:
    """Stage 1, and stage 2 where there was one."""
    if not row.get("epochs"):
        return MISSING
    return f"{row['epochs']}+{row['finetune_epochs']}" if row.get("finetune_epochs") else str(row["epochs"])


def _figure(measured: dict, deviation: dict, average: str, hit: str) -> str:
    value = measured.get(average, {}).get(hit)
    if value is None:
        return MISSING
    spread = deviation.get(average, {}).get(hit)
    return f"{value:.1f}" if spread is None else f"{value:.2f} ± {spread:.2f}"


def _published(row: dict, key: str, count: int) -> list[str]:
    values = row["published"].get(key)
    if values is None:
        return [MISSING] * count
    spread = row.get("published_deviation", {}).get(key)
    return [f"{value:.1f}" if spread is None else f"{value:.2f} ± {spread[i]:.2f}" for i, value in enumerate(values)]


def _scalability(result: dict) -> list[Table]:
    rows = []
    for key, value in result["measured"].items():
        paper = result["published"].get(key)
        rows.append([key.replace("_", " "), _size(value, 2), MISSING if paper is None else _size(paper, 1)])
    return [Table([("", 3)], ["figure", "measured", "paper"], rows)]


def _size(value: float, digits: int) -> str:
    return f"{value * 1e5:.{digits}f}e-5" if isinstance(value, float) else f"{value:,}"


def _hop_weights(result: dict) -> list[Table]:
    row = result["rows"][0]
    rows = []
    for phase, weights in row["measured"].items():
        rows.append([f"from {phase}", *(f"{weight:.3f}" for weight in weights)])
        rows.append([f"from {phase}, paper", *(f"{weight:.3f}" for weight in row["published"].get(phase, []))])
    return [Table([("", 1), ("hops", 5)], ["phase", "0", "1", "2", "3", "4+"], rows)]
