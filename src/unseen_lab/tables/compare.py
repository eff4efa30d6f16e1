"""All methods on the same photos, features and candidates: one table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unseen import Bundle, Evaluation, Model
from unseen.bundle import is_bundle
from unseen.evaluation import RanksTable, evaluate_lists
from unseen.methods import get_method, method_names
from unseen.photos import list_photos
from unseen_lab.data.authors import AUTHORS_LISTS
from unseen_lab.tables.claims import LEVEL, holm, sign_flip
from unseen_lab.tables.levels import Level, Row, name_of
from unseen_lab.tables.table import MISSING, Table, figure
from unseen_lab.tables.trainings import Trainings

OURS = "kin"  # the default method, which all others are tested against
NOVEL = "novel&folder"  # classes with photos that have nothing seen at or below them, as a list of candidates
BOTH, SEEN = f"{AUTHORS_LISTS[0]}+1K", "seen"  # where seen and unseen photos compete; the seen ones among them
LISTS = [*(candidates for spec in AUTHORS_LISTS for candidates in (spec, f"{spec}+1K")), NOVEL]
TESTED = {**{spec: spec for spec in (*AUTHORS_LISTS, BOTH)}, NOVEL: "novel"}  # lists -> their names in tables
SHOWN = {spec: name for spec, name in TESTED.items() if spec != BOTH}
CONFIDENCE = 0.9
RIGHT = 90.0  # per cent: where information is compared
KINDS = ("unseen", "seen")
HITS = ("hit@1", "hit@5")
NEAR = {"precision@5": 1, "severity": 2, "f1": 1, "area": 3}  # hierarchical figures -> their digits
VERDICTS = ("told", "right", "stated")
logger = logging.getLogger("unseen.lab")  # below the logger that the command line shows


def compare(
    trainings: Trainings,
    methods: Sequence[Row],
    networks: Sequence[str],
    verdicts: bool = True,
) -> list[dict[str, Any]]:
    """For each method: Hit@k among novel classes and on the authors' lists with and without seen candidates, accuracy
    on seen photos, their harmonic mean and area, and what training took. Methods whose photos are missing are listed
    with the reason.
    """
    works = [replace(trainings, level=replace(trainings.level, network=network)) for network in networks]
    return [measure(work, row, verdicts) for work in works for row in methods]


def measure(trainings: Trainings, row: Row, verdicts: bool = True) -> dict[str, Any]:
    """The figures of one method."""
    level, lack = trainings.level, trainings.lacks(row)
    if lack is not None:
        return {"method": row.label, "left_out": lack}
    model = trainings.model(row)
    photos, learns = trainings.store(model, level.unseen), trainings.learns_from_photos(row)
    entry: dict[str, Any] = {
        "method": row.label,
        "network": level.network,
        "vectors": "+".join(model.bundle.vectors.names),
        "epochs": trainings.epochs(row),
        "photos": sum(1 for _ in list_photos(level.seen_train)) if learns and level.seen_train is not None else None,
        "seconds": model.bundle.training.seconds,
        "coverage": {},
        "by_class": {},
        "ranks": {},
    }
    results = evaluate_lists(model.bundle, photos, [level.candidates(spec) for spec in LISTS], confidence=None)
    for spec, result in zip(LISTS, results, strict=True):
        entry["ranks"][spec] = _ranks_of(result.table)
        entry[spec] = {"image": result.image, "class": result.class_}
        entry["coverage"][spec] = [result.classes, result.listed_classes, result.images]
        if spec in TESTED:
            by_class = {row["id"]: row for row in result.per_class}
            entry["by_class"][spec] = {key: {id: row[key] for id, row in by_class.items()} for key in ("photos", *HITS)}
    if level.seen_val is not None:
        both = [photos, trainings.store(model, level.seen_val)]
        result = model.evaluate(both, level.candidates(BOTH), confidence=None)
        entry["ranks"][SEEN] = _ranks_of(result.table, result.table.seen)
        entry["generalised"] = result.generalised["class"] if result.generalised else None
    if verdicts:
        entry["verdict"] = measure_verdicts(trainings, row)
    return entry


def _ranks_of(table: RanksTable, of: np.ndarray | slice = slice(None)) -> dict[str, list[Any]]:
    rows = table.rows[of]
    ids = [table.hierarchy.ids[row] for row in rows["class"]]
    return {"class": ids, "greater": rows["greater"].tolist(), "equal": rows["equal"].tolist()}


def measure_verdicts(trainings: Trainings, row: Row) -> dict[str, Any] | None:
    """Verdicts of a calibrated bundle over every class, on photos that nothing was fitted on; None without such."""
    level = trainings.level
    if level.seen_train is None or level.seen_val is None or level.unseen is None:
        return None
    model = _calibrated(trainings, row)
    results = {kind: model.evaluate(trainings.store(model, photos), "any", confidence=CONFIDENCE, prior="common")
               for kind, photos in (("unseen", level.unseen), ("seen", level.seen_val))}  # fmt: skip
    fields = ("verdict", "hierarchical", "verdict_curve", "reliability")
    return {
        "calibrated": model.bundle.calibration is not None,
        "information@90": information_at(results["unseen"], results["seen"]),
        **{kind: {f.removeprefix("verdict_"): getattr(result, f) for f in fields} for kind, result in results.items()},
    }


def _calibrated(trainings: Trainings, row: Row) -> Model:
    """The row's bundle with a calibration; the network alone has no unseen classes to weigh against."""
    bundle = trainings.bundle(row)
    if row.method == "network":
        return Model(bundle, device=trainings.device)
    assert bundle.path is not None and trainings.level.seen_train is not None  # it was loaded; there are photos
    place = bundle.path.with_name(f"{bundle.path.name}-calibrated")
    if not is_bundle(place):
        model = Model(bundle, device=trainings.device)
        logger.info("  calibrating %s", row.label)
        model.calibrate(trainings.store(model, trainings.level.seen_train))
        model.save(place, overwrite=True)
    return Model(Bundle.load(place, verify=False), device=trainings.device)


