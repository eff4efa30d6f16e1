"""A standing trial: kills, damaged bits, full disks and races over every command that writes, and
fuzzed inputs.

    python benchmarks/torture.py --minutes 10 --seed 0
    python benchmarks/torture.py --trial 1234 --seed 0             # repeat one trial, to see what went wrong
    python benchmarks/torture.py --minutes 60 --into torture.json  # go on with what that file counts, and add to it
    python benchmarks/torture_report.py torture.json --out docs/results/torture.md

After each blow what lies on the disk is the old state or the new one, whole; the command then runs again, succeeds, and
leaves the very values of a run that nobody disturbed. A reader may refuse a fuzzed input with a reason; any other
exception, and a change that passes unnoticed where there is a checksum, is a finding. The last line on standard output
is one JSON object with counts and findings; the exit status is 1 where there are any. Linux and macOS only.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import torch

from torture_jobs import NOTHING, Job, list_jobs, write_inputs
from torture_points import CRASH, Child, Ended, Points, time_limit
from torture_readers import fuzz, list_readers
from torture_report import KINDS_OF, Tally
from unseen.bundle.file import training_folder
from unseen.util.errors import UnseenError

KINDS = {
    "kill": 8,
    "kill at a time": 4,
    "flip": 3,
    "full disk": 3,
    "race": 2,
    "fuzz": 3,
}  # how often, relative
MEMORY = Path("/dev/shm")  # a kill loses nothing that was written there, and no disk is worn
PATIENCE = 120  # seconds for one look or one command


class Lost(Exception):
    """A finding."""


@dataclass
class Reference:
    """What a command does when nobody disturbs it."""

    before: str
    after: str
    points: int
    seconds: float
    largest: int  # bytes of the largest file that it leaves


@dataclass
class Trial:
    """All trials of one run: every one follows from the seed and its number alone."""

    root: Path
    seed: int
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self):
        self.inputs, self.place = self.root / "inputs", self.root / "trial"
        self.readers = {}
        os.environ["UNSEEN_CACHE"] = str(self.root / "cache")
        with _silence():
            write_inputs(self.inputs)
        self.jobs = {job.name: job for job in list_jobs(self.inputs, self.place)}
        self.references: dict[str, Reference] = {}

    def reference(self, job: Job) -> Reference:
        if job.name not in self.references:
            job.prepare()
            with _silence():
                job.run()  # here, so that no child has to import anything again
            job.prepare()
            before, ended = job.look(), self._run(job)
            if ended.status:
                raise SystemExit(f"{job.name} fails undisturbed:\n{ended.said}")
            sizes = [path.stat().st_size for path in self.place.rglob("*") if path.is_file()]
            after = job.look()
            shutil.copytree(self.place, self._finished(job), dirs_exist_ok=True)
            self.tally.points[job.name] = ended.points
            self.references[job.name] = Reference(before, after, ended.points, ended.seconds, max(sizes))
        return self.references[job.name]

    def _finished(self, job: Job) -> Path:
        return self.root / "finished" / job.name

    def _results(self, name: str) -> Path:
        """Where the results of a command lie that nobody disturbed."""
        self.reference(self.jobs[name])
        return self._finished(self.jobs[name])

    def _run(self, job: Job, *more: object, **blow) -> Ended:
        return Child(lambda: job.run(*more), **blow).wait()

    # -- one trial ---------------------------------------------------------------------------------------------------

    def run(self, number: int, kinds: list[str], names: list[str]) -> None:
        chance = random.Random(f"{self.seed} {number}")
        kind = chance.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        struck = [name for name in names if kind != "flip" or self.jobs[name].repair is not None]
        if not struck:
            return
        job = self.jobs[chance.choices(struck, [self.jobs[name].weight for name in struck])[0]]
        what = kind if kind == "fuzz" else f"{kind}: {job.name}"
        try:
            if kind == "fuzz":
                self._fuzz(chance)
            else:
                self.reference(job)
                strike = {"kill": self._kill, "flip": self._flip, "full disk": self._fill, "race": self._race}
                strike.get(kind, self._kill_at_a_time)(job, chance)
                self.tally.counts[what] += 1
        except Lost as finding:
            self.tally.counts[what] += kind != "fuzz"
            self.tally.findings.append({"seed": self.seed, "trial": number, "what": what, "problem": str(finding)})
            print(f"trial {number}, {what}: {finding}", file=sys.stderr, flush=True)

    def _kill(self, job: Job, chance: random.Random) -> None:
        """At an exact point, just before the call or just after it."""
        at, after = chance.randrange(self.references[job.name].points), chance.random() < 0.5
        job.prepare()
        ended = self._run(job, points=Points(at, "kill", after))
        if ended.status not in (0, -9):
            raise Lost(f"ended with {ended.status} before point {at}: {_last(ended.said)}")
        self._settle(job, f"killed {'after' if after else 'before'} point {at}")

    def _kill_at_a_time(self, job: Job, chance: random.Random) -> None:
        job.prepare()
        delay = chance.random() * self.references[job.name].seconds
        child = Child(job.run)
        time.sleep(delay)
        child.kill()
        child.wait()
        self._settle(job, f"killed after {delay:.4f} s")

    def _fill(self, job: Job, chance: random.Random) -> None:
        """A disk that is full from a point on, or a limit to the size of files."""
        reference = self.references[job.name]
        job.prepare()
        if chance.random() < 0.5:
            blow = {"points": Points(chance.randrange(reference.points), "full")}
        else:
            blow = {"file_size": chance.randrange(reference.largest + 1)}
        ended = self._run(job, **blow)
        how = f"{'disk full' if 'points' in blow else 'file too large'} ({blow})"
        if ended.status == CRASH or "Traceback" in ended.said:
            raise Lost(f"{how}: a stack trace: {_last(ended.said)}")
        if ended.status == 0 and self._look(job, how) != reference.after:
            raise Lost(f"{how}: it said that all went well: {_last(ended.said)}")
        self._settle(job, how)

    def _flip(self, job: Job, chance: random.Random) -> None:
        """A finished result is damaged, or the beginnings of one. It is noticed, and running again makes it good."""
        assert job.repair is not None
        begun = bool(job.again) and chance.random() < 0.5
        job.prepare()
        if begun:
            self._run(job, points=Points(chance.randrange(self.references[job.name].points), "kill", True))
            begun = job.look() == NOTHING
        else:
            shutil.rmtree(self.place)
            shutil.copytree(self._finished(job), self.place)
        damaged = training_folder(job.place) if begun else job.place
        found = [damaged] if damaged.is_file() else damaged.rglob("*")
        files = sorted(path for path in found if path.is_file() and path.stat().st_size)
        if not files:
            return
        path = chance.choice(files)
        how = f"{path.relative_to(self.place)} damaged ({_damage(path, chance)})"
        if not begun:
            self._look(job, how, {self.references[job.name].after}, may_refuse=True)
        ended = self._run(job, *(job.again if begun else job.repair))
        if begun and ended.status == 1 and "is damaged" in ended.said:  # as it should say; then it is begun again
            ended = self._run(job, *job.repair)
        if ended.status == 1 and "is not a bundle: choose another name, or move it away" in ended.said:
            job.place.unlink()  # its first bytes are damaged: what may be somebody else's file is not overwritten
            ended = self._run(job, *job.repair)
        if ended.status:
            raise Lost(f"{how}: running again ended with {ended.status}: {_last(ended.said)}")
        self._look(job, f"{how}, then run again", {self.references[job.name].after})

    def _race(self, job: Job, chance: random.Random) -> None:
        """Two processes write to one place, and a third one reads it meanwhile."""
        rivals = [other for other in self.jobs.values() if other.place == job.place and other.state is job.state]
        other = chance.choice([rival for rival in rivals if rival.before == job.before])
        allowed = {self.reference(one).after for one in (job, other)} | {self.references[job.name].before}
        job.prepare()
        first = Child(job.run)
        time.sleep(chance.random() * self.references[job.name].seconds)
        second = Child(other.run)
        how = f"beside {other.name}"
        try:
            while first.is_running() or second.is_running():
                self._look(job, f"{how}, read meanwhile", allowed)
                time.sleep(0.01)
        finally:
            ends = [first.wait(), second.wait()]
        for ended in ends:
            if ended.status not in (0, 1) or "Traceback" in ended.said:
                raise Lost(f"{how}: ended with {ended.status}: {_last(ended.said)}")
        if all(ended.status for ended in ends):
            raise Lost(f"{how}: both failed: {_last(ends[0].said)} / {_last(ends[1].said)}")
        self._look(job, how, allowed)
        if job.before is not None:  # it replaces what is there; elsewhere the winner's result is rightly kept
            self._settle(job, how, allowed)

    def _fuzz(self, chance: random.Random) -> None:
        if not self.readers:
            self.readers = list_readers(self.inputs, self.root / "fuzz", self._results)
        name = chance.choice(sorted(self.readers))
        result = fuzz(self.readers[name], chance.randrange(1 << 40), self.root / "fuzzed")
        self.tally.counts[f"fuzz: {name}"] += result["inputs"]
        self.tally.counts[f"fuzz, refused: {name}"] += result["refused"]
        self.tally.note_slowest(name, result["slowest"])
        if result["problem"]:
            raise Lost(f"{name}: {result['problem']}")

    # -- what must be true after each ----------------------------------------------------------------------------------

    def _settle(self, job: Job, how: str, allowed: set[str] | None = None) -> None:
        """Old or new, whole; and after another run, new."""
        reference = self.references[job.name]
        found = self._look(job, how, allowed or {reference.before, reference.after})
        if not (job.once and found == reference.after):
            ended = self._run(job, *job.again)
            if ended.status:
                raise Lost(f"{how}: running again ended with {ended.status}: {_last(ended.said)}")
        self._look(job, f"{how}, then run again", {reference.after})

    def _look(self, job: Job, how: str, allowed: set[str] | None = None, may_refuse: bool = False) -> str:
        try:
            with time_limit(PATIENCE, "reading"):
                found = job.look()
        except UnseenError as error:
            if may_refuse:
                return ""
            raise Lost(f"{how}: refused: {error}") from None
        except Exception as error:
            raise Lost(f"{how}: {type(error).__name__}: {error}") from None
        if allowed is not None and found not in allowed:
            raise Lost(f"{how}: neither the old state nor the new one")
        return found


@contextmanager
def _silence() -> Iterator[None]:
    """Without what commands say; where one fails, all of it is shown."""
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            yield
    except BaseException:
        print(said.getvalue(), file=sys.stderr)
        raise


def _damage(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    how = chance.choice(["bit", "bit", "bit", "cut", "zeros"])
    if how == "bit":
        content[at] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del content[at:]
    else:
        content[at : at + 512] = bytes(len(content[at : at + 512]))
    path.write_bytes(content)
    return f"{how} at {at}"


def _last(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-600:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="from which all trials follow")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of: {', '.join(KINDS)}")
    parser.add_argument("--commands", default="", help="some of the commands, as counts in the summary name them")
    parser.add_argument("--trial", type=int, help="only this one, of those that --seed, --kinds and --commands give")
    parser.add_argument("--into", type=Path, help="a file that keeps the counts; another run goes on from there")
    parser.add_argument("--folder", type=Path, default=MEMORY if MEMORY.is_dir() else None, help="where to work")
    options = parser.parse_args()
    kinds = [kind.strip() for kind in options.kinds.split(",")]
    if wrong := set(kinds) - set(KINDS):
        parser.error(f"no such kind: {', '.join(sorted(wrong))}; there are: {', '.join(KINDS)}")
    torch.set_num_threads(1)  # a process with threads cannot be forked safely
    tally = Tally.read(options.into) if options.into else Tally()
    seed, begun = str(options.seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-", dir=options.folder) as folder:
        trial = Trial(Path(folder), options.seed, tally)
        names = [name.strip() for name in options.commands.split(";") if name.strip()] or list(trial.jobs)
        before, looked = tally.minutes, 0.0
        while True:
            trial.run(tally.trials[seed] if options.trial is None else options.trial, kinds, names)
            tally.trials[seed] += 1
            tally.minutes = before + (time.monotonic() - begun) / 60
            over = options.trial is not None or tally.minutes - before > options.minutes
            if over or time.monotonic() - looked > 20:
                looked = time.monotonic()
                if options.into:
                    tally.save(options.into)
                print(", ".join(f"{tally.total(what):,} {what}" for what in KINDS_OF), len(tally.findings), "findings",
                      file=sys.stderr, flush=True)  # fmt: skip
            if over:
                break
    print(json.dumps(tally.summary()))
    sys.exit(bool(tally.findings))


if __name__ == "__main__":
    main()
