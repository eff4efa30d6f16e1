"""Teach classes of a finished bundle with photos, at once and without training; and make it forget them.

A closed form weighs the prediction, which is in doubt, against the photos:

    w' = mu + shrink(a) ((1 - a) (w - mu) + a q),    a = n doubt / (n doubt + NOISE sqrt(1 - doubt))

w is the predicted classifier, a guess with variance `doubt`: for kin 1 - trust^2, its median over the novel classes.
q is the evidence of n photos: the direction of their mean feature m, without what the photos of all classes share:

    q = length * (m/|m| - share c/|c|) / usual length of these

mu is the mean of the seen classifiers, `length` their usual distance from it, c an average photo and `share` the mean
of cos(m, c) over the taught classes. So the photos' part is a nearest mean by cosine among taught classes. NOISE is the
variance of what a single photo says.

Teaching must not raise scores on unrelated photos. Biases are chosen so that an average photo's mean score over the
taught classes does not change. The more a class owes to photos, the shorter w' is made, since photos of its siblings
resemble its own.

A bundle keeps the mean of the photos' features and no photos: ten photos in two goes count as much as ten in one, and
forgetting restores exactly what was there. Classes that are not taught never change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unseen.bundle.bundle import Bundle
from unseen.bundle.records import Taught
from unseen.methods.base import normalise_rows
from unseen.methods.projections import Append1, Projection, Unit
from unseen.networks.features import check_matrix
from unseen.util.errors import UnseenError

NOISE = 2.0
"""Variance of one photo, in units of the variance of an unknown class (`benchmarks/teaching.py choose`)."""
DOUBT = 0.75
"""For methods without trust: the median of kin's doubt on hidden seen classes."""
SEEN_DOUBT = 0.02
"""Doubt of a classifier that the network learned from photos."""
SMALL = 1e-12


@dataclass(frozen=True)
class Photos:
    """Photos of one class: features, n x D, and a checksum of each, to recognise a photo that was taught before."""

    features: np.ndarray
    checksums: Sequence[str]


def teach(bundle: Bundle, photos: Mapping[str, Photos]) -> Bundle:
    """The bundle with classes taught by photos; the formula is at the top of this file.

    A photo that taught a class before does not count again.
    """
    if not photos:
        raise UnseenError("no photos to teach a class with were given")
    _check_classes(bundle, list(photos))
    taught = dict(bundle.taught)
    for id, given in photos.items():
        features = check_matrix(given.features, f"the photos of {id}", bundle.network.num_features)
        if len(features) != len(given.checksums):
            raise UnseenError(f"{id}: {len(features)} rows of features, but {len(given.checksums)} checksums")
        taught[id] = _continued(taught.get(id) or _first(bundle, id), features, given.checksums)
    return _apply(bundle, {id: taught[id] for id in photos}, taught)


def forget(bundle: Bundle, ids: Sequence[str] | None = None) -> Bundle:
    """The bundle as if these classes, by default all, had never been taught."""
    ids = list(bundle.taught) if ids is None else list(ids)
    bundle.hierarchy.indices(ids)
    never = [id for id in ids if id not in bundle.taught]
    if never:
        known = ", ".join(list(bundle.taught)[:5]) or "none"
        raise UnseenError(f"{', '.join(never[:5])}: no photos were taught. Classes taught here: {known}")
    kept = {id: entry for id, entry in bundle.taught.items() if id not in set(ids)}
    return _apply(bundle, {id: replace(bundle.taught[id], checksums=()) for id in ids}, kept)


def _check_classes(bundle: Bundle, ids: Sequence[str]) -> None:
    rows = bundle.hierarchy.indices(ids)
    others = [bundle.ids[row] for row in rows[~bundle.is_class[rows]]]
    if others:
        raise UnseenError(
            f"{', '.join(others[:5])}: no class of the bundle, but a node that connects others. Make it a class with "
            "`unseen add` before it is taught"
        )


