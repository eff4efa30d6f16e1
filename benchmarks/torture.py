"""Commands that write are killed or lose the power, and inputs are damaged or forged: nothing half-written remains.

    python benchmarks/torture.py --minutes 10 --seed 0
    python benchmarks/torture.py --trial 1234 --seed 0      # repeat one trial, to see what went wrong

A blow strikes a command just before or just after a call that changes the disk, or at any time. A loss of power also
cuts every file whose content had not been synced. After it the place holds the old state or the complete new one; the
command then runs again, succeeds, and leaves the values of an undisturbed run. A reader may refuse a damaged input with
a reason; any other exception is a finding. The last line on standard output is one JSON object with counts and
findings; the exit status is 1 if there are any. Linux only.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from unseen import Bundle, FeatureStore, Hierarchy, PhotoTransform, UnseenError, from_module, load_network, load_vectors
from unseen.apps.cli.app import app
from unseen.naming.candidates import read_ids
from unseen.networks.features import read_arrays
from unseen.photos import read_photo

KINDS = {"kill": 4, "power": 4, "input": 1}  # how often, relative
CALLS = ("fsync", "replace", "rename", "link", "mkdir", "unlink", "rmdir")
CRASH = 70  # exit status of a process that ended with a stack trace
PATIENCE = 120  # seconds for one command or one input
INPUTS = 300  # damaged inputs in one trial
NOTHING = "nothing finished"
NETWORK = "torture:build"
PARENTS = {"thing": "", "animal": "thing", "tool": "thing", "dog": "animal", "cat": "animal", "fox": "animal",
           "beagle": "dog", "tabby": "cat", "hammer": "tool", "saw": "tool", "knife": "tool"}  # fmt: skip
SEEN = ("dog", "fox", "beagle", "tabby", "hammer", "knife")
PHOTOS = 8  # of each seen class
TOKENS = (b'"', b",", b"\t", b"\r\n", b";", b"|", b"{", b"[" * 2000, b"\\", b"\x00", b"\xff\xfe", b"NaN", b"1e999",
          b"9" * 5000, b"null", b"\xff\xff\xff\xff", b"id,name,parent\n", b"animal")  # fmt: skip


class Lost(Exception):
    """A finding."""


def build():
    """Photos -> 8 numbers -> a score for each of six classes."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        stem = [nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return from_module(nn.Sequential(*stem, nn.Linear(8, len(SEEN))), SEEN, PhotoTransform(16), name=NETWORK)


def write_inputs(folder: Path) -> None:
    """Photos, a hierarchy, word vectors and a bundle, all from one seed."""
    draw = np.random.default_rng(0)
    for label, id in enumerate(SEEN):
        (folder / "photos" / id).mkdir(parents=True)
        for number in range(PHOTOS):
            pixels = np.clip(40 * label + draw.normal(0, 40, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / id / f"{number}.png")
    rows = "".join(f"{id},{id},{parent}\n" for id, parent in PARENTS.items())
    (folder / "classes.csv").write_text(f"id,name,parent\n{rows}")
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in draw.normal(size=6))}\n" for word in (*PARENTS, "okapi"))
    (folder / "vectors.txt").write_text("".join(lines))
    command("train", *world(folder), "--method", "structural", "--out", folder / "old")
    command("train", *world(folder), *DGP, "--out", folder / "base")


def world(inputs: Path) -> tuple:
    return ("--hierarchy", inputs / "classes.csv", "--vectors", inputs / "vectors.txt", "--network", NETWORK,
            "--device", "cpu")  # fmt: skip


DGP = ("--method", "dgp", "--epochs", "6", "--checkpoint-every", "2", "--set", "hidden=8")


def command(*arguments: object) -> None:
    """A command of `unseen` in this process; SystemExit if it fails."""
    try:
        app([str(argument) for argument in arguments])
    except SystemExit as end:
        if end.code:
            raise


@dataclass(frozen=True)
class Job:
    """A command, the place that it writes to, and how to read what lies there.

    Args:
        again: What is added to the arguments when it runs again.
        before: A bundle that lies in its place already, if any.
    """

    name: str
    arguments: tuple
    place: Path
    state: Callable[[Path], str]
    again: tuple = ()
    before: Path | None = None

    def prepare(self) -> None:
        shutil.rmtree(self.place.parent, ignore_errors=True)
        self.place.parent.mkdir(parents=True)
        if self.before is not None:
            shutil.copy2(self.before, self.place)


