"""A report from saved results: tables, plots and the paper's claims, as a Markdown page.

Made again at any time without running anything: `unseen reproduce --report DIR`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unseen import UnseenError
from unseen.util import write_atomically
from unseen_lab.tables.claims import HOW, check_claims
from unseen_lab.tables.levels import LENGTHS, ORDER, Level
from unseen_lab.tables.table import MISSING, Table, figure

LEVELS = {
    "paper": "ImageNet-21K and ImageNet-1k photos, ResNet-50, GloVe 300-d: the paper's own setting.",
    "photos": "a folder of photos by class id, and built-in vectors. Neither are the paper's, nor is the network; "
    "resnet50 is the paper's architecture with Keras's weights: compare rows with rows, not with its numbers. Graph "
    "networks drop less of vectors with fewer than 300 numbers (docs/differences.md).",
    "embedded": "no photos. A fifth of the seen classes is hidden from the training, and a hit is when a hidden "
    "class's known classifier is most like its own prediction among those of all hidden classes.",
}
PLACES = {"unseen-classes": ("hit-curves", "training"), "hop-weights": ("hop-weights",)}  # table -> its plots


def load_results(work: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Saved results by table in the paper's order, and the tables left out because their settings differ.

    Results made with different settings are never shown together: those of the latest run count.
    """
    folder = work / "results"
    files = {name: folder / f"{name}.json" for name in (*ORDER, "analysis") if (folder / f"{name}.json").exists()}
    if not files:
        raise UnseenError(f"{folder}: no results here; `unseen reproduce all` makes them")
    read = {name: _read(path) for name, path in files.items()}
    made_with = read[max(files, key=lambda name: files[name].stat().st_mtime_ns)]["made_with"]
    kept = {name: result for name, result in read.items() if result["made_with"] == made_with}
    return kept, [name for name in read if name not in kept]


def _read(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_bytes())
    except (ValueError, OSError):
        result = None
    if not isinstance(result, dict) or "made_with" not in result:
        raise UnseenError(f"{path}: is damaged; delete it and run `unseen reproduce {path.stem}` again")
    return result


def write_report(work: Path, out: Path, with_photos: bool = True) -> dict[str, str]:
    """report.md in `out`, with plots/ and, unless `with_photos` is False, small copies of the photos that it shows."""
    from unseen_lab.tables.plots import draw_plots

    results, others = load_results(work)
    plots = draw_plots(results)
    for name, svg in plots.items():
        write_atomically(out / "plots" / f"{name}.svg", svg)
    shown = results.get("qualitative", {}).get("photos", []) if with_photos else []
    pictures = {photo["photo"]: f"photos/{photo['id']}.jpg" for photo in shown if Path(photo["photo"]).exists()}
    for photo, name in pictures.items():
        write_atomically(out / name, _thumbnail(photo))
    write_atomically(out / "report.md", "\n\n".join(_page(results, others, list(plots), pictures)).encode() + b"\n")
    return {"markdown": str(out / "report.md"), "plots": str(out / "plots")}


def _thumbnail(photo: str) -> bytes:
    from unseen.photos import read_photo

    image, file = read_photo(photo), io.BytesIO()
    image.thumbnail((180, 180))
    image.save(file, "JPEG", quality=80)
    return file.getvalue()


def _page(results: dict[str, dict], others: list[str], plots: list[str], pictures: dict[str, str]) -> list[str]:
    """The paragraphs, lists and tables of the page."""
    tables = {name: result for name, result in results.items() if name != "analysis"}
    made_with = next(iter(results.values()))["made_with"]
    page = ["# The paper's tables, run with unseen", _listed(_circumstances(made_with, tables))]
    missing = [name for name in ORDER if name not in tables]
    if missing:
        why = " (made with other settings)" if set(missing) <= set(others) else ""
        page.append(f"**Not run: {', '.join(missing)}**{why}.")
    unfinished = [name for name, result in tables.items() if result.get("partial")]
    if unfinished:
        page.append(f"**Unfinished, some rows are not trained yet: {', '.join(unfinished)}.**")
    claims, tests = check_claims(results)
    if claims:
        how = f"The paper's claims, as they came out here. {HOW.format(tests=tests)}"
        page += ["## What came out", how, _listed(claims)]
    for name, result in tables.items():
        page += _section(name, result, plots, pictures)
    extra = [name for name in plots if name not in {plot for names in PLACES.values() for plot in names}]
    if extra:
        page += ["## Beyond the tables", BEYOND, *_plots(extra)]
    return page


