"""How time and memory grow with the hierarchy: 10,000, 100,000 and a million classes.

    python benchmarks/scale.py                                    # minutes; --sizes 10000 for a quick look
    python benchmarks/scale.py --plot docs/results/plots/scale.svg

A generated tree with names of two or three words of WordNet's nouns, 1,000 seen classes and a network of 1,280
features. Each figure comes from a process of its own, so that peak
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
SEEN, FEATURES = 1000, 1280
EPOCHS = 5  # of DGP; the first one is left out of its time
PHOTOS = 7  # likewise


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


def kin(folder: Path) -> float:
    """`unseen train --method kin`, from reading the hierarchy to the bundle on disk."""
    import unseen

    begun = time.perf_counter()
    run = unseen.Run(device="cpu", show_progress=False)
    unseen.train("kin", folder / "classes.csv", "glove", seen_network(folder), folder / "bundle", run=run)
    return time.perf_counter() - begun


def load(folder: Path) -> float:
    """The bundle of `kin`, all of it verified."""
    import unseen

    begun = time.perf_counter()
    unseen.Bundle.load(folder / "bundle")
    return time.perf_counter() - begun


def photo(folder: Path, ask) -> float:
    """`ask` a recogniser about one photo, again and again: the median."""
    import unseen
    from unseen.recognition import Recogniser

    model = Recogniser(unseen.Bundle.load(folder / "bundle", verify=False), seen_network(folder), "cpu")
    features = np.abs(np.random.default_rng(0).standard_normal((PHOTOS, FEATURES), dtype=np.float32))
    times = []
    for one in features:
        begun = time.perf_counter()
        ask(model, one[None])
        times.append(time.perf_counter() - begun)
    return float(np.median(times[1:]))  # the first one gathers what the others use


def top_5(folder: Path) -> float:
    """The five best classes of a photo, by score."""
    return photo(folder, lambda model, features: model.scorer().top_k(model.points(features), 5))


def answer(folder: Path) -> float:
    """The five best classes with probabilities, and the verdict, which need the scores of all classes."""
    return photo(folder, lambda model, features: model.classify_features(features))


def dgp_epoch(folder: Path) -> float:
    """One epoch of DGP on the receptive field of the seen classes, without the prediction that follows training."""
    import torch

    import unseen
    from unseen.methods.graph.adjacency import receptive_field
    from unseen.methods.graph.training import Training

    network = seen_network(folder)
    taxonomy = unseen.Taxonomy.load(folder / "classes.csv")
    vectors = unseen.class_vectors(taxonomy, unseen.load_vectors("glove")).matrix
    problem_targets = network.classifiers() / np.linalg.norm(network.classifiers(), axis=1, keepdims=True)
    method = unseen.make_method("dgp")
    field = receptive_field(method.adjacencies(taxonomy), taxonomy.indices(network.class_ids))
    print(f"receptive field: {[len(nodes) for nodes in field.nodes]} nodes,", end=" ", file=sys.stderr)
    print(f"{[layer.entries for layer in field.layers]} entries", file=sys.stderr)
    torch.manual_seed(0)
    built = method.build(vectors.shape[1], problem_targets.shape[1])
    training = Training(built, field, vectors[field.inputs], problem_targets.astype(np.float32), method.settings)
    times = []
    for _ in range(EPOCHS):
        begun = time.perf_counter()
        training.step()
        times.append(time.perf_counter() - begun)
    return float(np.median(times[1:]))


MEASURES = {
    "check": check,
    "kin": kin,
    "load": load,
    "top-5": top_5,
    "answer": answer,
    "DGP epoch": dgp_epoch,
}


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
