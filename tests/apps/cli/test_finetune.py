"""`unseen finetune`: its JSON, and what is refused, resumed and replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import Done, run_command
from support.finetuning import QUICK_OPTIONS
from support.tiny_network import make_bundle, make_photos


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos") / "seen")


def run(*arguments) -> Done:
    return run_command("finetune", *arguments, "--trust-code")


@pytest.mark.slow
def test_the_command_ends_with_json_and_protects_what_is_finished(folder, tmp_path):
    make_bundle().save(tmp_path / "bundle")
    arguments = [tmp_path / "bundle", "--photos", folder, "--out", tmp_path / "out", *QUICK_OPTIONS, "--workers", 0]
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    result = done.json
    assert result["epochs"] == 3 and result["photos"] == 40 and result["unreadable"] == 0
    assert result["loss"] > 0 and 0 <= result["accuracy"] <= 100

    done = run(*arguments)
    assert done.code == 1 and "overwrite it" in done.err
    done = run(*arguments, "--resume", "--json")
    assert done.code == 0 and done.json["photos"] == 40
    done = run(*arguments, "--resume", "--momentum", 0.5, "--seed", 1)
    assert done.code == 1 and "momentum was 0.9, now 0.5; seed was 0, now 1" in done.err
    other = make_bundle()
    other.solution.classifiers *= 2
    other.save(tmp_path / "other")
    done = run(tmp_path / "other", *arguments[1:], "--resume")
    assert done.code == 1 and "not as asked for: classifiers was " in done.err
    fewer = make_photos(tmp_path / "fewer", 7)
    done = run(*arguments, "--photos", fewer, "--resume")
    assert done.code == 1 and "not as asked for: photo_list was " in done.err
    done = run(*arguments, "--overwrite")
    assert done.code == 0 and "photos_per_s" in done.out


def test_mistakes_are_one_line(folder, tmp_path):
    make_bundle().save(tmp_path / "bundle")
    done = run(tmp_path / "bundle", "--photos", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert done.code == 1 and "there is no such folder" in done.err
    done = run(tmp_path / "nothing", "--photos", folder, "--out", tmp_path / "out")
    assert done.code == 1 and "is not a bundle" in done.err