def list_jobs(inputs: Path, folder: Path) -> list[Job]:
    place, base, store = folder / "out", inputs / "base", folder / "store"
    photos, trusting, into = inputs / "photos", ("--trust-code",), ("--out", place, "--overwrite")
    quiet = ("--workers", "0", "--device", "cpu")
    tune = ("--epochs", "2", "--batch", "8", *quiet, *trusting)
    features = ("features", "--photos", photos, "--out", store, "--network", NETWORK, "--batch", "4", *quiet)
    add = ("add", base, "--name", "okapi", "--parent", "animal", "--vectors", inputs / "vectors.txt", *trusting)
    labels = ("classify", photos, "--bundle", base, "--out", folder / "out.csv", "--device", "cpu", *trusting)
    old = inputs / "old"
    return [
        Job("train", ("train", *world(inputs), *DGP, "--out", place), place, bundle_state, ("--resume",)),
        Job("train, replacing", ("train", *world(inputs), "--method", "kin", *into), place, bundle_state, before=old),
        Job("finetune", ("finetune", base, "--photos", photos, "--out", place, *tune), place, bundle_state,
            ("--resume",)),
        Job("features", features, store, store_state),
        Job("add", (*add, *into), place, bundle_state, before=old),
        Job("teach", ("teach", base, "--photos", photos, *into, *trusting), place, bundle_state, before=old),
        Job("classify", labels, folder / "out.csv", labels_state),
    ]  # fmt: skip


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def bundle_state(place: Path) -> str:
    """The numbers of a bundle and its classes, without times and dates."""
    if not place.is_file():
        return NOTHING
    bundle = Bundle.load(place, trust_code=True)
    weights = [weight for _, weight in sorted((bundle.network_weights or {}).items())]
    arrays = [bundle.solution.classifiers, bundle.known, *weights]
    return digest(json.dumps(bundle.hierarchy.to_json()).encode(), *(np.asarray(array).tobytes() for array in arrays))


def store_state(place: Path) -> str:
    """All features of a finished store, with the names of their photos."""
    try:
        batches = list(FeatureStore.open(place).batches(64))
    except UnseenError:  # missing or not finished
        return NOTHING
    return digest(*(json.dumps(batch.paths).encode() + batch.features.tobytes() for batch in batches))


def labels_state(place: Path) -> str:
    """Labels are written as they come; another run completes them."""
    content = place.read_bytes() if place.exists() else b""
    return digest(content) if content.count(b"\n") > len(SEEN) * PHOTOS else NOTHING


