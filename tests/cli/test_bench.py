from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from unseen.cli import bench, info  # noqa: F401 (with one command alone, Typer would take its name for an argument)
from unseen.cli.app import app


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A benchmark that takes no time."""
    monkeypatch.setattr(bench, "BENCHMARKS", {"quick": "quick_benchmark"})
    monkeypatch.setitem(sys.modules, "quick_benchmark", SimpleNamespace(run=lambda: {"part": {"speedup": 2.0}}))


def test_one_benchmark_is_one_json_object():
    result = CliRunner().invoke(app, ["bench", "quick", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"part": {"speedup": 2.0}}


def test_without_a_name_all_are_run():
    assert json.loads(CliRunner().invoke(app, ["bench", "--json"]).stdout) == {"quick": {"part": {"speedup": 2.0}}}
    assert "part: speedup 2" in CliRunner().invoke(app, ["bench"]).stdout


def test_an_unknown_name_is_refused_with_those_there_are():
    result = CliRunner().invoke(app, ["bench", "quik"])
    assert result.exit_code == 1
    assert "Did you mean 'quick'?" in result.stderr
