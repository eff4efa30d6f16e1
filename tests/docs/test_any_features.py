"""The page on features of any kind runs from start to finish, and its figures are what it finds."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "any-features.md"
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def example() -> str:
    blocks = re.findall(r"```python run\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    return "\n".join(blocks)


@pytest.mark.slow
def test_the_example_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(example(), {"__name__": "any_features"})
    (shown,) = re.findall(r"```\n(\[.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert capsys.readouterr().out.strip() == shown.strip()


@pytest.mark.slow
def test_the_figures_over_all_pairs(tmp_path, monkeypatch):
    found = []
    for pair in combinations(DIGITS, 2):
        (tmp_path / "-".join(pair)).mkdir()
        monkeypatch.chdir(tmp_path / "-".join(pair))
        names = {"__name__": "any_features"}
        exec(example().replace('["three", "nine"]', repr(list(pair))), names)
        found.append(names["result"].image["hit@1"])
    mean, better = re.search(
        r"(\d+\.\d) % are right on average, and (\d+) pairs", " ".join(PAGE.read_text().split())
    ).groups()
    assert np.mean(found) == pytest.approx(float(mean), abs=0.5)  # solvers round differently
    assert sum(share > 50 for share in found) == pytest.approx(int(better), abs=1)
