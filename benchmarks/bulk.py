"""Bulk labelling by each engine, killed in the middle: rates, memory, and whether the tables are equal.

    python benchmarks/bulk.py --photos DIR                       # 50,000 photos, half an hour on two idle cores
    python benchmarks/bulk.py --photos DIR --number 2000 --engines threads,workers

The photos below DIR are linked until there are enough, so each has a path of its own. Each engine labels them with
`unseen classify --out`; when half of the rows are written, all its processes get `kill -9`, and the same command runs
again. Memory is the largest sum of the proportional sets (PSS) of all processes. Rates leave out the start: they are
counted from the first rows on. The last line on standard output is one JSON object. Linux only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ENGINES = {
    "threads": [],
    "worker": ["--workers", "1"],
    "workers": ["--workers", "2"],
    "ray": ["--engine", "ray", "--workers", "2"],
}
MARK = "UNSEEN_BULK_RUN"  # in the environment of every process of a run, however it was started


def link_photos(source: Path, folder: Path, number: int) -> None:
    photos = sorted(path for path in source.rglob("*.jpg"))
    if not photos:
        sys.exit(f"error: there are no .jpg files below {source}")
    for i in range(number):
        place = folder / f"{i // 1000:05}"
        place.mkdir(parents=True, exist_ok=True)
        os.symlink(photos[i % len(photos)].resolve(), place / f"{i:07}.jpg")


def run_processes(mark: str) -> list[Path]:
    """The /proc folders of all processes of a run: Ray's are children of nobody."""
    wanted, processes = f"{MARK}={mark}".encode(), []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                processes.append(folder)
        except OSError:
            continue  # ended meanwhile, or not ours
    return processes


def memory_gb(mark: str) -> float:
    total = 0
    for folder in run_processes(mark):
        try:
            lines = (folder / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024**2


def count_rows(table: Path) -> int:
    return max(0, table.read_bytes().count(b"\n") - 1) if table.exists() else 0


def label(command: list[str], table: Path, stop_at: int | None) -> dict[str, Any]:
    """One run of the command; with `stop_at` it is killed as soon as the table has so many rows."""
    mark = f"{time.time_ns()}"
    before, peak, first, last = count_rows(table), 0.0, None, None
    process = subprocess.Popen(command, env={**os.environ, MARK: mark}, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            time.sleep(0.5)
            rows, now = count_rows(table), time.perf_counter()
            if rows > before:
                first, last = first or (rows, now), (rows, now)
            peak = max(peak, memory_gb(mark))
            if stop_at and rows >= stop_at:
                break
    finally:
        for folder in run_processes(mark):
            try:
                os.kill(int(folder.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
    status, rows = process.wait(), count_rows(table)
    if status and not stop_at:
        sys.exit(f"error: {' '.join(command)} ended with {status}")
    rate = (last[0] - first[0]) / (last[1] - first[1]) if first and last and last[1] > first[1] else None
    return {"rows": rows, "photos_per_second": rate and round(rate, 1), "memory_gb": round(peak, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="a folder with photos, at any depth")
    parser.add_argument("--number", type=int, default=50_000, help="how many photos to label")
    parser.add_argument("--engines", default="threads,workers,ray", help=f"some of: {', '.join(ENGINES)}")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        link_photos(options.photos, root / "photos", options.number)
        for engine in options.engines.split(","):
            table = root / f"{engine}.csv"
            command = [sys.executable, "-m", "unseen", "classify", str(root / "photos"), "--out", str(table), "--quiet"]
            command += ENGINES[engine]
            killed = label(command, table, options.number // 2)
            finished = label(command, table, None)
            digest = hashlib.sha256(table.read_bytes()).hexdigest()
            results[engine] = {"killed": killed, "finished": finished, "sha256": digest}
            print(engine, json.dumps(results[engine]), file=sys.stderr)
        tables = [(root / f"{engine}.csv").read_text().splitlines() for engine in results]
        different = [rows for rows in zip(*tables, strict=True) if len(set(rows)) > 1]
        for rows in different[:3]:
            print("these rows differ:", *rows, sep="\n  ", file=sys.stderr)
    print(
        json.dumps(
            {"photos": options.number, "cores": os.cpu_count(), "different_rows": len(different), "engines": results}
        )
    )
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
