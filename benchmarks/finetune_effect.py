"""What stage 2 does to seen and unseen accuracy, for several methods and seeds: docs/results/finetuning.md.

    python benchmarks/finetune_effect.py choose  --photos PHOTOS --work WORK     settings, on a part of seen-train
    python benchmarks/finetune_effect.py measure --photos PHOTOS --work WORK     before and after, and a page of it

PHOTOS holds seen-train/, seen-val/ and unseen/, each with a folder a class. WORK is as `unseen reproduce --out` leaves
it, and is shared with it: nothing is trained twice, and an interrupted run continues. For several networks, give a WORK
and a --backbone for each.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

import unseen
from pages import kept_words
from unseen.evaluation.protocol import evaluate, evaluate_lists
from unseen.finetuning import FinetuneSettings, finetune
from unseen.reproduction.claims import LEVEL, holm, sign_flip, told_p
from unseen.reproduction.levels import LENGTHS, find_level
from unseen.reproduction.recipe import Row
from unseen.reproduction.tables import deviation
from unseen.reproduction.trainings import Trainings
from unseen.runtime.files import write_atomically
from unseen.runtime.run import Run
from unseen.scoring.candidates import AUTHORS_LISTS

METHODS = ("dgp", "sgcn", "kin")
LAST, WHOLE = -1, 0  # stages that are frozen: all but the last one, or none
SCALE = 3.0  # of the logits
CHOICES = (  # what `choose` tries: method, frozen stages, epochs, learning rate, factor of the logits
    ("dgp", LAST, 3, 0.003, SCALE),
    ("dgp", LAST, 3, 0.01, SCALE),
    ("dgp", LAST, 3, 0.03, SCALE),
    ("dgp", WHOLE, 1, 0.0003, SCALE),
    ("kin", LAST, 3, 0.01, SCALE),
    ("sgcn", LAST, 3, 0.01, SCALE),
)
COMMAND = "python benchmarks/finetune_effect.py"


def main() -> None:
    arguments = parse()
    level = find_level(arguments.photos)
    usual = LENGTHS[level.name]
    epochs = arguments.finetune_epochs or [usual.finetune_epochs] * len(arguments.work)
    works = [
        Trainings(
            place,
            level.with_parts(backbone=network),
            replace(usual, finetune_epochs=length),
            workers=arguments.workers,
            say=print,
        )
        for network, place, length in zip(arguments.backbone, arguments.work, epochs, strict=True)
    ]
    if arguments.action == "choose":
        for work in works:
            tried = [("dgp", LAST, work.lengths.finetune_epochs, rate, SCALE) for rate in arguments.rates]
            for choice in tried or CHOICES:
                print(json.dumps(choose(work, *choice)), flush=True)
        return
    measured = [
        {method: [measure(work, method, seed) for seed in arguments.seeds] for method in arguments.methods}
        for work in works
    ]
    text = page(works, measured)
    print(text)
    if arguments.markdown is not None:
        write_atomically(arguments.markdown, (text + kept_words(arguments.markdown)).encode())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("choose", "measure"))
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--work", type=Path, nargs="+", required=True, help="a folder for each network")
    parser.add_argument("--backbone", nargs="+", default=["efficientnet-lite0"], help="the networks")
    parser.add_argument("--finetune-epochs", type=int, nargs="+", help="of stage 2, for each network")
    parser.add_argument("--rates", type=float, nargs="+", default=[], help="learning rates that `choose` tries on DGP")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0,))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    if len(arguments.work) != len(arguments.backbone):
        parser.error("give --work a folder for each network of --backbone")
    if arguments.finetune_epochs and len(arguments.finetune_epochs) != len(arguments.backbone):
        parser.error("give --finetune-epochs a number for each network of --backbone")
    return arguments


def measure(work: Trainings, method: str, seed: int) -> dict[str, np.ndarray]:
    """Each figure of every class before and after stage 2: two rows."""
    stages = [figures(work, Row(method, method, finetune=tuned), seed) for tuned in (False, True)]
    return {key: np.array([stage[key] for stage in stages]) for key in stages[0]}


def figures(work: Trainings, row: Row, seed: int) -> dict[str, list[float]]:
    """Hit@k in per cent of every class with photos."""
    model, level = work.model(row, seed), work.level
    lists = {spec: level.candidates(spec) for spec in (*AUTHORS_LISTS, "2-hops+1K")}
    asked = (
        ("seen", level.seen_val, {"seen": "seen", "2-hops+1K": lists["2-hops+1K"]}, (1,)),
        ("unseen", level.unseen, lists, (1, 5)),
    )
    found = {}
    for kind, photos, specs, ks in asked:
        results = evaluate_lists(
            model, work.store(model, photos), list(specs.values()), ks=ks, sure=None, show_progress=False
        )
        for spec, result in zip(specs, results, strict=True):
            for k in ks:
                found[f"{kind} photos, {spec} @{k}"] = [entry[f"hit@{k}"] for entry in result.per_class]
    return found


def page(works: list[Trainings], measured: list[dict[str, list[dict[str, np.ndarray]]]]) -> str:
    """Markdown: for each network and method the figures before and after, and whether chance alone would do it."""
    lengths, seeds = works[0].lengths, len(next(iter(measured[0].values())))
    networks = " ".join(work.level.backbone for work in works)
    epochs = " ".join(str(work.lengths.finetune_epochs) for work in works)
    lines = [
        "# What stage 2 does",
        "",
        "Hit@k in per cent, averaged over classes, before and after stage 2"
        + (f": mean ± standard deviation over {seeds} seeds. " if seeds > 1 else ", of one run. ")
        + "p is the paired test of the report: the signs of the classes' changes are flipped at random, and from "
        f"{LEVEL} on a change is within chance; it is adjusted by Holm's method for the rows of a method. Stage 1: "
        f"{lengths.epochs:,} epochs (`kin` has none). Stage 2 trains {trained_part(lengths.finetune_freeze)} on "
        f"{photos_told(works[0].level.seen_train)}: batch {lengths.finetune_batch}, learning rate "
        f"{lengths.finetune_rate:g}, logits times {lengths.finetune_scale:g}, batch-norm trained.",
        "",
        f"Made by `{COMMAND} measure --photos PHOTOS --work {' '.join(['WORK'] * len(works))} --backbone {networks} "
        f"--finetune-epochs {epochs} --seeds {' '.join(map(str, range(seeds)))} --markdown FILE`.",
    ]
    for work, runs in zip(works, measured, strict=True):
        columns = [effects(of_method) for of_method in runs.values()]
        lines += [
            "",
            f"## {work.level.backbone}, {epochs_told(work.lengths.finetune_epochs)} of stage 2",
            "",
            "| | " + " | ".join(f"{method} before | after | change | p" for method in runs) + " |",
            "|:---|" + "---:|---:|---:|---:|" * len(runs),
        ]
        for key in next(iter(runs.values()))[0]:
            lines.append(f"| {key} | " + " | ".join(cell for column in columns for cell in column[key]) + " |")
    return "\n".join([*lines, *choices_told(works)]) + "\n"


def choices_told(works: list[Trainings]) -> list[str]:
    """What was tried on a part of seen-train, where it was."""
    folders = [place_of(work, *CHOICES[0]).parent for work in works]
    choices = [json.loads(place.read_text()) for folder in folders for place in sorted(folder.glob("*.json"))]
    if not choices:
        return []
    lines = [
        "",
        "## How its settings were chosen",
        "",
        "Learning rate and what to freeze were chosen on a part of seen-train alone, with logits times 3 "
        f"(`{COMMAND} choose`, with `--rates` for some others): 70 % of its classes train, but for a fifth of their "
        "photos (*known*); photos of *other* classes stand for those that stage 2 does not see. Hit@1 among the seen "
        "classes, averaged over photos:",
        "",
        "| network | method | trained | epochs | learning rate | known before | after | other before | after |",
        "|:---|:---|:---|---:|---:|---:|---:|---:|---:|",
    ]
    for run in choices:
        figures = [f"{run[when][part]:.1f}" for part in ("known", "other") for when in ("before", "after")]
        tried = run["settings"]
        told = [run["network"], run["method"], trained_part(tried["freeze_stages"]), str(tried["epochs"])]
        lines.append("| " + " | ".join([*told, f"{tried['learning_rate']:g}", *figures]) + " |")
    return lines


def effects(measured: list[dict[str, np.ndarray]]) -> dict[str, list[str]]:
    """Before, after, change and p of each figure of a method, over its seeds."""
    values = {key: np.array([run[key] for run in measured]) for key in measured[0]}  # seed, before or after, class
    chances = holm([sign_flip((each[:, 1] - each[:, 0]).mean(axis=0)) for each in values.values()])
    cells = {}
    for (key, each), p in zip(values.items(), chances, strict=True):
        before, after = each.mean(axis=2).T
        cells[key] = [spread(before), spread(after), spread(after - before, "+"), told_p(p).removeprefix("p ")]
    return cells


def epochs_told(count: int) -> str:
    return "1 epoch" if count == 1 else f"{count} epochs"


def trained_part(frozen: int) -> str:
    return {0: "the whole network", -1: "the network's last stage"}.get(frozen, f"all but the first {frozen} stages")


def photos_told(folder: Path) -> str:
    """How many photos of how many classes stage 2 learns from."""
    counts = [sum(1 for _ in each.iterdir()) for each in folder.iterdir() if each.is_dir()]
    return f"seen-train ({sum(counts):,} photos of {len(counts):,} classes)"


def spread(values: np.ndarray, sign: str = "") -> str:
    """Mean ± standard deviation over seeds."""
    return f"{values.mean():{sign}.1f} ± {deviation(values):.1f}" if len(values) > 1 else f"{values.mean():{sign}.1f}"


# -- the choice of settings, on photos of seen-train alone -------------------------------------------------------------


def place_of(work: Trainings, method: str, frozen: int, epochs: int, rate: float, scale: float) -> Path:
    """Where the result of a choice is kept: by what it depends on, the network and the length of stage 1 too."""
    name = f"{method}-{frozen}-{epochs}-{rate:g}-{scale:g}.json"
    return work.work / "choices" / f"{work.level.backbone}-{work.lengths.epochs}" / name


def choose(work: Trainings, method: str, frozen: int, epochs: int, rate: float, scale: float) -> dict:
    """Train on a part of seen-train; keep and tell what that does to the rest of it."""
    place = place_of(work, method, frozen, epochs, rate, scale)
    settings = FinetuneSettings(
        epochs=epochs, batch=work.lengths.finetune_batch, learning_rate=rate, scale=scale, freeze_stages=frozen
    )
    if not place.exists():
        result = {"network": work.level.backbone, "method": method, "settings": asdict(settings)}
        parts = split_classes(work.level.seen_train, work.work / "choices" / "photos")
        bundle, tuned = work.bundle(Row(method, method)), place.with_suffix("")
        after = finetune(
            bundle, parts["train"], tuned, settings, Run(resume=True), workers=work.workers, shared=work.work / "frozen"
        )
        for when, each in (("before", bundle), ("after", after)):
            model = unseen.load(each)
            result[when] = {
                part: evaluate(model, parts[part], "seen", workers=work.workers).image["hit@1"]
                for part in ("known", "other")
            }
        write_atomically(place, json.dumps(result, indent=1).encode())
        shutil.rmtree(tuned)
    return json.loads(place.read_text())


def split_classes(photos: Path, place: Path) -> dict[str, Path]:
    """Links to 70 % of the classes, to train on but for a fifth of their photos ("known"), and to "other" classes."""
    parts = {part: place / part for part in ("train", "known", "other")}
    if not place.exists():
        rng = np.random.default_rng(0)
        for folder in sorted(photos.iterdir()):
            files = rng.permutation(sorted(folder.iterdir()))
            other = rng.random() < 0.3
            aside = 0 if other else round(len(files) / 5)
            for number, file in enumerate(files):
                target = parts["other" if other else "known" if number < aside else "train"] / folder.name
                target.mkdir(parents=True, exist_ok=True)
                (target / file.name).symlink_to(file.resolve())
    return parts


if __name__ == "__main__":
    main()
