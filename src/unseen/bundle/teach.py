"""Classes of a finished bundle taught with photos, at once and without training; and made to forget them.

A prediction in doubt and photos as evidence are weighed in closed form:

    w' = mu + shrink(a) ((1 - a) (w - mu) + a q),    a = n doubt / (n doubt + NOISE sqrt(1 - doubt))

w is the predicted classifier, a guess with variance `doubt`: for kin 1 - trust^2, its median over the novel classes.
q is what n photos say alone, the direction of their mean feature m, without what the photos of all classes share:

    q = length * (m/|m| - share c/|c|) / usual length of these

with mu the mean of the seen classifiers, `length` their usual distance from it, c an average photo and `share` the mean
over the taught classes of cos(m, c). So among classes that were all taught the photos' part is a nearest mean by
cosine. NOISE is the variance of what a single photo says. Teaching must not raise scores on unrelated photos: the
biases are such that the average photo c scores as before, in the mean over the taught classes, and the more a class
owes to photos the shorter w' is made, since photos of its siblings are like its own photos too.

Only the features of the photos count. Their mean is kept, so that ten photos in two goes are worth as much as ten in
one, and forgetting gives back exactly what was there. Classes that are not taught never change.
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
"""Of one photo, in units of the variance of a class of which nothing is known (`benchmarks/teaching.py choose`)."""
DOUBT = 0.75
"""For methods without trust: the median of kin's doubt on hidden seen classes."""
SEEN_DOUBT = 0.02
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
    """The bundle with this taught, and the rows of all taught classes, and of those that changed, from scratch."""
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
    # A seen class competes with others that have no photos: it is weighed by itself.
    unseen, alone = [row for row in with_photos if not is_seen[row]], [[row] for row in with_photos if is_seen[row]]
    for rows in filter(None, [unseen, *alone]):
        of = [entries[row] for row in rows]
        doubts = [SEEN_DOUBT if is_seen[row] else doubt[row] for row in rows]
        weights = [weigh(one.photos, d) if one.answered else 1.0 for one, d in zip(of, doubts, strict=True)]
        points = solution.projection(np.stack([one.mean for one in of]).astype(np.float32))
        classifiers[rows] = combine(np.stack([one.predicted for one in of]), points, weights, like, has_bias)
    if trust is not None:
        for row in with_photos:
            trust[row] = np.sqrt(1 - remaining_doubt(entries[row].photos, 1 - float(trust[row]) ** 2))
    calibration = bundle.calibration and replace(bundle.calibration, before_teaching=bool(kept) or None)
    solution = replace(solution, classifiers=classifiers, trust=trust, answers=answers)
    return bundle.change(solution=solution, taught=kept, calibration=calibration)


def usual_doubts(bundle: Bundle, trust: np.ndarray | None) -> np.ndarray:
    """N: for novel classes the median of theirs: classes whose photos weigh differently do not compare well. For those
    above seen classes, of which much is known, their own."""
    if trust is None:
        return np.full(len(bundle), DOUBT)
    doubt, novel = np.maximum(1 - trust.astype(np.float64) ** 2, SEEN_DOUBT), bundle.is_novel & bundle.is_class
    return np.where(novel, np.median(doubt[novel]), doubt) if novel.any() else doubt


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
    """a: how much photos count against the prediction, 0..1. The posterior mean of a classifier of unit variance, whose
    prediction has the length sqrt(1 - doubt) before it is made as long as the others.

    >>> weigh(0, 0.75), round(weigh(1, 0.75), 2), round(weigh(10, 0.75), 2)
    (0.0, 0.43, 0.88)
    """
    return photos * doubt / (photos * doubt + noise * math.sqrt(1 - doubt)) if photos else 0.0


def shrink(weight: float) -> float:
    """How much shorter a classifier is made that owes so much to photos.

    Longer ones take more photos from untaught siblings; shorter ones lose too many of their own.

    >>> shrink(0.2), round(shrink(0.7), 2), round(shrink(1.0), 2)
    (1.0, 0.76, 0.55)
    """
    return min(1.0, 1.25 - 0.7 * weight)


def remaining_doubt(photos: int, doubt: float) -> float:
    """The variance that is left when photos were weighed in."""
    return doubt * NOISE / (NOISE + photos * doubt)


def combine(
    predicted: np.ndarray, points: np.ndarray, weights: Sequence[float] | np.ndarray, like: Reference, has_bias: bool
) -> np.ndarray:
    """w' (n x E, float32) of predicted classifiers and the means of their photos, `points`, where classes are scored.

    With `has_bias` the last number of each is a bias, and the 1 that it is multiplied by. Without, scores are like
    cosines, and only the direction of a point itself counts.
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
    """The features of an average photo (D), estimated from these (n x D): all equal.

    Pooled features are nearly that: the mean over photos of EfficientNet-Lite0's and of ResNet-50's has a cosine of
    0.94 and 0.95 with it.
    """
    return np.full(features.shape[1], features.mean())


def scores_with_bias(projection: Projection) -> bool:
    """Whether the last number of a point is a 1, for the bias."""
    return isinstance(projection, (Append1, Unit))


def taught_head(known: np.ndarray, taught: Mapping[int, Taught]) -> np.ndarray:
    """The network's own classifiers (M x P) with those of taught classes, given by their rows, moved likewise."""
    head, like = np.array(known, np.float32), Reference.of(known)
    for row, photos in taught.items():
        point = np.append(photos.mean, 1.0)
        weights = [weigh(photos.photos, SEEN_DOUBT)]
        head[row] = combine(known[row][None], point[None], weights, like, has_bias=True)[0]
    return head