def _first(bundle: Bundle, id: str) -> Taught:
    """A class before its first photo."""
    solution, row = bundle.solution, bundle.hierarchy.index(id)
    return Taught(
        mean=np.zeros(bundle.network.num_features),
        checksums=(),
        predicted=np.asarray(solution.classifiers[row], np.float32).copy(),
        trust=None if solution.trust is None else float(solution.trust[row]),
        answered=solution.answers is None or bool(solution.answers[row]),
    )


def _continued(entry: Taught, features: np.ndarray, checksums: Sequence[str]) -> Taught:
    known, rows = set(entry.checksums), []
    for row, checksum in enumerate(checksums):
        if checksum not in known:
            known.add(checksum)
            rows.append(row)
    total = entry.photos * entry.mean + features[rows].astype(np.float64).sum(axis=0)
    taken = (*entry.checksums, *(checksums[row] for row in rows))
    return replace(entry, mean=total / max(len(taken), 1), checksums=taken)


def _apply(bundle: Bundle, changed: Mapping[str, Taught], taught: dict[str, Taught]) -> Bundle:
    """The bundle with the rows of all taught and all changed classes computed from their stored predictions."""
    solution, kept = bundle.solution, {id: entry for id, entry in taught.items() if entry.photos}
    classifiers = np.array(solution.classifiers, np.float32)
    trust = None if solution.trust is None else np.array(solution.trust)
    answers = None if solution.answers is None else np.array(solution.answers)
    entries = {bundle.hierarchy.index(id): entry for id, entry in {**changed, **kept}.items()}
    for row, entry in entries.items():
        classifiers[row] = entry.predicted
        if trust is not None and entry.trust is not None:
            trust[row] = entry.trust
        if answers is not None:
            answers[row] = entry.answered or entry.photos > 0
    doubt = usual_doubts(bundle, trust)
    like, has_bias = Reference.of(_untaught_seen(bundle)), scores_with_bias(solution.projection)
    with_photos, is_seen = [row for row, entry in entries.items() if entry.photos], bundle.is_seen
    # The other seen classes have no photos: each taught one is weighed by itself.
    unseen, alone = [row for row in with_photos if not is_seen[row]], [[row] for row in with_photos if is_seen[row]]
    for rows in filter(None, [unseen, *alone]):
        chosen = [entries[row] for row in rows]
        doubts = [SEEN_DOUBT if is_seen[row] else doubt[row] for row in rows]
        weights = [weigh(one.photos, d) if one.answered else 1.0 for one, d in zip(chosen, doubts, strict=True)]
        points = solution.projection(np.stack([one.mean for one in chosen]).astype(np.float32))
        classifiers[rows] = combine(np.stack([one.predicted for one in chosen]), points, weights, like, has_bias)
    if trust is not None:
        for row in with_photos:
            trust[row] = np.sqrt(1 - remaining_doubt(entries[row].photos, 1 - float(trust[row]) ** 2))
    calibration = bundle.calibration and replace(bundle.calibration, before_teaching=bool(kept) or None)
    solution = replace(solution, classifiers=classifiers, trust=trust, answers=answers)
    return bundle.change(solution=solution, taught=kept, calibration=calibration)


def usual_doubts(bundle: Bundle, trust: np.ndarray | None) -> np.ndarray:
    """N: the median for all novel classes, since classes whose photos weigh differently do not compare well; for
    classes above seen ones their own doubt."""
    if trust is None:
        return np.full(len(bundle), DOUBT)
    doubt, novel = np.maximum(1 - trust.astype(np.float64) ** 2, SEEN_DOUBT), bundle.is_novel & bundle.is_class
    return np.where(novel, np.median(doubt[novel]), doubt) if novel.any() else doubt


def _untaught_seen(bundle: Bundle) -> np.ndarray:
    """M x E: the seen classes' rows before teaching."""
    rows = np.array(bundle.solution.classifiers[bundle.seen], np.float32)
    for position, id in enumerate(bundle.seen_ids):
        if id in bundle.taught:
            rows[position] = bundle.taught[id].predicted
    return rows


