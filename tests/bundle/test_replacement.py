"""A bundle is replaced while others read it, write it, or are killed: nobody finds half of one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unseen.bundle import Bundle, replacement, storage
from unseen.errors import UnseenError

pytestmark = pytest.mark.skipif(replacement.fcntl is None, reason="this system has no locks on folders")

WRITER = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from unseen.bundle import Bundle, replacement, storage

source, place, what = sys.argv[1:]
bundle = Bundle.load(source)
print("ready", flush=True)
if what == "two renames":
    replacement.exchange = lambda one, other: False
if what == "die while writing":
    storage.card = lambda bundle: os.kill(os.getpid(), signal.SIGKILL)
if what == "die between the renames":
    def rename(one, other, rename=os.rename):
        if str(one).endswith(".saving"):
            os.kill(os.getpid(), signal.SIGKILL)
        rename(one, other)
    replacement.exchange, os.rename = lambda one, other: False, rename
if what == "wait":
    storage.card = lambda bundle: [print("writing", flush=True), sys.stdin.readline()][1]
    replace(bundle, seed=99).save(place, overwrite=True)
else:
    for seed in range(10**9):
        solution = replace(bundle.solution, classifiers=bundle.solution.classifiers * (1 + seed % 7))
        replace(bundle, seed=seed, solution=solution).save(place, overwrite=True)
        print(seed, flush=True)
"""


