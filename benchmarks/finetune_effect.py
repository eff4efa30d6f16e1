"""What stage 2 does to seen and unseen accuracy, for several methods and seeds: docs/results/finetuning.md.

    python benchmarks/finetune_effect.py choose  --photos PHOTOS --work WORK     settings, on a part of seen-train
    python benchmarks/finetune_effect.py measure --photos PHOTOS --work WORK     before and after, and a page of it

PHOTOS holds seen-train/, seen-val/ and unseen/, each with a folder a class. WORK is as `unseen reproduce --out` leaves
it, and is shared with it: nothing is trained twice, and an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np

import unseen
from unseen.evaluation.protocol import evaluate
from unseen.finetuning import FinetuneSettings, finetune
from unseen.reproduction.levels import LENGTHS, find_level
from unseen.reproduction.recipe import Row
from unseen.reproduction.tables import deviation
from unseen.reproduction.trainings import Trainings
from unseen.runtime.files import write_atomically
from unseen.runtime.run import Run
from unseen.scoring.candidates import AUTHORS_LISTS

METHODS = ("dgp", "sgcn", "kin")
LAST, WHOLE = -1, 0  # stages that are frozen: all but the last one, or none
CHOICES = (  # what `choose` tries: method, frozen stages, epochs, learning rate, factor of the logits
    ("dgp", LAST, 3, 0.003, 3.0),
    ("dgp", LAST, 3, 0.01, 3.0),
    ("dgp", LAST, 3, 0.03, 3.0),
    ("dgp", WHOLE, 1, 0.0003, 3.0),
    ("kin", LAST, 3, 0.01, 3.0),
    ("sgcn", LAST, 3, 0.01, 3.0),
)
COMMAND = "python benchmarks/finetune_effect.py"


def main() -> None:
    arguments = parse()
    level = find_level(arguments.photos)
    work = Trainings(arguments.work, level, LENGTHS[level.name], workers=arguments.workers, say=print)
    if arguments.action == "choose":
        for choice in CHOICES:
            print(json.dumps(choose(work, *choice)), flush=True)
        return
    runs = {method: [measure(work, method, seed) for seed in arguments.seeds] for method in arguments.methods}
    text = page(work, runs)
    print(text)
    if arguments.markdown is not None:
        write_atomically(arguments.markdown, text.encode())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("choose", "measure"))
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


def measure(work: Trainings, method: str, seed: int) -> dict[str, list[float]]:
    """Each figure before and after stage 2."""
    stages = [figures(work, Row(method, method, finetune=tuned), seed) for tuned in (False, True)]
    return {key: [stage[key] for stage in stages] for key in stages[0]}


def figures(work: Trainings, row: Row, seed: int) -> dict[str, float]:
    """Hit@k in per cent, averaged over classes."""
    model, level = work.model(row, seed), work.level
    seen, unseen_photos = work.store(model, level.seen_val), work.store(model, level.unseen)
    own = evaluate(model, seen, "seen", show_progress=False)
    found = {"seen photos among seen @1": own.class_["hit@1"]}
    trained = {folder.name for folder in level.seen_train.iterdir()}
    for key, wanted in (("trained on", True), ("not trained on", False)):
        rows = [entry["hit@1"] for entry in own.per_class if (entry["id"] in trained) == wanted]
        if rows:
            found[f"... of classes {key}"] = float(np.mean(rows))
    both = evaluate(model, seen, level.candidates("2-hops+1K"), show_progress=False)
    found["seen photos among 2-hops+1K @1"] = both.class_["hit@1"]
    for spec in (*AUTHORS_LISTS, "2-hops+1K"):
        result = evaluate(model, unseen_photos, level.candidates(spec), show_progress=False).class_
        found |= {f"unseen photos, {spec} @{k}": result[f"hit@{k}"] for k in (1, 5)}
    return found


def page(work: Trainings, runs: dict[str, list[dict[str, list[float]]]]) -> str:
    """Markdown: for each method the figures before and after, mean and spread over seeds."""
    lengths, seeds = work.lengths, len(next(iter(runs.values())))
    lines = [
        "# What stage 2 does",
        "",
        f"Hit@k in per cent, averaged over classes, before and after stage 2: mean ± standard deviation over {seeds} "
        f"seeds. Stage 1: {lengths.epochs} epochs (`kin` has none: its seed decides which halves of the seen classes "
        "are hidden when it chooses its settings). Stage 2 trains "
        f"{trained_part(lengths.finetune_freeze)} for "
        f"{lengths.finetune_epochs} epochs of seen-train: batch {lengths.finetune_batch}, learning rate "
        f"{lengths.finetune_rate:g}, logits times {lengths.finetune_scale:g}, batch-norm trained.",
        "",
        f"Made by `{COMMAND} measure --photos PHOTOS --work WORK --markdown FILE`.",
        "",
        "| | " + " | ".join(f"{method} before | after | change" for method in runs) + " |",
        "|:---|" + "---:|---:|---:|" * len(runs),
    ]
    for key in next(iter(runs.values()))[0]:
        cells = []
        for measured in runs.values():
            before, after = np.array([run[key] for run in measured]).T
            cells += [spread(before), spread(after), spread(after - before, "+")]
        lines.append(f"| {key} | " + " | ".join(cells) + " |")
    places = [place_of(work, *choice) for choice in CHOICES]
    choices = [json.loads(place.read_text()) for place in places if place.exists()]
    if choices:
        lines += [
            "",
            "Learning rate, scale and what to freeze were chosen on a part of seen-train alone "
            f"(`{COMMAND} choose`): 70 % of its classes train, but for a fifth of their photos (*known*); photos of "
            "*other* classes stand for those that stage 2 does not see. Hit@1 among the seen classes, averaged over "
            "photos:",
            "",
            "| method | trained | epochs | learning rate | scale | known before | after | other before | after |",
            "|:---|:---|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for run in choices:
            cells = [f"{run[when][part]:.1f}" for part in ("known", "other") for when in ("before", "after")]
            tried = run["settings"]
            part = trained_part(tried["freeze_stages"])
            lines.append(
                f"| {run['method']} | {part} | {tried['epochs']} | {tried['learning_rate']:g} | {tried['scale']:g} | "
                + " | ".join(cells) + " |"
            )  # fmt: skip
    return "\n".join(lines) + "\n"


def trained_part(frozen: int) -> str:
    return {0: "the whole network", -1: "the network's last stage"}.get(frozen, f"all but the first {frozen} stages")


def spread(values: np.ndarray, sign: str = "") -> str:
    """Mean ± standard deviation over seeds."""
    return f"{values.mean():{sign}.1f} ± {deviation(values):.1f}" if len(values) > 1 else f"{values.mean():{sign}.1f}"


# -- the choice of settings, on photos of seen-train alone -------------------------------------------------------------


def place_of(work: Trainings, method: str, frozen: int, epochs: int, rate: float, scale: float) -> Path:
    """Where the result of a choice is kept."""
    return work.work / "choices" / f"{method}-{frozen}-{epochs}-{rate:g}-{scale:g}.json"


def choose(work: Trainings, method: str, frozen: int, epochs: int, rate: float, scale: float) -> dict:
    """Train on a part of seen-train; keep and tell what that does to the rest of it."""
    place = place_of(work, method, frozen, epochs, rate, scale)
    settings = FinetuneSettings(
        epochs=epochs, batch=work.lengths.finetune_batch, learning_rate=rate, scale=scale, freeze_stages=frozen
    )
    if not place.exists():
        result = {"method": method, "settings": asdict(settings)}
        parts = split_classes(work.level.seen_train, work.work / "choices" / "photos")
        bundle, tuned = work.bundle(Row(method, method)), place.with_suffix("")
        after = finetune(bundle, parts["train"], tuned, settings, Run(resume=True), workers=work.workers)
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
