"""The benchmarks of speed run, on a hierarchy and photos that take seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.graphs import random_hierarchy

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def found(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize(("method", "hidden"), [("dgp", 16), ("sgcn", 16), ("gcnz", [16, 16, 8, 8, 4])])
def test_stage_1_is_the_same_on_the_full_graph_and_on_the_field(method, hidden):
    import stage1

    sizes = {"widths": (12, 9), "settings": {"hidden": hidden}}
    result = stage1.run(random_hierarchy(200), np.arange(150, 160), methods=(method,), rounds=1, turn=0.01, **sizes)
    figures = result[method]
    assert 0 < figures["max_difference"] < 1e-5
    assert figures["speedup"] == figures["full_graph_s"] / figures["receptive_field_s"]
    assert result["hierarchy"]["nodes"] == 200 and figures["field"][-1] == result["hierarchy"]["seen"] == 10


def test_scores():
    import score

    result = score.run(classes=300, width=20, photos=50, rounds=1)
    assert result["over_matmul"] == max(result["topk_s"], result["ranks_s"]) / result["matmul_s"]


@pytest.mark.slow
def test_finetuning():
    import finetune

    result = finetune.run(batch=2, steps=1, rounds=1, workers=0)
    assert all(result[key] > 0 for key in ("loop_photos_per_s", "bare_photos_per_s", "ratio"))


@pytest.mark.slow
def test_the_page_under_load(tmp_path):
    import serve
    from support.tiny_network import build, make_bundle

    make_bundle(build()).save(tmp_path / "bundle")
    result = serve.run(single=2, parallel=2, requests=4, crowd=5, bundle=tmp_path / "bundle", trust_code=True)
    assert result["classes"] == 12 and result["requests"] == 4 and result["errors"] == result["crowd_refused"] == 0
    assert 0 < result["single_ms"] <= result["single_p95_ms"]