@contextmanager
def writer(source: Path, place: Path, what: str):
    """A process that replaces the bundle in `place` over and over, or does what it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, source, place, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def beside(place: Path) -> list[str]:
    return sorted(item.name for item in place.parent.iterdir() if item != place)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exchange", "two renames"])
def test_readers_never_notice_a_replacement(bundle, kept, tmp_path, how):
    place = shutil.copytree(kept, tmp_path / "b")
    problems, loads = [], []

    def goes_on() -> bool:
        """For some seconds; on a busy machine until enough has happened."""
        now, enough = time.monotonic(), len(set(loads)) > 3 and len(loads) > 12
        return now < begun + 4 or (not enough and now < begun + 90)

    def read() -> None:
        while goes_on():
            try:
                found = Bundle.load(place, verify=len(loads) % 4 > 0)
                scale = 1 + found.seed % 7  # header and arrays are of one bundle
                np.testing.assert_array_equal(found.solution.classifiers, bundle.solution.classifiers * scale)
                loads.append(found.seed)
            except Exception as error:
                problems.append(error)

    with writer(kept, place, how) as process:
        begun = time.monotonic()
        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert process.poll() is None
    assert problems == []
    assert len(set(loads)) > 3 and len(loads) > 12, loads


@pytest.mark.parametrize("verify", [True, False])
def test_a_bundle_replaced_while_it_is_read_is_read_again(bundle, kept, tmp_path, monkeypatch, verify):
    """Just after its header was read, which is the worst moment."""
    place = shutil.copytree(kept, tmp_path / "b")
    larger = replace(bundle.solution, classifiers=bundle.solution.classifiers * 2)
    read, waiting = storage.read_header, [replace(bundle, seed=7, solution=larger, path=None)]

    def read_and_replace(*arguments):
        header = read(*arguments)
        if waiting:
            waiting.pop().save(place, overwrite=True)
        return header

    monkeypatch.setattr(storage, "read_header", read_and_replace)
    found = Bundle.load(place, verify)
    assert not waiting and found.seed == 7
    np.testing.assert_array_equal(found.solution.classifiers, larger.classifiers)


def test_a_reader_that_begins_in_the_gap_reads_again(tmp_path):
    """Absent at the look before, replaced in the middle of reading, its writer gone at the look after."""
    place, reads = tmp_path / "b", []

    def read() -> str:
        reads.append(place.exists())
        if len(reads) == 1:
            place.mkdir()
            (place / "bundle.json").write_text("{}")
            raise UnseenError("half of one bundle, half of another")
        return "whole"

    assert replacement.read_undisturbed(place, read) == "whole"
    assert reads == [False, True]


@pytest.mark.parametrize("locks", [True, False])
def test_a_reader_that_looks_in_two_gaps_reads_again(tmp_path, monkeypatch, locks):
    """Absent at every look, but it was there between them: the writer that has the folder tells when it is done."""
    place, reads = tmp_path / "b", []
    if locks:
        held, _ = replacement._lock(tmp_path)
    else:
        monkeypatch.setattr(replacement, "fcntl", None)
        saving = tmp_path / ".b.12-0a1b.saving"  # without locks it tells by the folder that it writes
        saving.mkdir()

    def finish() -> None:
        place.mkdir()
        (place / "bundle.json").write_text("{}")
        os.close(held) if locks else saving.rmdir()

    def read() -> str:
        reads.append(place.exists())
        if len(reads) == 1:
            threading.Timer(0.3, finish).start()
        if not place.exists():
            raise UnseenError("half of one bundle, half of another")
        return "whole"

    assert replacement.read_undisturbed(place, read) == "whole"
    assert reads == [False, True]


@pytest.mark.slow
def test_what_a_killed_process_left_is_removed_by_the_next(bundle, kept, tmp_path):
    place = shutil.copytree(kept, tmp_path / "b")
    with writer(kept, place, "die while writing") as process:
        assert process.wait(60) == -signal.SIGKILL
    (left,) = beside(place)
    assert left.startswith(".b.") and left.endswith(".saving")
    assert Bundle.load(place).seed == 0
    replace(bundle, seed=7).save(place, overwrite=True)
    assert beside(place) == [] and Bundle.load(place).seed == 7


@pytest.mark.slow
def test_what_a_living_process_writes_is_left_alone(bundle, kept, tmp_path):
    place = shutil.copytree(kept, tmp_path / "b")
    with writer(kept, place, "wait") as process:
        assert process.stdout.readline() == "writing\n"
        replace(bundle, seed=7).save(place, overwrite=True)
        assert len(beside(place)) == 1 and Bundle.load(place).seed == 7
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(60) == 0
    assert Bundle.load(place).seed == 99 and beside(place) == []


@pytest.mark.slow
def test_killed_between_the_renames(bundle, kept, tmp_path):
    place = shutil.copytree(kept, tmp_path / "b")
    with writer(kept, place, "die between the renames") as process:
        assert process.wait(60) == -signal.SIGKILL
    assert not place.exists()
    old, saving = (tmp_path / name for name in beside(place))
    os.utime(old / "bundle.json", (1, 1))
    with pytest.raises(UnseenError, match=f"killed while saving: rename {saving} to it"):
        Bundle.load(place)
    (saving / "classes.json").write_text("{}")  # the newest is not whole: the advice names one that is
    with pytest.raises(UnseenError, match=f"killed while saving: rename {old} to it"):
        Bundle.load(place)
    with pytest.raises(ZeroDivisionError), replacement.replacing(place):  # a save that fails gives it back nevertheless
        raise ZeroDivisionError
    assert Bundle.load(place).seed == 0 and beside(place) == []


def test_the_folders_of_other_bundles_are_not_touched(bundle, tmp_path):
    others = [".b.c.12.saving", ".bb.12.old", ".b.12.saving.txt", ".b.x.old", "b.12.old"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / ".b.12.saving").mkdir()  # as earlier versions named them
    (tmp_path / ".b.12-0a1b.old").mkdir()
    replace(bundle, path=None).save(tmp_path / "b")
    assert beside(tmp_path / "b") == sorted(others)


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="this system has no exchange")
def test_an_exchange_is_one_step(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert replacement.exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "b").exists() and (tmp_path / "b" / "a").exists()
    with pytest.raises(OSError, match="No such file"):
        replacement.exchange(tmp_path / "a", tmp_path / "c")


def test_a_writer_waits_for_another_and_not_for_ever(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(replacement, "PATIENCE", 0.2)
    held, _ = replacement._lock(tmp_path)
    with pytest.raises(UnseenError, match="another process has been replacing a bundle in"):
        replace(bundle, path=None).save(tmp_path / "b")
    os.close(held)
    replace(bundle, path=None).save(tmp_path / "b")
