"""Classes of a finished bundle taught with photos, at once and without training; and made to forget them.

A prediction in doubt and photos as evidence are weighed in closed form:

    w' = mu + shrink(a) ((1 - a) (w - mu) + a (q - mu)),    a = n doubt / (n doubt + NOISE)

w is the predicted classifier, a guess with variance `doubt`; kin knows it, 1 - trust^2. q is the classifier that n
photos give alone: the direction from an average photo c to their mean feature m, as long as seen classifiers are,

    q = mu + length * (m - c) / |m - c|

with mu the mean of the seen classifiers and `length` their usual distance from it. NOISE is the variance of what a
single photo says. Teaching must not raise a class's scores on unrelated photos: the bias of w' is such that the average
photo c scores as before, and the more it owes to photos the shorter it is made, since photos of its siblings are like
its own photos too.

Only the features of the photos count. Their mean is kept, so that ten photos in two goes are worth as much as ten in
one, and forgetting gives back exactly what was there. No other class changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unseen.bundle.bundle import Bundle
from unseen.bundle.records import Taught
from unseen.errors import UnseenError
from unseen.features.base import check_matrix
from unseen.methods.projections import Append1, Projection, Unit

NOISE = 1.0
"""Of one photo, in units of the variance of a class of which nothing is known: with it, seen classes that were hidden
and then taught come nearest to the network's own classifiers (`benchmarks/teaching.py choose`, four networks)."""
DOUBT = 0.75
"""For methods without trust: the median of kin's doubt on hidden seen classes."""
SEEN_DOUBT = 0.01
"""Of a classifier that the network learned from photos itself."""
SMALL = 1e-12


@dataclass(frozen=True)
class Photos:
    """Of one class: features, n x D, and a checksum for each, by which a photo is known again."""

    features: np.ndarray
    checksums: Sequence[str]


def teach(bundle: Bundle, photos: Mapping[str, Photos]) -> Bundle:
    """The bundle with classes that also come from photos; the formula is at the top of this file.

    A photo that a class was taught with before is not counted again.
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
    """The bundle with this taught, and the rows of those that changed computed from scratch."""
    solution = bundle.solution
    classifiers = np.array(solution.classifiers)
    trust = None if solution.trust is None else np.array(solution.trust)
    answers = None if solution.answers is None else np.array(solution.answers)
    like, has_bias = Reference.of(_untaught_seen(bundle)), scores_with_bias(solution.projection)
    is_seen = bundle.is_seen
    for id, entry in changed.items():
        row = bundle.hierarchy.index(id)
        doubt = _doubt(entry, bool(is_seen[row]))
        weight = weigh(entry.photos, doubt) if entry.answered else float(entry.photos > 0)
        classifiers[row] = entry.predicted
        if weight:
            point = solution.projection(entry.mean[None].astype(np.float32))[0]
            classifiers[row] = combine(entry.predicted, point, weight, like, has_bias)
        if trust is not None and entry.trust is not None:
            left = remaining_doubt(entry.photos, 1 - entry.trust**2)
            trust[row] = entry.trust if not entry.photos else np.sqrt(1 - left)
        if answers is not None:
            answers[row] = entry.answered or entry.photos > 0
    kept = {id: entry for id, entry in taught.items() if entry.photos}
    return bundle.change(solution=replace(solution, classifiers=classifiers, trust=trust, answers=answers), taught=kept)


def _doubt(entry: Taught, seen: bool) -> float:
    if seen:
        return SEEN_DOUBT
    return DOUBT if entry.trust is None else max(1 - entry.trust**2, SEEN_DOUBT)


def _untaught_seen(bundle: Bundle) -> np.ndarray:
    """M x E: the seen classes' rows without what they were taught."""
    rows = np.array(bundle.solution.classifiers[bundle.seen], np.float32)
    for place, id in enumerate(bundle.seen_ids):
        if id in bundle.taught:
            rows[place] = bundle.taught[id].predicted
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
    """a: how much photos count against the prediction, 0..1.

    >>> weigh(0, 0.75), round(weigh(1, 0.75), 2), round(weigh(10, 0.75), 2)
    (0.0, 0.43, 0.88)
    """
    return photos * doubt / (photos * doubt + noise)


def shrink(weight: float) -> float:
    """How much shorter a classifier is made that owes so much to photos.

    Longer ones take more photos from untaught siblings; shorter ones lose too many of their own.

    >>> shrink(0.2), round(shrink(0.7), 2), round(shrink(1.0), 2)
    (1.0, 0.76, 0.55)
    """
    return min(1.0, 1.25 - 0.7 * weight)


def remaining_doubt(photos: int, doubt: float) -> float:
    """The variance that is left when photos were weighed in."""
    return doubt * (1 - weigh(photos, doubt))


def combine(predicted: np.ndarray, point: np.ndarray, weight: float, like: Reference, has_bias: bool) -> np.ndarray:
    """w' (E, float32) of the predicted classifier and the photos' mean, `point`, where classes are scored (E).

    With `has_bias` the last number of each is a bias, and the 1 that it is multiplied by. Without, scores are like
    cosines, and only the direction of the point itself counts.
    """
    if not has_bias:
        length = max(float(np.linalg.norm(point)), SMALL)
        return ((1 - weight) * predicted + weight * like.size * point / length).astype(np.float32)
    prior, seen = predicted[:-1].astype(np.float64), point[:-1].astype(np.float64)
    centre = average_photo(seen)
    direction = seen - centre
    length = np.linalg.norm(direction)
    if length < SMALL:  # features that are all alike say nothing
        return predicted.astype(np.float32)
    mean = like.mean[:-1]
    weights = mean + shrink(weight) * ((1 - weight) * (prior - mean) + weight * like.length * direction / length)
    bias = float(predicted[-1]) + (prior - weights) @ centre
    return np.append(weights, bias).astype(np.float32)


def average_photo(features: np.ndarray) -> np.ndarray:
    """The features of an average photo, estimated from this one: all equal.

    Pooled features are nearly that: the mean over photos of EfficientNet-Lite0's and of ResNet-50's has a cosine of
    0.94 and 0.95 with it.
    """
    return np.full_like(features, features.mean())


def scores_with_bias(projection: Projection) -> bool:
    """Whether the last number of a point is a 1, for the bias."""
    return isinstance(projection, (Append1, Unit))


def taught_head(known: np.ndarray, taught: Mapping[int, Taught]) -> np.ndarray:
    """The network's own classifiers (M x P) with those of taught classes, given by their rows, moved likewise."""
    head, like = np.array(known, np.float32), Reference.of(known)
    for row, photos in taught.items():
        point = np.append(photos.mean, 1.0)
        head[row] = combine(known[row], point, weigh(photos.photos, SEEN_DOUBT), like, has_bias=True)
    return head