def information_at(*results: Evaluation, right: float = RIGHT) -> dict[str, float | None]:
    """Bits where this many per cent of verdicts are right: both kinds on average, at one confidence; and each kind."""
    curves = [np.array([(100.0 if p["right"] is None else p["right"], p["information"]) for p in r.verdict_curve or ()])
              for r in results]  # fmt: skip
    mean = np.mean(curves, axis=0)
    return {kind: _bits_at(curve, right) for kind, curve in zip(("mean", *KINDS), (mean, *curves), strict=True)}


def _bits_at(curve: np.ndarray, right: float) -> float | None:
    """Interpolated between the confidences; None where none gives so high a share."""
    rates = np.maximum.accumulate(curve[:, 0])
    return None if rates[-1] < right else round(float(np.interp(right, rates, curve[:, 1])), 2)


def table(rows: Sequence[dict[str, Any]], average: str = "class") -> Table:
    """Seen, unseen, H and AUSUC are Hit@1 over 2-hops+1K, always averaged over classes."""
    several = _has_networks(rows)
    header = ["method", "vectors", *(["network"] if several else []), "epochs", "photos"]
    header += [f"{name} @{hit[4:]}" for name in SHOWN.values() for hit in HITS]
    header += [f"{spec}+1K @1" for spec in AUTHORS_LISTS] + ["seen", "unseen", "H", "AUSUC", "seconds"]
    cells = []
    for row in rows:
        if "left_out" in row:
            cells.append([row["method"], row["left_out"]] + [""] * (len(header) - 2))
            continue
        both = row.get("generalised") or {}
        cells.append([
            *_names(row, several),
            str(row["epochs"] or MISSING),
            f"{row['photos']:,}" if row.get("photos") else MISSING,  # that it learned from
            *(figure(row[spec][average].get(hit)) for spec in SHOWN for hit in HITS),
            *(figure(row[f"{spec}+1K"][average].get("hit@1")) for spec in AUTHORS_LISTS),
            *(figure(both.get(key)) for key in ("seen", "unseen", "harmonic")),
            figure(both.get("ausuc"), 3),
            figure(row["seconds"]),
        ])  # fmt: skip
    return Table(header, cells, words=2)


