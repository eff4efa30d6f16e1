"""A folder of photos whose seen classes are tested on photos that a pattern names: links, nothing is copied.

    python tools/split_seen.py PHOTOS OUT --test 'g[34].jpg'

PHOTOS has unseen/ and seen-train/. OUT/unseen is the same; OUT/seen-val gets the photos of PHOTOS/seen-train that
match, OUT/seen-train all others. So what learns or is calibrated never sees the photos that seen classes are measured
on.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def split_seen(photos: Path, out: Path, pattern: str) -> dict[str, int]:
    """How many photos each part got."""
    out.mkdir(parents=True)
    os.symlink((photos / "unseen").resolve(), out / "unseen")
    counts = {"seen-train": 0, "seen-val": 0}
    for photo in sorted((photos / "seen-train").glob("*/*")):
        part = "seen-val" if photo.match(pattern) else "seen-train"
        link = out / part / photo.parent.name / photo.name
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(photo.resolve(), link)
        counts[part] += 1
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--test", required=True, help="pattern of the names of the photos to test on")
    given = parser.parse_args()
    for part, count in split_seen(given.photos, given.out, given.test).items():
        print(f"{part}: {count:,} photos")
