"""The measurements of growth with the photos run, on stores that take seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def full_size(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import full_size

    for name, value in {"FEATURES": 24, "SEEN": 6, "CANDIDATES": 20}.items():
        monkeypatch.setattr(full_size, name, value)
    return full_size


@pytest.mark.slow
def test_every_measure_gives_its_seconds_and_memory(full_size, tmp_path):
    results, names = [], ("read", "evaluate", "exem")
    for photos in (60, 120):
        full_size.write_store(tmp_path / str(photos), photos)
        results += [{"measure": name, "photos": photos, **full_size.measure((name, str(tmp_path / str(photos))))}
                    for name in names]  # fmt: skip
    assert all(result["cpu_seconds"] > 0 and result["peak_mb"] > 0 for result in results)
    text = full_size.page(results)
    assert all(f"| {name} |" in text for name in names)
