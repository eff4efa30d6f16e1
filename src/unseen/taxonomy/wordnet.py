"""WordNet 3.0, as it is embedded: nouns, hypernyms, glosses."""

from __future__ import annotations

import lzma
from functools import cache

import numpy as np

from unseen.assets import data_file
from unseen.taxonomy.core import Taxonomy
from unseen.taxonomy.makers import maker


@maker
@cache
def wordnet() -> Taxonomy:
    with np.load(data_file("wordnet-nouns.npz"), allow_pickle=False) as file:
        offset, ptr, idx, text = (file[name] for name in ("offset", "parent_ptr", "parent_idx", "lemmas"))
    ids = [f"n{number:08d}" for number in offset.tolist()]
    lemmas = [tuple(line.split("|")) for line in text.tobytes().decode().rstrip("\n").split("\n")]
    return Taxonomy.trusted(ids, lemmas, (ptr, idx), source={"kind": "wordnet", "version": "3.0"})


@cache
def _glosses() -> list[str]:
    with lzma.open(data_file("wordnet-glosses.txt.xz"), "rt", encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")


@cache
def _numbers() -> frozenset[int]:
    """What ids of nouns have behind their n: quickly read, without names and hypernyms."""
    with np.load(data_file("wordnet-nouns.npz"), allow_pickle=False) as file:
        return frozenset(file["offset"].tolist())


def is_wordnet_id(id: str) -> bool:
    """Whether this is the id of a WordNet noun. WordNet is read only if the id looks like one."""
    return len(id) == 9 and id[0] == "n" and id.isascii() and id[1:].isdecimal() and int(id[1:]) in _numbers()


@maker
def wordnet_gloss(id: str) -> str:
    return _glosses()[wordnet().index(id)] if is_wordnet_id(id) else ""
