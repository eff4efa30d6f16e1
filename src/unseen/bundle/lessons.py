"""What a bundle keeps of the photos that its classes were taught with: never the photos themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unseen.bundle.records import TaughtRecord


@dataclass(frozen=True, eq=False)
class Lesson:
    """The photos of one class in numbers, and what the class was without them.

    Args:
        mean: D, float64: the mean of the photos' features.
        checksums: One for each photo.
        predicted: E, float32: the classifier before the first photo.
        trust: Of the class before the first photo; None where the method cannot tell.
        answered: Whether the method had an answer for the class.
    """

    mean: np.ndarray
    checksums: tuple[str, ...]
    predicted: np.ndarray
    trust: float | None = None
    answered: bool = True

    @property
    def photos(self) -> int:
        return len(self.checksums)

    def record(self, id: str) -> TaughtRecord:
        """All but the arrays."""
        answered = None if self.answered else False
        return TaughtRecord(id, self.photos, list(self.checksums), self.trust, answered)


def lesson_arrays(taught: Mapping[str, Lesson]) -> dict[str, np.ndarray]:
    """The arrays of a bundle's lessons, a row for each class; nothing where there are none."""
    if not taught:
        return {}
    return {
        "taught.mean": np.stack([lesson.mean for lesson in taught.values()]),
        "taught.predicted": np.stack([lesson.predicted for lesson in taught.values()]),
    }


def restore_lessons(records: Sequence[TaughtRecord], arrays: Mapping[str, np.ndarray]) -> dict[str, Lesson]:
    """What `lesson_arrays` and `Lesson.record` gave."""
    if not records:
        return {}
    rows = zip(records, arrays["taught.mean"], arrays["taught.predicted"], strict=True)
    return {
        record.id: Lesson(mean, tuple(record.checksums), predicted, record.trust, record.answered is None)
        for record, mean, predicted in rows
    }
