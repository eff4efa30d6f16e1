"""A reproduction on twelve classes, five of them seen, that trains for two epochs."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from support.problems import PARENTS, SEEN
from unseen_lab.tables.levels import Lengths, Level, find_level
from unseen_lab.tables.run import Reproduction
from unseen_lab.tables.trainings import Trainings

TINY = Lengths(epochs=2, gcnz_epochs=1, finetune_epochs=1, study_epochs=2, finetune_batch=4)
LISTS = {
    "2-hops": ["cat", "poodle", "saw", "pet"],
    "3-hops": ["cat", "poodle", "saw", "pet", "tool"],
    "all": ["cat", "poodle", "saw", "pet", "tool", "thing"],
    "awa2-test": ["cat", "saw"],
}


def write_photos(folder: Path, ids, each: int = 2) -> Path:
    for number, id in enumerate(ids):
        (folder / id).mkdir(parents=True)
        for i in range(each):
            pixels = np.random.default_rng([number, i]).integers(0, 256, (28, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / id / f"{i}.png")
    return folder


def write_level(folder: Path) -> Level:
    """The photos level on twelve classes, five of them seen."""
    with open(folder / "classes.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "parents"])
        writer.writerows([id, id, "|".join(parents)] for id, parents in PARENTS.items())
    write_photos(folder / "unseen", LISTS["2-hops"])
    write_photos(folder / "seen-train", SEEN)
    write_photos(folder / "seen-val", SEEN, 1)
    level = find_level(folder)
    return replace(level, hierarchy=str(folder / "classes.csv"), network="support.tiny_network:build", has_lists=True)


def small_trainings(folder: Path, level: Level, lengths: Lengths = TINY, only_done: bool = False) -> Trainings:
    return Trainings(folder, level, lengths, kin_vectors="glove", workers=0, show_progress=False, only_done=only_done)


def small_reproduction(folder: Path, level: Level, lengths: Lengths = TINY, only_done: bool = False) -> Reproduction:
    return Reproduction(small_trainings(folder, level, lengths, only_done))
