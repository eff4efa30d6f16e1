"""All that is counted for one list of candidates: it takes batches of photos, and merges with what others counted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from unseen.errors import UnseenError
from unseen.evaluation.hierarchical import HierarchicalCounter
from unseen.evaluation.metrics import HitCounter, SeenUnseenCurve, harmonic_mean, hits
from unseen.evaluation.novelty import NoveltyDetector, judged_ranks
from unseen.probability.verdicts import check_sureness
from unseen.recognition.recogniser import Recogniser


class Tally:
    """Counts photos of a model over one list; the arguments are those of `unseen.evaluate`."""

    def __init__(
        self,
        model: Recogniser,
        candidates: str | Sequence[str],
        with_seen: bool,
        shift: float | None,
        ties: str,
        ks: Sequence[int],
        novelty: float | None,
        sure: float | None,
    ):
        bundle, rows = model.bundle, model.candidates(candidates, with_seen)
        self.bundle, self.candidates, self.ties, self.rows = bundle, candidates, ties, rows
        self.own_list = {bundle.ids[row] for row in model.candidates(_plain(candidates))}
        ids = [bundle.ids[row] for row in rows]
        self.position = {id: place for place, id in enumerate(ids)}
        self.skipped: set[str] = set()  # folders of classes that do not count
        self.empty: set[str] = set()  # folders without a readable photo
        is_seen = bundle.is_seen[rows]
        self.is_seen, self._kinds = is_seen, set()
        self.counter = HitCounter(ids, ks, ties)
        self.first = HitCounter(ids, (1,), ties)  # ties between the groups count as all ties do
        self.curve = SeenUnseenCurve(is_seen) if is_seen.any() and not is_seen.all() else None
        self.judge = model.judge(candidates, shift, with_seen)
        self.verdicts = None if sure is None else HierarchicalCounter(self.judge, check_sureness(sure))
        self.detective = None
        if novelty is not None:
            if self.curve is None:
                raise UnseenError(
                    "a novelty detector needs seen and unseen candidates: add the seen ones with with_seen=True",
                    "with_seen=True",
                )
            counter = HitCounter(ids, sorted({1, *ks}), ties)
            self.detective = Detective(NoveltyDetector(novelty), counter, is_seen)

    def expect(self, counted: Collection[str]) -> None:
        """Photos of these classes will come. Only where they are of both kinds are margins kept, photo by photo."""
        self._kinds |= {bool(self.is_seen[self.position[id]]) for id in counted}

    def add(self, features: np.ndarray, points: np.ndarray, places: Sequence[int]) -> None:
        """Photos with their features and points; places among the candidates, -1 for photos that do not count."""
        own = np.asarray(places, np.int64)
        kept = np.flatnonzero(own >= 0)
        if not len(kept):
            return
        if len(kept) < len(own):
            features, points, own = features[kept], points[kept], own[kept]
        scorer, truth = self.judge.scorer, self.rows[own]
        if self.curve is None or (len(self._kinds) < 2 and self.detective is None):
            found = scorer.ranks(points, truth)
        else:
            found = scorer.generalised_ranks(points, truth)
            if len(self._kinds) == 2:
                self.curve.update(own, found.margin, hits(found.own_greater, found.own_equal, 1, self.ties))
                self.first.update(own, found.greater, found.equal)
            if self.detective is not None:
                self.detective.update(self.bundle.head, features, own, found)
        self.counter.update(own, found.greater, found.equal)
        if self.verdicts is not None:
            for block, judged in self.judge.judge(features):
                best = self.judge.best(judged, self.verdicts.k)
                self.verdicts.update(judged, scorer.columns[best], truth[block])

    def state(self) -> dict[str, dict[str, Any]]:
        """What `merge` takes: plain arrays and numbers."""
        return {name: part.state() for name, part in self._parts().items()}

    def merge(self, state: dict[str, dict[str, Any]]) -> None:
        """Add what another process counted over the same list: sums do not depend on who counted."""
        for name, part in self._parts().items():
            part.merge(state[name])

    def _parts(self) -> dict[str, Any]:
        parts = {"counter": self.counter, "first": self.first, "curve": self.curve, "verdicts": self.verdicts,
                 "detective": self.detective}  # fmt: skip
        return {name: part for name, part in parts.items() if part is not None}

    def figures(self) -> dict[str, Any]:
        """Those fields of an `Evaluation` that are counted here."""
        verdicts = self.verdicts
        return {
            "image": _rounded(self.counter.by_image()),
            "class_": _rounded(self.counter.by_class()),
            "generalised": _generalised(self.curve, self.first),
            "novelty": None if self.detective is None else self.detective.figures(),
            "per_class": self.counter.table(),
            "curve": self.curve,
            "calibrated": self.judge.calibrated,
            "verdict": None if verdicts is None else verdicts.verdict(),
            "hierarchical": None if verdicts is None else verdicts.hierarchical(),
            "verdict_curve": None if verdicts is None else verdicts.points(),
            "reliability": None if verdicts is None else verdicts.reliability(),
        }


class Detective:
    """Counts hits where a novelty detector decides which group of classes competes for a photo."""

    def __init__(self, detector: NoveltyDetector, counter: HitCounter, is_seen: np.ndarray):
        self.detector, self.counter, self.is_seen = detector, counter, is_seen
        self.told = np.zeros((2, 2), np.int64)  # unseen or seen x told rightly or not

    def update(self, known: np.ndarray, features: np.ndarray, labels: np.ndarray, found) -> None:
        told_seen, is_seen = self.detector.is_seen(known, features), self.is_seen[labels]
        np.add.at(self.told, (is_seen.astype(int), (told_seen == is_seen).astype(int)), 1)
        self.counter.update(labels, *judged_ranks(is_seen, told_seen, found.own_greater, found.own_equal))

    def state(self) -> dict[str, Any]:
        return {"told": self.told, **self.counter.state()}

    def merge(self, state: dict[str, Any]) -> None:
        self.told = self.told + state["told"]
        self.counter.merge(state)

    def figures(self) -> dict[str, Any]:
        """Hit@k as without a detector; Hit@1 of seen and unseen classes; how often the detector was right."""
        result: dict[str, Any] = {
            "threshold": self.detector.threshold,
            "image": _rounded(self.counter.by_image()),
            "class": _rounded(self.counter.by_class()),
        }
        of_classes = {row["id"]: row["hit@1"] for row in self.counter.table()}
        for group, wanted in (("unseen", False), ("seen", True)):
            own = [of_classes[id] for id, seen in zip(self.counter.classes, self.is_seen, strict=True)
                   if seen == wanted and id in of_classes]  # fmt: skip
            result[group] = round(float(np.mean(own)), 2) if own else None
            photos = self.told[int(wanted)].sum()
            result[f"{group}_told_rightly"] = round(100 * self.told[int(wanted), 1] / photos, 2) if photos else None
        harmonic = harmonic_mean(result["seen"], result["unseen"])
        return result | {"harmonic": None if harmonic is None else round(harmonic, 2)}


def _generalised(curve: SeenUnseenCurve | None, first: HitCounter) -> dict[str, Any] | None:
    """Seen and unseen accuracy, their harmonic mean and the area under the curve over all shifts, both averages.

    The accuracies are Hit@1 as `image` and `class` have it, of each group: a photo for which seen and unseen classes
    tie counts as it does there. On the curve, where only margins are known, it counts half.
    """
    if curve is None or curve.area() is None:
        return None
    seen = {id for id, is_seen in zip(first.classes, curve.is_seen, strict=True) if is_seen}
    result = {}
    for average in ("image", "class"):
        shares = {}
        for group, wanted in (("seen", True), ("unseen", False)):
            rows = [row for row in first.table() if (row["id"] in seen) == wanted]
            weights = [row["photos"] if average == "image" else 1 for row in rows]
            shares[group] = float(np.average([row["hit@1"] for row in rows], weights=weights))
        best = curve.best(average)
        harmonic = harmonic_mean(shares["seen"], shares["unseen"]) or 0.0
        result[average] = {
            **{group: round(share, 2) for group, share in shares.items()},
            "harmonic": round(harmonic, 2),
            "ausuc": round(curve.area(average) or 0.0, 4),
            "best_shift_in_hindsight": best.shift,  # scores have no fixed scale: not rounded
            "best_harmonic_in_hindsight": round(best.harmonic, 2),
        }
    return result


def _plain(candidates: str | Sequence[str]) -> str | Sequence[str]:
    """The list itself, without the seen classes that a trailing +1K or +seen adds."""
    if isinstance(candidates, str):
        list_, plus, added = candidates.rpartition("+")
        if plus and added.strip().lower() in ("1k", "seen"):
            return list_
    return candidates


def _rounded(figures: dict[str, float | None]) -> dict[str, float | None]:
    return {key: None if value is None else round(value, 2) for key, value in figures.items()}
