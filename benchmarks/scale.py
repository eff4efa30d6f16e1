"""How time and memory grow with the hierarchy: 10,000, 100,000 and a million classes.

    python benchmarks/scale.py                                    # minutes; --sizes 10000 for a quick look
    python benchmarks/scale.py --plot docs/results/plots/scale.svg

A generated tree with names of two or three words of WordNet's nouns, 1,000 seen classes and a network of eight
features: what is measured is the hierarchy, not the network. Each figure comes from a process of its own, so that peak
memory (all of it, Python and libraries included) is its own. `cpu_seconds` counts the whole measurement, with imports,
and hardly depends on what else the machine is doing. The last line on standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from taxonomy import random_taxonomy
from unseen.runtime.memory import peak_memory_mb

SIZES = (10_000, 100_000, 1_000_000)
SEEN, FEATURES = 1000, 8
EPOCHS = 12  # of DGP; the first ones are left out of its time


def write_tree(folder: Path, nodes: int) -> Path:
    """The hierarchy as a CSV file, and the ids of the seen classes."""
    from unseen.taxonomy import Taxonomy

    words = np.array(sorted({word for names in Taxonomy.wordnet().lemmas for word in names[0].split()}))
    random = np.random.default_rng(0)
    chosen = words[random.integers(0, len(words), (nodes, 3))]
    many = random.integers(2, 4, nodes)
    taxonomy = random_taxonomy(nodes)
    table, ptr = folder / "classes.csv", taxonomy.parent_ptr.tolist()
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "parent"])
        for row, id in enumerate(taxonomy.ids):
            above = "|".join(taxonomy.ids[up] for up in taxonomy.parent_idx[ptr[row] : ptr[row + 1]])
            writer.writerow([id, " ".join(chosen[row, : many[row]]), above])
    (folder / "seen.txt").write_text("\n".join(sorted(_seen(taxonomy.ids))) + "\n")
    return table


def _seen(ids) -> list[str]:
    """The same 1,000 places whatever the size: the tree's upper part does not change as it grows."""
    return list(np.random.default_rng(1).choice(np.array(ids[: SIZES[0]]), min(SEEN, len(ids) // 2), replace=False))


def check(folder: Path) -> float:
    """`unseen taxonomy check`."""
    from unseen.cli.app import app

    begun = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app(["taxonomy", "check", str(folder / "classes.csv"), "--classes", str(folder / "seen.txt"), "--json"])
    return time.perf_counter() - begun


def train_on(folder: Path, method: str, **settings):
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
    backbone = unseen.from_module(network, ids, unseen.PhotoTransform(32))
    run = unseen.Run(device="cpu", show_progress=False, checkpoint_every=10_000)
    return unseen.train(method, folder / "classes.csv", "glove", backbone, run=run, **settings)


def kin(folder: Path) -> float:
    """`unseen train --method kin`, with reading the hierarchy."""
    begun = time.perf_counter()
    train_on(folder, "kin")
    return time.perf_counter() - begun


def dgp_epoch(folder: Path) -> float:
    """One epoch of DGP: the mean of those after the first."""
    bundle = train_on(folder, "dgp", epochs=EPOCHS, hidden=64)
    times = [1 / record["epochs_per_second"] for record in bundle.log if record.get("epochs_per_second")]
    return float(np.median(times[1:] or times))


def top_5(folder: Path) -> float:
    """The five best classes for one photo, once the class matrix is loaded."""
    from unseen.scoring.scorer import Scorer

    nodes = sum(1 for _ in (folder / "classes.csv").open()) - 1
    random = np.random.default_rng(0)
    scorer = Scorer(random.standard_normal((nodes, FEATURES + 1), dtype=np.float32))
    photos = random.standard_normal((6, FEATURES + 1), dtype=np.float32)
    times = []
    for photo in photos:
        begun = time.perf_counter()
        scorer.top_k(photo[None], 5)
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


MEASURES = {"check": check, "kin": kin, "top-5 of a photo": top_5, "DGP epoch": dgp_epoch}


def measure(job: tuple[str, str]) -> dict:
    """Run in a fresh process."""
    name, folder = job
    begun = time.process_time()
    seconds = MEASURES[name](Path(folder))
    cpu = time.process_time() - begun
    return {"seconds": round(seconds, 4), "cpu_seconds": round(cpu, 2), "peak_mb": peak_memory_mb()}


def draw(results: list[dict], path: Path) -> None:
    from unseen.reproduction.plots import drawing

    with drawing():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for name in dict.fromkeys(result["measure"] for result in results):
            found = [result for result in results if result["measure"] == name]
            for axis, key in zip(axes, ("seconds", "peak_mb"), strict=True):
                axis.plot([r["nodes"] for r in found], [r[key] for r in found], marker="o", markersize=3, label=name)
        for axis, title in zip(axes, ("seconds", "peak memory, MB"), strict=True):
            axis.set(xscale="log", yscale="log", xlabel="classes", title=title)
        axes[0].legend()
        figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of classes")
    parser.add_argument("--measures", default=",".join(MEASURES), help=f"some of: {', '.join(MEASURES)}")
    parser.add_argument("--plot", type=Path, help="an SVG to write")
    options = parser.parse_args()
    names = [name.strip() for name in options.measures.split(",")]
    if wrong := set(names) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(sorted(wrong))}; there are: {', '.join(MEASURES)}")
    results = []
    for nodes in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            write_tree(Path(folder), nodes)
            with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
                for name, found in zip(
                    names, pool.imap(measure, [(n, folder) for n in names], chunksize=1), strict=True
                ):
                    results.append({"measure": name, "nodes": nodes, **found})
                    print(
                        f"{nodes:>9,}  {name:16}  {found['seconds']:9.4f} s  {found['peak_mb']:7,.0f} MB",
                        file=sys.stderr,
                    )
    if options.plot is not None:
        draw(results, options.plot)
    print(json.dumps({"scale": results}))


if __name__ == "__main__":
    main()
