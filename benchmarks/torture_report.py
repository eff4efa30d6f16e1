"""What `torture.py` counts, over one run or many, kept in a file; and the page that is made of it:

python benchmarks/torture_report.py torture.json --out docs/results/torture.md
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import textwrap
from collections import Counter
from collections.abc import Sequence
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
    slowest: dict[str, float] = field(default_factory=dict)  # s
    peak: int = 0  # MB
    findings: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Tally:
        """Those of earlier runs; none where there is no file."""
        if not path.exists():
            return cls()
        held = json.loads(path.read_text())["tally"]
        return cls(**{name: Counter(value) if name in ("trials", "counts") else value
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
            "peak_memory_mb": self.peak,
            "findings": self.findings,
        }


COLUMNS = {
    "kills at a point": "kill: ",
    "kills at a time": "kill at a time: ",
    "damaged": "flip: ",
    "full disks": "full disk: ",
    "races": "race: ",
}
TOP = """# Killed, damaged, flooded

What `benchmarks/torture.py` found when it attacked every command that writes, with a network of a few hundred weights,
and damaged the input of every reader. It kills the process, fills the disk, flips bits and lets processes race. After
each attack the disk must hold the complete old state or the complete new one; running the command again must succeed
with exactly the values of an undisturbed run. A reader may refuse an input with a reason. Any other exception is a
finding, and so is a change that a checksum does not catch.

```
python benchmarks/torture.py --minutes 60 --seed 2 --into torture.json    # adds to the counts in the file
python benchmarks/torture_report.py torture.json --out docs/results/torture.md
```
"""


def page(tally: Tally, mended: Sequence[str] = ()) -> str:
    """Markdown. `mended` are sentences about findings that are none any more."""
    kills, fuzzed, refused = (tally.total(what) for what in ("kills", "fuzzed", "refused"))
    blows = sum(tally.total(what) for what in ("flips", "full_disks", "races"))
    seeds = ", ".join(f"{seed} ({count:,} trials)" for seed, count in sorted(tally.trials.items()))
    counts = (
        f"{kills:,} kills, {blows:,} other attacks and {fuzzed:,} fuzzed inputs "
        f"({refused:,} of them refused with a reason), in {tally.minutes:,.0f} minutes of processes that shared two "
        f"CPUs with other work. Seeds: {seeds}. The largest process took {tally.peak:,} MB."
    )
    points = (
        "*Points* are the calls that change a disk (fsync, rename, link, mkdir, unlink): a kill is just before one or "
        "just after it, or at any time."
    )
    told = [
        *(TOP, _wrapped(counts), "\n## Commands\n", _wrapped(points), ""),
        *_table(["command", "points", *COLUMNS], _commands(tally)),
        "\n## Readers\n",
        *_table(["reader", "inputs", "refused", "slowest, s"], _readers(tally)),
        "\n## Findings\n",
        *_findings(tally),
        *(["\nFixed since:\n"] if mended else []),
        *(_wrapped(f"- {sentence}", "  ") for sentence in mended),
    ]
    return "\n".join(told) + "\n"


def _commands(tally: Tally) -> list[list[str]]:
    rows = []
    for name, points in sorted(tally.points.items()):
        counts = [tally.counts[f"{start}{name}"] for start in COLUMNS.values()]
        rows.append([name, str(points), *(f"{count:,}" if count else "" for count in counts)])
    return rows


def _readers(tally: Tally) -> list[list[str]]:
    names = sorted(name.removeprefix("fuzz: ") for name in tally.counts if name.startswith("fuzz: "))
    return [
        [name, f"{tally.counts[f'fuzz: {name}']:,}", f"{tally.counts[f'fuzz, refused: {name}']:,}",
         f"{tally.slowest.get(name, 0.0):.2f}"] for name in names
    ]  # fmt: skip


def _findings(tally: Tally) -> list[str]:
    if not tally.findings:
        return ["None."]
    kinds: dict[str, Counter[str]] = {}
    for finding in tally.findings:
        where, _, problem = _short(f"{finding['what']}: {finding['problem']}").partition(": ")[2].partition(": ")
        kinds.setdefault(f"{finding['what'].partition(':')[0]}: {problem}", Counter())[where] += 1
    return [
        _wrapped(
            f"- {problem} ({', '.join(f'{where} {count} times' for where, count in sorted(places.items()))})", "  "
        )
        for problem, places in kinds.items()
    ]


def _short(problem: str) -> str:
    """Without what differs from one time to the next: seeds, temporary folders, places in a file."""
    problem = problem.partition(" (seed ")[0].replace("\n", " ")
    return re.sub(r"/\S*/(?=\w+ )| \(\w+ at \d+\)", "", problem)[:300]


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent)


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", type=Path, help="the file that --into wrote")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument(
        "--mended", action="append", default=[], help="a sentence about a finding that is none any more"
    )
    options = parser.parse_args()
    options.out.write_text(page(Tally.read(options.counts), options.mended))


if __name__ == "__main__":
    main()
