"""A minute of kills, losses of power and damaged inputs finds nothing; a careless write would be found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it forks, and reads /proc")


@pytest.mark.slow
def test_a_short_trial_finds_nothing():
    command = [sys.executable, str(BENCHMARKS / "torture.py"), "--minutes", "0.4", "--seed", "5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["findings"] == [] and sum(result["counts"].values()) >= 1


@pytest.mark.parametrize(("synced", "left"), [(True, b"new content"), (False, b"new c")])
def test_a_loss_of_power_takes_what_was_not_synced(tmp_path, monkeypatch, synced, left):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from torture import Blow

    (tmp_path / "file").write_bytes(b"old")
    process = os.fork()
    if process == 0:
        Blow(tmp_path, at=int(synced), after=True, power=True).install()
        with open(tmp_path / "other", "wb") as file:
            file.write(b"new content")
            file.flush()
            if synced:
                os.fsync(file.fileno())
        os.replace(tmp_path / "other", tmp_path / "file")
        os._exit(0)
    os.waitpid(process, 0)
    assert (tmp_path / "file").read_bytes() == left
