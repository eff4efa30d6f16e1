"""Classes of a finished bundle taught with photos, at once and without training; and made to forget them.

Only the features of the photos count. The sum of what a class was taught is kept, so that ten photos in two goes are
worth as much as ten in one, and forgetting gives back exactly what was there. No other class changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unseen.bundle.core import Bundle
from unseen.bundle.evidence import (
    DOUBT,
    SEEN_DOUBT,
    Reference,
    combine,
    remaining_doubt,
    scores_with_bias,
    weigh,
)
from unseen.bundle.lessons import Lesson
from unseen.errors import UnseenError
from unseen.features.arrays import check_matrix


@dataclass(frozen=True)
class Photos:
    """Of one class: features, n x D, and a checksum for each, by which a photo is known again."""

    features: np.ndarray
    checksums: Sequence[str]


def teach(
    bundle: Bundle, photos: Mapping[str, Photos], out: str | Path | None = None, overwrite: bool = False
) -> Bundle:
    """The bundle with classes that also come from photos; `unseen.bundle.evidence` has the formula.

    A photo that a class was taught with before is not counted again.

    Args:
        bundle: Stays as it is.
        photos: By class id.
        out: Where to save the result.
        overwrite: Replace a bundle in `out`, if it is another one than this.

    >>> import numpy as np
    >>> import unseen
    >>> from torch import nn
    >>> animals = unseen.Taxonomy.from_edges([("dog", "animal"), ("cat", "animal"), ("fox", "animal")])
    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    >>> backbone = unseen.from_module(network, ["dog", "cat"])
    >>> bundle = unseen.train("structural", animals, "glove", backbone)
    >>> taught = teach(bundle, {"fox": Photos(np.float32([[3, 1, 0], [2, 1, 0]]), ["first", "second"])})
    >>> taught.taught["fox"].photos, taught.taught["fox"].mean.tolist()
    (2, [2.5, 1.0, 0.0])
    """
    if out is not None:
        bundle.check_output(out, overwrite)
    if not photos:
        raise UnseenError("no photos to teach a class with were given")
    _check_classes(bundle, list(photos))
    lessons = dict(bundle.taught)
    for id, given in photos.items():
        features = check_matrix(given.features, f"the photos of {id}", bundle.backbone.num_features)
        if len(features) != len(given.checksums):
            raise UnseenError(f"{id}: {len(features)} rows of features, but {len(given.checksums)} checksums")
        lessons[id] = _continued(lessons.get(id) or _first(bundle, id), features, given.checksums)
    changed = _apply(bundle, {id: lessons[id] for id in photos}, lessons)
    if out is not None:
        changed.save(out, overwrite=overwrite)
    return changed


def forget(
    bundle: Bundle, ids: Sequence[str] | None = None, out: str | Path | None = None, overwrite: bool = False
) -> Bundle:
    """The bundle as if these classes had never been taught, or none of them.

    Args:
        bundle: Stays as it is.
        ids: Classes that were taught; by default all.
        out: Where to save the result.
        overwrite: Replace a bundle in `out`, if it is another one than this.
    """
    if out is not None:
        bundle.check_output(out, overwrite)
    ids = list(bundle.taught) if ids is None else list(ids)
    bundle.taxonomy.indices(ids)
    never = [id for id in ids if id not in bundle.taught]
    if never:
        known = ", ".join(list(bundle.taught)[:5]) or "none"
        raise UnseenError(f"{', '.join(never[:5])}: no photos were taught. Classes taught here: {known}")
    kept = {id: lesson for id, lesson in bundle.taught.items() if id not in set(ids)}
    changed = _apply(bundle, {id: replace(bundle.taught[id], checksums=()) for id in ids}, kept)
    if out is not None:
        changed.save(out, overwrite=overwrite)
    return changed


def _check_classes(bundle: Bundle, ids: Sequence[str]) -> None:
    rows = bundle.taxonomy.indices(ids)
    others = [bundle.ids[row] for row in rows[~bundle.is_class[rows]]]
    if others:
        raise UnseenError(
            f"{', '.join(others[:5])}: no class of the bundle, but a node that connects others. Make it a class with "
            "`unseen add` before it is taught"
        )


def _first(bundle: Bundle, id: str) -> Lesson:
    """A class before its first photo."""
    solution, row = bundle.solution, bundle.taxonomy.index(id)
    return Lesson(
        mean=np.zeros(bundle.backbone.num_features),
        checksums=(),
        predicted=np.asarray(solution.classifiers[row], np.float32).copy(),
        trust=None if solution.trust is None else float(solution.trust[row]),
        answered=solution.answers is None or bool(solution.answers[row]),
    )


def _continued(lesson: Lesson, features: np.ndarray, checksums: Sequence[str]) -> Lesson:
    known, rows = set(lesson.checksums), []
    for row, checksum in enumerate(checksums):
        if checksum not in known:
            known.add(checksum)
            rows.append(row)
    total = lesson.photos * lesson.mean + features[rows].astype(np.float64).sum(axis=0)
    taken = (*lesson.checksums, *(checksums[row] for row in rows))
    return replace(lesson, mean=total / max(len(taken), 1), checksums=taken)


def _apply(bundle: Bundle, changed: Mapping[str, Lesson], lessons: dict[str, Lesson]) -> Bundle:
    """The bundle with these lessons, and the rows of those that changed computed from scratch."""
    solution = bundle.solution
    classifiers = np.array(solution.classifiers)
    trust = None if solution.trust is None else np.array(solution.trust)
    answers = None if solution.answers is None else np.array(solution.answers)
    like, has_bias = Reference.of(_untaught_seen(bundle)), scores_with_bias(solution.projection)
    is_seen = bundle.is_seen
    for id, lesson in changed.items():
        row = bundle.taxonomy.index(id)
        doubt = _doubt(lesson, bool(is_seen[row]))
        weight = weigh(lesson.photos, doubt) if lesson.answered else float(lesson.photos > 0)
        classifiers[row] = lesson.predicted
        if weight:
            point = solution.projection(lesson.mean[None].astype(np.float32))[0]
            classifiers[row] = combine(lesson.predicted, point, weight, like, has_bias)
        if trust is not None and lesson.trust is not None:
            left = remaining_doubt(lesson.photos, 1 - lesson.trust**2)
            trust[row] = lesson.trust if not lesson.photos else np.sqrt(1 - left)
        if answers is not None:
            answers[row] = lesson.answered or lesson.photos > 0
    kept = {id: lesson for id, lesson in lessons.items() if lesson.photos}
    return bundle.change(solution=replace(solution, classifiers=classifiers, trust=trust, answers=answers), taught=kept)


def _doubt(lesson: Lesson, seen: bool) -> float:
    if seen:
        return SEEN_DOUBT
    return DOUBT if lesson.trust is None else max(1 - lesson.trust**2, SEEN_DOUBT)


def _untaught_seen(bundle: Bundle) -> np.ndarray:
    """M x E: the seen classes' rows without what they were taught."""
    rows = np.array(bundle.solution.classifiers[bundle.seen], np.float32)
    for place, id in enumerate(bundle.seen_ids):
        if id in bundle.taught:
            rows[place] = bundle.taught[id].predicted
    return rows
