"""What stage 2 does to seen and unseen accuracy, for several methods and seeds: docs/results/finetuning.md.

    python benchmarks/finetune_effect.py --photos PHOTOS --work WORK --markdown docs/results/finetuning.md

PHOTOS holds seen-train/, seen-val/ and unseen/, each with a folder a class. WORK is as `unseen reproduce --out` leaves
it, and is shared with it: nothing is trained twice, and an interrupted run continues. For several networks, give a WORK
and a --network for each.
"""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from pages import kept_words
from unseen.evaluation import evaluate_lists
from unseen.util import write_atomically
from unseen_lab.data.authors import AUTHORS_LISTS
from unseen_lab.tables.claims import LEVEL, holm, show_p, sign_flip
from unseen_lab.tables.levels import LENGTHS, Row, find_level
from unseen_lab.tables.run import deviation
from unseen_lab.tables.trainings import Trainings

METHODS = ("dgp", "sgcn", "kin")
COMMAND = "python benchmarks/finetune_effect.py"


def main() -> None:
    arguments = parse()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    level = find_level(arguments.photos)
    usual = LENGTHS[level.name]
    epochs = arguments.finetune_epochs or [usual.finetune_epochs] * len(arguments.work)
    works = [
        Trainings(
            place,
            level.with_parts(network=network),
            replace(usual, epochs=arguments.epochs or usual.epochs, finetune_epochs=length),
            workers=arguments.workers,
        )
        for network, place, length in zip(arguments.network, arguments.work, epochs, strict=True)
    ]
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
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--work", type=Path, nargs="+", required=True, help="a folder for each network")
    parser.add_argument("--network", nargs="+", default=["efficientnet-lite0"], help="the networks")
    parser.add_argument("--epochs", type=int, help="of stage 1")
    parser.add_argument("--finetune-epochs", type=int, nargs="+", help="of stage 2, for each network")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0,))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    if {len(arguments.work), len(arguments.finetune_epochs or arguments.work)} != {len(arguments.network)}:
        parser.error("give --work and --finetune-epochs a value for each network of --network")
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
        results = evaluate_lists(model.bundle, work.store(model, photos), list(specs.values()), ks=ks, confidence=None)
        for spec, result in zip(specs, results, strict=True):
            for k in ks:
                found[f"{kind} photos, {spec} @{k}"] = [entry[f"hit@{k}"] for entry in result.per_class]
    return found


def page(works: list[Trainings], measured: list[dict[str, list[dict[str, np.ndarray]]]]) -> str:
    """Markdown: for each network and method the figures before and after, and whether chance alone would do it."""
    lengths, seeds = works[0].lengths, len(next(iter(measured[0].values())))
    networks = " ".join(work.level.network for work in works)
    epochs = " ".join(str(work.lengths.finetune_epochs) for work in works)
    lines = [
        "# What stage 2 does",
        "",
        "Hit@k in per cent, averaged over classes, before and after stage 2"
        + (f": mean ± standard deviation over {seeds} seeds. " if seeds > 1 else ", of one run. ")
        + "p is the paired test of the report: the signs of the classes' changes are flipped at random; with p "
        f"of {LEVEL} or more a change is within chance. p is adjusted by Holm's method for the rows of a "
        "method. Stage 1: "
        f"{lengths.epochs:,} epochs (`kin` has none). Stage 2 trains {trained_part(lengths.finetune_freeze)} on "
        f"{photos_told(works[0].level.seen_train)}: batch {lengths.finetune_batch}, logits times "
        f"{lengths.finetune_scale:g}, batch-norm trained.",
        "",
        f"Made by `{COMMAND} --photos PHOTOS --work {' '.join(['WORK'] * len(works))} --network {networks} "
        f"--epochs {lengths.epochs} --finetune-epochs {epochs} --seeds {' '.join(map(str, range(seeds)))} "
        "--markdown FILE`.",
    ]
    for work, runs in zip(works, measured, strict=True):
        columns = [effects(of_method) for of_method in runs.values()]
        lines += [
            "",
            f"## {work.level.network}: {epochs_told(work.lengths.finetune_epochs)} of stage 2, learning rate "
            f"{work.finetune_rate:g}",
            "",
            "| | " + " | ".join(f"{method} before | after | change | p" for method in runs) + " |",
            "|:---|" + "---:|---:|---:|---:|" * len(runs),
        ]
        for key in next(iter(runs.values()))[0]:
            lines.append(f"| {key} | " + " | ".join(cell for column in columns for cell in column[key]) + " |")
    return "\n".join(lines) + "\n"


def effects(measured: list[dict[str, np.ndarray]]) -> dict[str, list[str]]:
    """Before, after, change and p of each figure of a method, over its seeds."""
    values = {key: np.array([run[key] for run in measured]) for key in measured[0]}  # seed, before or after, class
    chances = holm([sign_flip((each[:, 1] - each[:, 0]).mean(axis=0)) for each in values.values()])
    cells = {}
    for (key, each), p in zip(values.items(), chances, strict=True):
        before, after = each.mean(axis=2).T
        cells[key] = [spread(before), spread(after), spread(after - before, "+"), show_p(p).removeprefix("p ")]
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


if __name__ == "__main__":
    main()
