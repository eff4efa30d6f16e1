"""Strict type checking of a page of a user's code finds nothing unknown, in unseen as it is installed."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import unseen

SOURCES = Path(unseen.__file__).resolve().parents[1]
PAGE = Path(__file__).parent / "support" / "user_page.py"


def test_the_page_uses_every_public_name():
    assert set(unseen.__all__) <= set(re.findall(r"\bunseen\.(\w+)", PAGE.read_text()))


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(PAGE), run_name="__main__")


@pytest.mark.slow
def test_strict_checking_finds_nothing(tmp_path):
    pytest.importorskip("basedpyright")
    venv.create(tmp_path / "env", with_pip=False)  # types count as a package's there, not as those of one's own files
    python = tmp_path / "env" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    for name, place in {"a-unseen": SOURCES, "b-borrowed": Path(sysconfig.get_path("purelib"))}.items():
        Path(site, f"{name}.pth").write_text(f"{place}\n")
    (tmp_path / "page.py").write_bytes(PAGE.read_bytes())
    settings = {"include": ["page.py"], "typeCheckingMode": "strict", "venvPath": ".", "venv": "env"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--project", tmp_path, "--outputjson"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    found = [f"{item['range']['start']['line'] + 1}: {item['message']}" for item in told["generalDiagnostics"]]
    assert told["summary"]["filesAnalyzed"] == 1 and not found