@dataclass
class Blow:
    """Ends its process at a call that changes the disk: the one of number `at`, before or after it.

    With `power`, files lose the second half of what was not synced.
    """

    root: Path
    at: int = -1
    after: bool = False
    power: bool = False
    count: int = 0

    def install(self) -> None:
        self.synced: dict[int, bytes] = {}
        self.at_start = {path.stat().st_ino: path.read_bytes() for path in self._files()}
        for name in CALLS:
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file()]

    def _counted(self, name: str, call: Callable) -> Callable:
        def counted(*args, **kwargs):
            here, self.count = self.count, self.count + 1
            if here == self.at and not self.after:
                self._end()
            result = call(*args, **kwargs)
            if name == "fsync":
                path = Path(f"/proc/self/fd/{args[0]}").resolve()
                self.synced[path.stat().st_ino] = path.read_bytes() if path.is_file() else b""
            if here == self.at:
                self._end()
            return result

        return counted

    def _end(self) -> None:
        for path in self._files() if self.power else ():
            content, inode = path.read_bytes(), path.stat().st_ino
            if content not in (self.synced.get(inode), self.at_start.get(inode)):
                path.write_bytes(content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


def run(job: Job, *more: object, blow: Blow | None = None, delay: float | None = None) -> tuple[int, str, float]:
    """The command in a process of its own, killed after `delay` seconds: exit status, output, seconds."""
    log, begun = job.place.parent.with_suffix(".log"), time.monotonic()
    process = os.fork()
    if process == 0:
        status = CRASH
        try:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.dup2(1, 2)
            if blow is not None:
                blow.install()
            command(*job.arguments, *more)
            print(f"calls {0 if blow is None else blow.count}")
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    if delay is not None:
        time.sleep(delay)
        os.kill(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return status, log.read_text(errors="replace")[-600:], time.monotonic() - begun


class Trials:
    """Every trial follows from the seed and its number alone."""

    def __init__(self, root: Path, seed: int):
        self.root, self.seed = root, seed
        self.counts: Counter[str] = Counter()
        self.findings: list[dict[str, Any]] = []
        os.environ["UNSEEN_CACHE"] = str(root / "cache")
        write_inputs(root / "inputs")
        self.jobs = list_jobs(root / "inputs", root / "trial")
        self.undisturbed: dict[str, tuple[str, str, int, float]] = {}

    def reference(self, job: Job) -> tuple[str, str, int, float]:
        """Of an undisturbed run: the state before and after, calls, seconds."""
        if job.name not in self.undisturbed:
            job.prepare()
            before = job.state(job.place)
            status, said, seconds = run(job, blow=Blow(self.root / "trial"))
            if status:
                raise SystemExit(f"{job.name} fails undisturbed:\n{said}")
            self.undisturbed[job.name] = before, job.state(job.place), int(said.split()[-1]), seconds
        return self.undisturbed[job.name]

    def run(self, number: int) -> None:
        chance = random.Random(f"{self.seed} {number}")
        (kind,) = chance.choices([*KINDS], [*KINDS.values()])
        job = chance.choice(self.jobs)
        what = "input" if kind == "input" else f"{kind}: {job.name}"
        try:
            if kind == "input":
                what = f"input: {self.damage_inputs(chance)}"
            else:
                self.strike(job, chance, kind == "power")
        except Lost as finding:
            self.findings.append({"seed": self.seed, "trial": number, "what": what, "problem": str(finding)})
            print(f"trial {number}, {what}: {finding}", file=sys.stderr, flush=True)
        self.counts[what] += INPUTS if kind == "input" else 1

    def strike(self, job: Job, chance: random.Random, power: bool) -> None:
        before, after, calls, seconds = self.reference(job)
        job.prepare()
        if power or chance.random() < 0.7:
            blow = Blow(self.root / "trial", chance.randrange(calls), chance.random() < 0.5, power)
            status, said, _ = run(job, blow=blow)
            how = f"{'after' if blow.after else 'before'} call {blow.at}"
        else:
            delay = chance.random() * seconds
            status, said, _ = run(job, delay=delay)
            how = f"after {delay:.3f} s"
        if status not in (0, -signal.SIGKILL):
            raise Lost(f"{how}: ended with {status}: {said}")
        self.look(job, how, {before, after})
        status, said, _ = run(job, *job.again)
        if status:
            raise Lost(f"{how}: running again ended with {status}: {said}")
        self.look(job, f"{how}, then run again", {after})

    def look(self, job: Job, how: str, allowed: set[str]) -> None:
        try:
            found = job.state(job.place)
        except Exception as error:
            raise Lost(f"{how}: {type(error).__name__}: {error}") from None
        if found not in allowed:
            raise Lost(f"{how}: neither the old state nor the new one")

    def damage_inputs(self, chance: random.Random) -> str:
        """Many damaged inputs for one reader."""
        name, (content, read) = chance.choice(list(readers(self.root / "inputs").items()))
        place = self.root / f"damaged{Path(name).suffix}"
        for _ in range(INPUTS):
            damaged = mutate(content, chance)
            place.write_bytes(damaged)
            signal.alarm(PATIENCE)
            try:
                read(place)
                if name == "base" and damaged != content:
                    raise Lost("a damaged bundle loads")
            except UnseenError:
                self.counts["refused with a reason"] += 1
            except Exception as error:
                raise Lost(f"{name}: {type(error).__name__}: {error} ({damaged[:80]!r})") from None
            finally:
                signal.alarm(0)
        return name


def readers(inputs: Path) -> dict[str, tuple[bytes, Callable[[Path], object]]]:
    """What users hand over: a whole input, and what reads it."""
    arrays, layer, weight = io.BytesIO(), io.BytesIO(), np.ones((2, 4), np.float32)
    np.savez(arrays, features=weight, labels=np.array(["dog", "cat"]))
    np.savez(layer, weight=weight, bias=weight[:, 0], classes=np.array(["dog", "cat"]))
    nodes = [{"id": id, "name": id, "parents": [parent] if parent else []} for id, parent in PARENTS.items()]
    return {
        "base": ((inputs / "base").read_bytes(), Bundle.load),
        "photo.png": ((inputs / "photos" / "dog" / "0.png").read_bytes(), read_photo),
        "classes.csv": ((inputs / "classes.csv").read_bytes(), Hierarchy.load),
        "classes.json": (json.dumps(nodes).encode(), Hierarchy.load),
        "vectors.txt": ((inputs / "vectors.txt").read_bytes(), lambda path: load_vectors(str(path))),
        "ids.txt": (b"dog\ncat, tabby\nanimal\n", read_ids),
        "features.npz": (arrays.getvalue(), read_arrays),
        "layer.npz": (layer.getvalue(), lambda path: load_network(f"linear:{path}")),
    }


def mutate(content: bytes, chance: random.Random) -> bytes:
    """One to four changes: bits, bytes, cuts, repeats, and tokens that formats care about."""
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(changed) + 1)
        length = min(chance.choice([1, 4, 64]), len(changed) - at)
        how = chance.randrange(5)
        if how == 0 and length:
            changed[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            changed[at : at + length] = chance.randbytes(length)
        elif how == 2:
            changed[at:at] = changed[at : at + length] * chance.choice([1, 50])
        elif how == 3:
            changed[at : at + chance.choice([0, length])] = chance.choice(TOKENS)
        else:
            del changed[at : at + length]
    return bytes(changed)


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"more than {PATIENCE} s for one input")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="only this one of the trials of --seed")
    options = parser.parse_args()
    torch.set_num_threads(1)  # a process with threads cannot be forked safely
    signal.signal(signal.SIGALRM, _too_slow)
    begun, number = time.monotonic(), options.trial or 0
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        trials = Trials(Path(folder), options.seed)
        trials.run(number)
        while options.trial is None and time.monotonic() - begun < 60 * options.minutes:
            number += 1
            trials.run(number)
    minutes = round((time.monotonic() - begun) / 60, 1)
    print(json.dumps({"minutes": minutes, "counts": dict(sorted(trials.counts.items())), "findings": trials.findings}))
    sys.exit(bool(trials.findings))


if __name__ == "__main__":
    main()
