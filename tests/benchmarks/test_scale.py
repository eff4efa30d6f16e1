"""The measurements of growth run, on trees that take seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def tree(monkeypatch, tmp_path) -> Path:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import scale

    scale.write_tree(tmp_path, 3000)
    return tmp_path


@pytest.mark.slow
def test_every_measure_gives_its_seconds_and_memory(tree):
    import scale

    found = [{"measure": name, "nodes": 3000, **scale.measure((name, str(tree)))} for name in scale.MEASURES]
    assert all(result["seconds"] > 0 and result["peak_mb"] > 0 for result in found)
    scale.draw(found, tree / "scale.svg")
    assert (tree / "scale.svg").read_text().startswith("<?xml")
