"""Where a bundle may be written: nothing of the user's is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.bundles import small_bundle
from support.conditions import needs_proc
from unseen.bundle import Bundle, replacement
from unseen.bundle.places import check_place
from unseen.bundle.storage import store_bundle
from unseen.errors import UnseenError


def test_saving_replaces_a_bundle_and_leaves_nothing_beside_it(bundle, tmp_path):
    bundle.save(tmp_path / "b")
    replace(bundle, seed=7).save(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 7
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


def test_another_bundle_is_replaced_only_when_asked_to(bundle, tmp_path):
    first, other = replace(bundle, path=None), replace(bundle, path=None, seed=7)
    first.save(tmp_path / "b")
    with pytest.raises(
        UnseenError, match="b is another bundle: choose another name, or replace it with overwrite=True"
    ):
        other.save(tmp_path / "b")
    with pytest.raises(UnseenError, match="is another bundle"):
        other.check_output(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 0
    other.save(tmp_path / "b", overwrite=True)
    assert Bundle.load(tmp_path / "b").seed == 7


def test_a_changed_bundle_replaces_the_one_it_was(bundle, tmp_path):
    saved = Bundle.load(replace(bundle, path=None).save(tmp_path / "b"))
    changed = saved.change(seed=5).change(seed=6)
    assert changed.path is None and changed.origin == tmp_path / "b"
    changed.save(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 6 and changed.path == tmp_path / "b"


def test_a_failed_save_keeps_the_old_bundle(bundle, tmp_path, monkeypatch):
    bundle.save(tmp_path / "b")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnseenError, match=r"cannot write to .*: No space left on device"):
        replace(bundle, seed=7).save(tmp_path / "b")
    monkeypatch.undo()
    assert Bundle.load(tmp_path / "b").seed == 0
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


def test_names_that_are_not_unicode_survive(bundle, tmp_path):
    record = replace(bundle.solution.record, extra={"unreadable": ["\udcff.png"]})
    odd = replace(bundle, solution=replace(bundle.solution, record=record))
    assert Bundle.load(odd.save(tmp_path / "b")).solution.record.extra["unreadable"] == ["\udcff.png"]


def test_a_save_stopped_between_its_two_moves_keeps_the_old_bundle(bundle, tmp_path, monkeypatch):
    bundle.save(tmp_path / "b")
    rename = os.rename

    def stop(source, target):
        if str(source).endswith(".saving"):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(replacement, "exchange", lambda one, other: False)  # as where the system has none
    monkeypatch.setattr(os, "rename", stop)
    with pytest.raises(KeyboardInterrupt):
        replace(bundle, seed=7).save(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 0
    assert [item.name for item in tmp_path.iterdir()] == ["b"]
    (tmp_path / "b").rename(tmp_path / ".b.123.old")  # as a process that was killed there leaves it
    with pytest.raises(UnseenError, match=r"killed while saving: rename .*\.b\.123\.old to it"):
        Bundle.load(tmp_path / "b")


@pytest.mark.parametrize("folder", ["b/retraining", "b"])
def test_only_a_training_replaces_an_interrupted_one(bundle, tmp_path, folder):
    if folder != "b":
        bundle.save(tmp_path / "b")
    checkpoint = tmp_path / folder / "checkpoint.safetensors"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"")
    with pytest.raises(UnseenError, match=f"holds an interrupted training.* resume=True, or remove .*{folder}$"):
        bundle.save(tmp_path / "b")
    assert checkpoint.exists()
    store_bundle(bundle, tmp_path / "b", training=True)
    assert Bundle.load(tmp_path / "b") and not checkpoint.exists()


def test_nothing_but_a_bundle_is_overwritten(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UnseenError, match="is a file; a bundle is a folder"):
        check_place(tmp_path / "file")
    with pytest.raises(UnseenError, match="exists and is not a bundle: file would be lost"):
        check_place(tmp_path)
    (tmp_path / "empty").mkdir()
    check_place(tmp_path / "empty")
    check_place(tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("names", "foreign"),
    [
        (["log.jsonl"], None),
        (["checkpoint.safetensors", "log.jsonl", ".checkpoint.safetensors.123.tmp"], None),
        (["log.jsonl", "thesis.tex"], "thesis.tex"),
        (["log.jsonl", "README.md"], "README.md"),  # a bundle has one, a training does not
        (["log.jsonl/mine.txt"], "log.jsonl"),
        (["log.jsonl", ".thesis.tex.123.tmp"], ".thesis.tex.123.tmp"),
        (["bundle.json", "README.md", "network.safetensors", "retraining/log.jsonl"], None),
        (["bundle.json", "mine.pt"], "mine.pt"),
        (["bundle.json", "retraining/notes.txt"], "retraining/notes.txt"),
    ],
)
def test_a_folder_with_files_of_the_users_own_is_not_replaced(bundle, tmp_path, names, foreign):
    place = tmp_path / "b"
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x")
    if foreign is None:
        store_bundle(bundle, place, training=True)
        return
    for attempt in (check_place, bundle.save):
        with pytest.raises(UnseenError, match=f"{re.escape(foreign)} would be lost"):
            attempt(place)
    assert all((place / name).read_text() == "x" for name in names)


def test_the_current_folder_is_not_replaced(bundle, tmp_path, monkeypatch):
    """Whoever stands in it would stand nowhere."""
    (tmp_path / "b" / "retraining").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "b" / "retraining")
    for place in (".", "..", tmp_path / "b"):
        with pytest.raises(UnseenError, match="is the current folder or one around it: name a new folder"):
            bundle.save(place)


def test_a_link_to_a_bundle_stays_a_link(bundle, tmp_path):
    bundle.save(tmp_path / "disk" / "b")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "b")
    replace(bundle, seed=7).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and Bundle.load(tmp_path / "disk" / "b").seed == 7


@needs_proc
def test_a_place_that_cannot_be_written_is_told_first():
    with pytest.raises(UnseenError, match="cannot write to /proc"):
        check_place(Path("/proc/bundle"))


def test_a_second_training_in_the_same_place_is_refused(tmp_path):
    """It would write its log into the bundle that the first one leaves."""
    script = "import sys; from pathlib import Path; from unseen.bundle.places import sole_training\n"
    script += "with sole_training(Path(sys.argv[1])):\n    print('there', flush=True)\n    sys.stdin.read()"
    command = [sys.executable, "-c", script, str(tmp_path / "b")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "there\n"
        with pytest.raises(UnseenError, match="another process is training there"):
            small_bundle("structural", out=tmp_path / "b")
        small_bundle("structural", out=tmp_path / "c")
        other.stdin.close()
    small_bundle("structural", out=tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]
