"""How time and memory grow with the hierarchy: 10,000, 100,000 and a million classes.

    python benchmarks/scale.py                        # a quarter of an hour; --sizes 10000 for a quick look
    python benchmarks/scale.py --docs docs/results    # with the page and its plot

A generated tree with names of two or three words of WordNet's nouns, 1,000 seen classes and a network of 1,280
features. Each figure comes from a process of its own, so that peak memory (all of it, Python and libraries included) is
its own. CPU seconds, of all threads together, depend less than elapsed ones on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import unseen
from pages import kept_words
from unseen.util.devices import peak_memory_mb

SIZES = (10_000, 100_000, 1_000_000)
SEEN, FEATURES = 1000, 1280
EPOCHS = 5  # of DGP; the first one is left out of its time
PHOTOS = 7  # likewise


def write_tree(folder: Path, nodes: int, branching: int = 4, double_parents: float = 0.1) -> None:
    """classes.csv and seen.txt: a tree whose mean number of children is `branching`, some classes with two parents.

    Node u > 0 hangs below a random node of the quarter (for branching 4) of the rows before it; depth grows like log N.
    """
    random = np.random.default_rng(0)
    child = np.arange(1, nodes)
    above = (child / branching * random.uniform(0.8, 1.0, nodes - 1)).astype(np.int64)
    second = (child / branching * random.uniform(0.2, 1.0, nodes - 1)).astype(np.int64)
    two = random.random(nodes - 1) < double_parents
    words = np.array(sorted({word for names in unseen.Hierarchy.wordnet().lemmas for word in names[0].split()}))
    chosen, many = words[random.integers(0, len(words), (nodes, 3))], random.integers(2, 4, nodes)
    with (folder / "classes.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "parent"])
        for node in range(nodes):
            parents = [] if not node else [above[node - 1], *([second[node - 1]] if two[node - 1] else [])]
            ids = dict.fromkeys(f"c{parent:07d}" for parent in parents)
            writer.writerow([f"c{node:07d}", " ".join(chosen[node, : many[node]]), "|".join(ids)])
    # The same places whatever the size: the tree's upper part does not change as it grows.
    seen = np.random.default_rng(1).choice(min(nodes, SIZES[0]), min(SEEN, nodes // 2), replace=False)
    (folder / "seen.txt").write_text("\n".join(f"c{node:07d}" for node in sorted(seen)) + "\n")


def repeated(jobs: list) -> tuple[float, float]:
    """(seconds, CPU seconds) of a job: the medians of all but the first, which gathers what the others use."""
    times = []
    for job in jobs:
        begun = time.perf_counter(), time.process_time()
        job()
        times.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    return tuple(np.median(times[1:], axis=0).tolist())


def seen_network(folder: Path):
    """A network that knows the seen classes, with as many features as the one that comes with the package."""
    import torch
    from torch import nn

    ids = (folder / "seen.txt").read_text().split()
    torch.manual_seed(0)
    layers = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, FEATURES), nn.Linear(FEATURES, len(ids))]
    return unseen.from_module(nn.Sequential(*layers), ids, unseen.PhotoTransform(32))


def check(folder: Path) -> None:
    from unseen.apps.cli.app import app

    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app(["hierarchy", "check", str(folder / "classes.csv"), "--classes", str(folder / "seen.txt"), "--json"])


def kin(folder: Path) -> None:
    run = unseen.Run(device="cpu", show_progress=False)
    unseen.train(folder / "classes.csv", seen_network(folder), "kin", "glove", out=folder / "bundle", overwrite=True,
                 run=run)  # fmt: skip


def load(folder: Path) -> None:
    unseen.Bundle.load(folder / "bundle")


def answer(folder: Path) -> tuple[float, float]:
    """One photo after the other."""
    model = unseen.Model(unseen.Bundle.load(folder / "bundle", verify=False), seen_network(folder), "cpu")
    features = np.abs(np.random.default_rng(0).standard_normal((PHOTOS, FEATURES), dtype=np.float32))
    return repeated([lambda one=one: model.answers(one[None]) for one in features])


def dgp_epoch(folder: Path) -> tuple[float, float]:
    """On the receptive field of the seen classes, without the prediction that follows training."""
    import torch

    from unseen.methods import make_method, normalise_rows
    from unseen.methods.graph.adjacency import receptive_field
    from unseen.methods.graph.training import Training
    from unseen.vectors.class_vectors import class_vectors

    network = seen_network(folder)
    hierarchy = unseen.Hierarchy.load(folder / "classes.csv")
    vectors = class_vectors(hierarchy, unseen.load_vectors("glove")).matrix
    targets = normalise_rows(network.classifiers())
    method = make_method("dgp")
    field = receptive_field(method.adjacencies(hierarchy), hierarchy.indices(network.class_ids))
    torch.manual_seed(0)
    built = method.build(vectors.shape[1], targets.shape[1])
    training = Training(built, field, vectors[field.inputs], targets, method.settings)
    return repeated([training.step] * EPOCHS)


MEASURES = {"check": check, "kin": kin, "load": load, "answer": answer, "DGP epoch": dgp_epoch}


def measure(job: tuple[str, str]) -> dict:
    """Run in a fresh process. A measure that tells no times of its own counts as a whole, with what it imports."""
    name, folder = job
    begun, cpu = time.perf_counter(), time.process_time()
    own = MEASURES[name](Path(folder))
    seconds, cpu_seconds = own or (time.perf_counter() - begun, time.process_time() - cpu)
    return {"seconds": round(seconds, 4), "cpu_seconds": round(cpu_seconds, 4), "peak_mb": peak_memory_mb()}


def draw(results: list[dict], path: Path) -> None:
    from unseen_lab.tables.plots import drawing

    with drawing():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for name in MEASURES:
            found = [result for result in results if result["measure"] == name]
            for axis, key in zip(axes, ("cpu_seconds", "peak_mb"), strict=True):
                axis.plot([r["nodes"] for r in found], [r[key] for r in found], marker="o", markersize=3, label=name)
        for axis, title in zip(axes, ("CPU seconds", "peak memory, MB"), strict=True):
            axis.set(xscale="log", yscale="log", xlabel="classes", title=title)
        axes[0].legend()
        figure.savefig(path, format="svg", metadata={"Date": None})


def page(results: list[dict]) -> str:
    sizes = sorted({result["nodes"] for result in results})
    by = {(result["measure"], result["nodes"]): cell(result) for result in results}
    lines = [
        "# How it grows\n",
        "Time and memory with 10,000 to a million classes: a generated hierarchy, names of two or three of WordNet's",
        "words, the same 1,000 seen classes and a network of 1,280 features at every size. CPU seconds of all threads,",
        f"elapsed seconds and peak memory of the process, on {os.cpu_count()} cores.\n",
        "![CPU seconds and peak memory against the number of classes](plots/scale.svg)\n",
        "| | " + " | ".join(f"{nodes:,} classes" for nodes in sizes) + " |",
        "|---|" + "---|" * len(sizes),
        *(f"| {name} | {' | '.join(by.get((name, nodes), '') for nodes in sizes)} |" for name in MEASURES),
        "\nMade by `python benchmarks/scale.py --docs docs/results`.",
    ]
    return "\n".join(lines) + "\n"


def cell(result: dict) -> str:
    cpu, seconds = (
        f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s" if value >= 1 else f"{1000 * value:.0f} ms"
        for value in (result["cpu_seconds"], result["seconds"])
    )
    return f"{cpu} CPU, {seconds}, {result['peak_mb'] / 1000:.1f} GB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of classes")
    parser.add_argument("--docs", type=Path, help="the folder in which to write scale.md and plots/scale.svg")
    options = parser.parse_args()
    results = []
    for nodes in map(int, options.sizes.split(",")):
        with (
            tempfile.TemporaryDirectory() as folder,
            multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool,
        ):
            write_tree(Path(folder), nodes)
            for name, found in zip(MEASURES, pool.imap(measure, [(n, folder) for n in MEASURES], 1), strict=True):
                results.append({"measure": name, "nodes": nodes, **found})
                print(f"{nodes:>9,}  {name:10}  {cell(found)}", file=sys.stderr, flush=True)
    if options.docs is not None:
        draw(results, options.docs / "plots" / "scale.svg")
        place = options.docs / "scale.md"
        place.write_text(page(results) + kept_words(place), encoding="utf-8")
    print(json.dumps({"scale": results}))


if __name__ == "__main__":
    main()
