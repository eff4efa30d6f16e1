"""The trial itself: processes end at the very point, and a result that is lost is found."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from unseen.runtime.files import write_atomically

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run_child(work, **blow):
    from torture_points import Child

    return Child(work, **blow).wait()


def test_points_are_counted(tmp_path):
    ended = run_child(lambda: write_atomically(tmp_path / "file", b"new"))
    assert ended.status == 0 and ended.points == 4  # mkdir of the folder, fsync, replace, unlink


@pytest.mark.parametrize("after", [False, True])
def test_a_process_is_killed_just_before_or_just_after_a_point(tmp_path, after):
    from torture_points import Points

    file = tmp_path / "file"
    file.write_bytes(b"old")
    ended = run_child(lambda: write_atomically(file, b"new"), points=Points(2, "kill", after))
    assert ended.status == -9
    assert file.read_bytes() == (b"new" if after else b"old")


@pytest.mark.parametrize("blow", [{"at": 1}, {"file_size": 3}])
def test_a_full_disk_is_told_to_the_process(tmp_path, blow):
    from torture_points import CRASH, Points

    file = tmp_path / "file"
    file.write_bytes(b"old")
    full = {"points": Points(blow["at"], "full")} if "at" in blow else blow
    ended = run_child(lambda: write_atomically(file, b"new one"), **full)
    assert ended.status == CRASH and "UnseenError: cannot write to" in ended.said
    assert file.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


def write_in_place(path: Path) -> None:
    """What the package never does."""
    with open(path, "wb") as file:
        for part in (b"a new ", b"state"):
            file.write(part)
            file.flush()
            os.fsync(file.fileno())


@pytest.mark.parametrize("write", [write_in_place, lambda path: write_atomically(path, b"a new state")])
def test_half_a_result_is_found(tmp_path, write):
    import torture
    from torture_jobs import Job, file_state

    class Writing(Job):
        def run(self, *more):
            write(self.place)

    trial = object.__new__(torture.Trial)  # without the inputs of the real commands
    trial.root, trial.place = tmp_path, tmp_path / "trial"
    trial.references, trial.tally = {}, torture.Tally()
    job = Writing("writing", (), tmp_path / "trial" / "out", file_state)
    reference = trial.reference(job)
    assert reference.before == "nothing" and reference.after != "nothing" and reference.points >= 2
    found = []
    for number in range(12):
        try:
            trial._kill(job, random.Random(number))
        except torture.Lost as finding:
            found.append(str(finding))
    assert bool(found) == (write is write_in_place)
    assert all("neither the old state nor the new one" in finding for finding in found)


def test_fuzzed_inputs_follow_from_their_seed_and_find_a_careless_reader(tmp_path):
    from torture_fuzz import Reader, fuzz, mutate

    seeds = [b'{"a": 1}', b"[1, 2]"]
    made = [mutate(seeds[0], random.Random(number), seeds) for number in range(50)]
    assert made == [mutate(seeds[0], random.Random(number), seeds) for number in range(50)]
    assert len(set(made)) > 40
    careless = fuzz(Reader("json", seeds, json.loads, batch=200), 0, tmp_path / "told")
    assert "Error" in careless["problem"] and careless["inputs"] <= 200
    unsealed = fuzz(Reader("bytes", seeds, lambda content: content, sealed=True, batch=200), 0, tmp_path / "told")
    assert "damage passed unnoticed" in unsealed["problem"]
    careful = fuzz(Reader("any", seeds, len, batch=200), 0, tmp_path / "told")
    assert careful["problem"] is None and careful["inputs"] == 200


def test_counts_are_kept_added_up_and_told(tmp_path):
    from torture_report import page
    from torture_tally import Tally, add

    first, second = Tally(), Tally()
    assert Tally.read(tmp_path / "none.json") == first
    first.trials["0"], first.points["train"] = 9, 42
    first.counts.update({"kill: train": 3, "kill at a time: train": 1, "race: train": 1})
    second.trials.update({"0": 1, "1": 2})
    second.counts.update({"kill: train": 1200, "fuzz: names": 50, "fuzz, refused: names": 20})
    second.note_slowest("names", 0.25)
    for number in range(2):
        second.findings.append({"what": "fuzz: names", "problem": f"KeyError: 'a' (seed {number}, ...)"})
    for name, tally in {"first": first, "second": second}.items():
        tally.save(tmp_path / name)
        assert Tally.read(tmp_path / name) == tally
    both = add([first, second])
    assert both.summary()["kills"] == 1204 and both.summary()["seeds"] == {"0": 10, "1": 2}
    told = page(both, ["Names are told."])
    assert "1,204 kills, 1 other blows and 50 fuzzed inputs (20 of them refused" in told
    assert "| train | 42 | 1,203 | 1 |  |  | 1 |" in told and "| names | 50 | 20 | 0.25 |" in told
    assert "- fuzz: names: KeyError: 'a' (2 times)" in told and "Mended since:\n\n- Names are told.\n" in told
    assert page(first).endswith("## Findings\n\nNone.\n")


@pytest.mark.slow
def test_commands_survive_a_short_trial(tmp_path):
    options = ["--minutes", "0.2", "--seed", "5", "--kinds", "kill,full disk", "--folder", tmp_path]
    options += ["--commands", "rename;taxonomy export;features"]
    command = [sys.executable, BENCHMARKS / "torture.py", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, summary["findings"]) == (0, [])
    assert summary["trials"] >= 1 and list(tmp_path.iterdir()) == []
