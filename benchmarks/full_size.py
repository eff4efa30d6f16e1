"""How time and memory grow with the photos: stand-ins for the features of 10,000, 100,000 and a million of them.

    python benchmarks/full_size.py                                # --sizes 10000 for a quick look
    python benchmarks/full_size.py --markdown docs/results/full-size.md

Made-up features lie about a centre for each class, in a feature store as `unseen features` writes it: half precision,
1,280 features a photo, blocks of 1,024, checksums. Measured are reading them, one pass of `Model.evaluate`, and each
method that learns from photos with settings given, so that nothing is chosen: a choice repeats the same passes. Each
figure comes from a process of its own, so that peak memory (all of it, Python and libraries included) is its own;
seconds are those of the processor, of all threads, and hardly depend on what else the machine is doing. The last line
on standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pages import kept_words
from unseen import FeatureStore, Run
from unseen.methods import make_method
from unseen.networks.store import KIND, describe_network
from unseen.training.stage1 import fit_classifiers
from unseen.util.devices import peak_memory_mb
from unseen.util.table import Row, open_table
from unseen.vectors.class_vectors import class_vectors

SIZES = (10_000, 100_000, 1_000_000)
FEATURES, SEEN, CANDIDATES = 1280, 100, 1548  # as EfficientNet-Lite0 has, and as many candidates as 2-hops
GIVEN = {
    "eszsl": {"gamma": 1.0, "ridge": 1.0},
    "exem": {"width": 1.0, "ridge": 1.0},
    "sync": {"regulariser": 1e-4, "sigma": 0.3, "iterations": 1},
    "devise": {"margin": 0.1, "epochs": 1},
    "gaussian-ort": {"sigma": 0.8, "steps": 50},
    "se-gzsl": {"shrinkage": 10.0, "steps": 50},
}
MEASURES = ("read", "evaluate", *GIVEN)


def make_network():
    """As many features and seen classes as wanted; it is never shown a photo."""
    import torch

    import unseen

    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, FEATURES), torch.nn.Linear(FEATURES, SEEN)
    )
    return unseen.from_module(layers, _ids()[:SEEN], unseen.PhotoTransform(32))


def _ids() -> list[str]:
    """The classes: those of the photos first."""
    from unseen.data import imagenet_1k, imagenet_21k

    known = imagenet_1k()
    rest = [id for id in imagenet_21k() if id not in set(known)]
    return [*known[:SEEN], *rest[: CANDIDATES - SEEN]]


def write_store(place: Path, photos: int) -> None:
    """Photos of the seen classes, as many of each."""
    random, classes = np.random.default_rng(0), {}
    with open_table(place, KIND, str(place)) as table:
        table.start({"network": describe_network(make_network()), "precision": "fp16"})
        for number, id in enumerate(_ids()[:SEEN]):
            own = photos * (number + 1) // SEEN - photos * number // SEEN
            centre = random.standard_normal(FEATURES, np.float32)
            for photo in range(own):
                features = (centre + random.standard_normal(FEATURES, np.float32)).astype(np.float16)
                classes[f"{id}/{photo:08d}.jpg"] = id
                table.add(Row(f"{id}/{photo:08d}.jpg", "1-1", id, vector=features))
        table.flush()
        table.finish(classes, {"classes": _ids()[:SEEN]})


def read(store: FeatureStore) -> None:
    """All features, with their checksums."""
    assert sum(len(features) for features, _, _ in store.batches()) == len(store)


def evaluate(store: FeatureStore) -> None:
    """A pass over all photos, among 1,548 candidates."""
    import unseen

    network = make_network()
    hierarchy = unseen.Hierarchy.imagenet().subgraph(_ids())
    bundle = unseen.train(hierarchy, network, "structural", "glove", run=Run(device="cpu", show_progress=False)).bundle
    found = unseen.load(bundle, network, device="cpu").evaluate(store, _ids(), confidence=None)
    assert found.images == len(store)


def learn(store: FeatureStore, method: str) -> None:
    """Training a method on all photos."""
    import unseen

    hierarchy = unseen.Hierarchy.imagenet().subgraph(_ids())
    vectors = class_vectors(hierarchy, unseen.load_vectors("glove"))
    features = store.seen_matrix(_ids()[:SEEN])
    chosen = make_method(method, GIVEN[method])
    run = Run(device="cpu", show_progress=False)
    fit_classifiers(hierarchy, vectors, make_network(), chosen, features=features, run=run)


def measure(job: tuple[str, str]) -> dict:
    """Run in a fresh process. The processor's time is what the photos take: without imports."""
    name, place = job
    import torch  # noqa: F401

    import unseen.training.stage1  # noqa: F401

    store = FeatureStore.open(place)
    begun, processor = time.perf_counter(), time.process_time()
    if name in GIVEN:
        learn(store, name)
    else:
        {"read": read, "evaluate": evaluate}[name](store)
    seconds = {"seconds": round(time.perf_counter() - begun, 1), "cpu_seconds": time.process_time() - processor}
    return seconds | {"cpu_seconds": round(seconds["cpu_seconds"], 4), "peak_mb": peak_memory_mb()}


