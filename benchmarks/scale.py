"""How time and memory grow with the hierarchy: 10,000, 100,000 and a million classes.

    python benchmarks/scale.py                        # a quarter of an hour; --sizes 10000 for a quick look
    python benchmarks/scale.py --docs docs/results    # with the page and its plot

A generated tree with names of two or three words of WordNet's nouns, 1,000 seen classes and a network of 1,280
features. Each figure comes from a process of its own, so that peak
memory (all of it, Python and libraries included) is its own. `cpu_seconds`, of all threads together, depends less on
what else the machine is doing than `seconds` do. The last line on standard output is one JSON object. With `--folder`
hierarchies, bundles and what was measured are kept: a run that was interrupted goes on.
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

from hierarchy import random_hierarchy
from unseen.util.devices import peak_memory_mb

SIZES = (10_000, 100_000, 1_000_000)
SEEN, FEATURES = 1000, 1280
EPOCHS = 5  # of DGP; the first one is left out of its time
PHOTOS = 7  # likewise
RESULTS = "results.jsonl"


def write_tree(folder: Path, nodes: int) -> Path:
    """The hierarchy as a CSV file, and the ids of the seen classes."""
    from unseen.hierarchy.core import Hierarchy

    words = np.array(sorted({word for names in Hierarchy.wordnet().lemmas for word in names[0].split()}))
    random = np.random.default_rng(0)
    chosen = words[random.integers(0, len(words), (nodes, 3))]
    many = random.integers(2, 4, nodes)
    hierarchy = random_hierarchy(nodes)
    table, ptr = folder / "classes.csv", hierarchy.parent_ptr.tolist()
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "parent"])
        for row, id in enumerate(hierarchy.ids):
            above = "|".join(hierarchy.ids[up] for up in hierarchy.parent_idx[ptr[row] : ptr[row + 1]])
            writer.writerow([id, " ".join(chosen[row, : many[row]]), above])
    (folder / "seen.txt").write_text("\n".join(sorted(_seen(hierarchy.ids))) + "\n")
    return table


def _seen(ids) -> list[str]:
    """The same 1,000 places whatever the size: the tree's upper part does not change as it grows."""
    return list(np.random.default_rng(1).choice(np.array(ids[: SIZES[0]]), min(SEEN, len(ids) // 2), replace=False))


def check(folder: Path) -> None:
    """`unseen hierarchy check`."""
    from unseen.apps.cli.app import app

    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app(["hierarchy", "check", str(folder / "classes.csv"), "--classes", str(folder / "seen.txt"), "--json"])


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

    import unseen

    ids = (folder / "seen.txt").read_text().split()
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(3, FEATURES),
        torch.nn.Linear(FEATURES, len(ids)),
    )
    return unseen.from_module(network, ids, unseen.PhotoTransform(32))


def kin(folder: Path) -> None:
    """`unseen train --method kin`, from reading the hierarchy to the bundle on disk."""
    import unseen

    run = unseen.Run(device="cpu", show_progress=False)
    unseen.train(
        folder / "classes.csv", seen_network(folder), "kin", "glove", out=folder / "bundle", overwrite=True, run=run
    )


def load(folder: Path) -> None:
    """The bundle of `kin`, all of it verified."""
    import unseen

    unseen.Bundle.load(folder / "bundle")


def photo(folder: Path, ask) -> tuple[float, float]:
    """`ask` a model about one photo after the other."""
    import unseen
    from unseen.model import Model

    model = Model(unseen.Bundle.load(folder / "bundle", verify=False), seen_network(folder), "cpu")
    features = np.abs(np.random.default_rng(0).standard_normal((PHOTOS, FEATURES), dtype=np.float32))
    return repeated([lambda one=one: ask(model, one[None]) for one in features])


def top_5(folder: Path) -> tuple[float, float]:
    """The five best classes of a photo, by score."""
    return photo(folder, lambda model, features: model.scorer().best(model.scorer().scores(features), 5))


def answer(folder: Path) -> tuple[float, float]:
    """The five best classes with probabilities, and the verdict, which need the scores of all classes."""
    return photo(folder, lambda model, features: model.classify_features(features))


def dgp_epoch(folder: Path) -> tuple[float, float]:
    """One epoch of DGP on the receptive field of the seen classes, without the prediction that follows training."""
    import torch

    import unseen
    from unseen.methods import make_method
    from unseen.methods.base import normalise_rows
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


MEASURES = {
    "check": check,
    "kin": kin,
    "load": load,
    "top-5": top_5,
    "answer": answer,
    "DGP epoch": dgp_epoch,
}


def measure(job: tuple[str, str]) -> dict:
    """Run in a fresh process. A measure that tells no times of its own counts as a whole, with what it imports."""
    name, folder = job
    begun, cpu = time.perf_counter(), time.process_time()
    own = MEASURES[name](Path(folder))
    seconds, cpu_seconds = own or (time.perf_counter() - begun, time.process_time() - cpu)
    result = {"seconds": round(seconds, 4), "cpu_seconds": round(cpu_seconds, 4), "peak_mb": peak_memory_mb()}
    return result | {"load": round(os.getloadavg()[0], 1)}


def draw(results: list[dict], path: Path) -> None:
    from unseen_lab.tables.plots import drawing

    with drawing():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for name in dict.fromkeys(result["measure"] for result in results):
            found = [result for result in results if result["measure"] == name]
            for axis, key in zip(axes, ("cpu_seconds", "peak_mb"), strict=True):
                axis.plot([r["nodes"] for r in found], [r[key] for r in found], marker="o", markersize=3, label=name)
        for axis, title in zip(axes, ("CPU seconds", "peak memory, MB"), strict=True):
            axis.set(xscale="log", yscale="log", xlabel="classes", title=title)
        axes[0].legend()
        figure.savefig(path, format="svg", metadata={"Date": None})


def write_page(results: list[dict], path: Path) -> None:
    """The page about growth: the table, and what its rows mean."""
    sizes = sorted({result["nodes"] for result in results})
    lines = [
        "# How it grows",
        "",
        "Time and memory with 10,000 to a million classes: a generated hierarchy, names of two or three of WordNet's",
        "words, the same 1,000 seen classes and a network of 1,280 features at every size.",
        "",
        "![CPU seconds and peak memory against the number of classes](plots/scale.svg)",
        "",
        "| | " + " | ".join(f"{nodes:,} classes" for nodes in sizes) + " |",
        "|---|" + "---|" * len(sizes),
    ]
    for name in dict.fromkeys(result["measure"] for result in results):
        found = {result["nodes"]: result for result in results if result["measure"] == name}
        cells = [_cell(found[nodes]) if nodes in found else "" for nodes in sizes]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    loads = [result["load"] for result in results if result.get("load") is not None]
    lines += [
        "",
        f"CPU seconds of all threads, elapsed seconds and peak memory of the process, on {os.cpu_count()} cores that",
        f"other processes used too: the load was {min(loads):.0f} to {max(loads):.0f}, so elapsed seconds say little.",
        "",
        PAGE_END,
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def _cell(result: dict) -> str:
    cpu, seconds = (
        f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s" if value >= 1 else f"{1000 * value:.0f} ms"
        for value in (result["cpu_seconds"], result["seconds"])
    )
    return f"{cpu} CPU, {seconds}, {result['peak_mb'] / 1000:.1f} GB"


PAGE_END = """\
- **check**: `unseen hierarchy check FILE`.
- **kin**: `unseen train --method kin`, from reading the hierarchy to the bundle on disk. A class matrix of more than
  2 GB goes to disk in half precision as it is made.
- **load**: `Bundle.load`, which verifies the checksum. A class matrix of more than 1 GB is mapped into memory, not
  read: verifying it takes time, but no memory. `verify=False` skips the check.
- **top-5**: the five best classes for the features of one photo.
- **answer**: five labels with probabilities, and the verdict. They need the scores of all classes.
- **DGP epoch**: on the receptive field of the seen classes. Their number is the same, but their ancestors gather from
  everything below them, and dropout draws new nodes each time: so an epoch grows with the hierarchy.

Growing or teaching a bundle holds the whole class matrix in memory: 2.6 GB for a million classes. If a hierarchy is a
long chain by mistake, `unseen hierarchy check` reports it, and training refuses it before its pairs of classes and
ancestors fill the memory.

Made by `python benchmarks/scale.py --docs docs/results`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of classes")
    parser.add_argument("--measures", default=",".join(MEASURES), help=f"some of: {', '.join(MEASURES)}")
    parser.add_argument("--docs", type=Path, help="the folder in which to write scale.md and plots/scale.svg")
    parser.add_argument("--folder", type=Path, help="where to keep hierarchies, bundles and results")
    options = parser.parse_args()
    names = [name.strip() for name in options.measures.split(",")]
    if wrong := set(names) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(sorted(wrong))}; there are: {', '.join(MEASURES)}")
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for nodes in map(int, options.sizes.split(",")):
            measure_size(folder, nodes, names)
        results = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
    order = list(MEASURES)
    results.sort(key=lambda result: (result["nodes"], order.index(result["measure"])))
    if options.docs is not None:
        draw(results, options.docs / "plots" / "scale.svg")
        write_page(results, options.docs / "scale.md")
    print(json.dumps({"scale": results}))


def measure_size(folder: Path, nodes: int, names: list[str]) -> None:
    """Everything that is not yet measured at this size."""
    place, kept = folder / str(nodes), folder / RESULTS
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.touch()
    done = {(result["measure"], result["nodes"]) for result in map(json.loads, kept.read_text().splitlines())}
    if not (place / "seen.txt").exists():
        place.mkdir(parents=True, exist_ok=True)
        write_tree(place, nodes)
    left = [name for name in names if (name, nodes) not in done]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name, found in zip(left, pool.imap(measure, [(n, str(place)) for n in left], chunksize=1), strict=True):
            with kept.open("a") as file:
                file.write(json.dumps({"measure": name, "nodes": nodes, **found}) + "\n")
            print(f"{nodes:>9,}  {name:10}  {_cell(found)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
