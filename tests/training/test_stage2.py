"""Stage 2: what it trains and leaves, from which photos; interrupted, resumed and on several processes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import unseen
from support import tiny_network
from support.finetuning import QUICK, QUICK_OPTIONS, assert_close_weights, assert_same_weights, interrupt_at, tune
from support.problems import SEEN
from support.tiny_network import build, make_bundle, make_photos, make_shards
from unseen.bundle import Bundle, NetworkInfo
from unseen.data import imagenet_1k
from unseen.hierarchy.core import Hierarchy
from unseen.methods import Solution
from unseen.methods.projections import Append1, Linear
from unseen.networks.loading import load_network
from unseen.photos.transforms import TrainingTransform
from unseen.training.settings import FinetuneSettings
from unseen.training.stage2 import freeze, stages
from unseen.util.errors import UnseenError
from unseen.util.run import Run
from unseen.vectors.class_vectors import ClassVectors, Coverage

# -- what it does ----------------------------------------------------------------------------------------------------


def test_the_last_layer_stays_and_all_else_moves(folder):
    bundle = make_bundle()
    classifiers, before = bundle.solution.classifiers.copy(), build().weights()
    tuned = tune(folder, bundle=bundle)
    np.testing.assert_array_equal(tuned.solution.classifiers, classifiers)
    for name, weight in before.items():
        same = np.array_equal(tuned.network_weights[name], weight.numpy())
        assert same == name.startswith("last."), name


@pytest.mark.slow
def test_the_loss_falls_and_the_accuracy_rises(folder):
    tuned = tune(folder, settings=replace(QUICK, epochs=8))
    first, last = tuned.log[0], tuned.log[-1]
    assert last["loss"] < 0.5 * first["loss"]
    assert last["accuracy"] > first["accuracy"] + 20
    assert last["step"] == 40 and last["epoch"] == 8


def test_a_scale_acts_like_longer_classifiers(folder):
    longer = make_bundle()
    longer.solution.classifiers *= 3
    scaled = tune(folder, settings=replace(QUICK, scale=3.0))
    assert_close_weights(scaled, tune(folder, bundle=longer))
    np.testing.assert_array_equal(scaled.solution.classifiers, make_bundle().solution.classifiers)


@pytest.mark.slow
def test_the_finetuned_bundle_is_used_like_any_other(folder, tmp_path):
    bundle = make_bundle()
    tune(folder, tmp_path / "tuned", settings=replace(QUICK, epochs=8), bundle=bundle)
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]
    tuned, before = unseen.load(tmp_path / "tuned"), unseen.load(bundle)
    assert tuned.bundle.network.finetuned
    assert tuned.network.checksum == tuned.bundle.network.checksum != bundle.network.checksum
    photo = folder / SEEN[0] / "00.png"
    assert np.abs(tuned.features([photo]) - before.features([photo])).max() > 0.01
    assert tuned.classify(photo, candidates="seen", k=1)[0].id == SEEN[0]
    hit = {
        name: model.evaluate(folder, "seen").image["hit@1"] for name, model in (("before", before), ("tuned", tuned))
    }
    assert hit["tuned"] > hit["before"] + 20
    added = tuned.bundle.finetuning
    assert added.photos == 40 and added.settings["learning_rate"] == 0.02


def test_a_network_in_memory_gets_its_finetuned_weights_back(folder, tmp_path):
    in_memory = [build("module/TinyNetwork") for _ in range(2)]
    tuned = tune(folder, tmp_path / "out", bundle=make_bundle(in_memory[0]), network=in_memory[0])
    assert in_memory[0].checksum == in_memory[1].checksum != tuned.network.checksum  # a copy was trained
    with pytest.raises(UnseenError, match="network in memory"):
        Bundle.load(tmp_path / "out").load_network()
    again = unseen.load(tmp_path / "out", network=in_memory[1])
    assert again.network.checksum == tuned.network.checksum


@pytest.mark.slow
def test_the_built_in_network_on_real_photos(shared_photos, tmp_path, monkeypatch):
    """Two epochs of eight photos: every weight but the last layer's moves, a resumed run equals an undisturbed one."""
    ids = sorted(p.name for p in (shared_photos / "seen-train").iterdir())[:8]
    for id in ids:
        (tmp_path / "photos" / id).mkdir(parents=True)
        shutil.copy(min((shared_photos / "seen-train" / id).iterdir()), tmp_path / "photos" / id)
    network = load_network()
    bundle = bundle_of_its_own_classifiers(network)
    before = network.weights()
    settings = FinetuneSettings(epochs=2, batch=8, learning_rate=1e-2)
    whole = tune(tmp_path / "photos", settings=settings, bundle=bundle)
    stayed = {name for name, weight in before.items() if np.array_equal(whole.network_weights[name], weight.numpy())}
    # Where a block ends in a shift, the next batch-norm takes it away again: its gradient is zero but for rounding.
    shifts = {name for name in before if name.endswith("bn3.bias")} | {"blocks.0.0.bn2.bias"}
    assert {"classifier.weight", "classifier.bias"} <= stayed <= {"classifier.weight", "classifier.bias"} | shifts

    with monkeypatch.context() as patch, pytest.raises(UnseenError, match="after epoch 1 of 2; resume it"):
        interrupt_at(0, patch)
        tune(tmp_path / "photos", tmp_path / "out", settings, bundle=bundle)
    resumed = tune(tmp_path / "photos", tmp_path / "out", settings, Run(resume=True, show_progress=False), bundle)
    assert_same_weights(resumed, whole)
    assert Bundle.load(tmp_path / "out").load_network().checksum == whole.network.checksum