def _has_networks(rows: Sequence[dict[str, Any]]) -> bool:
    return len({row["network"] for row in rows if "left_out" not in row}) > 1


def _names(row: dict[str, Any], several: bool) -> list[str]:
    return [row["method"], row["vectors"], *([row["network"]] if several else [])]


def page(
    rows: Sequence[dict[str, Any]], average: str, trainings: Trainings, methods: Sequence[Row], networks: Sequence[str]
) -> str:
    """The table as a Markdown page that says what it shows and how it was made."""
    level, lengths = trainings.level, trainings.lengths
    coverage = next((row["coverage"] for row in rows if "left_out" not in row), {})
    covered = [f"{SHOWN[spec]} {classes:,} of {listed:,} classes, {images:,} photos"
               for spec, (classes, listed, images) in coverage.items() if spec in SHOWN]  # fmt: skip
    asked = list(map(name_of, methods))
    chosen = "" if asked == method_names() else f" --methods {','.join(asked)}"
    chosen += "" if list(networks) == [level.usual_parts["network"]] else f" --network {','.join(networks)}"
    chosen += "" if all("verdict" in row for row in rows if "left_out" not in row) else " --no-verdicts"
    parts = [
        "# Methods on the same photos",
        f"Hit@k in per cent, averaged over {'classes' if average == 'class' else 'images'}: all methods with the same "
        "features, candidates and seen photos, none finetuned. Seen, unseen, their harmonic mean H and AUSUC (the area "
        "under the curve over all shifts of the seen classes' scores) are Hit@1 on photos of both kinds over "
        "2-hops+1K, averaged over classes, without any shift. Novel is the list of the classes with photos that have "
        "nothing seen at or below them. Seconds are for stage 1, from names and network to all classifiers. "
        "Photos is the number of photos of seen classes that a method learned from.",
        f"Hierarchy {level.hierarchy}, network {', '.join(networks)}. Photos: {'; '.join(covered)}."
        + _learned_from(level),
        f"Made by `unseen compare --photos DIR --epochs {lengths.epochs} --gcnz-epochs {lengths.gcnz_epochs}{chosen} "
        "--markdown FILE`. The paper trains its graph networks for 3,000 epochs.",
        table(rows, average).markdown(),
        *_tests(rows),
        *_verdicts(rows),
    ]
    return "\n\n".join(parts) + "\n"


def paired_tests(rows: Sequence[dict[str, Any]], hit: str = "hit@1") -> Table:
    """The default method minus each other row of its network, on every list, with p in brackets."""
    measured = [row for row in rows if row.get("by_class")]
    ours = {row["network"]: row for row in reversed(measured) if row["method"] == OURS}
    others = [row for row in measured if ours.get(row["network"], row) is not row]
    tests = [_paired_test(ours[row["network"]], row, spec, hit) for row in others for spec in TESTED]
    chances = holm([p for _, p in tests])
    shown = [f"{mean:+.1f} ({p:.3f})" if p >= LEVEL else f"**{mean:+.1f}** ({p:.3f})"
             for (mean, _), p in zip(tests, chances, strict=True)]  # fmt: skip
    several = _has_networks(measured)
    header = ["against", "vectors", *(["network"] if several else []), *TESTED.values()]
    figures = [shown[start : start + len(TESTED)] for start in range(0, len(shown), len(TESTED))]
    return Table(header, [[*_names(row, several), *cells] for row, cells in zip(others, figures, strict=True)], words=2)


