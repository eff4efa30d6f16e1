"""A class matrix that is made from top to bottom, in memory or, where it is large, on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from unseen.errors import UnseenError
from unseen.runtime.files import writing

LARGE = 2**31  # bytes in single precision; ImageNet's 23,547 classes of 1,281 numbers are 2^27


class Rows:
    """Takes the rows of an n x E matrix some at a time.

    A matrix of more than LARGE bytes goes to a file in half precision, of which `matrix` maps what is looked at. The
    file has no name and is gone with the last that uses it.

    Args:
        count: n.
        width: E.
        folder: Where there is room for the file; by default the system's folder for temporary files.

    >>> rows = Rows(3, 2)
    >>> rows.append(np.float32([[1, 2], [3, 4]]))
    >>> rows.append(np.float32([[5, 6]]))
    >>> rows.matrix()[2]
    array([5., 6.], dtype=float32)
    """

    def __init__(self, count: int, width: int, folder: Path | None = None):
        self.shape, self._done, self._folder = (count, width), 0, folder or Path(tempfile.gettempdir())
        self._memory, self._file = np.empty((0, width), np.float32), None
        if 4 * count * width > LARGE:
            with writing(self._folder):
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        else:
            self._memory = np.empty(self.shape, np.float32)

    def append(self, block: np.ndarray) -> None:
        """The next rows, m x E."""
        if self._file is not None:
            with np.errstate(over="ignore"):
                half = np.ascontiguousarray(block, np.float16)
            if not np.isfinite(half).all():
                raise UnseenError("the classifiers hold numbers that are not finite in half precision")
            with writing(self._folder):
                self._file.write(half.data)
        else:
            self._memory[self._done : self._done + len(block)] = block
        self._done += len(block)

    def matrix(self) -> np.ndarray:
        """All rows, once they are there: float32, or float16 and memory-mapped."""
        assert self._done == self.shape[0], "rows are missing"
        if self._file is None:
            return self._memory
        with writing(self._folder):
            self._file.flush()
        return np.memmap(self._file, np.float16, "r", shape=self.shape)