# -- the evidence of photos -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """What the seen classifiers of a matrix (M x E) have in common."""

    mean: np.ndarray  # E
    length: float  # the usual distance from it

    @classmethod
    def of(cls, rows: np.ndarray) -> Reference:
        rows = np.asarray(rows, np.float64)
        mean = rows.mean(axis=0)
        length = float(np.sqrt(((rows - mean) ** 2).sum(axis=1).mean()))
        # With a single seen class the distance says nothing, but its own length does.
        return cls(mean, length if length > SMALL else float(np.linalg.norm(mean)))

    @property
    def size(self) -> float:
        """How long the classifiers usually are."""
        return float(np.hypot(self.length, np.linalg.norm(self.mean)))


def weigh(photos: int, doubt: float, noise: float = NOISE) -> float:
    """a: the weight of photos against the prediction, 0..1. It follows from the posterior mean of a classifier of unit
    variance, whose prediction has length sqrt(1 - doubt) before it is scaled to the length of the others.

    >>> weigh(0, 0.75), round(weigh(1, 0.75), 2), round(weigh(10, 0.75), 2)
    (0.0, 0.43, 0.88)
    """
    return photos * doubt / (photos * doubt + noise * math.sqrt(1 - doubt)) if photos else 0.0


def shrink(weight: float) -> float:
    """The factor of a classifier's length, by the weight of its photos.

    Longer ones take more photos from untaught siblings; shorter ones lose too many of their own.

    >>> shrink(0.2), round(shrink(0.7), 2), round(shrink(1.0), 2)
    (1.0, 0.76, 0.55)
    """
    return min(1.0, 1.25 - 0.7 * weight)


def remaining_doubt(photos: int, doubt: float) -> float:
    """The variance that is left after photos."""
    return doubt * NOISE / (NOISE + photos * doubt)


def combine(
    predicted: np.ndarray, points: np.ndarray, weights: Sequence[float] | np.ndarray, like: Reference, has_bias: bool
) -> np.ndarray:
    """w' (n x E, float32) from predicted classifiers and `points`, the projected means of their photos.

    With `has_bias` the last number of a classifier is its bias, and that of a point is 1. Without, scores are like
    cosines, and only the direction of a point counts.
    """
    weight = np.asarray(weights, np.float64)[:, None]
    directions = normalise_rows(points[:, :-1] if has_bias else points).astype(np.float64)
    if not has_bias:
        return ((1 - weight) * predicted + weight * like.size * directions).astype(np.float32)
    prior, average = predicted[:, :-1].astype(np.float64), average_photo(points[:, :-1].astype(np.float64))
    level = normalise_rows(average[None])[0]
    directions -= (directions @ level).mean() * level
    usual = np.linalg.norm(directions, axis=1).mean()
    if usual < SMALL:  # features that are all alike say nothing
        return predicted.astype(np.float32)
    mean, shorter = like.mean[:-1], np.array([shrink(one) for one in weight[:, 0]])[:, None]
    rows = mean + shorter * ((1 - weight) * (prior - mean) + weight * like.length * directions / usual)
    biases = predicted[:, -1] + ((prior - rows) @ average).mean()
    return np.concatenate([rows, biases[:, None]], axis=1).astype(np.float32)


def average_photo(features: np.ndarray) -> np.ndarray:
    """The features of an average photo (D), all equal to the mean of `features` (n x D).

    Pooled features come close: the mean over photos has a cosine of 0.94 with it for EfficientNet-Lite0, and of 0.95
    for ResNet-50.
    """
    return np.full(features.shape[1], features.mean())


def scores_with_bias(projection: Projection) -> bool:
    """Whether a point ends in 1, for the bias."""
    return isinstance(projection, (Append1, Unit))


def taught_head(known: np.ndarray, taught: Mapping[int, Taught]) -> np.ndarray:
    """The network's own classifiers (M x P), with the taught ones (given by row) moved likewise."""
    head, like = np.array(known, np.float32), Reference.of(known)
    for row, photos in taught.items():
        point = np.append(photos.mean, 1.0)
        weights = [weigh(photos.photos, SEEN_DOUBT)]
        head[row] = combine(known[row][None], point[None], weights, like, has_bias=True)[0]
    return head
