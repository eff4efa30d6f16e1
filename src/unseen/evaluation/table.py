"""The table of an evaluation: a row for each photo, of which every figure is a function.

    class                  the photo's class, a row of the hierarchy
    greater, equal         candidates that score higher than it, and others that score the same
    own_greater, own_equal the same among its own group: the seen or the unseen candidates
    margin                 best seen score - best unseen score
    verdict, probability   the node at the confidence asked for, -1 for "unknown"; these and the rest with verdicts only
    best                   the first five labels, -1 where there are fewer candidates
    curve, stated          the verdict at each confidence of SWEEP, and its probability
    nodes, true, mass      by bins of probability: nodes that say something, those that are true, their probabilities

Classes and nodes are rows of the hierarchy.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError
from unseen.util.files import write_atomically
from unseen.util.safe_text import to_csv

FIRST = 5  # labels
BINS = 10  # of the reliability diagram
SWEEP = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995,
         0.999)  # fmt: skip
"""The confidences of the curve."""
NEVER = 2**31 - 1  # `greater` where the model has no answer for the photo's class
RANKS = [("class", np.int32), ("greater", np.int32), ("equal", np.int32), ("own_greater", np.int32),
         ("own_equal", np.int32), ("margin", np.float32)]  # fmt: skip
VERDICTS = [("verdict", np.int32), ("probability", np.float32), ("best", np.int32, (FIRST,)),
            ("curve", np.int32, (len(SWEEP),)), ("stated", np.float32, (len(SWEEP),)),
            ("nodes", np.int16, (BINS,)), ("true", np.int16, (BINS,)),
            ("mass", np.float64, (BINS,))]  # fmt: skip


@dataclass(frozen=True)
class RanksTable:
    """The ranks of photos among the candidates, and what they refer to. `table["greater"]` is a column."""

    rows: np.ndarray  # structured, a row for each photo; see above
    photos: list[str]  # their names, if they are known
    hierarchy: Hierarchy  # its rows are the classes
    candidates: np.ndarray  # rows of the classes that competed
    is_seen: np.ndarray  # N, whether each class of the hierarchy is seen

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> np.ndarray:
        return self.rows[column]

    @property
    def seen(self) -> np.ndarray:
        """n: whether the photo's class is seen."""
        return self.is_seen[self.rows["class"]]

    def columns(self) -> dict[str, list[Any]]:
        """Plain columns, with ids of classes and nodes and None where there is nothing."""
        columns: dict[str, list[Any]] = {"photo": self.photos} if self.photos else {}
        columns |= {"class": self._ids(self["class"]), "seen": self.seen.tolist()}
        for name in ("greater", "equal", "own_greater", "own_equal"):
            columns[name] = [None if count == NEVER else count for count in self[name].tolist()]
        names = self.rows.dtype.names or ()
        for name in [name for name in ("margin", "probability") if name in names]:
            columns[name] = [None if np.isnan(value) else value for value in self[name].tolist()]
        if "verdict" in names:
            columns["verdict"] = self._ids(self["verdict"])
            columns |= {f"label {k + 1}": self._ids(self["best"][:, k]) for k in range(FIRST)}
            columns |= {f"verdict at {c:g}": self._ids(self["curve"][:, i]) for i, c in enumerate(SWEEP)}
        return columns

    def save(self, path: str | Path) -> None:
        """Write the columns to a .csv or .parquet file."""
        path, columns = Path(path), self.columns()
        check_table_path(path)
        if path.suffix == ".parquet":
            pyarrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
            sink = pyarrow.BufferOutputStream()
            parquet.write_table(pyarrow.table(columns), sink)
            write_atomically(path, sink.getvalue().to_pybytes())
        else:
            rows = zip(*columns.values(), strict=True)
            write_atomically(path, to_csv([[*columns], *rows], "\r\n").encode(errors="backslashreplace"))

    def _ids(self, rows: np.ndarray) -> list[str | None]:
        ids = self.hierarchy.ids
        return [ids[row] if row >= 0 else None for row in rows.tolist()]


def check_table_path(path: str | Path) -> None:
    """A message, before photos are read, where a table could not be written."""
    if Path(path).suffix not in (".csv", ".parquet"):
        raise UnseenError(f"{path}: a table is written as .csv or .parquet")
    if Path(path).suffix == ".parquet":
        try:
            importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise UnseenError(
                f"{path}: Parquet files need pyarrow (pip install pyarrow). Install it, or write .csv"
            ) from None
