"""Features from elsewhere, as arrays in memory and in files."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from unseen.networks import Features
from unseen.networks.features import FeatureArrays, check_matrix, read_arrays
from unseen.networks.loading import load_network
from unseen.util.errors import UnseenError

ROWS = np.arange(12, dtype=np.float64).reshape(4, 3)
LABELS = ["cat", "dog", "cat", "emu"]


def test_they_are_read_like_a_store():
    arrays = FeatureArrays(ROWS, LABELS)
    assert arrays.classes() == {"cat": 2, "dog": 1, "emu": 1} and len(arrays) == 4 and arrays.unreadable_count() == 0
    batches = list(arrays.batches(2, {"cat", "emu"}))
    assert [batch.class_ids for batch in batches] == [["cat", "cat"], ["emu"]]
    assert np.array_equal(batches[0].features, ROWS[[0, 2]]) and batches[1].paths == ["row 3"]
    seen = arrays.seen_matrix(["emu", "cat"])
    assert np.array_equal(seen.matrix, ROWS[[0, 2, 3]]) and seen.labels.tolist() == [1, 1, 0]
    with pytest.raises(UnseenError, match="no row of any of the 1 classes"):
        arrays.seen_matrix(["fox"])


def test_relabelled_and_in_part():
    arrays = FeatureArrays(ROWS, LABELS).relabel({"emu": "dog"})
    assert isinstance(arrays, Features) and arrays.classes() == {"cat": 2, "dog": 2}
    part = arrays.only({"dog"})
    ((features, ids, names),) = part.batches()
    assert np.array_equal(features, ROWS[[1, 3]]) and ids == ["dog", "dog"] and names == ["row 1", "row 3"]
    assert list(part.batches(10, ["cat"])) == []


def test_files(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    found = read_arrays(tmp_path / "x.npy")
    assert found.matrix.dtype == np.float32 and found.labels is None
    with pytest.raises(UnseenError, match=r"which class each row is of. Save both: np.savez"):
        found.classes()
    np.savez(tmp_path / "x.npz", features=ROWS, labels=LABELS)
    assert read_arrays(tmp_path / "x.npz").classes()["cat"] == 2
    np.savez(tmp_path / "numbers.npz", X=ROWS, y=[7, 8, 7, 9])
    assert read_arrays(tmp_path / "numbers.npz").classes() == {"7": 2, "8": 1, "9": 1}


def test_files_with_mistakes(tmp_path):
    np.savez(tmp_path / "objects.npz", features=ROWS, labels=np.array(LABELS, object))
    np.savez(tmp_path / "other.npz", other=ROWS)
    np.savez(tmp_path / "short.npz", features=ROWS, labels=LABELS[:2])
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "empty.npy").touch()
    for name, reason in (
        ("objects.npz", "dtype=str"),
        ("other.npz", "has no array `features`, but other"),
        ("short.npz", "4 rows of features, but 2 labels"),
        ("text.npy", "not a file of plain arrays"),
        ("empty.npy", "not a readable|not a file of plain arrays"),
        ("none.npy", "no such file of features"),
    ):
        with pytest.raises(UnseenError, match=reason):
            read_arrays(tmp_path / name)


def test_what_is_no_matrix_is_refused():
    assert check_matrix([1, 2, 3], width=3).shape == (1, 3)
    assert np.array_equal(check_matrix(csr_matrix(ROWS)), ROWS)
    for given, reason in (
        (np.zeros((2, 2, 2)), r"the shape is \(2, 2, 2\)"),
        ([], "the shape is"),
        ([["a", "b"]], "rows of numbers, not list"),
        ([[0, 1, 2], [np.nan, 1, 2]], "row 1 holds NaN"),
        ([[0, 1]], "rows of 2 features, but the bundle is for 3"),
    ):
        with pytest.raises(UnseenError, match=reason):
            check_matrix(given, width=3)


def test_an_archive_that_would_fill_memory_is_refused_and_so_are_numbers_that_overflow(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as out,
    ):
        for _ in range(300):
            out.write(bytes(1 << 20))
    with pytest.raises(UnseenError, match=r"unpacked it has 0\.3 GB"):
        read_arrays(tmp_path / "bomb.npz")
    np.save(tmp_path / "large.npy", np.full((2, 3), 3e38, np.float32))
    with pytest.raises(UnseenError, match="a number is beyond 1e"):
        read_arrays(tmp_path / "large.npy")


def test_a_forged_header_is_a_clear_error(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 4), np.float32))
    forged = (tmp_path / "a.npy").read_bytes().replace(b"False, 'shape'", b"False,B'shape'")
    (tmp_path / "a.npy").write_bytes(forged)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("features.npy", forged)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(UnseenError, match="its header is damaged"):
            read_arrays(tmp_path / name)
    with pytest.raises(UnseenError, match="its header is damaged"):
        load_network(f"linear:{tmp_path / 'a.npz'}")