def run_all(work: Path, sizes: list[int]) -> list[dict]:
    results = []
    for photos in sizes:
        place = work / f"store-{photos}"
        write_store(place, photos)
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            for name, found in zip(MEASURES, pool.imap(measure, [(n, str(place)) for n in MEASURES], 1), strict=True):
                results.append({"measure": name, "photos": photos, **found})
                line = f"{photos:>9,}  {name:13}{found['cpu_seconds']:9.1f} s  {found['peak_mb']:6,.0f} MB"
                print(line, file=sys.stderr, flush=True)
        shutil.rmtree(place)
    return results


def page(results: list[dict]) -> str:
    """The figures as a Markdown page."""
    sizes = sorted({result["photos"] for result in results})
    by = {(result["measure"], result["photos"]): result for result in results}
    header = ["measure", *(f"s, {size:,}" for size in sizes), "ms a photo more", *(f"MB, {size:,}" for size in sizes)]
    lines = [header, [":---", *["---:"] * (len(header) - 1)]]
    for name in dict.fromkeys(result["measure"] for result in results):
        own = [by[name, size] for size in sizes]
        lines.append([name, *(f"{found['cpu_seconds']:,.1f}" for found in own), f"{_slope(own):.3f}",
                      *(f"{found['peak_mb']:,.0f}" for found in own)])  # fmt: skip
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"""# Time and memory at full size

Made-up features of up to {sizes[-1]:,} photos, {FEATURES:,} each in half precision, in a feature store as `unseen
features` writes it, of {SEEN} seen classes. `read` reads them and checks their checksums, `evaluate` also ranks every
photo among {CANDIDATES:,} candidates, each method learns from all of them with fixed settings.

Seconds are CPU seconds of all threads; they include the hierarchy and the class vectors, which take the same time for
any number of photos. *ms a photo more* is the cost of each further photo, between the two largest sizes. MB is the peak
memory of the process, Python and libraries included.

{table}

Made by `python benchmarks/full_size.py --markdown docs/results/full-size.md`.
"""


def _slope(own: list[dict]) -> float:
    """Milliseconds that a further photo takes, between the two largest sizes."""
    before, after = own[-2:]
    return 1000 * (after["cpu_seconds"] - before["cpu_seconds"]) / (after["photos"] - before["photos"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of photos")
    parser.add_argument("--markdown", type=Path, help="a page to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        results = run_all(Path(work), [int(size) for size in options.sizes.split(",")])
    if options.markdown is not None:
        options.markdown.write_text(page(results) + kept_words(options.markdown), encoding="utf-8")
    print(json.dumps({"full_size": results}))


if __name__ == "__main__":
    main()
