"""The measurements of growth with the photos run, on stores that take seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.features import FeatureStore

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def full_size(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import full_size

    for name, value in {"FEATURES": 24, "SEEN": 6, "CANDIDATES": 20, "BLOCK": 8}.items():
        monkeypatch.setattr(full_size, name, value)
    return full_size


def test_the_store_is_what_was_asked_for(full_size, tmp_path):
    full_size.write_store(tmp_path / "store", 100)
    store = FeatureStore.open(tmp_path / "store", full_size.network())
    assert len(store) == 100 and store.precision == "fp16" and set(store.classes().values()) == {16, 17}
    means = [features.mean(axis=0) for features, _, _ in store.batches(16)]
    assert np.abs(np.diff(means, axis=0)).mean() > 0.5  # each class has a centre of its own


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


def test_the_page_tells_growth(full_size):
    results = [{"measure": name, "photos": photos, "seconds": 1, "cpu_seconds": 2 + photos / 100, "peak_mb": peak}
               for name, peaks in (("read", (9, 9, 9)), ("evaluate", (300, 310, 320)), ("exem", (300, 300, 399)))
               for photos, peak in zip((100, 1000, 10_000), peaks, strict=True)]  # fmt: skip
    text = full_size.page(results)
    assert "| evaluate | 3.0 | 12.0 | 102.0 | 10.000 | 300 | 310 | 320 |" in text
    assert "by at most 99 MB (exem)" in text and "8.5 to 8.5 times, for 10 times the photos" in text
