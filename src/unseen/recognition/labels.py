"""What a photo is called."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Label:
    """One answer. Scores rank the classes for one photo; they are not probabilities."""

    id: str
    name: str
    score: float
    seen: bool
    trust: float | None  # 0..1: how well seen classes support this one; None where the method does not tell
    path: tuple[str, ...]  # names from the top of the hierarchy down to this class

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
