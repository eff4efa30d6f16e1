"""The measurements of growth run, on trees that take seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.taxonomy import Taxonomy

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def tree(monkeypatch, tmp_path) -> Path:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import scale

    scale.write_tree(tmp_path, 3000)
    return tmp_path


def test_the_tree_is_what_was_asked_for(tree):
    taxonomy, seen = Taxonomy.load(tree / "classes.csv"), (tree / "seen.txt").read_text().split()
    assert len(taxonomy) == 3000 and len(taxonomy.roots) == 1 and 5 <= taxonomy.depth <= 12
    assert len(set(seen)) == 1000 and set(seen) <= set(taxonomy.ids)


@pytest.mark.slow
def test_every_measure_gives_its_seconds_and_memory(tree):
    import scale

    found = [{"measure": name, "nodes": 3000, **scale.measure((name, str(tree)))} for name in scale.MEASURES]
    assert all(result["seconds"] > 0 and result["peak_mb"] > 0 for result in found)
    scale.draw(found, tree / "scale.svg")
    assert (tree / "scale.svg").read_text().startswith("<?xml")
