"""Bundles with a fitting checksum that hold what no bundle does: refused with a reason, or used."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.bundles import DOG
from unseen.bundle import Bundle
from unseen.model import Model
from unseen.util.arrays import read_arrays, write_arrays
from unseen.util.errors import UnseenError

ODD = [5, -1, 0, 1.5, math.nan, math.inf, None, True, "", [], {}, "linear@" * 3000, ["a"], [1], {"a": 1}, [None]]
ODD += ["../../etc/passwd", "\x1b]0;title\a", 10**30, [[]], "module:function"]


def entries(facts: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in nested JSON; of a long list the first three."""
    keys = facts if isinstance(facts, dict) else range(min(len(facts), 3)) if isinstance(facts, list) else ()
    return [entry for key in keys for entry in [(facts, key), *entries(facts[key])]]


def forge(source: Path, forged: Path, chance: random.Random) -> None:
    """Change a fact or an array of a bundle, and give it the checksum that fits."""
    records, arrays = read_arrays(source, "bundle")
    if chance.random() < 0.7:
        part = chance.choice(["records", "classes", "log"])
        facts = {part: records if part == "records" else json.loads(arrays[part].tobytes())}
        container, key = chance.choice(entries(facts))
        if chance.random() < 0.15 and container is not facts:
            del container[key]
        else:
            container[key] = chance.choice(ODD)
        if part == "records":
            records = facts[part]
        else:
            arrays[part] = np.frombuffer(json.dumps(facts[part]).encode(), np.uint8)
    else:
        key = chance.choice([*arrays])
        array = arrays.pop(key)
        if chance.random() < 0.85:
            ways = [array[:-1], array[:0], array.reshape(-1), array.astype(np.int8), array[None], array * 0 + 255]
            arrays[key] = np.ascontiguousarray(chance.choice(ways))
    write_arrays(forged, "bundle", arrays, records)


def use(file: Path) -> None:
    model = Model(Bundle.load(file))
    json.dumps(model.bundle.header(), default=str)
    model.bundle.open_network()
    model.answers(np.ones((2, model.bundle.network.num_features), np.float32), k=3)
    model.explain(model.bundle.ids[0])
    model.add("wug", DOG)
    model.save(file.with_name("again"), overwrite=True)


@pytest.mark.slow
def test_a_forged_bundle_is_at_most_an_error(kept, tmp_path):
    use(shutil.copy(kept, tmp_path / "whole"))
    refused = 0
    for seed in range(200):
        forge(kept, tmp_path / "forged", random.Random(seed))
        try:
            use(tmp_path / "forged")
        except UnseenError:
            refused += 1
    assert 30 < refused < 200
