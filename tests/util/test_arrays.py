"""Arrays and records in one file, as any reader of safetensors sees them."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from unseen.util import arrays as array_files
from unseen.util.arrays import read_arrays, stored_checksum, write_arrays


def test_arrays_of_every_kind_in_blocks(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    kinds = ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")
    arrays = {f"{kind} ä": (9 * random.standard_normal((7, 3))).astype(kind) for kind in kinds}
    arrays |= {"number": np.array(3.5), "none": np.empty((0, 4), np.float32), "turned": arrays["int32 ä"].T}
    monkeypatch.setattr(array_files, "BLOCK", 32)
    write_arrays(tmp_path / "file", "test", arrays, {"a": "ä"}, {"float32 ä": np.float16})
    arrays["float32 ä"] = arrays["float32 ä"].astype(np.float16)
    records, ours = read_arrays(tmp_path / "file", "test")
    assert records == {"a": "ä"}
    for loaded in (ours, load_file(tmp_path / "file")):
        assert loaded.keys() == arrays.keys()
        for key, array in arrays.items():
            assert loaded[key].dtype == array.dtype and np.array_equal(loaded[key], array), key


def test_a_file_of_another_kind_is_not_read(tmp_path):
    write_arrays(tmp_path / "file", "test", {}, {})
    assert len(stored_checksum(tmp_path / "file", "test")) == 64 and stored_checksum(tmp_path / "file", "else") is None
    with pytest.raises(ValueError, match="does not begin as a bundle does"):
        read_arrays(tmp_path / "file", "bundle")


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(tmp_path, monkeypatch):
    """A reader that opens the name twice has the checksum of the old file and the content of the new one."""
    path, read_start = tmp_path / "file", array_files._read_start

    def then_replace(*arguments):
        start = read_start(*arguments)
        write_arrays(path, "test", {"a": np.ones(3)}, "new")
        return start

    for large in (2**30, 0):  # read, and mapped
        write_arrays(path, "test", {"a": np.zeros(3)}, "old")
        monkeypatch.setattr(array_files, "_read_start", then_replace)
        records, arrays = read_arrays(path, "test", map_from=large)
        monkeypatch.setattr(array_files, "_read_start", read_start)
        assert records == "old" and arrays["a"].tolist() == [0, 0, 0]
    assert read_arrays(path, "test")[0] == "new"
