"""A report from saved results: tables, plots and the paper's claims, as Markdown and as one HTML page.

Made again at any time without running anything: `unseen report WORK --out DIR`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError
from unseen.reproduction.claims import HOW, check_claims
from unseen.reproduction.levels import LENGTHS, Level
from unseen.reproduction.recipe import ORDER
from unseen.reproduction.report_formats import Block, as_markdown, as_page
from unseen.reproduction.report_tables import tables_of
from unseen.runtime.files import write_atomically

LEVELS = {
    "paper": "ImageNet-21K and ImageNet-1k photos, ResNet-50, GloVe 300-d: the paper's own setting.",
    "photos": "a folder of photos by class id, and built-in vectors. Neither are the paper's, nor is the network "
    "unless it is resnet50: compare rows with rows, not with its numbers.",
    "embedded": "no photos. A fifth of the seen classes is hidden from the training, and a hit is when a hidden "
    "class's known classifier is most like its own prediction among those of all hidden classes.",
}
PLACES = {"unseen-classes": ("hit-curves", "training"), "hop-weights": ("hop-weights",)}  # table -> its plots


def load_results(work: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Saved results by table in the paper's order, and the tables left out because their settings differ.

    Results made with different settings are never shown together: those of the latest run count.
    """
    folder = work / "results"
    found = {name: folder / f"{name}.json" for name in (*ORDER, "analysis") if (folder / f"{name}.json").exists()}
    if not found:
        raise UnseenError(f"{folder}: no results here; `unseen reproduce all` makes them")
    latest = max(found.values(), key=lambda path: path.stat().st_mtime_ns)
    read = {name: _read(path) for name, path in found.items()}
    made_with = _read(latest)["made_with"]
    kept = {name: result for name, result in read.items() if result["made_with"] == made_with}
    return kept, [name for name in read if name not in kept]


