"""Photos of seen classes, scored with some of these classes hidden from the method: what calibration learns on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unseen.errors import UnseenError
from unseen.probability.fitting import Sample
from unseen.recognition import Recogniser

LEAST_CLASSES, LEAST_PHOTOS = 3, 10
MOST = 20_000  # photos kept in memory; of more a random part
EACH = 700  # photos of kept classes, and of hidden ones, that a hiding is judged by
FEW = 100  # hidden classes: with fewer, hide more often
BATCH = 1024


@dataclass(frozen=True)
class Photos:
    """Features of photos of seen classes."""

    features: np.ndarray  # n x D
    ids: np.ndarray  # n: their classes

    @classmethod
    def read(cls, store: Any, seed: int) -> Photos:
        """All photos of a store, or a random part of very many."""
        classes = {id: photos for id, photos in store.classes().items() if photos}
        total = sum(classes.values())
        if len(classes) < LEAST_CLASSES or total < LEAST_PHOTOS:
            raise UnseenError(
                f"a calibration needs at least {LEAST_PHOTOS} photos of at least {LEAST_CLASSES} seen classes; here "
                f"are {total} photos of {len(classes)}. Folders are named by class: DIR/<class id>/<photo>"
            )
        random, share = np.random.default_rng(seed), min(1.0, MOST / total)
        features, ids = [], []
        for batch, names, _ in store.batches(BATCH):
            chosen = random.random(len(names)) < share
            features.append(np.asarray(batch, np.float32)[chosen])
            ids += [name for name, kept in zip(names, chosen, strict=True) if kept]
        return cls(np.concatenate(features), np.array(ids))


def count_hidings(hidden: int) -> int:
    """How often classes are hidden, each time others: what a few tell is left to chance."""
    return 2 if hidden >= FEW else 5


def sample_photos(
    model: Recogniser, photos: Photos, candidates: str | Sequence[str], random: np.random.Generator, each: int = EACH
) -> Sample:
    """Up to `each` photos of classes that the model knows as seen, and as many of others, with their scores."""
    bundle = model.bundle
    judge = model.judge(candidates, seen_shift=0.0)
    seen, unseen = (judge.scorer.columns[group] for group in judge.scorer.groups)
    truth = bundle.taxonomy.indices(photos.ids)
    kept = np.isin(truth, seen)
    answered = kept | np.isin(truth, unseen)
    chosen = [random.permutation(np.flatnonzero(part & answered))[:each] for part in (kept, ~kept)]
    rows = np.sort(np.concatenate(chosen))
    features = photos.features[rows]
    scores = judge.scorer.scores(judge.points(features))
    place = {row: at for at, row in enumerate(bundle.seen.tolist())}
    own = [place[row] for row in seen.tolist()]
    head = bundle.head[own]
    return Sample(
        taxonomy=bundle.taxonomy,
        seen=seen,
        unseen=unseen,
        logits=features @ head[:, :-1].T + head[:, -1],
        scores=scores[:, judge.scorer.groups[1]],
        truth=truth[rows],
        seen_scores=scores[:, judge.scorer.groups[0]],
    )
