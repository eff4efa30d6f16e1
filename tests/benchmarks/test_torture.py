"""The trial itself: processes end at the very point, the power fails at each, and a result that is lost is noticed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from unseen.util.files import replacing_folder, write_atomically

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it forks, and reads /proc")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run_child(work, **blow):
    from torture_points import Child

    return Child(work, **blow).wait()


@pytest.mark.parametrize("after", [False, True])
def test_a_process_is_killed_just_before_or_just_after_a_point(tmp_path, after):
    from torture_points import Points

    file = tmp_path / "file"
    file.write_bytes(b"old")
    ended = run_child(lambda: write_atomically(file, b"new"), points=Points(1, "kill", after))
    assert ended.status == -9
    assert file.read_bytes() == (b"new" if after else b"old")


# -- loss of power ---------------------------------------------------------------------------------------------------


def images(folder: Path, work) -> list[tuple[int, str, dict]]:
    from torture_points import PowerLoss

    file = folder.with_name("images")
    ended = run_child(work, points=PowerLoss(root=folder, images=file))
    assert ended.status == 0, ended.said
    return [(at - ended.points, variant, image) for at, variant, image in pickle.loads(file.read_bytes())]


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "file").write_bytes(b"old")
    return tmp_path / "disk"


def test_a_file_that_is_written_atomically_is_the_old_or_the_new_one_and_new_at_the_end(disk):
    states = images(disk, lambda: write_atomically(disk / "file", b"new"))
    assert {image["file"] for _, _, image in states} == {b"old", b"new"}
    assert all(image == {"file": b"new"} for at, _, image in states if at == 0)
    deep = images(disk, lambda: write_atomically(disk / "a" / "b" / "c", b"new"))
    assert all(image["a/b/c"] == b"new" for at, _, image in deep if at == 0)


def test_a_folder_appears_with_all_of_its_files(disk):
    def write() -> None:
        with replacing_folder(disk / "new") as folder:
            (folder / "part").write_bytes(b"content")

    states = images(disk, write)
    assert all(image["new/part"] == b"content" for _, _, image in states if "new" in image)
    assert all("new" in image for at, _, image in states if at == 0)


def careless(disk: Path) -> None:
    """Renamed without a sync of the file."""
    (disk / "other").write_bytes(b"new content")
    os.replace(disk / "other", disk / "file")


def forgetful(disk: Path) -> None:
    """Without a sync of the folder."""
    with open(disk / "other", "wb") as file:
        file.write(b"new content")
        file.flush()
        os.fsync(file.fileno())
    os.replace(disk / "other", disk / "file")


def in_place(disk: Path) -> None:
    with open(disk / "file", "wb") as file:
        file.write(b"new content")
        file.flush()
        os.fsync(file.fileno())


@pytest.mark.parametrize(
    ("write", "lost"),
    [(careless, {(0, b""), (0, b"new c"), (0, b"old")}), (forgetful, {(0, b"old")}), (in_place, {(-1, b"new c")})],
)
def test_what_may_be_lost_is_found(disk, write, lost):
    found = {(at, image["file"]) for at, _, image in images(disk, lambda: write(disk))}
    assert lost <= found


@pytest.fixture(scope="module")
def power(tmp_path_factory):
    """Power losses of every command, at each of its points: what they left that should not be."""
    folder = tmp_path_factory.mktemp("power")
    command = [sys.executable, BENCHMARKS / "torture.py", "--power", "--folder", folder]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    assert list(folder.iterdir()) == []
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_loss_of_power_leaves_the_old_or_the_new_and_the_new_once_it_is_done(power):
    assert {command: counts["problems"] for command, counts in power.items() if counts["problems"]} == {}
    assert all(counts["images"] >= 5 for counts in power.values())


@pytest.mark.slow
def test_every_command_that_writes_is_among_them(power):
    """Those with an option that names an output; `compare` and `reproduce` write as `report` and `train` do."""
    from unseen.apps.cli.app import COMMANDS, load_command

    outputs = {"out", "table", "heatmap"}
    writing = {name for name in COMMANDS if outputs & {parameter.name for parameter in load_command(name).params}}
    tortured = {command.partition(",")[0].partition(" ")[0] for command in power}
    assert writing - tortured <= {"compare", "reproduce"}
    assert len(writing) > 10


@pytest.mark.slow
def test_commands_survive_a_short_trial(tmp_path):
    options = ["--minutes", "0.2", "--seed", "5", "--kinds", "kill,full disk,power", "--folder", tmp_path]
    options += ["--commands", "rename;taxonomy export;features"]
    command = [sys.executable, BENCHMARKS / "torture.py", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, summary["findings"]) == (0, [])
    assert summary["trials"] >= 1 and list(tmp_path.iterdir()) == []