def _listed(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _plots(names: Sequence[str]) -> list[str]:
    return [f"![{name}](plots/{name}.svg)" for name in names]


def _photo(photo: dict, pictures: dict[str, str]) -> list[str]:
    """The labels that each model gave to one photo, best first; the right one in bold."""
    columns = [[f"**{label['name']}**" if label["id"] == photo["id"] else label["name"] for label in answer["labels"]]
               for answer in photo["answers"]]  # fmt: skip
    header = [answer["label"] for answer in photo["answers"]]
    labels = Table(header, list(zip(*columns, strict=False)), words=len(header))
    name, picture = photo["name"], pictures.get(photo["photo"])
    return [f"**{name}** ({photo['id']})", *([f"![{name}]({picture})"] if picture else []), labels.markdown()]


BEYOND = (
    "Stage 1 only, without finetuning. The trade-off curve moves a shift of the seen classes' scores through all "
    "values; accuracies are averaged over classes."
)


def _circumstances(made_with: dict[str, Any], tables: dict[str, dict]) -> list[str]:
    level, name, published = made_with["level"], made_with["level"]["name"], LENGTHS["paper"]
    epochs = f"{made_with['epochs']:,} epochs of stage 1"
    others = {"GCNZ": made_with["gcnz_epochs"], "comparisons of variants": made_with["study_epochs"]}
    shorter = [f"{what} {count:,}" for what, count in others.items() if count != made_with["epochs"]]
    epochs += f" ({', '.join(shorter)})" if shorter else ""
    if made_with["finetune_epochs"] and level.get("seen_train"):
        epochs += f", {made_with['finetune_epochs']} of stage 2 at batch {made_with['finetune_batch']}"
        epochs += f", {rate_of(made_with, tables)} and logits times {made_with['finetune_scale']:g}"
        frozen = made_with["finetune_freeze"]
        some = f", {frozen} stages of the network frozen"
        epochs += {0: "", -1: ", for the network's last stage alone"}.get(frozen, some)
    is_short = made_with["epochs"] < published.epochs or made_with["finetune_epochs"] < published.finetune_epochs
    facts = [
        f"Level **{name}**: {LEVELS[name]}",
        f"Hierarchy {level['hierarchy']}, vectors {level['vectors']} (kin: {made_with['kin_vectors']}), "
        f"network {level['network']}.",
        f"{epochs}."
        + (f" The paper trains for {published.epochs:,} and {published.finetune_epochs}." if is_short else ""),
        "Hit@k in per cent, averaged over images, as in the paper, and over classes; ties count as their expected "
        "place. "
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
    return facts


def rate_of(made_with: dict[str, Any], tables: dict[str, dict]) -> str:
    """The learning rate of stage 2, from the rows that were finetuned where the level has none of its own."""
    if made_with["finetune_rate"] is not None:
        return f"learning rate {made_with['finetune_rate']:g}"
    rates = {row.get("finetune_rate") for result in tables.values() for row in result.get("rows", [])} - {None}
    return f"learning rate {', '.join(f'{rate:g}' for rate in sorted(rates)) or 'by network'}"


def command(made_with: dict[str, Any]) -> str:
    """The command line that makes these results, with names in the place of folders."""
    level = Level(**made_with["level"])
    photos = " --photos DIR" if level.unseen else ""
    data = " --imagenet-21k DIR --imagenet-1k DIR" if level.name == "paper" else photos
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


def _section(name: str, result: dict, plots: list[str], pictures: dict[str, str]) -> list[str]:
    """One of the paper's tables."""
    parts = [f"## {result['title']} ({name})", f"{result['paper']}, level {result['level']}. {result['shows']}"]
    if result.get("partial"):
        parts.append("**Unfinished**: some rows are not trained yet.")
    if "left_out" in result:
        parts.append(f"**Left out.** {result['left_out']}")
    parts += [table.markdown() for table in tables_of(result)]
    parts += [part for photo in result.get("photos", []) for part in _photo(photo, pictures)]
    parts += _plots([plot for plot in PLACES.get(name, ()) if plot in plots])
    notes = [*result["notes"], *_short(result)]
    reasons: dict[str, list[str]] = {}
    for row in [row for row in result.get("rows", []) if "left_out" in row]:
        reasons.setdefault(row["left_out"], []).append(row["label"])
    notes += [f"Left out: {', '.join(labels)} ({why})." for why, labels in reasons.items()]
    if result.get("coverage"):
        notes.append(coverage_of(result))
    if len(result.get("seeds", [])) > 1:
        notes.append(f"Seeds {', '.join(map(str, result['seeds']))}: mean ± standard deviation.")
    notes.append(f"Took {result['seconds']:,.0f} s, besides what other tables had made already.")
    return [*parts, _listed(notes)]


def _short(result: dict) -> list[str]:
    """Which rows were trained for less than the paper's, in either stage."""
    published, rows = LENGTHS["paper"], [row for row in result.get("rows", []) if row.get("epochs")]
    notes = []
    shorter = ", ".join(f"{row['label']} {row['epochs']:,}" for row in rows if row["epochs"] < published.epochs)
    if shorter:
        notes.append(f"Fewer epochs of stage 1 than the paper's {published.epochs:,}: {shorter}.")
    tuned = max((row.get("finetune_epochs") or 0 for row in rows), default=0)
    if 0 < tuned < published.finetune_epochs:
        notes.append(f"Epochs of stage 2: {tuned}, where the paper has {published.finetune_epochs}.")
    without = [row["label"] for row in rows if row.get("finetuned_in_paper") and not row.get("finetune_epochs")]
    if without:
        notes.append(f"Without stage 2, which the paper's figures are after: {', '.join(without)}.")
    return notes


def coverage_of(result: dict) -> str:
    """How many classes and photos stand behind the figures."""
    if result["level"] == "embedded":
        return f"{result['coverage']['hidden']['classes']} hidden classes."
    parts = []
    for name, entry in result["coverage"].items():
        spec = name if entry["as"] == name else f"{name} (as {entry['as']})"
        classes = f"{entry['classes']:,} classes, {entry['listed']:,} listed"
        parts.append(f"{spec}: {entry['images']:,} photos of {classes}")
    return "Coverage: " + "; ".join(parts) + "."


def tables_of(result: dict[str, Any]) -> list[Table]:
    """The tables of a result; none where it was left out or consists of photos."""
    if "left_out" in result or result["kind"] == "qualitative":
        return []
    makers = {"scalability": _scalability, "hop-weights": _hop_weights}
    return makers.get(result["kind"], _hits)(result)


def _hits(result: dict) -> list[Table]:
    """A table for each list of candidates. AWA2's published figures are class averages, the others image averages."""
    if result["level"] == "embedded":
        header = ["method", "epochs", "hidden classes @1", "hidden classes @5"]
        rows = [[_label(row), _epochs(row), *(_figure(row, "hidden", "class", hit) for hit in ("hit@1", "hit@5"))]
                for row in result["rows"] if "method" in row]  # fmt: skip
        return [Table(header, rows)]
    hits = [f"hit@{k}" for k in result["hits"]]
    header = [f"{group} {hit[3:]}" for group in ("images", "classes", "paper") for hit in hits]
    return [
        Table([key, "epochs", *header], [
            [_label(row), _epochs(row)]
            + [_figure(row, key, average, hit) for average in ("image", "class") for hit in hits]
            + _published(row, key, len(hits))
            for row in result["rows"]
        ])
        for key in result["candidates"]
    ]  # fmt: skip


def _label(row: dict) -> str:
    return row["label"] + (" *" if row["ours"] else "")


def _epochs(row: dict) -> str:
    """Stage 1, and stage 2 where there was one."""
    lengths = [str(row[key]) for key in ("epochs", "finetune_epochs") if row.get(key)]
    return "+".join(lengths) if row.get("epochs") else MISSING


def _figure(row: dict, key: str, average: str, hit: str) -> str:
    value, spread = (row.get(part, {}).get(key, {}).get(average, {}).get(hit) for part in ("measured", "deviation"))
    return _with_spread(value, spread)


def _published(row: dict, key: str, count: int) -> list[str]:
    values = row["published"].get(key) or [None] * count
    spreads = row.get("published_deviation", {}).get(key) or [None] * len(values)
    return [_with_spread(value, spread) for value, spread in zip(values, spreads, strict=True)]


def _with_spread(value: float | None, spread: float | None) -> str:
    return figure(value) if value is None or spread is None else f"{value:.2f} ± {spread:.2f}"


def _scalability(result: dict) -> list[Table]:
    paper = {key: _size(value, 1) for key, value in result["published"].items()}
    rows = [[key.replace("_", " "), _size(value, 2), paper.get(key, MISSING)]
            for key, value in result["measured"].items()]  # fmt: skip
    return [Table(["figure", "measured", "paper"], rows)]


def _size(value: float, digits: int) -> str:
    return f"{value * 1e5:.{digits}f}e-5" if isinstance(value, float) else f"{value:,}"


def _hop_weights(result: dict) -> list[Table]:
    row, rows = result["rows"][0], []
    for phase, weights in row["measured"].items():
        rows.append([f"from {phase}", *(f"{weight:.3f}" for weight in weights)])
        rows.append([f"from {phase}, paper", *(f"{weight:.3f}" for weight in row["published"].get(phase, []))])
    return [Table(["phase", *(f"{hops} hops" for hops in ("0", "1", "2", "3", "4+"))], rows)]