def _paired_test(one: dict[str, Any], other: dict[str, Any], spec: str, hit: str) -> tuple[float, float]:
    """The mean difference over classes, and its p."""
    first, second = (row["by_class"][spec][hit] for row in (one, other))
    differences = np.array([first[id] - second[id] for id in sorted(first.keys() & second.keys())])
    return (float(differences.mean()), sign_flip(differences)) if len(differences) else (0.0, 1.0)


def _tests(rows: Sequence[dict[str, Any]]) -> list[str]:
    tests = paired_tests(rows)
    if not tests.rows:
        return []
    return [
        f"## {OURS} against every other row",
        f"The difference of Hit@1, {OURS} minus the other, averaged over classes; in brackets p of a paired "
        "test over classes (signs flipped at random 10,000 times), adjusted by Holm's method for all tests of the "
        f"table. Differences with p below {LEVEL:g} are bold; the others are within chance.",
        tests.markdown(),
        "The same for Hit@5:",
        paired_tests(rows, "hit@5").markdown(),
    ]


def _verdicts(rows: Sequence[dict[str, Any]]) -> list[str]:
    verdicts = verdict_table(rows)
    if not verdicts.rows:
        return []
    return [
        "## Verdicts",
        "The same methods, calibrated on photos of seen classes, over every class of the hierarchy. Bits say how "
        "informative verdicts are when 90 % of them are right: the mean of both kinds of photos at one confidence, and "
        f"each kind alone. At confidence {CONFIDENCE:g}, in per cent: told, photos with a verdict; right, of these "
        "verdicts; stated, their mean probability. The rest is on photos of unseen classes: hierarchical precision@5, "
        "severity of mistakes in steps up, F1 of the nodes that verdicts claim, and the area under the curve of right "
        "over informative verdicts. All with `--prior common`, as `unseen classify` answers. The network alone, its "
        "softmax summed up the hierarchy, is the baseline.",
        verdicts.markdown(),
        "![Right over information](plots/verdicts.svg)",
        "Of the nodes with a given probability, how many are true: on the dotted line, probabilities are exact.",
        "![Reliability](plots/reliability.svg)",
    ]


def _learned_from(level: Level) -> str:
    """How few photos there may be for the methods that learn from them."""
    if level.seen_train is None:
        return ""
    classes = [photo.class_id for photo in list_photos(level.seen_train)]
    names = ", ".join(name for name in method_names() if get_method(name).takes_features)
    return f" Methods that learn from photos ({names}) had {len(classes):,}, of {len(set(classes)):,} seen classes."


def named_verdicts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """(name, verdict) of the rows that have one; names distinguish the same method with other vectors or networks."""
    judged = [row for row in rows if row.get("verdict")]
    names = [row["method"] for row in judged]
    for part in ("vectors", "network"):
        if len({row[part] for row in judged}) > 1:
            pairs = zip(names, judged, strict=True)
            names = [name if names.count(name) == 1 else f"{name}, {row[part]}" for name, row in pairs]
    return [(name, row["verdict"]) for name, row in zip(names, judged, strict=True)]


def verdict_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Bits are those at 90 % right, precision and the rest on photos of unseen classes."""
    header = ["method", "bits", *KINDS, *(f"{name}, {kind}" for kind in KINDS for name in VERDICTS),
              "precision@5", "severity", "F1", "area"]  # fmt: skip
    cells = []
    for name, verdict in named_verdicts(rows):
        bits, near = verdict["information@90"], verdict["unseen"]["hierarchical"]
        cells.append(
            [name if verdict["calibrated"] else f"{name}, not calibrated"]
            + [figure(bits[key], 2) for key in ("mean", *KINDS)]
            + [figure(verdict[kind]["verdict"][name]) for kind in KINDS for name in VERDICTS]
            + [figure(near[key], digits) for key, digits in NEAR.items()]
        )
    return Table(header, cells)
