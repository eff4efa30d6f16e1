"""All methods on the same photos, features and candidates: one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from unseen.evaluation.protocol import evaluate, evaluate_lists
from unseen.methods import get_method, method_names
from unseen.photos import list_photos
from unseen.reproduction.levels import Level
from unseen.reproduction.recipe import Row
from unseen.reproduction.tables import Reproduction
from unseen.reproduction.verdicts import SURENESS, measure_verdicts, verdict_table
from unseen.scoring.candidates import AUTHORS_LISTS

MISSING = "–"


def compare(
    work: Reproduction,
    methods: Sequence[str] | None = None,
    networks: Sequence[str] | None = None,
    verdicts: bool = True,
) -> list[dict[str, Any]]:
    """For each method: Hit@k on the three lists with and without seen candidates, accuracy on seen photos, their
    harmonic mean and area, and what training took. Methods whose photos are missing are listed with the reason.

    Methods are given as `parse_method` reads them; by default all. `networks` are others than the level's.
    """
    level, rows = work.level, []
    learned_from = 0 if level.seen_train is None else sum(1 for _ in list_photos(level.seen_train))
    parsed = [parse_method(method) for method in methods or method_names()]
    for network, row in product(networks or [level.backbone], parsed):
        work.level = replace(level, backbone=network)
        lack = work.lacks(row)
        if lack is not None:
            rows.append({"method": row.label, "left_out": lack})
            continue
        model = work.model(row)
        photos = work.store(model, level.unseen)
        entry: dict[str, Any] = {
            "method": row.label,
            "network": network,
            "vectors": "+".join(model.bundle.vectors.names),
            "epochs": work.epochs(row),
            "photos": learned_from if work.learns_from_photos(row) else None,
            "seconds": model.bundle.training.seconds,
            "coverage": {},
        }
        lists = [candidates for spec in AUTHORS_LISTS for candidates in (spec, f"{spec}+1K")]
        asked = [level.candidates(candidates) for candidates in lists]
        for candidates, found in zip(
            lists, evaluate_lists(model, photos, asked, show_progress=False, sure=None), strict=True
        ):
            entry[candidates] = {"image": found.image, "class": found.class_}
            entry["coverage"][candidates] = [found.classes, found.listed_classes, found.images]
        if level.seen_val is not None:
            both = [photos, work.store(model, level.seen_val)]
            found = evaluate(model, both, level.candidates("2-hops+1K"), show_progress=False, sure=None).generalised
            entry["generalised"] = found["class"] if found else None
        if verdicts:
            entry["verdict"] = measure_verdicts(work, row)
        rows.append(entry)
    work.level = level
    return rows


def parse_method(text: str) -> Row:
    """`dgp`, `dgp:glove+text` with other class vectors than the level's, or `module:Class[:vectors]`, your own."""
    name, _, vectors = text.partition(":")
    if vectors and name not in method_names():
        kind, _, vectors = vectors.partition(":")
        name = f"{name}:{kind}"
    get_method(name)  # or an error
    return Row(name, name, vectors=vectors or None)


def table(rows: Sequence[dict[str, Any]], average: str = "class") -> list[list[str]]:
    """Text cells, header first. Seen, unseen, H and AUSUC are Hit@1 over 2-hops+1K, always averaged over classes."""
    networks = {row["network"] for row in rows if "left_out" not in row}
    header = ["method", "vectors", *(["network"] if len(networks) > 1 else []), "epochs", "photos"]
    for spec in AUTHORS_LISTS:
        header += [f"{spec} @1", f"{spec} @5"]
    header += [f"{spec}+1K @1" for spec in AUTHORS_LISTS] + ["seen", "unseen", "H", "AUSUC", "seconds"]
    cells = [header]
    for row in rows:
        if "left_out" in row:
            cells.append([row["method"], row["left_out"]] + [""] * (len(header) - 2))
            continue
        line = [row["method"], row["vectors"], *([row["network"]] if len(networks) > 1 else [])]
        line.append(str(row["epochs"] or MISSING))
        line.append(f"{row['photos']:,}" if row.get("photos") else MISSING)  # that it learned from
        for spec in AUTHORS_LISTS:
            line += [_number(row[spec][average], hit) for hit in ("hit@1", "hit@5")]
        line += [_number(row[f"{spec}+1K"][average], "hit@1") for spec in AUTHORS_LISTS]
        both = row.get("generalised") or {}
        line += [_number(both, key) for key in ("seen", "unseen", "harmonic")]
        line += [f"{both['ausuc']:.3f}" if both else MISSING, f"{row['seconds']:.1f}"]
        cells.append(line)
    return cells


