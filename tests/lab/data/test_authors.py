"""The lists of the paper's authors, which become candidates when someone asks for them."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unseen.data import imagenet_1k
from unseen.hierarchy.core import Hierarchy
from unseen.naming.candidates import resolve_candidates
from unseen_lab.data.authors import paper_list


def test_the_authors_lists(authors_lists):
    lists = {name: paper_list(name) for name in ("2-hops", "3-hops", "all", "train", "awa2-test", "awa2-train")}
    sizes = {name: len(ids) for name, ids in lists.items()}
    assert sizes == {"2-hops": 1549, "3-hops": 7860, "all": 20842, "train": 1000, "awa2-test": 10, "awa2-train": 40}
    assert set(lists["2-hops"]) < set(lists["3-hops"]) < set(lists["all"])
    assert not set(lists["all"]) & set(lists["train"])
    assert sorted(lists["train"]) == list(imagenet_1k())
    hierarchy = Hierarchy.paper()
    is_seen = np.isin(hierarchy.ids, lists["train"])
    bundle: Any = SimpleNamespace(hierarchy=hierarchy, ids=hierarchy.ids, is_seen=is_seen, seen_ids=lists["train"])
    assert {hierarchy.ids[row] for row in resolve_candidates(bundle, "2-hops")} == set(lists["2-hops"])
    assert len(resolve_candidates(bundle, "2-hops+1K")) == 2549
    assert len(resolve_candidates(bundle, "awa2")) == 50


@pytest.mark.slow
def test_the_laboratory_is_imported_only_for_its_lists():
    script = """
import sys
from unseen.examples import fruits
from unseen.naming.candidates import resolve_candidates
resolve_candidates(fruits().bundle, "any")
assert "unseen_lab" not in sys.modules
try:
    resolve_candidates(fruits().bundle, "awa2-test")
except Exception as error:
    assert "name no class" in str(error)
assert "unseen_lab.data.authors" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
