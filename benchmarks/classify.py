"""What `unseen classify` adds to what it cannot do without, as ratios of times taken in turns within one run.

    python benchmarks/classify.py PHOTOS [--photos 200] [--rounds 3]

PHOTOS is a folder with a folder of photos for each class. Two ratios:

- `start`: `unseen classify photo.jpg` over `python -c "import torch"`, the default bundle made before.
- `batch`: features, probabilities and verdicts of many photos over `unseen features` on the same photos, both without
  the start of the process.

CPU seconds (user and system, with children) are told beside the clock's, since other work on the machine stretches only
the latter. The least of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLASSIFY = """
import sys, time, resource, json
import unseen
from unseen.recognition.batches import label_photos
model = unseen.load()
paths = [line for line in open(sys.argv[1]).read().splitlines()]
model.classify(paths[:2])
spent = lambda: sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
clock, cpu = time.monotonic(), spent()
label_photos(model, [(path, path) for path in paths], sys.argv[2] + "/labels.csv")
print(json.dumps([time.monotonic() - clock, spent() - cpu]))
"""
FEATURES = """
import sys, time, resource, json
import unseen
backbone = unseen.load_backbone("efficientnet-lite0")
spent = lambda: sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
clock, cpu = time.monotonic(), spent()
unseen.build_store(sys.argv[1], sys.argv[2] + "/store", backbone, show_progress=False)
print(json.dumps([time.monotonic() - clock, spent() - cpu]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, paths = choose(given.folder, given.photos, Path(place))
        photo = str(paths[0])
        times: dict[str, list[list[float]]] = {"torch": [], "start": [], "features": [], "batch": []}
        for _ in range(given.rounds):
            times["torch"].append(whole_process("-c", "import torch"))
            times["start"].append(whole_process("-m", "unseen", "classify", photo))
            with tempfile.TemporaryDirectory() as out:
                times["features"].append(part_of_process(FEATURES, str(folder), out))
                times["batch"].append(part_of_process(CLASSIFY, str(Path(place) / "list.txt"), out))
    best = {what: [min(column) for column in zip(*rounds, strict=True)] for what, rounds in times.items()}
    ratio = lambda a, b: [round(x / y, 2) for x, y in zip(best[a], best[b], strict=True)]  # noqa: E731
    result = {"photos": len(paths), "seconds": best, "start": ratio("start", "torch")}
    print(json.dumps(result | {"batch": ratio("batch", "features")}, indent=1))


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
