"""The loop of stage 2: its settings, interruptions, and several processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from support import tiny_network
from support.finetuning import QUICK, QUICK_OPTIONS, assert_close_weights, assert_same_weights, interrupt_at, tune
from support.tiny_network import make_bundle, make_photos
from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.finetuning import FinetuneSettings
from unseen.photos.transforms import TrainingTransform
from unseen.runtime.run import Run


def command(*arguments, launcher=("-m", "unseen")) -> list[str]:
    return [sys.executable, *launcher, "finetune", *map(str, arguments), "--trust-code"]


# -- settings --------------------------------------------------------------------------------------------------------


def test_accumulation_equals_a_larger_batch(folder):
    frozen = replace(QUICK, freeze_batch_norm=True)
    large = tune(folder, settings=replace(frozen, batch=16))
    parts = tune(folder, settings=replace(frozen, batch=4, accumulate=4))
    assert parts.log[-1]["step"] == large.log[-1]["step"]
    assert_close_weights(parts, large)


def test_the_cosine_schedule_ends_near_zero():
    settings = FinetuneSettings(schedule="cosine", learning_rate=0.1)
    rates = [settings.learning_rate_at(step, 100) for step in range(100)]
    assert rates[0] == 0.1 and rates[50] == pytest.approx(0.05) and rates[99] < 0.001
    assert FinetuneSettings().learning_rate_at(99, 100) == 1e-4


def test_validation_stops_early_and_keeps_the_best(folder, tmp_path):
    """A learning rate that spoils the network: the first epoch stays the best, or nearly so."""
    settings = FinetuneSettings(epochs=40, batch=8, learning_rate=1e-6, validation=0.25, patience=3)
    tuned = tune(folder, tmp_path / "out", settings=settings)
    facts = tuned.finetuning
    assert facts.photos == 30 and facts.validation_photos == 10
    accuracies = [record["validation_accuracy"] for record in tuned.log if "validation_accuracy" in record]
    best = facts.best_validation
    assert len(accuracies) == facts.epochs == best.epoch + 3 < 40
    assert max(accuracies) == round(best.accuracy, 2) == accuracies[best.epoch - 1]
    only_the_best = tune(folder, settings=replace(settings, epochs=best.epoch, patience=0))
    assert_same_weights(tuned, only_the_best)


def test_a_validation_without_photos_is_refused(folder):
    with pytest.raises(UnseenError, match=r"validation=0\.05 keeps no photo aside: no class has more than 8 photos"):
        tune(folder, settings=replace(QUICK, validation=0.05))


def test_validation_photos_are_not_trained_on(folder, monkeypatch):
    seen, open_photo = set(), TrainingTransform.open

    def open_and_note(self, source, rng):
        seen.add(source)
        return open_photo(self, source, rng)

    monkeypatch.setattr(TrainingTransform, "open", open_and_note)
    tuned = tune(folder, settings=replace(QUICK, validation=0.25))
    assert len(seen) == tuned.finetuning.photos == 30


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epochs": 0}, "stage 2: epochs must be an integer of at least 1, not 0"),
        ({"batch": 0}, "batch must be an integer of at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a number greater than 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be .*, not nan"),
        ({"scale": 0.0}, "scale must be a number greater than 0"),
        ({"scale": float("inf")}, "scale must be .*, not inf"),
        ({"weight_decay": float("inf")}, "weight_decay must be .*, not inf"),
        ({"weight_decay": float("nan")}, "weight_decay must be .*, not nan"),
        ({"momentum": 1.0}, "momentum must be a number of at least 0 and less than 1"),
        ({"schedule": "step"}, "constant or cosine"),
        ({"validation": 1.0}, "validation must be a number of at least 0 and less than 1"),
        ({"patience": 2}, "needs validation photos: give validation=0.1"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(UnseenError, match=said):
        FinetuneSettings(**wrong)


# -- interruptions ---------------------------------------------------------------------------------------------------


KILLED = """
import os, signal, sys, torch
from unseen.finetuning import loop
from unseen.finetuning import FinetuneSettings, finetune
from unseen.bundle import Bundle
from unseen.runtime.run import Run

