from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from unseen.cli import bench


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A benchmark that takes no time."""
    monkeypatch.setattr(bench, "BENCHMARKS", {"quick": "quick_benchmark"})
    monkeypatch.setitem(sys.modules, "quick_benchmark", SimpleNamespace(run=lambda: {"part": {"speedup": 2.0}}))


def test_one_benchmark_is_one_json_object(unseen):
    assert unseen("bench", "quick", "--json").json == {"part": {"speedup": 2.0}}


def test_without_a_name_all_are_run(unseen):
    assert unseen("bench", "--json").json == {"quick": {"part": {"speedup": 2.0}}}
    assert "part: speedup 2" in unseen("bench").out


def test_an_unknown_name_is_refused_with_those_there_are(unseen):
    done = unseen("bench", "quik")
    assert done.code == 1 and "Did you mean 'quick'?" in done.err
