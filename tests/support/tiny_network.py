"""A network of two thousand weights and photos of coloured noise: stage 2 in milliseconds a step.

`support.tiny_network:build` names it on the command line.
"""

from __future__ import annotations

import io
import tarfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from support.problems import SEEN, make_hierarchy, make_vectors
from unseen.bundle import Bundle, NetworkInfo
from unseen.methods import Solution
from unseen.methods.base import normalise_rows
from unseen.methods.projections import Append1
from unseen.networks.base import Network
from unseen.networks.custom import from_module
from unseen.photos.transforms import PhotoTransform

SIZE, FEATURES = 24, 16


def _convolution(channels_in: int, channels_out: int) -> nn.Sequential:
    convolution = nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.ReLU())


class TinyNetwork(nn.Module):
    """Convolutions with batch-norm, pooled, and a linear layer."""

    def __init__(self, pause: float = 0.0):
        super().__init__()
        self.pause = pause
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(_convolution(8, FEATURES), _convolution(FEATURES, FEATURES))
        self.last = nn.Linear(FEATURES, len(SEEN))

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(self.pause)
        return self.last(self.blocks(self.norm(self.stem(x))).mean((2, 3)))


def build(name: str = "support.tiny_network:build", pause: float = 0.0) -> Network:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = TinyNetwork(pause)
    return from_module(network, SEEN, PhotoTransform(SIZE), name=name)


def build_slow() -> Network:
    """The same, slow enough to be interrupted."""
    return build("support.tiny_network:build_slow", pause=0.05)


def make_bundle(network: Network | None = None, method: str = "dgp") -> Bundle:
    """Made-up classifiers for twelve classes, five of them seen."""
    network = network or build()
    hierarchy, rng = make_hierarchy(), np.random.default_rng(0)
    classifiers = 4 * normalise_rows(rng.standard_normal((len(hierarchy), FEATURES + 1)))
    return Bundle(
        hierarchy=hierarchy,
        seen=hierarchy.indices(SEEN),
        known=network.classifiers(),
        vectors=make_vectors(rng.standard_normal((len(hierarchy), 6))),
        solution=Solution(classifiers.astype(np.float32), Append1()),
        method=method,
        settings={},
        network=NetworkInfo(network.name, network.checksum, network.num_features, list(network.class_ids)),
    )


def make_photos(folder: Path, a_class: int = 8) -> Path:
    """Photos of the seen classes, each class with a colour of its own."""
    for label, id in enumerate(SEEN):
        (folder / id).mkdir(parents=True)
        for number in range(a_class):
            rng = np.random.default_rng([label, number])
            colour = np.array([40, 120, 200])[[label % 3, label // 2 % 3, (label + 1) // 2 % 3]]
            pixels = np.clip(colour + rng.normal(0, 40, (30 + number, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / id / f"{number:02d}.png")
    return folder


def make_shards(folder: Path, photos: Path, shards: int = 2, numbers: bool = False) -> Path:
    """The photos of a folder in webdataset's layout, in the same order; classes by id, or by number."""
    folder.mkdir(parents=True)
    files = sorted(photos.glob("*/*"))
    for shard, chosen in enumerate(np.array_split(np.arange(len(files)), shards)):
        with tarfile.open(folder / f"{shard:04d}.tar", "w") as tar:
            for i in chosen:
                id = files[i].parent.name
                told = str(SEEN.index(id)) if numbers else id
                for ending, content in ((files[i].suffix, files[i].read_bytes()), (".cls", told.encode())):
                    member = tarfile.TarInfo(f"./part/{i:05d}{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    return folder
