"""What stage 2 does to seen and unseen accuracy, for several methods and seeds: docs/results/finetuning.md.

    python benchmarks/finetune_effect.py choose  --photos PHOTOS --work WORK     learning rates, on a part of seen-train
    python benchmarks/finetune_effect.py measure --photos PHOTOS --work WORK     stage 1, stage 2, both evaluated
    python benchmarks/finetune_effect.py table   --photos PHOTOS --work WORK     Markdown of all that was measured

PHOTOS holds seen-train/, seen-val/ and unseen/, each with a folder a class. Every run leaves a JSON file in WORK and is
not done again; one that was killed goes on where it was. Only `choose` tries several settings, on seen-train alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

import numpy as np

import unseen
from unseen.evaluate import evaluate
from unseen.finetune import FinetuneSettings, finetune
from unseen.pipeline import train
from unseen.run import Run, write_atomically

METHODS = ("dgp", "sgcn", "kin")
STAGE1_EPOCHS = 300  # of the paper's 3,000, to keep the measurement short
LISTS = ("2-hops", "3-hops", "all")


def main() -> None:
    arguments = parse()
    arguments.work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("UNSEEN_CACHE", str(arguments.work / "cache"))
    if arguments.action == "table":
        print(table(arguments.work))
        return
    for learning_rate in arguments.learning_rates:
        for seed in arguments.seeds:
            for method in arguments.methods:
                one = choose_one if arguments.action == "choose" else measure_one
                name = f"{arguments.action}-{method}-{seed}-{learning_rate:g}"
                name += "-frozen" if arguments.freeze_batch_norm else ""
                keep(arguments, name, one, method, seed, learning_rate)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("choose", "measure", "table"))
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    parser.add_argument("--learning-rates", nargs="+", type=float, default=(1e-4,))
    parser.add_argument("--freeze-batch-norm", action="store_true")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    return parser.parse_args()


def keep(arguments, name: str, job, *what) -> None:
    """Do a job unless its result is there already, and tell it."""
    place = arguments.work / f"{name}.json"
    if not place.exists():
        result = job(arguments, name, *what)
        write_atomically(place, json.dumps(result, indent=1).encode())
    print(name, place.read_text(), flush=True)


def stage1(arguments, method: str, seed: int):
    """The bundle before stage 2. `kin` is solved in closed form: its seeds differ in stage 2 alone."""
    place = arguments.work / f"stage1-{method}-{seed}"
    if not (place / "bundle.json").exists():
        settings = {} if method == "kin" else {"epochs": STAGE1_EPOCHS}
        train(method, out=place, run=Run(seed=seed, resume=True, show_progress=False), **settings)
    return unseen.load(place, device="cpu").bundle


def stage2(arguments, name: str, bundle, images: Path, seed: int, learning_rate: float):
    settings = FinetuneSettings(
        epochs=arguments.epochs,
        batch=arguments.batch,
        learning_rate=learning_rate,
        freeze_batch_norm=arguments.freeze_batch_norm,
    )
    run = Run(seed=seed, resume=True, checkpoint_every=10, show_progress=False)
    return finetune(bundle, images, arguments.work / f"tuned-{name}", settings, run, workers=arguments.workers)


def measure_one(arguments, name: str, method: str, seed: int, learning_rate: float) -> dict:
    bundle = stage1(arguments, method, seed)
    tuned = stage2(arguments, name, bundle, arguments.photos / "seen-train", seed, learning_rate)
    result = {
        "method": method,
        "seed": seed,
        "settings": tuned.solution.details["finetune"]["settings"],
        "seconds": tuned.solution.details["finetune"]["seconds"],
        "photos": tuned.solution.details["finetune"]["photos"],
        "before": figures(arguments, bundle),
        "after": figures(arguments, tuned),
    }
    shutil.rmtree(arguments.work / f"tuned-{name}")
    return result


def figures(arguments, bundle) -> dict[str, float]:
    """Per cent, averaged over photos."""
    model, found = unseen.load(bundle, device="cpu"), {}
    options = {"workers": arguments.workers, "show_progress": False}
    seen = evaluate(model, arguments.photos / "seen-val", "seen", **options)
    found["seen hit@1"] = seen.image["hit@1"]
    trained = {folder.name for folder in (arguments.photos / "seen-train").iterdir()}
    for key, wanted in (("with photos", True), ("without photos", False)):
        rows = [row for row in seen.per_class if (row["id"] in trained) == wanted]
        found[f"seen hit@1, classes {key}"] = float(np.mean([row["hit@1"] for row in rows]))
    among = evaluate(model, arguments.photos / "seen-val", "2-hops", with_seen=True, **options)
    found["seen hit@1 among 2-hops+1K"] = among.image["hit@1"]
    for name in LISTS:
        image = evaluate(model, arguments.photos / "unseen", name, **options).image
        found |= {f"{name} hit@1": image["hit@1"], f"{name} hit@5": image["hit@5"]}
    return found


# -- the choice of a learning rate, on photos of seen-train alone ------------------------------------------------------


def choose_one(arguments, name: str, method: str, seed: int, learning_rate: float) -> dict:
    """Train on a part of seen-train; what is left are other photos of the same classes, and other classes."""
    parts = split_classes(arguments.photos / "seen-train", arguments.work / "choice")
    bundle = stage1(arguments, method, seed)
    tuned = stage2(arguments, name, bundle, parts["train"], seed, learning_rate)
    result = {"method": method, "seed": seed, "settings": tuned.solution.details["finetune"]["settings"]}
    for when, each in (("before", bundle), ("after", tuned)):
        model = unseen.load(each, device="cpu")
        options = {"workers": arguments.workers, "show_progress": False}
        result[when] = {
            part: evaluate(model, parts[part], "seen", **options).image["hit@1"] for part in ("known", "other")
        }
    shutil.rmtree(arguments.work / f"tuned-{name}")
    return result


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


# -- the table -------------------------------------------------------------------------------------------------------


def table(work: Path) -> str:
    """Markdown: for each setting and method the figures before and after, mean and spread over seeds."""
    runs = [json.loads(path.read_text()) for path in sorted(work.glob("measure-*.json"))]
    lines = []
    for setting in sorted({describe(run) for run in runs}):
        chosen = [run for run in runs if describe(run) == setting]
        methods = [method for method in METHODS if any(run["method"] == method for run in chosen)]
        seeds = sorted({run["seed"] for run in chosen})
        lines += [
            f"### {setting}",
            f"{chosen[0]['photos']:,} photos, seeds {', '.join(map(str, seeds))}.",
            "",
            "| | " + " | ".join(f"{method} before | {method} after" for method in methods) + " |",
            "|---" * (1 + 2 * len(methods)) + "|",
        ]
        for key in chosen[0]["before"]:
            cells = [
                spread([run[when][key] for run in chosen if run["method"] == method])
                for method in methods
                for when in ("before", "after")
            ]
            lines.append(f"| {key} | " + " | ".join(cells) + " |")
        lines.append("")
    choices = [json.loads(path.read_text()) for path in sorted(work.glob("choose-*.json"))]
    if choices:
        lines += ["### The choice, on a part of seen-train"]
        lines += ["| method | setting | known before | known after | other before | other after |", "|---" * 6 + "|"]
        for run in sorted(choices, key=lambda run: (run["method"], describe(run))):
            cells = [f"{run[when][part]:.1f}" for part in ("known", "other") for when in ("before", "after")]
            lines.append(f"| {run['method']} | {describe(run)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def describe(run: dict) -> str:
    settings = run["settings"]
    norm = "frozen" if settings["freeze_batch_norm"] else "trained"
    return (
        f"Learning rate {settings['learning_rate']:g}, batch-norm {norm}, "
        f"{settings['epochs']} epochs, batch {settings['batch']}"
    )


def spread(values: list[float]) -> str:
    """Mean ± standard deviation over seeds."""
    if not values:
        return ""
    mean = f"{np.mean(values):.1f}"
    return f"{mean} ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else mean


if __name__ == "__main__":
    main()
