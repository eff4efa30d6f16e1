from __future__ import annotations

import pytest

from unseen_lab import commands as tables


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """Benchmarks that take no time."""
    monkeypatch.setattr(tables, "SCRIPTS", tmp_path)
    monkeypatch.setattr(tables, "NAMES", ("good", "bad"))
    (tmp_path / "good.py").write_text(
        """import sys; print('so far'); print('{"speedup": 2.0}' if '--json' in sys.argv else '')"""
    )
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    return tmp_path


def test_one_benchmark_is_one_json_object(unseen, scripts):
    assert unseen("bench", "good", "--json").json == {"speedup": 2.0}


def test_without_a_name_all_are_run(unseen, scripts, monkeypatch):
    monkeypatch.setattr(tables, "NAMES", ("good",))
    assert unseen("bench", "--json").json == {"good": {"speedup": 2.0}}


def test_what_fails_is_reported(unseen, scripts):
    assert "the benchmark bad failed" in unseen("bench", "bad").err
    assert "There are: good, bad" in unseen("bench", "quick").err