def markdown(cells: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|:---|:---|" + "---:|" * (len(cells[0]) - 2), *lines[1:]])


def page(
    rows: Sequence[dict[str, Any]], average: str, work: Reproduction, asked: Sequence[str], networks: Sequence[str]
) -> str:
    """The table as a Markdown page that says what it shows and how it was made."""
    level, lengths = work.level, work.lengths
    measured = next((row for row in rows if "left_out" not in row), None)
    covered = [
        f"{spec} {classes:,} of {listed:,} classes, {images:,} photos"
        for spec, (classes, listed, images) in (measured["coverage"] if measured else {}).items()
        if "+" not in spec
    ]
    chosen = "" if list(asked) == method_names() else f" --methods {','.join(asked)}"
    chosen += "" if list(networks) == [level.usual_parts["backbone"]] else f" --backbone {','.join(networks)}"
    chosen += "" if all("verdict" in row for row in rows if "left_out" not in row) else " --no-verdicts"
    parts = [
        "# Methods on the same photos",
        f"Hit@k in per cent, averaged over {'classes' if average == 'class' else 'images'}: all methods with the same "
        "features, candidates and seen photos, none finetuned. Seen, unseen, their harmonic mean H and AUSUC (the area "
        "under the curve over all shifts of the seen classes' scores) are Hit@1 on photos of both kinds over "
        "2-hops+1K, averaged over classes, without any shift. Seconds are those of stage 1, from names and network to "
        "all classifiers. Photos are those of seen classes that a method learned from.",
        f"Hierarchy {level.graph}, network {', '.join(networks)}. Photos: {'; '.join(covered)}.{_learned_from(level)}",
        f"Made by `unseen compare --photos DIR --epochs {lengths.epochs} --gcnz-epochs {lengths.gcnz_epochs}{chosen} "
        "--markdown FILE`. The paper trains its graph networks for 3,000 epochs.",
        markdown(table(rows, average)),
        *_verdicts(rows),
    ]
    return "\n\n".join(parts) + "\n"


def _verdicts(rows: Sequence[dict[str, Any]]) -> list[str]:
    cells = verdict_table(rows)
    if len(cells) == 1:
        return []
    return [
        "## Verdicts",
        "The same methods, calibrated on photos of seen classes, over every class of the hierarchy. Bits are what "
        "verdicts tell where 90 % of them are right: with one sureness for both kinds of photos, the mean of both; for "
        f"each kind alone. Right is the share of right verdicts at sureness {SURENESS:g}, in per cent. The rest is on "
        "photos of unseen classes: hierarchical precision@5, severity of mistakes in steps up, F1 of what verdicts "
        "claim, and the area under the curve of right over specific. The network alone, its softmax summed up the "
        "hierarchy, is the baseline.",
        markdown(cells),
        "![Right over information](plots/verdicts.svg)",
        "Of the nodes that a method gives a probability, how many are true: on the dotted line probabilities hold.",
        "![Reliability](plots/reliability.svg)",
    ]


def _learned_from(level: Level) -> str:
    """How few photos there may be for the methods that learn from them."""
    if level.seen_train is None:
        return ""
    classes = [photo.class_id for photo in list_photos(level.seen_train)]
    names = ", ".join(name for name in method_names() if get_method(name).takes_features)
    return f" Methods that learn from photos ({names}) had {len(classes):,}, of {len(set(classes)):,} seen classes."


def _number(figures: dict[str, float | None], key: str) -> str:
    value = figures.get(key)
    return MISSING if value is None else f"{value:.1f}"
