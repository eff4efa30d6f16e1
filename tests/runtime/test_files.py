"""Files and locks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from unseen.errors import UnseenError
from unseen.runtime import files
from unseen.runtime.files import locked, write_atomically

HOLD = """
import sys
from pathlib import Path
from unseen.runtime.files import locked
with locked(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """A file that another process has locked."""
    path = tmp_path / "new" / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield path
        process.stdin.close()


@pytest.mark.skipif(files.fcntl is None, reason="no locks here")
def test_one_process_at_a_time(held):
    with pytest.raises(UnseenError, match=r"^taken$"), locked(held, "taken"):
        raise AssertionError("held twice")


def test_without_locks_it_goes_on(held, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    with locked(held, "taken"):
        assert held.exists()


@pytest.mark.skipif(os.name != "posix", reason="nobody can be asked whether a process lives")
def test_what_killed_processes_left_is_removed_by_the_next_writer(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    file = tmp_path / "a[b]*.json"
    for name in (f".{file.name}.{ended.pid}.tmp", f".{file.name}.{10**30}.tmp"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / f".{file.name}.{ended.pid}0{ended.pid}.tmp").mkdir()  # as an export of several files leaves
    others = {f".{file.name}.{os.getppid()}.tmp", f".other.{ended.pid}.tmp", f"{file.name}.{ended.pid}.tmp"}
    for name in others:
        (tmp_path / name).write_bytes(b"of a living process, or another file's")
    write_atomically(file, b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {file.name, *others}
    assert file.read_bytes() == b"whole"
