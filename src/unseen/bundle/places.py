"""Where a bundle may be written: nothing of the user's is ever lost, and work that is done is not done twice."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unseen.bundle.files import BUNDLE_FILES
from unseen.errors import UnseenError
from unseen.runtime.checkpoints import CHECKPOINT, PREVIOUS
from unseen.runtime.files import locked, writing

RETRAINING = "retraining"
TRAINING_FILES = frozenset({CHECKPOINT, PREVIOUS, "log.jsonl"})


def training_folder(out: Path) -> Path:
    """Where a training that is to end in `out` keeps checkpoint and log: a finished bundle stays whole until then."""
    return out / RETRAINING if (out / "bundle.json").exists() else out


@contextmanager
def sole_training(out: Path | None) -> Iterator[None]:
    """One training at a time may end in a folder: a second one would write its log into the bundle of the first."""
    if out is None:
        yield
        return
    place = out.resolve()
    lock = place.with_name(f".{place.name}.training")
    with locked(lock, f"{out}: another process is training there: wait until it is done, or choose another name"):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def is_interrupted(out: Path) -> bool:
    """Whether a training that is to end in `out` was begun and not finished."""
    return (out / RETRAINING).exists() if (out / "bundle.json").exists() else (out / CHECKPOINT).exists()


def is_finished(out: Path, resume: bool, overwrite: bool) -> bool:
    """Whether a training finds its work done. One that would lose earlier work is refused unless asked to."""
    finished, interrupted = (out / "bundle.json").exists(), is_interrupted(out)
    if interrupted and not (resume or overwrite):
        raise UnseenError(
            f"{out} holds an interrupted training: continue it with resume=True, or start again with overwrite=True",
            "resume=True",
            "overwrite=True",
        )
    if finished and not (resume or overwrite):
        raise UnseenError(
            f"{out} is a finished bundle: choose another name, or replace it with overwrite=True", "overwrite=True"
        )
    return finished and not interrupted and not overwrite


def check_same(out: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a finished bundle that was made with other settings than are asked for now, and say what differs."""
    now = json.loads(json.dumps(now))
    changed = [f"{key} was {then[key]}, now {now[key]}" for key in now if key in then and then[key] != now[key]]
    if changed:
        raise UnseenError(
            f"{out} is finished, but not as asked for: {'; '.join(changed)}. Choose another name, or replace it with "
            "overwrite=True",
            "overwrite=True",
        )


def check_place(path: Path, training: bool = False) -> None:
    """Refuse to overwrite anything that is not a bundle, and a place that cannot be written, before the work begins.

    An interrupted training there is refused too, except by `training`, which continues it or was asked to start again.
    """
    if path.exists() and not path.is_dir():
        raise UnseenError(f"{path} is a file; a bundle is a folder: choose another name")
    if Path.cwd().is_relative_to(path.resolve()):
        raise UnseenError(f"{path} is the current folder or one around it: name a new folder for the bundle")
    with writing(path):
        foreign = _foreign_file(path) if path.is_dir() else None
    if foreign is not None:
        what = "holds more than a bundle" if (path / "bundle.json").exists() else "exists and is not a bundle"
        raise UnseenError(f"{path} {what}: {foreign} would be lost. Choose another name, or move it away")
    if not training and is_interrupted(path):
        rest = path / RETRAINING if (path / "bundle.json").exists() else path
        raise UnseenError(
            f"{path} holds an interrupted training, which would be lost: finish it with resume=True, or remove {rest}",
            "resume=True",
        )
    parent = path.resolve().parent
    while not parent.exists():
        parent = parent.parent
    with writing(parent):  # trying is the only sure way to know
        os.rmdir(tempfile.mkdtemp(dir=parent, prefix=".unseen-"))


def check_replaces(out: Path, own: Path | None, overwrite: bool) -> None:
    """Whether a bundle may be saved in `out`: only the one in `own`, which it is a change of, is replaced unasked."""
    check_place(out)
    if (out / "bundle.json").exists() and not overwrite and (own is None or out.resolve() != own.resolve()):
        raise UnseenError(
            f"{out} is another bundle: choose another name, or replace it with overwrite=True", "overwrite=True"
        )


def _foreign_file(path: Path) -> str | None:
    """The first name in a folder that neither a bundle nor a training writes: the folder must not be replaced."""
    ours = TRAINING_FILES | (BUNDLE_FILES if (path / "bundle.json").exists() else frozenset())
    for item in sorted(path.iterdir()):
        if item.name == RETRAINING and item.is_dir():
            within = _foreign_file(item)
            if within is not None:
                return f"{RETRAINING}/{within}"
            continue
        half_written = re.fullmatch(r"\.(.+)\.\d+\.tmp", item.name)  # by a process that was killed meanwhile
        if (half_written[1] if half_written else item.name) not in ours or not item.is_file():
            return item.name
    return None
