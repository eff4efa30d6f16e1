"""The report's plots, as SVG."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from unseen import UnseenError
from unseen.util import how_to_install

COLOURS = {"DGP": "#b5179e", "SGCN": "#4361ee", "GCNZ": "#4cc9f0", "GAT": "#2a9d8f", "kin": "#f77f00",
           "structural": "#6c757d", "ConSE": "#bc6c25", "SYNC": "#a3b18a", "EXEM": "#588157"}  # fmt: skip


@contextmanager
def drawing() -> Iterator[None]:
    """The look of all plots."""
    try:
        import matplotlib
    except ImportError as error:
        raise UnseenError(f"plots need more: {how_to_install('report')} ({error})") from None
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


def draw_verdicts(verdicts: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, bytes]:
    """Name -> SVG: right over information for each method and kind of photos, and how reliable probabilities are."""
    if not verdicts:
        return {}
    kinds = ("unseen", "seen")
    with drawing():
        curves, axes = _figure(len(kinds))
        diagrams, squares = _figure(len(kinds))
        for axis, square, kind in zip(axes, squares, kinds, strict=True):
            for name, verdict in verdicts:
                points = [point for point in verdict[kind]["curve"] if point["right"] is not None]
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


def draw_lists(rows: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Name -> SVG: Hit@1 by length of the list, a panel for each number of photos taught."""
    taught = sorted({row["taught"] for row in rows})
    with drawing():
        figure, axes = _figure(len(taught))
        for axis, photos in zip(axes, taught, strict=True):
            for method in dict.fromkeys(row["method"] for row in rows if row["taught"] == photos):
                chosen = [row for row in rows if row["taught"] == photos and row["method"] == method]
                points = sorted((row["length"], row["hit@1"]) for row in chosen)
                look = _style(next((label for label in COLOURS if label.lower() == method), method))
                axis.plot(*zip(*points, strict=True), marker="o", ms=4, label=method, **look)
            named = {0: "no photo", 1: "1 photo of each"}.get(photos, f"{photos} photos of each")
            axis.set(title=named, xlabel="classes in the list", ylabel="Hit@1 (%)", ylim=(0, 100), xscale="log")
            lengths = sorted({row["length"] for row in rows if row["taught"] == photos})
            axis.set_xticks(lengths, list(map(str, lengths)), minor=False)
            axis.minorticks_off()
            axis.legend()
        return {"lists": _finish(figure)}


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
                look = {"marker": "o", "ms": 4, "label": row["label"], **_style(row["label"])}
                axis.plot(result["hits"], list(figures.values()), **look)
        axis.set(title=key, xlabel="k", ylabel="Hit@k over classes (%)", ylim=(0, None))
        axis.set_xticks(result["hits"])
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return _finish(figure)


def _lines(curves: Mapping[str, Sequence[Sequence[float]]], legend: Mapping[str, str], **axis: Any):
    """One plot with a line (x, y) for each label; `legend` has other texts for labels."""
    figure, (axes,) = _figure()
    marks = {"marker": "o", "ms": 4} if axis.pop("marks", False) else {}
    for label, points in curves.items():
        axes.plot(*points, label=legend.get(label, label), **marks, **_style(label))
    axes.set(ylim=(0, None), **axis)
    axes.legend()
    return figure, axes


def _training(training: dict | None) -> bytes | None:
    """Loss by epoch of the graph networks."""
    curves = {label: tuple(zip(*entry["losses"], strict=True)) for label, entry in (training or {}).items()
              if len(entry["losses"]) > 1}  # fmt: skip
    return _finish(_lines(curves, {}, title="Stage 1", xlabel="epoch", ylabel="loss")[0]) if curves else None


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
    names = {label: f"{label}, AUSUC {curve['ausuc']:.3f}" for label, curve in curves.items()}
    points = {label: (curve["unseen"], curve["seen"]) for label, curve in curves.items()}
    figure, _ = _lines(points, names, title="Seen and unseen photos, 2-hops+1K", xlim=(0, None),
                       xlabel="Hit@1 on unseen classes (%)", ylabel="Hit@1 on seen classes (%)")  # fmt: skip
    return _finish(figure)


def _by_distance(distances: dict | None) -> bytes | None:
    if not distances:
        return None
    near = {label: {int(h): entry for h, entry in by_hops.items() if int(h) > 0}  # -1: no way to any seen class
            for label, by_hops in distances.items()}  # fmt: skip
    points = {label: (sorted(hops), [hops[h]["hit@1"] for h in sorted(hops)]) for label, hops in near.items()}
    figure, axes = _lines(points, {}, marks=True, title="All unseen classes as candidates",
                          xlabel="hops to the nearest seen class (classes with photos)",
                          ylabel="Hit@1 over classes (%)")  # fmt: skip
    counts = next(iter(near.values()))
    axes.set_xticks(sorted(counts), [f"{h}\n({counts[h]['classes']})" for h in sorted(counts)])
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
