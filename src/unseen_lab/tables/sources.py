"""DGP, SGCN and kin with the same sources of class vectors, the same weights of these, and the paper's 3,000 epochs.

RANKS/<network>-<method>-<sources>-s<seed>-e<epochs>.csv.gz   the ranks of one training, see `unseen_lab.tables.ranks`
RANKS/log.jsonl    a line for each training: loss, hop weights and seconds at some epochs
RANKS/groups.csv   the classes of each list by relation to seen ones and commonness: whole lists, those with photos
RANKS.md           the page, a function of these files
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen import Hierarchy, Model, Run, TrainSettings, load_network, load_vectors, train
from unseen.answers import commonness
from unseen.evaluation import evaluate_lists, relations_to_seen
from unseen.methods import normalise_rows
from unseen.networks import open_features
from unseen.util import to_csv, write_atomically
from unseen_lab.data.authors import AUTHORS_LISTS
from unseen_lab.tables.compare import LISTS, NOVEL
from unseen_lab.tables.ranks import write_ranks

HIERARCHY, EPOCHS = "paper", 3000
WEIGHTS = {"glove": 0.5, "text": 1.0, "looks": 4.0}  # kin's own, for all methods
SOURCES = ("glove", "glove+text", "glove+text+looks")
METHODS = (*(GRAPHS := ("dgp", "sgcn")), "kin")
NETWORKS = {"efficientnet-lite0": (0, 1, 2), "resnet50": (0,)}  # -> seeds
TESTED = (*AUTHORS_LISTS, NOVEL)
LOGGED = (100, 300, 1000, 2500, EPOCHS)  # epochs whose loss and hop weights are kept
logger = logging.getLogger("unseen.lab")  # below the logger that the command line shows


class Training(NamedTuple):
    network: str
    method: str
    sources: str
    seed: int = 0

    @property
    def epochs(self) -> int | None:
        return EPOCHS if self.method in GRAPHS else None

    @property
    def name(self) -> str:
        return "-".join([*self[:3], f"s{self.seed}", *([f"e{self.epochs}"] if self.epochs else [])])

    def file(self, ranks: Path) -> Path:
        return ranks / f"{self.name}.csv.gz"


def planned() -> list[Training]:
    """The whole experiment, the most telling first. kin draws no random numbers: it has one seed."""
    trainings = []
    for network, seeds in NETWORKS.items():
        trainings += [Training(network, "kin", sources) for sources in SOURCES]
        trainings += [Training(network, method, sources, seed)
                      for seed in seeds for sources in SOURCES for method in GRAPHS]  # fmt: skip
    return trainings


class Weighted:
    """Sources side by side, each times the root of its weight: likeness is the weighted mean of theirs."""

    def __init__(self, name: str):
        self.sources = load_vectors(name)
        self.weights = [WEIGHTS[source.name] for source in self.sources]
        self.name = "+".join(f"{source.name}*{w:g}" for source, w in zip(self.sources, self.weights, strict=True))
        self.dim = sum(source.dim for source in self.sources)
        digests = "+".join(source.provenance["sha256"] for source in self.sources)
        self.provenance = {"kind": "weighted", "name": self.name, "source": name, "mode": "weighted", "sha256": digests,
                           "dim": self.dim}  # fmt: skip

    def encode(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        parts = [normalise_rows(source.encode(hierarchy)) * np.float32(weight**0.5)
                 for source, weight in zip(self.sources, self.weights, strict=True)]  # fmt: skip
        joined = np.concatenate(parts, axis=1)
        return joined if rows is None else joined[rows]


def run_missing(photos: Path, work: Path, ranks: Path) -> None:
    """Every training without ranks in the folder, one after another; an interrupted one continues."""
    for training in planned():
        if not training.file(ranks).exists():
            logger.info("%s", training)
            measure(training, photos, work, ranks)


def measure(training: Training, photos: Path, work: Path, ranks: Path) -> None:
    weights = [WEIGHTS[name] for name in training.sources.split("+")]
    own: dict[str, Any] = {"epochs": training.epochs} if training.epochs else {"sources": weights}
    joined = training.epochs is not None and len(weights) > 1
    network, out = load_network(training.network), work / "bundles" / training.name
    bundle = train(HIERARCHY, network, training.method, Weighted(training.sources) if joined else training.sources,
                   TrainSettings(precision="fp16"), out=out, run=Run(seed=training.seed, resume=True),
                   **own).bundle  # fmt: skip
    model, store, found = Model(bundle), open_features(photos, lambda: network, cache=work / "features"), {}
    for spec, result in zip(LISTS, evaluate_lists(model.bundle, store, LISTS, confidence=None), strict=True):
        columns = {name: result.table[name].tolist() for name in ("class", "greater", "equal")}
        found[spec] = columns | {"class": [bundle.ids[row] for row in columns["class"]]}
    write_groups(model, set(store.classes()), ranks)
    log = [record for record in bundle.log if record.get("epoch") in LOGGED]
    with open(ranks / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"training": training.name, "log": log}) + "\n")
    row = {"method": training.method, "vectors": training.sources, "network": training.network, "photos": None,
           "epochs": training.epochs, "seconds": bundle.training.seconds, "ranks": found}  # fmt: skip
    write_atomically(training.file(ranks), write_ranks([row]))


def write_groups(model: Model, shown: set[str], ranks: Path) -> None:
    """The group of each class: above, below or sibling of a seen one, or further; rarer or commoner than the list's
    median class."""
    bundle, lines = model.bundle, [["list", "class", "group", "classes"]]
    relation = relations_to_seen(bundle.hierarchy, bundle.seen)
    for spec in TESTED:
        rows = np.asarray(model.candidates("novel&all" if spec == NOVEL else spec))
        common = commonness(bundle.hierarchy, rows)
        halves = np.where(common > np.median(common), "common", "rare")
        groups = {bundle.ids[row]: f"{relation[row]} {half}" for row, half in zip(rows, halves, strict=True)}
        lines += [[spec, "", group, str(count)] for group, count in sorted(Counter(groups.values()).items())]
        lines += [[spec, id, group, ""] for id, group in sorted(groups.items()) if id in shown]
    write_atomically(ranks / "groups.csv", to_csv(lines).encode())
