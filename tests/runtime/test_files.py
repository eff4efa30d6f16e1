"""Files and locks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unseen.errors import UnseenError
from unseen.runtime import files
from unseen.runtime.files import locked

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