def _read(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        result = None
    if not isinstance(result, dict) or "made_with" not in result:
        raise UnseenError(f"{path}: is damaged; delete it and run `unseen reproduce {path.stem}` again")
    return result


def write_report(work: Path, out: Path, with_photos: bool = True) -> dict[str, str]:
    """report.md with plots beside it, and report.html with everything inside; photos go into the HTML page only."""
    from unseen.reproduction.plots import draw_plots

    results, others = load_results(work)
    plots = draw_plots(results)
    for name, svg in plots.items():
        write_atomically(out / "plots" / f"{name}.svg", svg)
    blocks = _blocks(results, others, plots)
    write_atomically(out / "report.md", as_markdown(blocks).encode())
    write_atomically(out / "report.html", as_page(blocks, plots, with_photos).encode())
    return {"markdown": str(out / "report.md"), "html": str(out / "report.html"), "plots": str(out / "plots")}


def _blocks(results: dict[str, dict], others: list[str], plots: dict[str, bytes]) -> list[Block]:
    tables = {name: result for name, result in results.items() if name != "analysis"}
    some = next(iter(results.values()))
    blocks: list[Block] = [("h1", "The paper's tables, run with unseen"), *_circumstances(some["made_with"], tables)]
    missing = [name for name in ORDER if name not in tables]
    if missing:
        why = " (made with other settings)" if set(missing) <= set(others) else ""
        blocks.append(("p", f"**Not run: {', '.join(missing)}**{why}."))
    unfinished = [name for name, result in tables.items() if result.get("partial")]
    if unfinished:
        blocks.append(("p", f"**Unfinished, some rows are not trained yet: {', '.join(unfinished)}.**"))
    found, tests = check_claims(results)
    if found:
        blocks += [
            ("h2", "What came out"),
            ("p", f"The paper's claims, as they came out here. {HOW.format(tests=tests)}"),
            ("list", found),
        ]
    for name, result in tables.items():
        blocks += _table(name, result, plots)
    extra = [name for name in plots if name not in {plot for those in PLACES.values() for plot in those}]
    if extra:
        blocks += [("h2", "Beyond the tables"), ("p", BEYOND), *(("plot", name) for name in extra)]
    return blocks


BEYOND = (
    "Stage 1 only, without finetuning. The trade-off curve moves a shift of the seen classes' scores through all "
    "values; accuracies are averaged over classes."
)


def _circumstances(made_with: dict[str, Any], tables: dict[str, dict]) -> list[Block]:
    level, published = made_with["level"], LENGTHS["paper"]
    name = level["name"]
    epochs = f"{made_with['epochs']:,} epochs of stage 1"
    others = {"GCNZ": made_with["gcnz_epochs"], "comparisons of variants": made_with["study_epochs"]}
    told = [f"{what} {count:,}" for what, count in others.items() if count != made_with["epochs"]]
    if told:
        epochs += f" ({', '.join(told)})"
    if made_with["finetune_epochs"] and level.get("seen_train"):
        epochs += f", {made_with['finetune_epochs']} of stage 2 at batch {made_with['finetune_batch']}"
        epochs += f", {_rate_told(made_with, tables)} and logits times {made_with['finetune_scale']:g}"
        epochs += {0: "", -1: ", for the network's last stage alone"}.get(
            made_with["finetune_freeze"], f", {made_with['finetune_freeze']} stages of the network frozen"
        )
    shorter = made_with["epochs"] < published.epochs or made_with["finetune_epochs"] < published.finetune_epochs
    facts = [
        f"Level **{name}**: {LEVELS[name]}",
        f"Hierarchy {level['graph']}, vectors {level['vectors']} (kin: {made_with['kin_vectors']}), "
        f"network {level['backbone']}.",
        f"{epochs}."
        + (f" The paper trains for {published.epochs:,} and {published.finetune_epochs}." if shorter else ""),
        "Hit@k in per cent, averaged over images and over classes; ties count as their expected place. "
        "Columns named paper quote the publication. Rows with * are not in the paper.",
    ]
    if level.get("sampled"):
        few = f"{level['sampled']} photos of each folder, short trainings" if level.get("unseen") else "short trainings"
        facts.append(f"**Quick run**: {few}. It shows that all runs, not how well.")
    if tables:
        trainings = {key: value for result in tables.values() for key, value in result.get("trainings", {}).items()}
        made = next(iter(tables.values())).get("made", {})
        versions = ", ".join(f"{key} {made[key]}" for key in ("unseen", "torch", "numpy", "python") if key in made)
        minutes = sum(trainings.values()) / 60
        cost = f"{len(trainings)} trainings, which took {minutes:.0f} minutes in all"
        facts.append(f"Made by `{command(made_with)}`: {cost}; {versions}.")
    return [("list", facts)]


def _rate_told(made_with: dict[str, Any], tables: dict[str, dict]) -> str:
    """The learning rate of stage 2, and whether it was chosen."""
    if made_with["finetune_rate"] is not None:
        return f"learning rate {made_with['finetune_rate']:g}"
    rates = {row.get("finetune_rate") for result in tables.values() for row in result.get("rows", [])} - {None}
    told = ", ".join(f"{rate:g}" for rate in sorted(rates))
    return f"learning rate {told} (chosen on photos of seen classes)" if told else "a learning rate to be chosen"


def command(made_with: dict[str, Any]) -> str:
    """The command line that makes these results, with names in the place of folders."""
    level = Level(**made_with["level"])
    data = {
        "paper": " --imagenet-21k DIR --imagenet-1k DIR",
        "photos": " --photos DIR" if level.unseen else "",
        "embedded": "",
    }[level.name]
    data += " --awa2 DIR" if level.awa2 else ""
    usual = LENGTHS["quick" if level.sampled else level.name]
    options = " --quick" if level.sampled else ""
    for key in asdict(usual):
        if made_with[key] is not None and made_with[key] != getattr(usual, key):
            options += f" --{key.replace('_', '-')} {made_with[key]}"
    for key, usual_part in level.usual_parts.items():
        if getattr(level, key) != usual_part:
            options += f" --{key} {Path(getattr(level, key)).name}"
    options += f" --weights {Path(level.weights).name}" if level.weights else ""
    return f"unseen reproduce all{data}{options}"


def _table(name: str, result: dict, plots: dict[str, bytes]) -> list[Block]:
    blocks: list[Block] = [
        ("h2", f"{result['title']} ({name})"),
        ("p", f"{result['paper']}, level {result['level']}. {result['shows']}"),
    ]
    if result.get("partial"):
        blocks.append(("p", "**Unfinished**: some rows are not trained yet."))
    if "left_out" in result:
        blocks.append(("p", f"**Left out.** {result['left_out']}"))
    blocks += [("table", table) for table in tables_of(result)]
    if result.get("photos"):
        blocks.append(("photos", result["photos"]))
    blocks += [("plot", plot) for plot in PLACES.get(name, ()) if plot in plots]
    notes = [*result["notes"], *_short(result)]
    reasons: dict[str, list[str]] = {}
    for row in result.get("rows", []):
        if "left_out" in row:
            reasons.setdefault(row["left_out"], []).append(row["label"])
    notes += [f"Left out: {', '.join(labels)} ({why})." for why, labels in reasons.items()]
    if result.get("coverage"):
        notes.append(coverage_of(result))
    if len(result.get("seeds", [])) > 1:
        notes.append(f"Seeds {', '.join(map(str, result['seeds']))}: mean ± standard deviation.")
    return [
        *blocks,
        ("list", [*notes, f"Took {result['seconds']:,.0f} s, besides what other tables had made already."]),
    ]


def _short(result: dict) -> list[str]:
    """Which rows were trained for less than the paper's, in either stage."""
    published, rows = LENGTHS["paper"], [row for row in result.get("rows", []) if row.get("epochs")]
    told = []
    shorter = {row["label"]: row["epochs"] for row in rows if row["epochs"] < published.epochs}
    if shorter:
        listed = ", ".join(f"{label} {epochs:,}" for label, epochs in shorter.items())
        told.append(f"Fewer epochs of stage 1 than the paper's {published.epochs:,}: {listed}.")
    tuned = {row["finetune_epochs"] for row in rows if row.get("finetune_epochs")}
    if tuned and max(tuned) < published.finetune_epochs:
        told.append(f"Epochs of stage 2: {max(tuned)}, where the paper has {published.finetune_epochs}.")
    without = [row["label"] for row in rows if row.get("finetuned_in_paper") and not row.get("finetune_epochs")]
    if without:
        told.append(f"Without stage 2, which the paper's figures are after: {', '.join(without)}.")
    return told


def coverage_of(result: dict) -> str:
    """How many classes and photos stand behind the figures."""
    if result["level"] == "embedded":
        return f"{result['coverage']['hidden']['classes']} hidden classes."
    parts = []
    for name, entry in result["coverage"].items():
        as_ = "" if entry["as"] == name else f" (as {entry['as']})"
        parts.append(
            f"{name}{as_}: {entry['images']:,} photos of {entry['classes']:,} classes, {entry['listed']:,} listed"
        )
    return "Coverage: " + "; ".join(parts) + "."
