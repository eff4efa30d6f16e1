"""Files that are whole or not there, and locks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unseen.util import files
from unseen.util.errors import UnseenError
from unseen.util.files import locked, replacing, replacing_folder, write_atomically

HOLDER = """
import sys
from pathlib import Path
from pathlib import Path
from unseen.util.files import locked
with locked(Path(sys.argv[1]), "taken"):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """A lock that another process holds."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "locked\n"
        yield tmp_path / "lock", process
        process.kill()


def test_a_lock_is_one_processs_and_ends_with_it(held):
    lock, process = held
    with pytest.raises(UnseenError, match=r"^taken$"), locked(lock, "taken"):
        pass
    process.kill()
    process.wait()
    with locked(lock, "taken"):
        pass


def test_a_write_that_fails_keeps_the_old_file(tmp_path, monkeypatch):
    write_atomically(tmp_path / "new" / "file", b"old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnseenError, match=r"cannot write to .*file: No space left on device"):
        write_atomically(tmp_path / "new" / "file", b"new")
    assert [(item.name, item.read_bytes()) for item in (tmp_path / "new").iterdir()] == [("file", b"old")]


def test_names_are_new_each_time_and_nobody_elses_file_is_touched(tmp_path):
    names: set[Path] = set()
    for _ in range(3):
        with replacing(tmp_path / "file") as file:
            names |= set(tmp_path.glob(".unseen-*.tmp"))
            file.write(b"x")
    assert len(names) == 3 and [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "file", b"x")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_folder_comes_with_all_of_its_files_or_not_at_all(tmp_path):
    with pytest.raises(ZeroDivisionError), replacing_folder(tmp_path / "new") as folder:
        (folder / "file").write_bytes(b"x")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with replacing_folder(tmp_path / "new") as folder:
        (folder / "file").write_bytes(b"x")
    assert [item.name for item in tmp_path.iterdir()] == ["new"] and (tmp_path / "new" / "file").read_bytes() == b"x"


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "file").read_bytes() == b"new" and (tmp_path / "link").is_symlink()


def test_a_file_from_elsewhere_is_the_expected_one_or_refused(tmp_path):
    (tmp_path / "weights").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of FIPS 180
    assert files.verified(tmp_path / "weights", known, "Fetch it again.") == tmp_path / "weights"
    (tmp_path / "weights").write_bytes(b"abd")
    with pytest.raises(UnseenError, match=r"weights: not the expected file .* Fetch it again\.$"):
        files.verified(tmp_path / "weights", known, "Fetch it again.")
