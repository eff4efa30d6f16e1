"""A vocabulary of ten words in three dimensions, and classes of any names."""

from __future__ import annotations

import json

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.vectors.class_vectors import vectors_from_provenance
from unseen.vectors.sources import WordVectors

VOCABULARY = {
    "dog": [1, 0, 0],
    "hot": [0, 1, 0],
    "Dog": [9, 9, 9],
    "Paris": [7, 0, 7],
    "ice_cream": [0, 0, 5],
    "ice": [2, 2, 2],
    "cream": [4, 4, 4],
    "jack": [0, 6, 0],
    "lantern": [0, 0, 6],
    "t-shirt": [3, 0, 0],
}


def toy_vectors(mode: str = "lower") -> WordVectors:
    return WordVectors(VOCABULARY, np.array(list(VOCABULARY.values()), np.float32), mode, "toy")


def classes(*lemmas: tuple[str, ...]) -> Hierarchy:
    return Hierarchy([f"c{i}" for i in range(len(lemmas))], lemmas, [[] for _ in lemmas], source={"kind": "test"})


def lengths(names: list[str]) -> np.ndarray:
    return np.array([[len(name), name.count(" "), name.count(",")] for name in names])


def reloaded(source, anew=None):
    return vectors_from_provenance(json.loads(json.dumps(source.provenance)), anew)
