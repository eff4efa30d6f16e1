"""How much of the network's own speed stage 2 keeps: photos a second of the whole loop over those of the bare step.

    python benchmarks/finetune.py --json

The loop reads JPEG files of ImageNet's usual size, crops and mirrors them, trains, logs and writes checkpoints. The
bare step is forward, backward and SGD of the same network on one batch that is in memory already. They are timed in
turns and the best round of each counts, as other work on the machine can only slow them down.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

from figures import main
from unseen import Bundle, FinetuneSettings, Hierarchy, Network, Run, Solution, load_network
from unseen.bundle import NetworkInfo
from unseen.methods import Append1
from unseen.networks import Processes
from unseen.training.photos_data import PhotoSet, open_photo_set
from unseen.training.stage2 import SeenHead, Stage2
from unseen.vectors import ClassVectors
from unseen.vectors.class_vectors import Coverage

LEARNING_RATE, MOMENTUM = 1e-4, 0.9


def run(batch: int = 32, steps: int = 8, rounds: int = 3, workers: int = 2) -> dict[str, Any]:
    """Photos a second of both, with the built-in network on the CPU."""
    with tempfile.TemporaryDirectory() as folder, Processes("cpu") as processes:
        network = load_network()
        bundle = _bundle(network)
        make_photos(Path(folder) / "photos", network.class_ids[:8], batch * steps)
        photos = open_photo_set(Path(folder) / "photos", bundle.seen_ids)
        bare, best = _BareStep(bundle, load_network(), batch), {"bare": float("inf"), "loop": float("inf")}
        for _ in range(rounds):
            best["bare"] = min(best["bare"], bare.seconds(steps))
            best["loop"] = min(best["loop"], _loop(bundle, network, photos, batch, workers, processes, folder))
    rates = {name: batch * steps / seconds for name, seconds in best.items()}
    return {
        "loop_photos_per_s": round(rates["loop"], 2),
        "bare_photos_per_s": round(rates["bare"], 2),
        "ratio": round(rates["loop"] / rates["bare"], 3),
        "batch": batch,
        "workers": workers,
        "threads": torch.get_num_threads(),
    }


def _loop(bundle, network, photos: PhotoSet, batch: int, workers: int, processes: Processes, folder: str) -> float:
    """Seconds of an epoch from the start of the workers to the checkpoint at its end."""
    settings = FinetuneSettings(epochs=1, batch=batch, learning_rate=LEARNING_RATE, momentum=MOMENTUM)
    run = Run(folder=Path(folder) / "out", show_progress=False, workers=workers)
    stage = Stage2(bundle, network, photos, settings, run, processes)
    started = time.perf_counter()
    stage.train()
    return time.perf_counter() - started


class _BareStep:
    """Forward, backward, SGD."""

    def __init__(self, bundle: Bundle, network: Network, batch: int):
        network.train()
        network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        network.get_classifier().requires_grad_(False)
        self.head = SeenHead(network, bundle.solution.classifiers[bundle.seen])
        trained = [parameter for parameter in self.head.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.SGD(trained, LEARNING_RATE, MOMENTUM)
        size, classes = network.transform.size, len(network.class_ids)
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.randn(batch, 3, size, size, generator=generator).to(memory_format=torch.channels_last)
        self.labels = torch.randint(classes, (batch,), generator=generator)
        self.step()  # the first one is slower: memory is asked for

    def step(self) -> None:
        F.cross_entropy(self.head(self.pixels), self.labels).backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def seconds(self, steps: int) -> float:
        started = time.perf_counter()
        for _ in range(steps):
            self.step()
        return time.perf_counter() - started


def make_photos(folder: Path, ids: tuple[str, ...], count: int) -> None:
    """JPEG files of 500 x 375 pixels and about 100 kB, as ImageNet's are: smooth shapes with some noise on them."""
    rng = np.random.default_rng(0)
    for number in range(count):
        shapes = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize(
            (500, 375), Image.Resampling.BICUBIC
        )
        pixels = np.asarray(shapes, np.float32) + rng.normal(0, 18, (375, 500, 1)).astype(np.float32)
        place = folder / ids[number % len(ids)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{number:05d}.jpg", quality=90)


def _bundle(network: Network) -> Bundle:
    """The network's own classifiers in place of predicted ones: speed does not depend on them."""
    ids = list(network.class_ids)
    hierarchy = Hierarchy(ids, [(id,) for id in ids], [[] for _ in ids])
    known = network.classifiers()
    info = NetworkInfo(network.name, network.checksum, network.num_features, ids)
    vectors = ClassVectors((), (), [], Coverage(len(ids), ids, {}))
    return Bundle(hierarchy, np.arange(len(ids)), known, vectors, Solution(known, Append1()), "dgp", {}, info)


if __name__ == "__main__":
    main(run, __doc__)
