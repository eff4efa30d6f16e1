"""Class vectors from looks: what a thing looks like in photos, in words, read by a small sentence encoder.

The glossary's looks are embedded as encodings. Looks in a user's own words need the encoder itself, the extra `text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unseen import data as assets
from unseen.hierarchy import paths
from unseen.hierarchy.core import Hierarchy
from unseen.vectors.text_encoder import Encodings, unchanged_rows

LOOKS = "looks-minilm.npz"


class LookEncodings(Encodings):
    """A class in the glossary has its embedded encoding; the encoder reads the user's own looks; any other class has
    the mean of the nearest described classes below it, or zero.
    """

    name = mode = "looks"
    file = LOOKS

    def __init__(self) -> None:
        super().__init__()
        self._rows = {f"n{number:08d}": row for row, number in enumerate(self._embedded["number"].tolist())}

    def encode(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """The vectors of these rows of the hierarchy (all by default), n x S float32."""
        chosen = np.arange(len(hierarchy)) if rows is None else np.asarray(rows, np.int64)
        matrix, described = self._described(hierarchy, chosen)
        if not described.all() and np.isin(hierarchy.edges()[1], chosen[~described]).any():
            everything = np.arange(len(hierarchy))
            below = (matrix, described) if rows is None else self._described(hierarchy, everything)
            matrix[~described] = _means_below(hierarchy, *below)[chosen[~described]]
        return matrix

    def _described(self, hierarchy: Hierarchy, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For n rows their vectors, n x S, zero for classes without a look; and which have one, n bool."""
        ids = [hierarchy.ids[row] for row in rows.tolist()]
        texts = [written_look(hierarchy, id) for id in ids] if hierarchy.own_looks else [""] * len(ids)
        embedded = np.array(
            [-1 if text else self._rows.get(id, -1) for id, text in zip(ids, texts, strict=True)], np.int64
        )
        embedded[unchanged_rows(hierarchy, rows) < 0] = -1  # where the user means something else by the id
        matrix = np.zeros((len(rows), self.dim), np.float32)
        matrix[embedded >= 0] = self.decode(embedded[embedded >= 0])
        written = [at for at, text in enumerate(texts) if text]
        if written:
            matrix[written] = self.encode_texts([text for text in texts if text])
        described = embedded >= 0
        described[written] = True
        return matrix, described


class Look(NamedTuple):
    """What a class looks like, and the class that this was written for."""

    text: str
    id: str


def described(hierarchy: Hierarchy, id: str) -> list[str]:
    """The class itself if it has a look; else the first class with one on every way down, nearest first.

    A node that only connects others looks like the classes below it: its vector is the mean of theirs.
    """
    found, level = [], {id: None}
    while level:
        found += [node for node in level if hierarchy.look(node) and node not in found]
        level = dict.fromkeys(below for node in level if not hierarchy.look(node) for below in hierarchy.children(node))
    return found


def find_look(hierarchy: Hierarchy, id: str) -> Look | None:
    """The look of the class; else of the largest class `described` for it; None if no class below it has one."""
    classes = described(hierarchy, id)
    if not classes:
        return None
    largest = max(classes, key=lambda node: len(hierarchy.descendants(node))) if len(classes) > 1 else classes[0]
    return Look(hierarchy.look(largest), largest)


def written_look(hierarchy: Hierarchy, id: str) -> str:
    """What the class looks like in the user's own words; "" if only the glossary describes it."""
    text = hierarchy.own_looks.get(id, "")
    return text if text and text != assets.looks_glossary().get(id) else ""


def _means_below(hierarchy: Hierarchy, matrix: np.ndarray, described: np.ndarray) -> np.ndarray:
    """The direction of the mean over the nearest described classes on every way down, N x S; zero for described ones.

    With A the edges from an undescribed parent to its children, split into described ones D and others U:  the sum
    over ways of  D X + U D X + U U D X + ...,  which ends, since the hierarchy has no cycles.
    """
    from scipy.sparse import csr_array

    means = np.zeros_like(matrix)
    child, parent = hierarchy.edges()
    above = (paths.distances(np.flatnonzero(described), (hierarchy.parent_ptr, hierarchy.parent_idx)) > 0) & ~described
    kept = above[parent] & (above[child] | described[child])
    child, parent, ones = child[kept], parent[kept], np.ones(int(kept.sum()), np.float32)
    position = np.cumsum(above) - 1  # of an undescribed class among them
    direct, count = described[child], int(above.sum())
    step = csr_array((ones[~direct], (position[parent[~direct]], position[child[~direct]])), shape=(count, count))
    level = csr_array((ones[direct], (position[parent[direct]], child[direct])), shape=(count, len(matrix))) @ matrix
    total = level.copy()
    while level.any():
        level = step @ level
        total += level
    means[above] = total
    return means
