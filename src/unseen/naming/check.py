"""What `unseen hierarchy check` reports: shape, seen classes, names without vectors, and what is guesswork."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.wordnet import BUILT_IN
from unseen.naming.candidates import own_classes
from unseen.vectors.class_vectors import Coverage

FAR = 4  # hops: further from every seen class than this, a prediction is guesswork


def check_up(hierarchy: Hierarchy, seen_ids: Sequence[str], coverage: Coverage) -> dict[str, Any]:
    """Shape, seen classes present and missing, names without vectors, distance of every own class to a seen one."""
    present = [i for i in seen_ids if i in hierarchy]
    hops = hierarchy.hops_from(present) if present else np.full(len(hierarchy), -1)
    child, parent = hierarchy.edges()
    connected = np.isin(np.arange(len(hierarchy)), [child, parent])
    without = set(coverage.zero)
    extended = hierarchy.source.get("kind") in BUILT_IN and "additions" in hierarchy.source
    classes = own_classes(hierarchy) if extended else list(hierarchy.ids)
    distance = dict(zip(classes, hops[hierarchy.indices(classes)].tolist(), strict=True))
    guesses = {i: why for i, steps in distance.items() if (why := _guesswork(steps, i in without))}
    return {
        "nodes": len(hierarchy),
        "edges": len(child),
        "roots": len(hierarchy.roots),
        "some_roots": [{"id": i, "name": hierarchy.name(i)} for i in hierarchy.roots[:5]],
        "leaves": len(hierarchy.leaves),
        "depth": hierarchy.depth,
        "orphans": [hierarchy.ids[row] for row in np.flatnonzero(~connected)] if len(hierarchy) > 1 else [],
        "already_there": hierarchy.source.get("already_there", 0),  # rows of a file that only restate a class
        "seen_present": len(present),
        "seen_missing": [i for i in seen_ids if i not in hierarchy],
        "own": len(classes),  # what follows is about these only
        "without_vector": [i for i in classes if i in without],
        "missed_words": dict(Counter(coverage.missed_words).most_common(10)),
        "hops": dict(sorted(Counter(distance.values()).items())),  # to a seen class -> classes; -1: not connected
        "distance": distance,  # id -> hops to the nearest seen class
        "guesswork": guesses,
    }


@lru_cache  # one text for all classes at the same distance
def _guesswork(distance: int, without_vector: bool) -> str | None:
    if distance < 0:
        return "not connected to any seen class"
    if distance > FAR:
        return f"{distance} hops from the nearest seen class"
    if without_vector and distance > 1:
        return f"no word of its name has a vector, and {distance} hops from the nearest seen class"
    return None
