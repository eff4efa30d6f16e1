"""One experiment with the same sources for all: it is run once, and its page comes from the ranks alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import unseen
from support.command_line import run_command
from unseen.util.errors import UnseenError
from unseen.vectors.class_vectors import class_vectors
from unseen_lab.tables import sources, sources_page
from unseen_lab.tables.sources import Training, Weighted, planned
from unseen_lab.tables.sources_page import Shown, fill, parts

RANKS = Path(__file__).parents[3] / "docs" / "results" / "sources"
GROUPS = ["above rare", "above common", "above common", "below common", "below common"]


@pytest.fixture(scope="module")
def shown() -> Shown:
    counts = Counter({"above rare": 50, "above common": 10, "below common": 30, "further rare": 1000})
    return Shown(np.array([1, 1, 2, 3, 3]), GROUPS, counts)


def test_weights_are_those_of_whole_lists(shown):
    assert shown.weights["photos"].tolist() == pytest.approx([0.1, 0.1, 0.2, 0.3, 0.3])
    assert shown.weights["classes"].tolist() == pytest.approx([0.2] * 5)
    # 60 above and 30 below; nothing shows what is further, so that the others share its weight
    assert shown.weights["relation"].tolist() == pytest.approx([2 / 9, 2 / 9, 2 / 9, 1 / 6, 1 / 6])
    assert shown.weights["group"].tolist() == pytest.approx([5 / 9, 1 / 18, 1 / 18, 1 / 6, 1 / 6])
    assert shown.weights["above"].tolist() == pytest.approx([1 / 3] * 3 + [0, 0]) and not shown.weights["further"].any()


def test_the_standard_error_is_that_of_a_stratified_mean(shown):
    values = np.array([10.0, 40.0, 70.0, 20.0, 30.0])
    assert shown.error(values, "classes") == pytest.approx(values.std(ddof=1) / 5**0.5)
    above, below = values[:3].std(ddof=1) / 3**0.5, values[3:].std(ddof=1) / 2**0.5
    assert shown.error(values, "relation") == pytest.approx(((2 / 3 * above) ** 2 + (1 / 3 * below) ** 2) ** 0.5)
    assert shown.error(values, "above") == pytest.approx(above)


def test_joined_sources_are_alike_by_the_weighted_mean():
    hierarchy = unseen.Hierarchy.load("imagenet")
    rows = np.arange(0, len(hierarchy), 2000)
    words, definitions = (
        class_vectors(hierarchy, unseen.load_vectors(name)).matrix[rows] for name in ("glove", "text")
    )
    joined = class_vectors(hierarchy, Weighted("glove+text")).matrix[rows]
    known = words.any(axis=1) & definitions.any(axis=1)
    expected = (0.5 * words @ words.T + definitions @ definitions.T) / 1.5
    assert np.abs(joined @ joined.T - expected)[np.ix_(known, known)].max() < 1e-5


def test_the_committed_page_is_made_of_the_committed_ranks():
    page = RANKS.with_suffix(".md").read_text(encoding="utf-8")
    assert fill(page, parts(RANKS)) == page
    assert {path.name for path in RANKS.glob("*.gz")} <= {training.file(RANKS).name for training in planned()}


@pytest.fixture
def small(monkeypatch, level, small_lists):
    """The experiment with the tiny network, two epochs and one sum of sources."""
    monkeypatch.setattr(sources, "HIERARCHY", level.hierarchy)
    monkeypatch.setattr(sources, "NETWORKS", {level.network: (0, 1)})
    monkeypatch.setattr(sources, "SOURCES", ("glove+glove",))
    monkeypatch.setattr(sources, "EPOCHS", 2)
    for module in (sources, sources_page):
        monkeypatch.setattr(module, "LOGGED", (1, 2))
    return level


def test_it_is_run_once_and_then_read(small, tmp_path):
    ranks, page = tmp_path / "ranks", tmp_path / "ranks.md"
    page.write_text("# Page\n\n<!-- sources: missing -->\nstale\n\nkept\n", encoding="utf-8")
    command = ["reproduce", "sources", "--ranks", str(ranks), "--out", str(tmp_path / "work")]
    assert run_command(*command).code == 1  # no ranks, no photos
    first, other = Training(small.network, "sgcn", "glove+glove"), Training(small.network, "sgcn", "glove+glove", 1)
    assert run_command(*command, "--photos", str(small.unseen.parent)).code == 0
    written = {path: path.stat().st_mtime_ns for path in ranks.iterdir()}
    assert len(written) == 5 + 2 and first.file(ranks).read_bytes() != other.file(ranks).read_bytes()
    result = run_command(*command, "--json").json
    assert page.read_text(encoding="utf-8") == "# Page\n\n<!-- sources: missing -->\nAll are trained.\n\nkept\n"
    assert written == {path: path.stat().st_mtime_ns for path in ranks.iterdir()}
    assert (
        result[f"{small.network} photos"].count("\n") == 4
        and "| SGCN | glove+glove | 2 | 2 |" in result[f"{small.network} photos"]
    )
    assert "the paper's" in result[f"{small.network} lengths"]
    other.file(ranks).unlink()
    assert "SGCN glove+glove (1)" in parts(ranks)["missing"]
    first.file(ranks).write_bytes(b"")
    with pytest.raises(UnseenError, match="not the ranks"):
        parts(ranks)
