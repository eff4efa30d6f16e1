"""The page of a trial, from the files that `torture.py --into` keeps:

python benchmarks/torture_report.py torture.json more.json --out docs/results/torture.md
"""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from torture_tally import Tally, add

COLUMNS = {
    "kills at a point": "kill: ",
    "kills at a time": "kill at a time: ",
    "damaged": "flip: ",
    "full disks": "full disk: ",
    "races": "race: ",
}
TOP = """# Killed, damaged, flooded

What `benchmarks/torture.py` found when it attacked every command that writes, with a network of a few hundred weights,
and damaged the input of every reader. After each attack the disk must hold the complete old state or the complete new
one; running the command again must succeed with exactly the values of an undisturbed run. A reader may refuse an input
with a reason. Any other exception is a finding, and so is a change that a checksum does not catch.

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
        f"{kills:,} kills, {blows:,} other attacks and {fuzzed:,} fuzzed inputs ({refused:,} of them refused with a "
        f"reason), in {tally.minutes:,.0f} minutes of processes that shared two CPUs with other work. Seeds: {seeds}. "
        f"The largest process took {tally.peak:,} MB."
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
    counted = Counter((finding["what"], _short(finding["problem"])) for finding in tally.findings)
    return [_wrapped(f"- {what}: {problem} ({count} times)", "  ") for (what, problem), count in counted.items()]


def _short(problem: str) -> str:
    """Without what differs from one time to the next."""
    return problem.partition(" (seed ")[0].replace("\n", " ")[:200]


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent)


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", type=Path, nargs="+", help="files that --into wrote; they are added up")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument(
        "--mended", action="append", default=[], help="a sentence about a finding that is none any more"
    )
    options = parser.parse_args()
    options.out.write_text(page(add(Tally.read(path) for path in options.counts), options.mended))


if __name__ == "__main__":
    main()
