"""What data there is to reproduce the paper with, and how long the trainings may be on it.

    paper     ImageNet on disk, timm's ResNet-50, GloVe 300-d, the paper's 3000 + 20 epochs
    photos    any folder of photos by class id, the built-in network and vectors
    embedded  no photos: how well the classifiers of hidden seen classes are found

Figures of different levels never stand in one column.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unseen.assets import find_asset
from unseen.errors import UnseenError
from unseen.evaluation.awa2 import ATTRIBUTES, find_awa2

FOLDERS = ("unseen", "seen_train", "seen_val", "awa2")
# The authors look words up as they are written, with capitals: for 187 of the 1,000 seen classes that is another vector
# than in lower case, which finds more and is the default elsewhere.
PAPER_VECTORS, PAPER_NETWORK = "glove.6B.zip#glove.6B.300d.txt@authors", "timm/resnet50.tv_in1k"


@dataclass(frozen=True)
class Lengths:
    """How long everything is trained. An epoch of GCNZ, which sees nearly the whole graph, costs some 25 of SGCN's.

    Studies are the tables that compare variants of a graph network: layers, seeds, attention, two phases.
    """

    epochs: int  # of stage 1
    gcnz_epochs: int
    finetune_epochs: int
    study_epochs: int  # of stage 1, in a study
    finetune_batch: int = 64
    finetune_rate: float | None = 1e-4  # None: chosen for the network
    finetune_scale: float = 1.0
    finetune_freeze: int = 0  # stages of the network that stay as they are; -1: all but the last one
    finetune_studies: bool = True  # or their rows are compared after stage 1


# A few thousand photos are some hundred steps, not the paper's 400,000: too few to teach the whole network, enough for
# its last stage. Chosen on a part of the seen photos, by benchmarks/finetune_effect.py; the rate for each network.
FEW_PHOTOS: dict[str, Any] = {"finetune_epochs": 3, "finetune_batch": 16, "finetune_rate": None, "finetune_scale": 3.0,
                              "finetune_freeze": -1, "finetune_studies": False}  # fmt: skip
LENGTHS = {
    "paper": Lengths(3000, 3000, 20, study_epochs=3000),
    "photos": Lengths(3000, 100, study_epochs=300, **FEW_PHOTOS),
    "embedded": Lengths(300, 100, 0, study_epochs=300),
    "quick": replace(Lengths(10, 2, study_epochs=10, **FEW_PHOTOS), finetune_rate=1e-3),
}
QUICK_PHOTOS = 48  # of each folder


@dataclass(frozen=True)
class Level:
    """What data there is, and what it stands for."""

    name: str  # paper, photos or embedded
    graph: str
    vectors: str
    backbone: str
    unseen: Path | None = None
    seen_train: Path | None = None
    seen_val: Path | None = None
    has_lists: bool = True
    weights: Path | None = None  # of the network, instead of the published ones
    sampled: int | None = None  # photos of each folder in a quick run, None otherwise
    awa2: Path | None = None  # AWA2's photos, in folders such as blue+whale
    attributes: Path | None = None  # the folder of its attributes

    def candidates(self, spec: str) -> str:
        """The authors' list, or what comes nearest to it without their files.

        Their 2-hops are the neighbours of seen classes in the hierarchy (1,548 of 1,549 lie at distance 1), and 5,977
        of their 7,860 3-hops lie within distance 2: they count the class itself as the first hop.
        """
        if self.has_lists:
            return spec
        plain, plus, _ = spec.partition("+")
        near = {"2-hops": "hops:1", "3-hops": "hops:2", "all": "unseen"}.get(plain, plain)
        return f"{near}+1K" if plus else near

    def with_parts(self, **parts: str | Path | None) -> Level:
        """With another hierarchy, network, weights or vectors, where they are given."""
        return replace(self, **{key: value for key, value in parts.items() if value is not None})

    def sample(self, place: Path, photos: int = QUICK_PHOTOS) -> Level:
        """With a few photos of each folder only: links to them in `place`, apart from those to other folders."""
        folders = {key: getattr(self, key) for key in FOLDERS if getattr(self, key) is not None}
        links = {key: link_some(folder, place / _mark(folder) / key, photos) for key, folder in folders.items()}
        return replace(self, **links, sampled=photos)

    @property
    def usual_parts(self) -> dict[str, str]:
        """The hierarchy, vectors and network that this level has unless others are asked for."""
        if self.name == "paper":
            return {"graph": "paper", "vectors": PAPER_VECTORS, "backbone": PAPER_NETWORK}
        return {
            "graph": "paper" if self.has_lists else "imagenet", "vectors": "glove", "backbone": "efficientnet-lite0"
        }  # fmt: skip


def find_level(
    photos: Path | None = None,
    imagenet_21k: Path | None = None,
    imagenet_1k: Path | None = None,
    awa2: Path | None = None,
) -> Level:
    """The best level that the data allow. A folder of photos has unseen/, and perhaps seen-train/ and seen-val/.

    `awa2` is AWA2's folder as it is distributed, for the table on it.
    """
    level = _find(photos, imagenet_21k, imagenet_1k, awa2 is not None)
    if awa2 is None:
        return level
    attributes = awa2.resolve() if (awa2 / ATTRIBUTES).is_file() else None
    return replace(level, awa2=find_awa2(awa2).resolve(), attributes=attributes)


def _find(photos: Path | None, imagenet_21k: Path | None, imagenet_1k: Path | None, has_awa2: bool) -> Level:
    lists = find_asset("imagenet-testsets.json") is not None and find_asset("imagenet-split.json") is not None
    if (imagenet_21k is None) != (imagenet_1k is None):
        raise UnseenError(
            "the paper's level needs both imagenet_21k (unseen classes) and imagenet_1k (seen ones)",
            "imagenet_21k",
            "imagenet_1k",
        )
    if imagenet_21k is not None and imagenet_1k is not None:
        folders = (imagenet_21k, imagenet_1k / "train", imagenet_1k / "val")
        for folder in folders:
            if not folder.is_dir():
                raise UnseenError(f"{folder}: there is no such folder; ImageNet-1k is expected with train/ and val/")
        return _level("paper", True, *folders)
    if photos is not None:
        if not (photos / "unseen").is_dir():
            raise UnseenError(f"{photos}: has no folder unseen/ with photos of unseen classes by id")
        train, val = (photos / name if (photos / name).is_dir() else None for name in ("seen-train", "seen-val"))
        return _level("photos", lists, photos / "unseen", train, val)
    return _level("photos" if has_awa2 else "embedded", lists)


def _level(name: str, has_lists: bool, *folders: Path | None) -> Level:
    """With its usual parts, and folders by their full names: however they are given, the trainings are the same."""
    whole = [None if folder is None else folder.resolve() for folder in folders]
    level = Level(name, "", "", "", *whole, has_lists=has_lists)
    return replace(level, **level.usual_parts)


def _mark(folder: Path) -> str:
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]


def link_some(folder: Path, place: Path, count: int, seed: int = 0) -> Path:
    """`place`/<class id>/ with symbolic links to some `count` photos, of as many random classes as there are.

    Only the folders of these classes are listed: ImageNet-21K has 14 million photos.
    """
    from unseen.photos import list_classes, photos_in

    random = np.random.default_rng(seed)
    ids = random.permutation(list_classes(folder))[:count]
    each = -(-count // len(ids))
    chosen = [folder / id / name for id in ids for name in random.permutation(photos_in(folder / id))[:each]]
    for photo in chosen[:count]:
        link = place / photo.parent.name / photo.name
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # from an earlier run, or another process
            os.symlink(photo.resolve(), link)
    return place