bundle, images, out, step, where = sys.argv[1:]
update, replace = loop.Stage2.update, os.replace

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def update_or_die(self, batch):
    if self.step == int(step):
        if where == "step":
            torch.optim.SGD.step = die          # gradients are there, weights not yet changed
        else:
            os.replace = die                    # the next checkpoint is written, but not in its place
    return update(self, batch)

loop.Stage2.update = update_or_die
settings = FinetuneSettings(epochs=6, batch=8, learning_rate=0.02, validation=0.25, patience=6)
run = Run(resume=True, checkpoint_every=3, show_progress=False)
finetune(Bundle.load(bundle, trust_code=True), images, out, settings, run, workers=2)
"""


@pytest.mark.slow
def test_killed_at_random_steps_it_ends_with_the_same_weights(folder, tmp_path):
    """24 steps, killed by SIGKILL twice in a step and once while a checkpoint is written, then left to finish."""
    make_bundle().save(tmp_path / "bundle")
    steps = sorted(random.sample(range(1, 22), 3))
    wheres = random.sample(["step", "step", "write"], 3)
    print("killed at", steps, wheres)
    for step, where in [*zip(steps, wheres, strict=True), (10**9, "never")]:
        arguments = [tmp_path / "bundle", folder, tmp_path / "out", str(step), where]
        with open(tmp_path / "messages", "w+") as messages:  # a pipe would stay open until orphaned workers end
            done = subprocess.run([sys.executable, "-c", KILLED, *arguments], stderr=messages, timeout=300)
            messages.seek(0)
            assert done.returncode == (0 if where == "never" else -signal.SIGKILL), messages.read()
    settings = FinetuneSettings(epochs=6, batch=8, learning_rate=0.02, validation=0.25, patience=6)
    undisturbed = tune(folder, tmp_path / "undisturbed", settings=settings)
    resumed = Bundle.load(tmp_path / "out")
    assert_same_weights(resumed, undisturbed)
    figures = ("step", "epoch", "loss", "accuracy", "validation_accuracy")
    assert len({(r.get("step"), r["epoch"], "loss" in r) for r in resumed.log}) == len(resumed.log)  # no line twice
    last = [{key: log[-1].get(key) for key in figures} for log in (resumed.log, undisturbed.log)]
    assert last[0] == last[1]


@pytest.mark.slow
def test_ctrl_c_keeps_a_checkpoint_and_says_how_to_go_on(folder, tmp_path):
    """As a terminal does it: the signal reaches the whole process group, worker processes too."""
    make_bundle(tiny_network.build_slow()).save(tmp_path / "bundle")
    arguments = [tmp_path / "bundle", "--images", folder, "--out", tmp_path / "out", *QUICK_OPTIONS, "--workers", 2]
    arguments[arguments.index("3")] = "8"
    options = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command(*arguments), start_new_session=True, **options)
    log, patience = tmp_path / "out" / "log.jsonl", time.monotonic() + 300
    while not (log.exists() and log.read_text()) and time.monotonic() < patience:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "of 40; continue with --resume and the same settings" in messages
    assert "Traceback" not in messages
    with pytest.raises(UnseenError, match="unfinished training"):
        Bundle.load(tmp_path / "out")

    done = subprocess.run(command(*arguments, "--resume", "--json"), timeout=300, **options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["steps"] == 40 and result["photos"] == 40
    assert_same_weights(Bundle.load(tmp_path / "out"), tune(folder, settings=replace(QUICK, epochs=8)))


def test_the_time_before_an_interruption_counts(folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(UnseenError, match="after step 5 of 15"):
        interrupt_at(4, patch)
        tune(folder, tmp_path / "out", run=Run(started=time.monotonic() - 1000, show_progress=False))
    resumed = tune(folder, tmp_path / "out", run=Run(resume=True, show_progress=False))
    assert all(record["seconds"] > 1000 for record in resumed.log)


def test_the_death_of_a_worker_is_told(folder, monkeypatch):
    """As the kernel does when memory runs out."""
    here = os.getpid()
    open_photo = TrainingTransform.open

    def open_or_die(self, source, rng):
        if os.getpid() != here and Path(source).name == "05.png":
            os.kill(os.getpid(), signal.SIGKILL)
        return open_photo(self, source, rng)

    monkeypatch.setattr(TrainingTransform, "open", open_or_die)
    with pytest.raises(UnseenError, match=r"ended unexpectedly: DataLoader worker.*Resume it with fewer workers"):
        tune(folder, workers=1)


def test_resuming_with_other_settings_is_refused(folder, tmp_path, monkeypatch):
    interrupt_at(4, monkeypatch)
    with pytest.raises(UnseenError, match="after step 5 of 15"):
        tune(folder, tmp_path / "out")
    with pytest.raises(UnseenError, match=r"learning_rate was 0\.02, now 0\.5"):
        tune(folder, tmp_path / "out", replace(QUICK, learning_rate=0.5), Run(resume=True, show_progress=False))
    more = make_photos(tmp_path / "more", a_class=9)
    with pytest.raises(UnseenError, match="photos was 40, now 45"):
        tune(more, tmp_path / "out", run=Run(resume=True, show_progress=False))


# -- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_equal_one_with_twice_the_batch(tmp_path):
    """Under torchrun, as the manual says; one photo is unreadable for each process."""
    folder = make_photos(tmp_path / "photos", a_class=16)
    for number in range(3):
        (folder / "dog" / f"{number:02d}.png").write_bytes(b"not a photo")
    make_bundle().save(tmp_path / "bundle")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "unseen")
    arguments = [tmp_path / "bundle", "--images", folder, "--out", tmp_path / "two", "--epochs", 3, "--batch", 16]
    arguments += ["--learning-rate", 0.02, "--freeze-batch-norm", "--workers", 1, "--validation", 0.1, "--json"]
    done = subprocess.run(
        command(*arguments, launcher=torchrun),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)  # one process speaks
    assert result["processes"] == 2 and result["steps"] == 9 and result["unreadable"] == 3
    settings = FinetuneSettings(epochs=3, batch=32, learning_rate=0.02, freeze_batch_norm=True, validation=0.1)
    one = tune(folder, settings=settings)
    assert_close_weights(Bundle.load(tmp_path / "two"), one)
    assert result["best_validation"] == one.finetuning.best_validation.to_json()
    assert result["loss"] == pytest.approx(one.log[-2]["loss"], rel=1e-3)


RESTARTED = """
import os, signal, sys, torch
from unseen.finetuning import loop
from unseen.cli import main

update = loop.Stage2.update

def update_or_die(self, batch):
    if self.step == 5 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return update(self, batch)

loop.Stage2.update = update_or_die
main()
"""


@pytest.mark.slow
def test_torchrun_restarts_a_group_that_lost_a_process(tmp_path, folder):
    """With batch-norm trained, whose statistics each process gathers for itself."""
    make_bundle().save(tmp_path / "bundle")
    (tmp_path / "restarted.py").write_text(RESTARTED)
    arguments = ["--images", folder, "--epochs", 4, "--batch", 8, "--learning-rate", 0.02, "--workers", 0, "--json"]
    arguments += ["--checkpoint-every", 2, "--resume"]
    results = {}
    for out, script in (("restarted", [str(tmp_path / "restarted.py")]), ("undisturbed", ["-m", "unseen"])):
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
        command_line = command(tmp_path / "bundle", "--out", tmp_path / out, *arguments, launcher=torchrun + script)
        done = subprocess.run(command_line, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        results[out] = Bundle.load(tmp_path / out)
    assert results["restarted"].log[-1]["step"] == 12
    assert_same_weights(results["restarted"], results["undisturbed"])
