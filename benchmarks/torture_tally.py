"""What `torture.py` counts, over one run or many: kept in a file that later runs add to."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS_OF = {
    "kills": ("kill: ", "kill at a time: "),
    "flips": ("flip: ",),
    "full_disks": ("full disk: ",),
    "races": ("race: ",),
    "fuzzed": ("fuzz: ",),
    "refused": ("fuzz, refused: ",),
}


@dataclass
class Tally:
    """Counts by "kind: command", findings, and how long it took; `trials` are those done of each seed."""

    trials: Counter[str] = field(default_factory=Counter)
    minutes: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    points: dict[str, int] = field(default_factory=dict)  # at which a command can be killed
    left: Counter[str] = field(
        default_factory=Counter
    )  # commands after whose second run leftovers of the first are there
    slowest: dict[str, float] = field(default_factory=dict)  # s
    peak: int = 0  # MB
    findings: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Tally:
        """Those of earlier runs; none where there is no file."""
        if not path.exists():
            return cls()
        held = json.loads(path.read_text())["tally"]
        return cls(**{name: Counter(value) if name in ("trials", "counts", "left") else value
                      for name, value in held.items()})  # fmt: skip

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"summary": self.summary(), "tally": vars(self)}))

    def note_slowest(self, name: str, seconds: float) -> None:
        self.slowest[name] = round(max(self.slowest.get(name, 0.0), seconds), 3)

    def total(self, what: str) -> int:
        return sum(count for name, count in self.counts.items() if name.startswith(KINDS_OF[what]))

    def summary(self) -> dict[str, Any]:
        self.peak = max(self.peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
        return {
            "seeds": dict(self.trials),
            "trials": self.trials.total(),
            "minutes": round(self.minutes, 2),
            **{what: self.total(what) for what in KINDS_OF},
            "points": dict(sorted(self.points.items())),
            "counts": dict(sorted(self.counts.items())),
            "slowest_input_s": dict(sorted(self.slowest.items())),
            "leftovers": dict(sorted(self.left.items())),
            "peak_memory_mb": self.peak,
            "findings": self.findings,
        }


def add(tallies: Iterable[Tally]) -> Tally:
    """All of them together."""
    sum_of = Tally()
    for tally in tallies:
        for mine, other in ((sum_of.trials, tally.trials), (sum_of.counts, tally.counts), (sum_of.left, tally.left)):
            mine.update(other)
        sum_of.minutes += tally.minutes
        sum_of.points |= tally.points
        for name, seconds in tally.slowest.items():
            sum_of.note_slowest(name, seconds)
        sum_of.peak = max(sum_of.peak, tally.peak)
        sum_of.findings += tally.findings
    return sum_of
