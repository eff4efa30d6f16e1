from __future__ import annotations

import numpy as np
import pytest

from support.graphs import random_taxonomy
from unseen.bench.stage1 import run

FIGURES = {"full_graph_s", "receptive_field_s", "matmul_s", "speedup", "over_matmul", "max_difference", "field"}


@pytest.mark.parametrize(("method", "hidden"), [("dgp", 16), ("sgcn", 16), ("gcnz", [16, 16, 8, 8, 4])])
def test_both_ways_agree_and_the_ratios_are_those_of_the_times(method, hidden):
    taxonomy = random_taxonomy(200)
    sizes = {"inputs": 12, "outputs": 9, "hidden": hidden}
    result = run(taxonomy, np.arange(150, 160), methods=(method,), rounds=1, turn=0.01, **sizes)
    figures = result[method]
    assert set(figures) == FIGURES
    assert 0 < figures["max_difference"] < 1e-5
    assert figures["speedup"] == figures["full_graph_s"] / figures["receptive_field_s"]
    assert figures["over_matmul"] == figures["receptive_field_s"] / figures["matmul_s"]
    assert result["graph"]["nodes"] == 200
