"""A class matrix in memory and on disk."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.methods.kin import kin as rows_module
from unseen.methods.kin.kin import Rows


@pytest.mark.parametrize(("large", "kind"), [(2**31, np.float32), (0, np.float16)])
def test_rows_come_back_from_memory_and_from_disk(tmp_path, monkeypatch, large, kind):
    monkeypatch.setattr(rows_module, "LARGE", large)
    given = np.random.default_rng(0).standard_normal((10, 3), dtype=np.float32)
    rows = Rows(10, 3, tmp_path)
    for start in range(0, 10, 4):
        rows.append(given[start : start + 4])
    matrix = rows.matrix()
    assert matrix.dtype == kind
    assert isinstance(matrix, np.memmap) == (large == 0)
    np.testing.assert_array_equal(matrix, given.astype(kind))
    assert not list(tmp_path.iterdir())  # nothing is left, even by a process that is killed
