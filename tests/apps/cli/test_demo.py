"""`unseen demo`, the first command of the README, as a newcomer runs it: in a process of its own, nothing prepared.

Its JSON is among the goldens.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_newcomer_sees_a_success_with_its_proof(tmp_path):
    environment = os.environ | {"UNSEEN_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "unseen", "demo"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "First use: predicting classifiers for every ImageNet class" in done.stderr
    assert "21,842 classes, 1,000 of them seen" in done.stderr

    shown = " ".join(done.stdout.split())
    alone, now = (shown.partition(phrase)[2].split()[0] for phrase in ("network alone says ", "best guess is "))
    assert alone != now and "never shown" in shown and "put together from" in shown and "█" in shown
    assert shown.count("among unseen classes only: ") > 1
    assert "unseen classify photo.jpg" in shown and "{" not in shown
