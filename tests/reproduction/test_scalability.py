"""The paper's sizes come out exactly."""

from __future__ import annotations

import pytest

from unseen.reproduction.recipe import load_recipe
from unseen.reproduction.scalability import densities, weight_counts

PUBLISHED = load_recipe("scalability").published


def test_weight_counts_are_the_papers():
    assert weight_counts() == {key: PUBLISHED[key] for key in ("weights_sgcn", "weights_dgp", "weights_gcnz")}


def test_densities_are_the_papers(authors_lists):
    found = densities("paper")
    assert (found["nodes"], found["edges"]) == (32324, 32544)
    assert round(found["density_sparse"], 6) == PUBLISHED["density_sparse"]
    assert found["density_dense"] * 1e5 == pytest.approx(19.15, abs=0.005)  # the paper cuts it to 19.1


def test_densities_by_hand(tmp_path):
    """A chain of three: 3 loops and 2 edges both ways in 9 cells; 6 pairs of a node with itself or an ancestor."""
    (tmp_path / "chain.csv").write_text("id,name,parents\na,a,\nb,b,a\nc,c,b\n", encoding="utf-8")
    found = densities(str(tmp_path / "chain.csv"))
    assert found == {"nodes": 3, "edges": 2, "density_sparse": 7 / 9, "density_dense": 6 / 9}
