"""The lists of the paper's authors as candidates: `--candidates 2-hops`, `3-hops`, `all`, `awa2`, ..."""

from __future__ import annotations

import json
from collections.abc import Sequence

from unseen import Hierarchy
from unseen.data import fetch_asset
from unseen.naming import register_candidates
from unseen_lab.data.awa2 import AWA2_TEST, AWA2_TRAIN

AUTHORS_LISTS = ("2-hops", "3-hops", "all")
AWA2 = {"awa2-test": AWA2_TEST, "awa2-train": AWA2_TRAIN}


def paper_list(name: str) -> list[str]:
    """The ids of a list of the paper's authors: 2-hops, 3-hops, all, train, awa2-test, awa2-train."""
    if name in AWA2:
        return list(AWA2[name].values())
    return json.loads(fetch_asset("imagenet-testsets.json").read_text())[name]


def _register(name: str, lists: Sequence[str]) -> None:
    def find(hierarchy: Hierarchy) -> list[str]:
        return [id for one in lists for id in paper_list(one)]

    register_candidates(name, find)


for _name in (*AUTHORS_LISTS, *AWA2):
    _register(_name, (_name,))
_register("awa2", tuple(AWA2))
