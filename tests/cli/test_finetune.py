"""`unseen finetune`: its JSON, and what is refused, resumed and replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import Done, run_command
from support.finetuning import QUICK_OPTIONS, assert_same_weights, interrupt_at, tune
from support.tiny_network import make_bundle, make_photos
from unseen.bundle import Bundle


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos") / "seen")


def run(*arguments) -> Done:
    return run_command("finetune", *arguments, "--trust-code")


@pytest.mark.slow
def test_the_command_ends_with_json_and_protects_what_is_finished(folder, tmp_path):
    make_bundle().save(tmp_path / "bundle")
    arguments = [tmp_path / "bundle", "--images", folder, "--out", tmp_path / "out", *QUICK_OPTIONS, "--workers", 0]
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    result = done.json
    assert result["epochs"] == 3 and result["photos"] == 40 and result["unreadable"] == 0
    assert result["loss"] > 0 and 0 <= result["accuracy"] <= 100

    done = run(*arguments)
    assert done.code == 1 and "--overwrite" in done.err
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
    done = run(*arguments, "--images", fewer, "--resume")
    assert done.code == 1 and "not as asked for: photo_list was " in done.err
    done = run(*arguments, "--overwrite")
    assert done.code == 0 and "photos/s" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("out", ["out", "bundle"], ids=["another bundle", "in place"])
def test_a_bundle_that_is_replaced_stays_whole_until_the_end(folder, tmp_path, monkeypatch, out):
    for name in ("bundle", "out"):
        make_bundle().save(tmp_path / name)
    arguments = [tmp_path / "bundle", "--images", folder, "--out", tmp_path / out, *QUICK_OPTIONS, "--workers", 0]
    with monkeypatch.context() as patch:
        interrupt_at(4, patch)
        done = run(*arguments, "--overwrite", "--resume")
        assert done.code == 1 and "after step 5 of 15" in done.err
    assert Bundle.load(tmp_path / out).network is None
    done = run(*arguments)
    assert done.code == 1 and "holds an interrupted training: continue it with --resume" in done.err
    assert run(*arguments, "--resume").code == 0
    assert_same_weights(Bundle.load(tmp_path / out), tune(folder))
    assert not (tmp_path / out / "retraining").exists()
    done = run(*arguments, "--resume")
    assert done.code == 0 and "is finished already" in done.err


def test_an_interrupted_finetuning_is_not_begun_anew_unasked(folder, tmp_path, monkeypatch):
    make_bundle().save(tmp_path / "bundle")
    arguments = [tmp_path / "bundle", "--images", folder, "--out", tmp_path / "out", *QUICK_OPTIONS, "--workers", 0]
    with monkeypatch.context() as patch:
        interrupt_at(4, patch)
        assert run(*arguments).code == 1
    kept = (tmp_path / "out" / "checkpoint.safetensors").read_bytes()
    done = run(*arguments)
    assert done.code == 1 and "continue it with --resume, or start again with --overwrite" in done.err
    assert (tmp_path / "out" / "checkpoint.safetensors").read_bytes() == kept
    assert run(*arguments, "--overwrite").code == 0
    assert len(Bundle.load(tmp_path / "out").log) == len(tune(folder).log)  # from the first step on


def test_mistakes_are_one_line(folder, tmp_path):
    make_bundle().save(tmp_path / "bundle")
    done = run(tmp_path / "bundle", "--images", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert done.code == 1 and "there is no such folder" in done.err
    done = run(tmp_path / "nothing", "--images", folder, "--out", tmp_path / "out")
    assert done.code == 1 and "is not a bundle" in done.err