def bundle_of_its_own_classifiers(network) -> Bundle:
    """The network's own classifiers for the 1,000 classes, in place of predicted ones."""
    hierarchy = Hierarchy.imagenet().subgraph(imagenet_1k())
    seen = hierarchy.indices(network.class_ids)
    classifiers = np.zeros((len(hierarchy), network.num_features + 1), np.float32)
    classifiers[seen] = network.classifiers()
    vectors = ClassVectors((), (), [], Coverage(len(hierarchy), list(hierarchy.ids), {}))
    info = NetworkInfo(network.name, network.checksum, network.num_features, list(network.class_ids))
    solution = Solution(classifiers, Append1())
    return Bundle(hierarchy, seen, network.classifiers(), vectors, solution, "dgp", {}, info)


# -- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(folder):
    assert_same_weights(tune(folder, workers=2), tune(folder, workers=0))


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [False, True], ids=["class ids", "class numbers"])
def test_shards_train_like_the_folder(folder, tmp_path, numbers):
    shards = make_shards(tmp_path / "shards", folder, shards=3, numbers=numbers)
    assert_same_weights(tune(shards, workers=1), tune(folder))


def test_unreadable_photos_are_left_out_counted_and_named(folder, tmp_path, caplog):
    shutil.copytree(folder, tmp_path / "photos")
    (tmp_path / "photos" / "dog" / "02.png").write_bytes(b"not a photo")
    whole = (folder / "hammer" / "05.png").read_bytes()
    (tmp_path / "photos" / "hammer" / "05.png").write_bytes(whole[: len(whole) // 2])
    tuned = tune(tmp_path / "photos", workers=1)
    messages = caplog.messages
    facts = tuned.finetuning
    assert facts.unreadable == 2
    assert "dog/02.png" in facts.unreadable_photos[0] and "hammer/05.png" in facts.unreadable_photos[1]
    assert len(messages) == 1 and "2 photos could not be read" in messages[0] and "dog/02.png" in messages[0]
    assert np.isfinite(tuned.log[-1]["loss"])


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "dog").mkdir()
    for number in range(3):
        (tmp_path / "dog" / f"{number}.jpg").write_bytes(b"")
    with pytest.raises(UnseenError, match=r"3 photos in a row cannot be read.*dog/\d.jpg.*empty"):
        tune(tmp_path)


def test_an_unknown_class_is_refused_or_left_out(folder, tmp_path, caplog):
    shutil.copytree(folder, tmp_path / "photos")
    shutil.copytree(folder / "dog", tmp_path / "photos" / "zebra")
    with pytest.raises(UnseenError, match=r"1 classes are not seen classes.*zebra.*skip unknown classes"):
        tune(tmp_path / "photos")
    caplog.set_level("INFO", "unseen")
    tuned = tune(tmp_path / "photos", skip_unknown=True)
    assert tuned.finetuning.skipped_classes == 1 and "zebra" in caplog.messages[0]
    assert_same_weights(tuned, tune(folder))


def test_a_class_without_photos_is_reported(folder, tmp_path, caplog):
    caplog.set_level("INFO", "unseen")
    shutil.copytree(folder, tmp_path / "photos")
    for file in (tmp_path / "photos" / "tabby").iterdir():
        file.unlink()
    tuned = tune(tmp_path / "photos")
    assert caplog.messages == ["1 class folders hold no photo: tabby"]
    facts = tuned.finetuning
    assert facts.empty_classes == 1 and facts.photos == 32


def test_a_class_without_photos_plays_no_part_in_the_loss(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "photos")
    shutil.rmtree(tmp_path / "photos" / "tabby")
    other = make_bundle()
    other.solution.classifiers[other.hierarchy.ids.index("tabby")] *= -5
    assert_same_weights(tune(tmp_path / "photos"), tune(tmp_path / "photos", bundle=other))


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_another_network_is_refused(folder):
    other = build()
    with torch.no_grad():
        other.module.stem.weight += 1
    with pytest.raises(UnseenError, match="other weights"):
        tune(folder, network=other)


def test_a_method_without_classifiers_is_refused(folder):
    bundle = make_bundle(method="devise")
    bundle.solution.projection = Linear(np.eye(16, dtype=np.float32))
    with pytest.raises(UnseenError, match="devise predicts no classifiers"):
        tune(folder, bundle=bundle)


def test_a_learning_rate_that_explodes_is_reported(folder, tmp_path):
    with pytest.raises(UnseenError, match="lower the learning rate"):
        tune(folder, tmp_path / "out", settings=replace(QUICK, learning_rate=1e12, freeze_batch_norm=True, epochs=9))


def test_a_full_disk_keeps_the_earlier_checkpoint(folder, tmp_path, monkeypatch):
    written = []

    def fsync(file):
        written.append(file)
        if len(written) > 4:  # the log's beginning and a checkpoint fit, each a file and its folder
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(UnseenError, match=r"cannot write to .*checkpoint.safetensors: No space left on device"):
            tune(folder, tmp_path / "out")
    kept = ["checkpoint.safetensors", "lock", "log.jsonl"]
    assert sorted(p.name for p in (tmp_path / "out.training").iterdir()) == kept
    resumed = tune(folder, tmp_path / "out", run=Run(resume=True, show_progress=False))
    assert_same_weights(resumed, tune(folder))


# -- existing output -------------------------------------------------------------------------------------------------


def test_a_finished_finetuning_is_neither_replaced_nor_done_twice(folder, tmp_path, caplog):
    caplog.set_level("INFO", "unseen")
    base, out, resume = make_bundle(), tmp_path / "out", Run(resume=True, show_progress=False)
    tuned = tune(folder, out, bundle=base)
    with pytest.raises(UnseenError, match="is another bundle: choose another name, or overwrite it"):
        tune(folder, out, bundle=base)
    again = tune(folder, out, bundle=base, run=resume)
    assert caplog.messages[-1] == f"{out} is finished already."
    assert again.finetuning == tuned.finetuning and again.path == out
    with pytest.raises(UnseenError, match=r"not as asked for: momentum was 0\.9, now 0\.5.*or overwrite it"):
        tune(folder, out, replace(QUICK, momentum=0.5), bundle=base, run=resume)
    assert tune(folder, out, run=Run(seed=1, show_progress=False), bundle=base, overwrite=True).finetuning.seed == 1
    assert Bundle.load(out).finetuning.seed == 1


def test_a_bundle_that_was_not_finetuned_is_not_taken_for_one(folder, tmp_path):
    base = make_bundle()
    base.save(tmp_path / "bundle")
    with pytest.raises(UnseenError, match="is another bundle: choose another name"):
        tune(folder, tmp_path / "bundle", bundle=base)
    with pytest.raises(UnseenError, match="is a finished bundle that was not finetuned"):
        tune(folder, tmp_path / "bundle", bundle=base, run=Run(resume=True))
    assert Bundle.load(tmp_path / "bundle").network_weights is None


def test_an_interrupted_finetuning_is_resumed_or_started_again_only_if_asked(folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(UnseenError, match="after epoch 1 of 3; resume it"):
        interrupt_at(6, patch)
        tune(folder, tmp_path / "out")
    shutil.copytree(tmp_path / "out.training", tmp_path / "other.training")
    with pytest.raises(UnseenError, match=r"was interrupted: resume it, or overwrite it to start again"):
        tune(folder, tmp_path / "out")
    resumed = tune(folder, tmp_path / "out", run=Run(resume=True, show_progress=False))
    assert_same_weights(resumed, tune(folder, tmp_path / "other", overwrite=True))


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
    with pytest.raises(UnseenError, match=r"share of 0\.05 keeps no photo aside: no class has more than 8 photos"):
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
        ({"learning_rate": 0.0}, "learning_rate must be a number greater than 0"),
        ({"scale": float("inf")}, "scale must be .*, not inf"),
        ({"momentum": 1.0}, "momentum must be a number of at least 0 and less than 1"),
        ({"schedule": "step"}, "constant or cosine"),
        ({"validation": 1.0}, "validation must be a number of at least 0 and less than 1"),
        ({"patience": 2}, "needs validation photos: keep a share of 0.1"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(UnseenError, match=said):
        FinetuneSettings(**wrong)


# -- interruptions ---------------------------------------------------------------------------------------------------


KILLED = """
import os, signal, sys, torch
from unseen.training import stage2 as loop
from unseen.training.settings import FinetuneSettings
from unseen.model import load
from unseen.util.run import Run

bundle, photos, out, step, where = sys.argv[1:]
update = loop.Stage2.update

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
settings = FinetuneSettings(epochs=4, batch=8, learning_rate=0.02, validation=0.25, patience=4)
load(bundle, trust_code=True).finetune(photos, settings, out=out, run=Run(resume=True, show_progress=False))
"""


@pytest.mark.slow
def test_killed_it_resumes_and_ends_with_the_same_weights(folder, tmp_path):
    """16 steps, killed by SIGKILL in a step and while a checkpoint is written, then left to finish."""
    make_bundle().save(tmp_path / "bundle")
    for step, where in ((6, "step"), (9, "write"), (10**9, "never")):
        arguments = [tmp_path / "bundle", folder, tmp_path / "out", str(step), where]
        with open(tmp_path / "messages", "w+") as messages:  # a pipe would stay open until orphaned workers end
            done = subprocess.run([sys.executable, "-c", KILLED, *arguments], stderr=messages, timeout=300)
            messages.seek(0)
            assert done.returncode == (0 if where == "never" else -signal.SIGKILL), messages.read()
    settings = FinetuneSettings(epochs=4, batch=8, learning_rate=0.02, validation=0.25, patience=4)
    undisturbed = tune(folder, tmp_path / "undisturbed", settings=settings)
    resumed = Bundle.load(tmp_path / "out")
    assert_same_weights(resumed, undisturbed)
    figures = ("step", "epoch", "loss", "accuracy", "validation_accuracy")
    logs = [[{key: line.get(key) for key in figures} for line in one.log] for one in (resumed, undisturbed)]
    assert logs[0] == logs[1]


@pytest.mark.slow
def test_ctrl_c_keeps_a_checkpoint_and_says_how_to_go_on(folder, tmp_path):
    """As a terminal does it: the signal reaches the whole process group, worker processes too."""
    make_bundle(tiny_network.build_slow()).save(tmp_path / "bundle")
    arguments = [tmp_path / "bundle", "--photos", folder, "--out", tmp_path / "out", *QUICK_OPTIONS, "--workers", 2]
    arguments[arguments.index("3")] = "8"
    options = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command(*arguments), start_new_session=True, **options)
    log, patience = tmp_path / "out.training" / "log.jsonl", time.monotonic() + 300
    while not (log.exists() and '"epoch": 2' in log.read_text()) and time.monotonic() < patience:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "of 8; resume it with the same settings" in messages
    assert "Traceback" not in messages
    with pytest.raises(UnseenError, match="its training was interrupted"):
        Bundle.load(tmp_path / "out")

    done = subprocess.run(command(*arguments, "--resume", "--json"), timeout=300, **options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["steps"] == 40 and result["photos"] == 40
    assert_same_weights(Bundle.load(tmp_path / "out"), tune(folder, settings=replace(QUICK, epochs=8)))


# -- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_equal_one_with_twice_the_batch(tmp_path):
    """Under torchrun, as the manual says; one photo is unreadable for each process."""
    folder = make_photos(tmp_path / "photos", a_class=16)
    for number in range(3):
        (folder / "dog" / f"{number:02d}.png").write_bytes(b"not a photo")
    make_bundle().save(tmp_path / "bundle")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "unseen")
    arguments = [tmp_path / "bundle", "--photos", folder, "--out", tmp_path / "two", "--epochs", 3, "--batch", 16]
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
from unseen.training import stage2 as loop
from unseen.apps.cli import main

update = loop.Stage2.update

def update_or_die(self, batch):
    if self.step == 4 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
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
    arguments = ["--photos", folder, "--epochs", 2, "--batch", 8, "--learning-rate", 0.02, "--workers", 0, "--json"]
    arguments += ["--resume"]
    results = {}
    for out, script in (("restarted", [str(tmp_path / "restarted.py")]), ("undisturbed", ["-m", "unseen"])):
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
        command_line = command(tmp_path / "bundle", "--out", tmp_path / out, *arguments, launcher=torchrun + script)
        done = subprocess.run(command_line, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        results[out] = Bundle.load(tmp_path / out)
    assert results["restarted"].log[-1]["step"] == 6
    assert_same_weights(results["restarted"], results["undisturbed"])


@pytest.mark.parametrize(
    ("settings", "stays"),
    [
        ({"freeze_batch_norm": True}, ("last.", "norm.", "blocks.0.1.", "blocks.1.1.")),
        ({"freeze_stages": 2}, ("last.", "stem.", "norm.", "blocks.0.")),
        ({"freeze_stages": -1}, ("last.", "stem.", "norm.", "blocks.0.")),
    ],
)
def test_what_is_frozen_stays_and_all_else_moves(folder, settings, stays):
    before, tuned = build().weights(), tune(folder, settings=replace(QUICK, **settings))
    for name, weight in before.items():
        assert np.array_equal(tuned.network_weights[name], weight.numpy()) == name.startswith(stays), name


def test_stages_of_the_built_in_network():
    """The stem, seven stages and the head, each with its batch-norm; nothing is left when all are frozen."""
    network = load_network()
    assert len(stages(network)) == 9
    counted = sum(p.numel() for stage in stages(network) for module in stage for p in module.parameters())
    last = sum(p.numel() for p in network.get_classifier().parameters())
    assert counted + last == sum(p.numel() for p in network.parameters())
    with pytest.raises(UnseenError, match="it has 9"):
        freeze(network, 9, batch_norm=False)
