"""Tables that are written in parts: what a later run finds, and what a reader sees."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.util.errors import UnseenError
from unseen.util.table import Row, open_table, read_table


@pytest.fixture
def folder(tmp_path):
    """A finished table of three rows in two parts."""
    with open_table(tmp_path / "t", "numbers", "t") as table:
        table.start({"by": 1})
        table.add(Row("a", "1", "A", vector=np.array([1.0, 2.0], np.float32)))
        table.add(Row("b", "", {"text": "\udce9"}, "unreadable"))
        table.flush()
        table.add(Row("c", "1", "C", vector=np.array([5.0, 6.0], np.float32)))
        table.flush()
        table.finish({"c": "C", "a": "A", "b": {"text": "\udce9"}}, {"rows": 3})
    return tmp_path / "t"


def test_a_finished_table_has_its_rows_in_their_order(folder):
    table = read_table(folder, "numbers")
    assert table.made_by == {"by": 1} and list(table.entries) == ["c", "a", "b"] and table.summary == {"rows": 3}
    assert table.records == ["C", "A", {"text": "\udce9"}] == list(table.read(table.entries))
    rows = table.vectors([table.entries[key] for key in "acb"])
    assert rows.tolist() == [[1, 2], [5, 6], [0, 0]] and rows.dtype == np.float32


def test_later_rows_count_and_parts_without_rows_go(folder):
    with open_table(folder, "numbers", "t") as table:
        assert table.finished["a"] == "A"
        assert table.is_current("a", "1") and table.is_current("a", "") and not table.is_current("a", "2")
        assert table.is_current("b", "") and not table.is_current("b", "", retry=True) and not table.is_current("d", "")
        table.add(Row("c", "2", "new", vector=np.zeros(2, np.float32)))
        table.flush()
        assert read_table(folder, "numbers").records[0] == "C"  # readers have the table as it was
        table.finish({"c": "new"}, None)
    assert read_table(folder, "numbers").records == ["new"]
    assert sorted(path.name for path in folder.glob("0*")) == ["000002.safetensors"]


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_a_damaged_part_is_refused_by_readers_and_made_again_by_the_writer(folder, damage):
    damage(folder / "000000.safetensors")
    table = read_table(folder, "numbers")
    with pytest.raises(UnseenError, match=r"000000.safetensors: is damaged .* makes this part again"):
        table.vectors([table.entries["a"]])
    with open_table(folder, "numbers", "t") as table:
        assert list(table.entries) == ["c"] and table.made_by == {"by": 1}


def test_parts_restore_a_damaged_manifest(folder):
    (folder / "table.safetensors").write_bytes(b"?")
    with open_table(folder, "numbers", "t") as table:
        assert table.made_by == {"by": 1} and list(table.finished) == ["a", "b", "c"]


def test_rows_are_kept_whatever_ends_the_work_and_there_is_one_writer(folder):
    with pytest.raises(KeyboardInterrupt), open_table(folder, "numbers", "t") as table:
        table.add(Row("d", "1", "D"))
        with pytest.raises(UnseenError, match=r"^t: another process is writing to it\.$"), open_table(folder, "", "t"):
            pass
        raise KeyboardInterrupt
    with open_table(folder, "numbers", "t") as table:
        assert "d" in table.entries
