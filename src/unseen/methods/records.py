"""What a method tells of its fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unseen.runtime.records import Record


@dataclass(frozen=True)
class FitRecord(Record):
    """Facts about a fit; what a method does not have stays None. Whatever else it wants to tell goes into `extra`.

    Args:
        loss: At the end of the fit.
        epochs: How many were done.
        seconds: What the fit took, before an interruption too.
        weights: How many numbers were learned.
        hop_weights: For DGP, by direction: the share of each hop group.
        field_sizes: For graph networks: how many nodes each layer computes, from its input to the seen classes.
        fit_peak_memory_mb: The most memory held by the end of the fit.
        chosen: Settings that the method chose by itself.
        extra: JSON values, by names of the method's own.

    >>> import unseen
    >>> record = unseen.FitRecord(loss=0.02, epochs=300, extra={"neighbours": 5})
    >>> record.to_json()
    {'neighbours': 5, 'loss': 0.02, 'epochs': 300}
    >>> unseen.FitRecord.from_json(record.to_json()) == record
    True
    """

    loss: float | None = None
    epochs: int | None = None
    seconds: float | None = None
    weights: int | None = None
    hop_weights: dict[str, list[float]] | None = None
    field_sizes: list[int] | None = field(default=None, metadata={"key": "field"})
    fit_peak_memory_mb: float | None = None
    chosen: dict[str, Any] | None = None
