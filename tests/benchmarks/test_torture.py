"""The trial itself: processes end at the very point, and commands survive it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unseen.util.files import write_atomically

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it forks, and reads /proc")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run_child(work, **blow):
    from torture_points import Child

    return Child(work, **blow).wait()


@pytest.mark.parametrize("after", [False, True])
def test_a_process_is_killed_just_before_or_just_after_a_point(tmp_path, after):
    from torture_points import Points

    file = tmp_path / "file"
    file.write_bytes(b"old")
    ended = run_child(lambda: write_atomically(file, b"new"), points=Points(2, "kill", after))
    assert ended.status == -9
    assert file.read_bytes() == (b"new" if after else b"old")


@pytest.mark.slow
def test_commands_survive_a_short_trial(tmp_path):
    options = ["--minutes", "0.2", "--seed", "5", "--kinds", "kill,full disk", "--folder", tmp_path]
    options += ["--commands", "add;hierarchy export;features"]
    command = [sys.executable, BENCHMARKS / "torture.py", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, summary["findings"]) == (0, [])
    assert summary["trials"] >= 1 and list(tmp_path.iterdir()) == []
