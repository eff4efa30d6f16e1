"""The report's plots, as SVG."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from unseen.errors import UnseenError

COLOURS = {"DGP": "#b5179e", "SGCN": "#4361ee", "GCNZ": "#4cc9f0", "GAT": "#2a9d8f", "kin": "#f77f00",
           "structural": "#6c757d", "ConSE": "#bc6c25", "SYNC": "#a3b18a", "EXEM": "#588157"}  # fmt: skip


@contextmanager
def drawing() -> Iterator[None]:
    """The look of all plots."""
    try:
        import matplotlib
    except ImportError as error:
        raise UnseenError(f"plots need the extra: pip install 'unseen[report]' ({error})") from None
    matplotlib.use("Agg")
    look: dict[Any, Any] = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
            "axes.axisbelow": True, "grid.color": "#e9ecef", "legend.frameon": False, "legend.fontsize": 8,
            "svg.hashsalt": "unseen"}  # fmt: skip
    with matplotlib.rc_context(look):
        yield


def draw_plots(results: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    """Name -> SVG, for every plot that the results can fill."""
    analysis = results.get("analysis") or {}
    with drawing():
        drawn = {
            "hit-curves": _hit_curves(results.get("unseen-classes")),
            "training": _training(analysis.get("training")),
            "hop-weights": _hop_weights(results.get("hop-weights")),
            "trade-off": _trade_off(analysis.get("trade_off")),
            "by-distance": _by_distance(analysis.get("by_distance")),
            "speed": _speed(analysis.get("training")),
        }
    return {name: svg for name, svg in drawn.items() if svg is not None}


def draw_verdicts(told: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, bytes]:
    """Name -> SVG: right over information for each method and kind of photos, and how reliable probabilities are."""
    if not told:
        return {}
    kinds = ("unseen", "seen")
    with drawing():
        curves, axes = _figure(len(kinds))
        diagrams, squares = _figure(len(kinds))
        for axis, square, kind in zip(axes, squares, kinds, strict=True):
            for name, verdict in told:
                points = verdict[kind]["curve"]
                axis.plot([p["information"] for p in points], [p["right"] for p in points], label=name, linewidth=1.2)
                bins = verdict[kind]["reliability"]
                shares = [100 * b["probability"] for b in bins], [100 * b["true"] for b in bins]
                square.plot(*shares, marker=".", label=name, linewidth=1.2)
            axis.set(title=f"photos of {kind} classes", xlabel="bits", ylabel="right (%)", ylim=(0, 101))
            square.plot([0, 100], [0, 100], color="#adb5bd", linestyle=":", linewidth=1)
            square.set(title=f"photos of {kind} classes", xlabel="probability of a node (%)", ylabel="true (%)")
        axes[0].legend()
        squares[0].legend()
        return {"verdicts": _finish(curves), "reliability": _finish(diagrams)}


def _finish(figure) -> bytes:
    import matplotlib.pyplot as plt

    file = io.BytesIO()
    figure.tight_layout()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return file.getvalue()


def _figure(columns: int = 1):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=(4.2 * columns + 0.4, 3.4), squeeze=False)
    return figure, list(axes[0])


def _hit_curves(result: dict | None) -> bytes | None:
    if result is None or not any("class" in row.get("measured", {}).get("all", {}) for row in result["rows"]):
        return None
    figure, axes = _figure(len(result["candidates"]))
    for axis, key in zip(axes, result["candidates"], strict=True):
        for row in result["rows"]:
            figures = row.get("measured", {}).get(key, {}).get("class")
            if figures:
                axis.plot(
                    result["hits"], list(figures.values()), marker="o", ms=4, label=row["label"], **_style(row["label"])
                )
        axis.set(title=key, xlabel="k", ylabel="Hit@k over classes (%)", ylim=(0, None))
        axis.set_xticks(result["hits"])
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return _finish(figure)


def _training(training: dict | None) -> bytes | None:
    """Loss by epoch of the graph networks."""
    curves = {label: entry["losses"] for label, entry in (training or {}).items() if len(entry["losses"]) > 1}
    if not curves:
        return None
    figure, axes = _figure()
    for label, points in curves.items():
        epochs, losses = zip(*points, strict=True)
        axes[0].plot(epochs, losses, label=label, **_style(label))
    axes[0].set(title="Stage 1", xlabel="epoch", ylabel="loss", ylim=(0, None))
    axes[0].legend()
    return _finish(figure)


def _hop_weights(result: dict | None) -> bytes | None:
    if result is None or not result["rows"]:
        return None
    row = result["rows"][0]
    figure, axes = _figure(len(row["measured"]))
    for axis, (phase, weights) in zip(axes, row["measured"].items(), strict=True):
        published, places = row["published"].get(phase, []), range(len(weights))
        axis.bar([p - 0.2 for p in places], weights, 0.4, label="measured", color=COLOURS["DGP"])
        axis.bar([p + 0.2 for p in range(len(published))], published, 0.4, label="paper", color="#adb5bd")
        axis.set(title=f"from {phase}", xlabel="hops", ylabel="weight", ylim=(0, 0.6))
        axis.set_xticks(list(places), [*map(str, range(len(weights) - 1)), f"{len(weights) - 1}+"])
    axes[-1].legend()
    return _finish(figure)


def _trade_off(curves: dict | None) -> bytes | None:
    curves = {label: curve for label, curve in (curves or {}).items() if curve["seen"]}
    if not curves:
        return None
    figure, axes = _figure()
    for label, curve in curves.items():
        axes[0].plot(curve["unseen"], curve["seen"], label=f"{label}, AUSUC {curve['ausuc']:.3f}", **_style(label))
    axes[0].set(title="Seen and unseen photos, 2-hops+1K", xlabel="Hit@1 on unseen classes (%)",
                ylabel="Hit@1 on seen classes (%)", xlim=(0, None), ylim=(0, None))  # fmt: skip
    axes[0].legend()
    return _finish(figure)


def _by_distance(distances: dict | None) -> bytes | None:
    if not distances:
        return None
    figure, axes = _figure()
    for label, by_hops in distances.items():
        hops = [h for h in sorted(map(int, by_hops)) if h > 0]  # -1: no way to any seen class
        axes[0].plot(hops, [by_hops[str(h)]["hit@1"] for h in hops], marker="o", ms=4, label=label, **_style(label))
    counts = next(iter(distances.values()))
    hops = [h for h in sorted(map(int, counts)) if h > 0]
    axes[0].set_xticks(hops, [f"{h}\n({counts[str(h)]['classes']})" for h in hops])
    axes[0].set(title="All unseen classes as candidates", xlabel="hops to the nearest seen class (classes with photos)",
                ylabel="Hit@1 over classes (%)", ylim=(0, None))  # fmt: skip
    axes[0].legend()
    return _finish(figure)


def _speed(training: dict | None) -> bytes | None:
    if not training:
        return None
    figure, axes = _figure()
    items = sorted(training.items(), key=lambda item: item[1]["seconds"])
    names = [f"{label}, {entry['epochs']} epochs" if entry["epochs"] else label for label, entry in items]
    seconds = [max(entry["seconds"], 0.01) for _, entry in items]
    bars = axes[0].barh(names, seconds, color=[_style(label)["color"] for label, _ in items])
    axes[0].bar_label(bars, [f"{value:.0f} s" for value in seconds], padding=3, fontsize=8)
    axes[0].set(title="Stage 1, start to end", xlabel="seconds")
    axes[0].margins(x=0.15)
    axes[0].grid(visible=False, axis="y")
    return _finish(figure)


def _style(label: str) -> dict[str, Any]:
    """A method's colour, the same in every plot; what the paper compares with is drawn fainter."""
    if label in COLOURS:
        return {"color": COLOURS[label], "linewidth": 1.8}
    family = next((name for name in COLOURS if label.startswith(f"{name}, ") or label.startswith(f"{name} ")), None)
    return {"color": COLOURS.get(family or "", "#adb5bd"), "linewidth": 1.2, "linestyle": "--"}  # a variant of it
