"""AWA2's attributes as class vectors, from its folder as it is distributed.

Animals_with_Attributes2/
  JPEGImages/blue+whale/blue+whale_10001.jpg ...     50 classes
  classes.txt                                        "5 blue+whale": number and name
  predicate-matrix-continuous.txt                    50 rows of 85 numbers, in the order of classes.txt
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unseen import Hierarchy, UnseenError
from unseen.networks import photos_folder
from unseen_lab.data.awa2 import AWA2_CLASSES, AWA2_TEST

FILE = "predicate-matrix-continuous.txt"


def find_awa2(folder: str | Path) -> Path:
    """The folder of AWA2's photos in what a user names, or an error."""
    photos = photos_folder(folder)
    if not any((photos / name).is_dir() for name in AWA2_TEST):
        lack = "there is no folder of a test class, such as JPEGImages/blue+whale"
        raise UnseenError(f"{folder}: is not AWA2 as it is distributed: {lack}")
    return photos


class Attributes:
    """The 85 attributes as vectors of AWA2's 50 classes; those of all other classes are 0."""

    name = "attributes"

    def __init__(self, folder: Path):
        try:
            lines = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
            matrix = np.loadtxt(folder / FILE, dtype=np.float32, ndmin=2)
        except (OSError, ValueError) as error:
            raise UnseenError(f"{folder}: AWA2's attributes cannot be read ({error})") from None
        names = [line.split()[-1] for line in lines if line.strip()]
        if len(names) != len(matrix) or not set(names) <= AWA2_CLASSES.keys():
            raise UnseenError(
                f"{folder}: classes.txt names {len(names)} classes, {FILE} has {len(matrix)} rows: "
                "one row is expected for each of AWA2's classes"
            )
        known = np.maximum(matrix, 0)  # AWA2 writes -1 where nobody was asked
        self._vectors = {AWA2_CLASSES[name]: row for name, row in zip(names, known, strict=True)}
        self.dim = matrix.shape[1]
        checksum = hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
        self.provenance = {
            "kind": "attributes", "name": self.name, "source": FILE, "sha256": checksum, "mode": "by id",
            "dim": self.dim,
        }  # fmt: skip

    def encode(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        ids = hierarchy.ids if rows is None else [hierarchy.ids[int(row)] for row in rows]
        nothing = np.zeros(self.dim, np.float32)
        return np.stack([self._vectors.get(id, nothing) for id in ids])
