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


WRITER = """
import sys
from pathlib import Path
from unseen.util import files
files._machine = lambda: sys.argv[2]
with files.replacing(Path(sys.argv[1])) as file, files.replacing_folder(Path(sys.argv[1] + "s")) as folder:
    (folder / "part").touch()
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def start_writer(tmp_path):
    """A function that starts a process which writes a file and a folder, and is not finished; by its machine."""
    started = []

    def start(machine: str) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "file", machine], **pipes))
        assert started[-1].stdout.readline() == "writing\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="there nobody removes them")
def test_the_next_writer_removes_what_is_dead_on_this_machine_and_nothing_else(tmp_path, start_writer):
    def left() -> list[str]:
        return sorted(item.name for item in tmp_path.glob(".unseen-*"))

    start_writer(files._machine())
    alive = left()
    dead, elsewhere = start_writer(files._machine()), start_writer("elsewhere")
    for process in (dead, elsewhere):
        process.kill()
        process.wait()
    foreign = [name for name in left() if "elsewhere" in name]
    assert (len(alive), len(foreign), len(left())) == (2, 2, 6)
    write_atomically(tmp_path / "file", b"new")
    assert left() == sorted(alive + foreign)


@pytest.mark.skipif(sys.platform == "win32", reason="there nobody removes them")
def test_a_file_that_is_taken_for_dead_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    real, taken = files._lock, []

    def lock(descriptor):
        if not taken:
            taken.extend(tmp_path.glob(".unseen-*"))
            for path in taken:
                path.unlink()
        return real(descriptor)

    monkeypatch.setattr(files, "_lock", lock)
    write_atomically(tmp_path / "file", b"new")
    assert len(taken) == 1 and (tmp_path / "file").read_bytes() == b"new"


def test_a_folder_that_is_removed_before_it_is_opened_is_made_again(tmp_path, monkeypatch):
    """Its name is there before its lock can be: another process may take it for dead."""
    real, removed = os.open, []

    def open_late(path, *flags):
        if not removed and Path(path).is_dir() and Path(path).name.startswith(".unseen-"):
            removed.append(path)
            os.rmdir(path)
        return real(path, *flags)

    monkeypatch.setattr(files.os, "open", open_late)
    with replacing_folder(tmp_path / "folder") as folder:
        (folder / "a").write_bytes(b"new")
    assert removed and (tmp_path / "folder" / "a").read_bytes() == b"new"


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "file").read_bytes() == b"new" and (tmp_path / "link").is_symlink()


def test_facts_with_a_checksum_are_read_back_or_refused():
    facts = {"b": [1.5, None, "\u00e9"], "a": {"x": 1}}
    sealed = files.seal(facts)
    assert files.unseal(sealed) == facts and files.unseal(b'{"old": 1}') == {"old": 1}
    with pytest.raises(ValueError, match="checksum differs"):
        files.unseal(sealed.replace(b"1.5", b"1.6"))


def test_a_file_from_elsewhere_is_the_expected_one_or_refused(tmp_path):
    (tmp_path / "weights").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of FIPS 180
    assert files.verified(tmp_path / "weights", known, "Fetch it again.") == tmp_path / "weights"
    (tmp_path / "weights").write_bytes(b"abd")
    with pytest.raises(UnseenError, match=r"weights: not the expected file .* Fetch it again\.$"):
        files.verified(tmp_path / "weights", known, "Fetch it again.")
