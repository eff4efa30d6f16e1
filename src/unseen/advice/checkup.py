"""What a hierarchy holds, and how much can be hoped for its classes before anything is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from unseen.semantics import Coverage
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.sources import BUILT_IN
from unseen.taxonomy.wordnet import is_wordnet_id

FAR = 4  # hops: further from every seen class than this, a prediction is guesswork


def own_classes(taxonomy: Taxonomy) -> list[str]:
    """The ids that are the user's: those that a file adds to a built-in hierarchy, or else all of them."""
    source = taxonomy.source
    if source.get("kind") not in BUILT_IN or "additions" not in source:
        return list(taxonomy.ids)
    base, named = Taxonomy.load(source["kind"]), set(source.get("named", ()))
    return [i for i in taxonomy.ids if i in named or (i not in base and not is_wordnet_id(i))]


def check_up(taxonomy: Taxonomy, seen_ids: Sequence[str], coverage: Coverage) -> dict[str, Any]:
    """Shape, seen classes present and missing, names without vectors, distance of every own class to a seen one."""
    present = [i for i in seen_ids if i in taxonomy]
    hops = taxonomy.hops_from(present) if present else np.full(len(taxonomy), -1)
    child, parent = taxonomy.edges()
    lonely = np.ones(len(taxonomy), bool)
    lonely[child] = lonely[parent] = False
    without = set(coverage.zero)
    own = own_classes(taxonomy)
    own_hops = hops if len(own) == len(taxonomy) else hops[taxonomy.indices(own)]
    distance = dict(zip(own, own_hops.tolist(), strict=True))
    guesses = {i: why for i, steps in distance.items() if (why := _guesswork(steps, i in without))}
    return {
        "nodes": len(taxonomy),
        "edges": len(child),
        "roots": len(taxonomy.roots),
        "some_roots": [{"id": i, "name": taxonomy.name(i)} for i in taxonomy.roots[:5]],
        "leaves": int((np.bincount(parent, minlength=len(taxonomy)) == 0).sum()),
        "depth": taxonomy.depth,
        "orphans": [taxonomy.ids[row] for row in np.flatnonzero(lonely)] if len(taxonomy) > 1 else [],
        "already_there": taxonomy.source.get("already_there", 0),  # rows of a file that only restate a class
        "seen_present": len(present),
        "seen_missing": [i for i in seen_ids if i not in taxonomy],
        "own": len(own),  # what follows is about these only
        "without_vector": [i for i in own if i in without],
        "missed_words": dict(Counter(coverage.missed_words).most_common(10)),
        "hops": dict(sorted(Counter(distance.values()).items())),  # to a seen class -> classes; -1: not connected
        "distance": distance,  # id -> hops to the nearest seen class
        "guesswork": guesses,
    }


@cache  # one text for all classes that it is true of
def _guesswork(distance: int, without_vector: bool) -> str | None:
    if distance < 0:
        return "not connected to any seen class"
    if distance > FAR:
        return f"{distance} hops from the nearest seen class"
    if without_vector and distance > 1:
        return f"no word of its name has a vector, and {distance} hops from the nearest seen class"
    return None
