"""Features that stay on disk: what reads like a matrix, of which only the rows that are asked for are in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from unseen.errors import UnseenError
from unseen.features.blocks import REBUILD

TYPES = {"F16": np.dtype("<f2"), "F32": np.dtype("<f4")}
DENSE = 4  # rows are read together if they lie within so many times their number


class StoredRows:
    """The rows of some blocks of a feature store (n x D, float32), in the order of the blocks.

    Args:
        blocks: Files and their numbers of rows. They have been read before, and were whole.
        width: D.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, blocks: Sequence[tuple[Path, int]], width: int):
        self._files = [path for path, _ in blocks]
        self._places = [_find(path) for path in self._files]
        self._first = np.concatenate([[0], np.cumsum([rows for _, rows in blocks], dtype=np.int64)])
        self._kept = np.arange(self._first[-1])
        self.shape = (len(self._kept), width)

    def __len__(self) -> int:
        return self.shape[0]

    def only(self, wanted: Any) -> StoredRows:
        """With some of the rows alone; nothing is read."""
        part = copy(self)
        part._kept = self._kept[wanted]
        part.shape = (len(part._kept), self.shape[1])
        return part

    def __getitem__(self, wanted: Any) -> np.ndarray:
        """The rows of a slice, of a list of numbers, or where a mask is set."""
        rows = self._kept[wanted]
        found = np.empty((len(rows), self.shape[1]), np.float32)
        order = np.argsort(rows, kind="stable")
        of_block = np.searchsorted(self._first, rows[order], side="right") - 1
        for places in np.split(order, np.flatnonzero(np.diff(of_block)) + 1) if len(order) else ():
            block = int(np.searchsorted(self._first, rows[places[0]], side="right")) - 1
            found[places] = self._read(block, rows[places] - self._first[block])
        return found

    def __array__(self, dtype: Any = None, **_: Any) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def _read(self, block: int, rows: np.ndarray) -> np.ndarray:
        """Ascending rows of one block."""
        (start, kind), width = self._places[block], self.shape[1]
        size = width * kind.itemsize
        low, high = int(rows[0]), int(rows[-1]) + 1
        together = high - low <= DENSE * len(rows)
        parts = [(low, high - low)] if together else [(int(row), 1) for row in rows]
        with open(self._files[block], "rb", buffering=0) as file:
            found = []
            for row, count in parts:
                file.seek(start + row * size)
                found.append(file.read(count * size))
        held = b"".join(found)
        if len(held) != sum(count for _, count in parts) * size:
            raise UnseenError(f"{self._files[block]}: has changed while it was read. {REBUILD}")
        matrix = np.frombuffer(held, kind).reshape(-1, width)
        return matrix[rows - low] if together else matrix


def _find(path: Path) -> tuple[int, np.dtype]:
    """Where the features begin in a block's file, and their type."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        about = json.loads(file.read(length))["features"]
    return 8 + length + about["data_offsets"][0], TYPES[about["dtype"]]
