"""What `unseen classify` adds to what it cannot do without, as ratios of times taken in turns within one run.

    python benchmarks/classify.py PHOTOS [--photos 200] [--rounds 5] [--only start batch]

PHOTOS is a folder with a folder of photos for each class.

- `start`: `unseen classify photo.jpg` over `python -c "import torch"`, the default bundle made before.
- `batch`: features, probabilities and verdicts of many photos over `unseen features` on the same photos, both without
  the start of the process.

Each figure is a pair: by the clock, and in seconds of CPU (user and system, with children). Other work on the machine
stretches the clock, and in favour of `unseen features`, which has more processes to be given a turn. Medians count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

CLASSIFY = """
import sys, time, resource, json
import unseen
from unseen.apps.bulk import label_photos
model = unseen.load()
paths = [line for line in open(sys.argv[1]).read().splitlines()]
model.classify(paths[:2])
spent = lambda: sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
clock, cpu = time.monotonic(), spent()
label_photos(model, [(path, path) for path in paths], sys.argv[2] + "/labels.csv")
print(json.dumps([time.monotonic() - clock, spent() - cpu]))
"""
PARTS = ("start", "batch")
FEATURES = """
import sys, time, resource, json
import unseen
from unseen.networks import build_store
network = unseen.load_network("efficientnet-lite0")
spent = lambda: sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
clock, cpu = time.monotonic(), spent()
build_store(sys.argv[1], sys.argv[2] + "/store", network)
print(json.dumps([time.monotonic() - clock, spent() - cpu]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, paths = choose(given.folder, given.photos, Path(place))
        whole_process("-m", "unseen", "classify", str(paths[0]))  # the default bundle is made on first use
        times: dict[str, list[list[float]]] = {}
        for _ in range(given.rounds):
            for what, spent in one_round(given.only, folder, str(paths[0]), str(Path(place) / "list.txt")):
                times.setdefault(what, []).append(spent)
    usual = {what: [round(median(column), 3) for column in zip(*rounds, strict=True)] for what, rounds in times.items()}
    ratios = {
        what: [round(x / y, 2) for x, y in zip(usual[what], usual[base], strict=True)]
        for what, base in (("start", "torch"), ("batch", "features"))
        if what in usual
    }
    print(json.dumps({"photos": len(paths), "rounds": given.rounds, "seconds": usual, "ratios": ratios}, indent=1))


def one_round(parts: Sequence[str], folder: Path, photo: str, listed: str) -> Iterator[tuple[str, list[float]]]:
    """Each measure once, [seconds by the clock, seconds of CPU]."""
    with tempfile.TemporaryDirectory() as out:
        if "start" in parts:
            yield "torch", whole_process("-c", "import torch")
            yield "start", whole_process("-m", "unseen", "classify", photo)
        if "batch" in parts:
            yield "features", part_of_process(FEATURES, str(folder), out)
            yield "batch", part_of_process(CLASSIFY, listed, out)


def choose(source: Path, count: int, place: Path) -> tuple[Path, list[Path]]:
    """`count` photos, linked into a folder by class, and listed in a file."""
    found = sorted(path for path in source.glob("*/*") if path.is_file())[:count]
    linked = []
    for path in found:
        link = place / "photos" / path.parent.name / path.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.resolve())
        linked.append(link)
    (place / "list.txt").write_text("\n".join(map(str, linked)))
    return place / "photos", linked


def whole_process(*arguments: str) -> list[float]:
    """[seconds by the clock, seconds of CPU] of a Python process from its start to its end."""
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [time.monotonic() - clock, sum(after[:2]) - sum(before[:2])]


def part_of_process(code: str, *arguments: str) -> list[float]:
    """What a program says of the part that counts."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
