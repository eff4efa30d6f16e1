"""What a hierarchy holds, and how much can be hoped for its classes before anything is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from unseen.semantics import ClassVectors
from unseen.taxonomy import Taxonomy

FAR = 4  # hops: further from every seen class than this, a prediction is guesswork


def check_up(taxonomy: Taxonomy, seen_ids: Sequence[str], vectors: ClassVectors) -> dict[str, Any]:
    """Shape, seen classes present and missing, names without vectors, distance of every class to a seen one."""
    present = [i for i in seen_ids if i in taxonomy]
    hops = taxonomy.hops_from(present) if present else np.full(len(taxonomy), -1)
    child, parent = taxonomy.edges()
    lonely = np.ones(len(taxonomy), bool)
    lonely[child] = lonely[parent] = False
    without = set(vectors.coverage.zero)
    reasons = {}
    for row, distance in enumerate(hops.tolist()):
        why = _guesswork(distance, taxonomy.ids[row] in without)
        if why:
            reasons[taxonomy.ids[row]] = why
    return {
        "nodes": len(taxonomy),
        "edges": len(child),
        "roots": len(taxonomy.roots),
        "some_roots": [{"id": i, "name": taxonomy.name(i)} for i in taxonomy.roots[:5]],
        "leaves": len(taxonomy.leaves),
        "depth": taxonomy.depth,
        "orphans": [taxonomy.ids[row] for row in np.flatnonzero(lonely)] if len(taxonomy) > 1 else [],
        "seen_present": len(present),
        "seen_missing": [i for i in seen_ids if i not in taxonomy],
        "without_vector": sorted(without),
        "missed_words": dict(Counter(vectors.coverage.missed_words).most_common(10)),
        "hops": dict(sorted(Counter(hops.tolist()).items())),  # distance to a seen class -> classes; -1: not connected
        "guesswork": reasons,
    }


def _guesswork(distance: int, without_vector: bool) -> str | None:
    if distance < 0:
        return "not connected to any seen class"
    if distance > FAR:
        return f"{distance} hops from the nearest seen class"
    if without_vector and distance > 1:
        return f"no word of its name has a vector, and {distance} hops from the nearest seen class"
    return None
