"""The report's plots, as SVG."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError

COLOURS = {"DGP": "#b5179e", "SGCN": "#4361ee", "GCNZ": "#4cc9f0", "kin": "#f77f00", "structural": "#8d99ae"}


def draw_plots(results: dict[str, dict[str, Any]], work: Path) -> dict[str, bytes]:
    """Name -> SVG, for every plot that the results can fill."""
    try:
        import matplotlib
    except ImportError as error:
        raise UnseenError(f"plots need the extra: pip install 'unseen[report]' ({error})") from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "unseen"}
    )
    drawn = {
        "hit-curves": _hit_curves(results.get("unseen-classes")),
        "training": _training(work),
        "hop-weights": _hop_weights(results.get("hop-weights")),
        "trade-off": _trade_off(results.get("analysis")),
        "by-distance": _by_distance(results.get("analysis")),
        "speed": _speed(results.get("analysis")),
    }
    return {name: svg for name, svg in drawn.items() if svg is not None}


def _finish(figure) -> bytes:
    import matplotlib.pyplot as plt

    file = io.BytesIO()
    figure.tight_layout()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return file.getvalue()


def _figure(columns: int = 1):
    import matplotlib.pyplot as plt

    return plt.subplots(1, columns, figsize=(4.6 * columns, 3.4), squeeze=False)


def _hit_curves(result: dict | None) -> bytes | None:
    if result is None or result["level"] == "embedded":
        return None
    figure, axes = _figure(len(result["candidates"]))
    for axis, key in zip(axes[0], result["candidates"], strict=True):
        for row in result["rows"]:
            figures = row.get("measured", {}).get(key, {}).get("class")
            if figures:
                ks = [int(name.removeprefix("hit@")) for name in figures]
                axis.plot(ks, list(figures.values()), marker="o", label=row["label"], color=COLOURS.get(row["label"]))
        axis.set(title=key, xlabel="k", ylabel="Hit@k, class average (%)", ylim=(0, None))
    axes[0][0].legend(fontsize=8)
    return _finish(figure)


def _training(work: Path) -> bytes | None:
    """Loss by epoch of one run of each graph network with its default settings."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for folder in sorted((work / "bundles").glob("*/bundle.json")):
        header = json.loads(folder.read_text(encoding="utf-8"))
        lines = (folder.parent / "log.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        points = [(r["epoch"], r["loss"]) for r in records if "step" not in r and "epoch" in r and "loss" in r]
        if len(points) > len(curves.get(header["method"], [])):
            curves[header["method"]] = points
    if not curves:
        return None
    figure, axes = _figure()
    for method, points in curves.items():
        colour = COLOURS.get(method.upper())
        axes[0][0].plot([epoch for epoch, _ in points], [loss for _, loss in points], label=method, color=colour)
    axes[0][0].set(title="Stage 1", xlabel="epoch", ylabel="loss", yscale="log")
    axes[0][0].legend(fontsize=8)
    return _finish(figure)


def _hop_weights(result: dict | None) -> bytes | None:
    if result is None:
        return None
    row = result["rows"][0]
    figure, axes = _figure(len(row["measured"]))
    for axis, (phase, weights) in zip(axes[0], row["measured"].items(), strict=True):
        places = range(len(weights))
        axis.bar([p - 0.2 for p in places], weights, 0.4, label="measured", color=COLOURS["DGP"])
        axis.bar([p + 0.2 for p in places], row["published"].get(phase, []), 0.4, label="paper", color="#adb5bd")
        axis.set(title=f"from {phase}", xlabel="hops", ylabel="weight", ylim=(0, 0.6))
        axis.set_xticks(list(places), ["0", "1", "2", "3", "4+"][: len(weights)])
    axes[0][0].legend(fontsize=8)
    return _finish(figure)


def _trade_off(analysis: dict | None) -> bytes | None:
    if not analysis or not analysis.get("trade_off"):
        return None
    figure, axes = _figure()
    for label, curve in analysis["trade_off"].items():
        name = f"{label} (AUSUC {curve['ausuc']:.3f})"
        axes[0][0].plot(curve["unseen"], curve["seen"], label=name, color=COLOURS.get(label))
    axes[0][0].set(title="Trade-off, 2-hops+1K", xlabel="unseen accuracy (%)", ylabel="seen accuracy (%)")
    axes[0][0].legend(fontsize=8)
    return _finish(figure)


def _by_distance(analysis: dict | None) -> bytes | None:
    if not analysis or not analysis.get("by_distance"):
        return None
    figure, axes = _figure()
    for label, by_hops in analysis["by_distance"].items():
        hops = sorted(map(int, by_hops))
        axes[0][0].plot(
            hops, [by_hops[str(h)]["hit@1"] for h in hops], marker="o", label=label, color=COLOURS.get(label)
        )
    axes[0][0].set(title="Among all unseen classes", xlabel="hops to the nearest seen class", ylabel="Hit@1 (%)")
    axes[0][0].legend(fontsize=8)
    return _finish(figure)


def _speed(analysis: dict | None) -> bytes | None:
    if not analysis or not analysis.get("seconds"):
        return None
    figure, axes = _figure()
    items = sorted(analysis["seconds"].items(), key=lambda item: item[1])
    colours = [COLOURS.get(label, "#adb5bd") for label, _ in items]
    axes[0][0].barh([label for label, _ in items], [max(s, 0.01) for _, s in items], color=colours)
    axes[0][0].set(title="Stage 1, all classes predicted", xlabel="seconds", xscale="log")
    return _finish(figure)
