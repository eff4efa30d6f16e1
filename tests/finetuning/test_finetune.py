"""Stage 2. Most tests train a tiny network on coloured noise (tiny_network.py); one trains the built-in network on
real photos."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import unseen
from support import tiny_network
from support.command_line import Done, run_command
from support.problems import SEEN
from support.tiny_network import build, make_bundle, make_photos, make_shards
from unseen.assets import imagenet_1k
from unseen.backbones import load_backbone
from unseen.bundle import BackboneInfo, Bundle
from unseen.errors import UnseenError
from unseen.finetuning import FinetuneSettings, finetune
from unseen.finetuning.freezing import freeze, stages
from unseen.finetuning.loop import Stage2
from unseen.methods import Solution
from unseen.methods.projections import Append1, Linear
from unseen.photos.transforms import TrainingTransform
from unseen.runtime.run import Run
from unseen.semantics import ClassVectors, Coverage
from unseen.taxonomy import Taxonomy

QUICK = FinetuneSettings(epochs=3, batch=8, learning_rate=0.02)
QUICK_OPTIONS = ["--epochs", "3", "--batch", "8", "--learning-rate", "0.02"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos") / "seen")


def tune(folder, out=None, settings=QUICK, run=None, bundle=None, workers=0, **options) -> Bundle:
    run = run or Run(show_progress=False)
    return finetune(bundle or make_bundle(), folder, out, settings, run, workers=workers, **options)


def command(*arguments, launcher=("-m", "unseen")) -> list[str]:
    return [sys.executable, *launcher, "finetune", *map(str, arguments)]


def assert_same_weights(one: Bundle, other: Bundle) -> None:
    assert one.network.keys() == other.network.keys()
    for name, weight in one.network.items():
        np.testing.assert_array_equal(weight, other.network[name], err_msg=name)


def assert_close_weights(one: Bundle, other: Bundle) -> None:
    """Equal but for the order of sums, and far closer than the way that they went."""
    start = build().weights()
    for name, weight in one.network.items():
        np.testing.assert_allclose(weight, other.network[name], rtol=1e-4, atol=1e-6, err_msg=name)
    moved = max(np.abs(one.network[name] - start[name].numpy()).max() for name in start)
    assert moved > 1e-2


# -- what it does ----------------------------------------------------------------------------------------------------


def test_the_last_layer_stays_and_all_else_moves(folder):
    bundle = make_bundle()
    classifiers, before = bundle.solution.classifiers.copy(), build().weights()
    tuned = tune(folder, bundle=bundle)
    np.testing.assert_array_equal(tuned.solution.classifiers, classifiers)
    for name, weight in before.items():
        same = np.array_equal(tuned.network[name], weight.numpy())
        assert same == name.startswith("last."), name


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


def test_the_finetuned_bundle_is_used_like_any_other(folder, tmp_path):
    bundle = make_bundle()
    tune(folder, tmp_path / "tuned", settings=replace(QUICK, epochs=8), bundle=bundle)
    assert sorted(p.name for p in (tmp_path / "tuned").iterdir()) == [
        "README.md", "bundle.json", "classes.json", "classifiers.safetensors", "log.jsonl", "network.safetensors",
        "state.safetensors",
    ]  # fmt: skip
    tuned, before = unseen.load(tmp_path / "tuned"), unseen.load(bundle)
    assert tuned.bundle.backbone.finetuned
    assert tuned.backbone.checksum == tuned.bundle.backbone.checksum != bundle.backbone.checksum
    photo = folder / SEEN[0] / "00.png"
    assert np.abs(tuned.features([photo]) - before.features([photo])).max() > 0.01
    assert tuned.classify(photo, candidates="seen", k=1)[0].id == SEEN[0]
    hit = {
        name: model.evaluate(folder, "seen", show_progress=False).image["hit@1"]
        for name, model in (("before", before), ("tuned", tuned))
    }
    assert hit["tuned"] > hit["before"] + 20
    added = tuned.bundle.finetuning
    assert added.photos == 40 and added.settings["learning_rate"] == 0.02


def test_a_network_in_memory_gets_its_finetuned_weights_back(folder, tmp_path):
    in_memory = [build("module/TinyNetwork") for _ in range(2)]
    tuned = tune(folder, tmp_path / "out", bundle=make_bundle(in_memory[0]), backbone=in_memory[0])
    assert in_memory[0].checksum == tuned.backbone.checksum != in_memory[1].checksum
    with pytest.raises(UnseenError, match="network in memory"):
        Bundle.load(tmp_path / "out").load_backbone()
    again = unseen.load(tmp_path / "out", backbone=in_memory[1])
    assert again.backbone.checksum == tuned.backbone.checksum


def test_finetuning_twice_goes_on_from_the_first(folder, tmp_path):
    tune(folder, tmp_path / "once")
    once = Bundle.load(tmp_path / "once")
    twice = tune(folder, tmp_path / "twice", bundle=once)
    assert twice.log[-1]["loss"] < once.log[-1]["loss"]


@pytest.mark.slow
def test_the_built_in_network_on_real_photos(shared_photos, tmp_path, monkeypatch):
    """Two steps on eight photos: every weight but the last layer's moves, a resumed run equals an undisturbed one."""
    ids = sorted(p.name for p in (shared_photos / "seen-train").iterdir())[:8]
    for id in ids:
        (tmp_path / "photos" / id).mkdir(parents=True)
        shutil.copy(min((shared_photos / "seen-train" / id).iterdir()), tmp_path / "photos" / id)
    backbone = load_backbone()
    bundle = bundle_of_its_own_classifiers(backbone)
    before = backbone.weights()
    settings = FinetuneSettings(epochs=1, batch=4, learning_rate=1e-2)
    whole = tune(tmp_path / "photos", settings=settings, bundle=bundle)
    stayed = {name for name, weight in before.items() if np.array_equal(whole.network[name], weight.numpy())}
    # Where a block ends in a shift, the next batch-norm takes it away again: its gradient is zero but for rounding.
    shifts = {name for name in before if name.endswith("bn3.bias")} | {"blocks.0.0.bn2.bias"}
    assert {"classifier.weight", "classifier.bias"} <= stayed <= {"classifier.weight", "classifier.bias"} | shifts

    with monkeypatch.context() as patch, pytest.raises(UnseenError, match="after step 1 of 2; continue with resume"):
        interrupt_at(0, patch)
        tune(tmp_path / "photos", tmp_path / "out", settings, bundle=bundle)
    resumed = tune(tmp_path / "photos", tmp_path / "out", settings, Run(resume=True, show_progress=False), bundle)
    assert_same_weights(resumed, whole)
    assert Bundle.load(tmp_path / "out").load_backbone().checksum == whole.backbone.checksum


def bundle_of_its_own_classifiers(backbone) -> Bundle:
    """The network's own classifiers for the 1,000 classes, in place of predicted ones."""
    taxonomy = Taxonomy.imagenet().subgraph(imagenet_1k())
    seen = taxonomy.indices(backbone.class_ids)
    classifiers = np.zeros((len(taxonomy), backbone.num_features + 1), np.float32)
    classifiers[seen] = backbone.classifiers()
    vectors = ClassVectors((), (), [], Coverage(len(taxonomy), list(taxonomy.ids), {}))
    info = BackboneInfo(backbone.name, backbone.checksum, backbone.num_features, list(backbone.class_ids))
    solution = Solution(classifiers, Append1())
    return Bundle(taxonomy, seen, backbone.classifiers(), vectors, solution, "dgp", {}, info)


# -- settings --------------------------------------------------------------------------------------------------------


def test_frozen_batch_norm_stays(folder):
    before, tuned = build().weights(), tune(folder, settings=replace(QUICK, freeze_batch_norm=True))
    norms = ("norm.", "blocks.0.1.", "blocks.1.1.")
    for name, weight in before.items():
        same = np.array_equal(tuned.network[name], weight.numpy())
        assert same == name.startswith(("last.", *norms)), name


def test_frozen_stages_stay(folder):
    """The stem with its batch-norm, then the first block."""
    before, tuned = build().weights(), tune(folder, settings=replace(QUICK, freeze_stages=2))
    for name, weight in before.items():
        same = np.array_equal(tuned.network[name], weight.numpy())
        assert same == name.startswith(("stem.", "norm.", "blocks.0.", "last.")), name


def test_all_stages_but_the_last_stay(folder):
    before, tuned = build().weights(), tune(folder, settings=replace(QUICK, freeze_stages=-1))
    moved = {name for name, weight in before.items() if not np.array_equal(tuned.network[name], weight.numpy())}
    assert moved and all(name.startswith(f"blocks.{len(build().module.blocks) - 1}.") for name in moved)


def test_stages_of_the_built_in_network():
    """The stem, seven stages and the head, each with its batch-norm; nothing is left when all are frozen."""
    backbone = load_backbone()
    assert len(stages(backbone)) == 9
    counted = sum(p.numel() for stage in stages(backbone) for module in stage for p in module.parameters())
    last = sum(p.numel() for p in backbone.get_classifier().parameters())
    assert counted + last == sum(p.numel() for p in backbone.parameters())
    with pytest.raises(UnseenError, match="it has 9"):
        freeze(backbone, 9, batch_norm=False)


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


# -- data ------------------------------------------------------------------------------------------------------------


def test_the_number_of_workers_changes_nothing(folder):
    assert_same_weights(tune(folder, workers=2), tune(folder, workers=0))


@pytest.mark.parametrize("numbers", [False, True], ids=["class ids", "class numbers"])
def test_shards_train_like_the_folder(folder, tmp_path, numbers):
    shards = make_shards(tmp_path / "shards", folder, shards=3, numbers=numbers)
    assert_same_weights(tune(shards, workers=1), tune(folder))


def test_unreadable_photos_are_left_out_counted_and_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "photos")
    (tmp_path / "photos" / "dog" / "02.png").write_bytes(b"not a photo")
    whole = (folder / "hammer" / "05.png").read_bytes()
    (tmp_path / "photos" / "hammer" / "05.png").write_bytes(whole[: len(whole) // 2])
    messages = []
    tuned = tune(tmp_path / "photos", workers=1, say=messages.append)
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


def test_an_unknown_class_is_refused_or_left_out(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "photos")
    shutil.copytree(folder / "dog", tmp_path / "photos" / "zebra")
    with pytest.raises(UnseenError, match=r"1 classes are not seen classes.*zebra.*skip_unknown=True"):
        tune(tmp_path / "photos")
    messages = []
    tuned = tune(tmp_path / "photos", skip_unknown=True, say=messages.append)
    assert tuned.finetuning.skipped_classes == 1 and "zebra" in messages[0]
    assert_same_weights(tuned, tune(folder))


def test_an_unseen_class_of_the_bundle_is_refused_too(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "photos")
    (tmp_path / "photos" / "dog").rename(tmp_path / "photos" / "poodle")  # known, but not seen
    with pytest.raises(UnseenError, match="poodle"):
        tune(tmp_path / "photos")


def test_a_class_without_photos_is_told(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "photos")
    for file in (tmp_path / "photos" / "tabby").iterdir():
        file.unlink()
    messages = []
    tuned = tune(tmp_path / "photos", say=messages.append)
    assert messages == ["1 class folders hold no photo: tabby"]
    facts = tuned.finetuning
    assert facts.empty_classes == 1 and facts.photos == 32


def test_a_class_without_photos_plays_no_part_in_the_loss(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "photos")
    shutil.rmtree(tmp_path / "photos" / "tabby")
    other = make_bundle()
    other.solution.classifiers[other.taxonomy.ids.index("tabby")] *= -5
    assert_same_weights(tune(tmp_path / "photos"), tune(tmp_path / "photos", bundle=other))


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_another_network_is_refused(folder):
    other = build()
    with torch.no_grad():
        other.module.stem.weight += 1
    with pytest.raises(UnseenError, match="other weights"):
        tune(folder, backbone=other)


def test_a_method_without_classifiers_is_refused(folder):
    bundle = make_bundle(method="devise")
    bundle.solution.projection = Linear(np.eye(16, dtype=np.float32))
    with pytest.raises(UnseenError, match="devise predicts no classifiers"):
        tune(folder, bundle=bundle)


def test_a_learning_rate_that_explodes_is_told(folder, tmp_path):
    with pytest.raises(UnseenError, match="lower the learning rate"):
        tune(folder, tmp_path / "out", settings=replace(QUICK, learning_rate=1e12, freeze_batch_norm=True, epochs=9))


def test_a_place_that_holds_something_else_is_refused(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("do not lose me")
    with pytest.raises(UnseenError, match="is not a bundle"):
        tune(folder, tmp_path / "out")


def test_a_full_disk_keeps_the_earlier_checkpoint(folder, tmp_path, monkeypatch):
    written = []

    def fsync(file):
        written.append(file)
        if len(written) > 3:  # the log's beginning and two checkpoints fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(UnseenError, match=r"cannot write to .*checkpoint.safetensors: No space left on device"):
            tune(folder, tmp_path / "out", run=Run(checkpoint_every=2, show_progress=False))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["checkpoint.safetensors", "log.jsonl"]
    resumed = tune(folder, tmp_path / "out", run=Run(resume=True, show_progress=False))
    assert_same_weights(resumed, tune(folder))


# -- interruptions ---------------------------------------------------------------------------------------------------


def interrupt_at(step: int, patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a step."""
    update = Stage2.update

    def update_and_interrupt(self, batch):
        if self.step == step:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, batch)

    patch.setattr(Stage2, "update", update_and_interrupt)


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
finetune(Bundle.load(bundle), images, out, settings, run, workers=2)
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
            done = subprocess.run([sys.executable, "-c", KILLED, *arguments], stderr=messages, timeout=120)
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
    log, patience = tmp_path / "out" / "log.jsonl", time.monotonic() + 60
    while not (log.exists() and log.read_text()) and time.monotonic() < patience:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "of 40; continue with --resume and the same settings" in messages
    assert "Traceback" not in messages
    with pytest.raises(UnseenError, match="unfinished training"):
        Bundle.load(tmp_path / "out")

    done = subprocess.run(command(*arguments, "--resume", "--json"), timeout=60, **options)
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


# -- existing output -------------------------------------------------------------------------------------------------


def test_a_finished_finetuning_is_neither_replaced_nor_done_twice(folder, tmp_path):
    base, out, said = make_bundle(), tmp_path / "out", []
    tuned = tune(folder, out, bundle=base)
    with pytest.raises(
        UnseenError, match="is a finished bundle: choose another name, or replace it with overwrite=True"
    ):
        tune(folder, out, bundle=base)
    again = tune(folder, out, bundle=base, resume=True, say=said.append)
    assert said == [f"{out} is finished already."] and again.finetuning == tuned.finetuning and again.path == out
    with pytest.raises(UnseenError, match=r"not as asked for: momentum was 0\.9, now 0\.5.*overwrite=True"):
        tune(folder, out, replace(QUICK, momentum=0.5), bundle=base, resume=True)
    assert tune(folder, out, run=Run(seed=1, show_progress=False), bundle=base, overwrite=True).finetuning.seed == 1
    assert Bundle.load(out).finetuning.seed == 1


def test_a_bundle_that_was_not_finetuned_is_not_taken_for_one(folder, tmp_path):
    base = make_bundle()
    base.save(tmp_path / "bundle")
    with pytest.raises(UnseenError, match="is a finished bundle: choose another name"):
        tune(folder, tmp_path / "bundle", bundle=base)
    with pytest.raises(UnseenError, match="is a finished bundle that was not finetuned"):
        tune(folder, tmp_path / "bundle", bundle=base, resume=True)
    assert Bundle.load(tmp_path / "bundle").network is None


def test_an_interrupted_finetuning_is_resumed_or_started_again_only_if_asked(folder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(UnseenError, match="after step 5 of 15; continue with resume"):
        interrupt_at(4, patch)
        tune(folder, tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "other")
    with pytest.raises(UnseenError, match=r"interrupted training: continue it with resume=True, or .*overwrite=True"):
        tune(folder, tmp_path / "out")
    run = Run(show_progress=False)
    resumed, anew = (
        tune(folder, tmp_path / "out", run=run, resume=True),
        tune(folder, tmp_path / "other", overwrite=True),
    )
    assert_same_weights(resumed, anew)
    assert run.folder is None and not run.resume  # the caller's, left as it is


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
        timeout=120,
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
        done = subprocess.run(command_line, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        results[out] = Bundle.load(tmp_path / out)
    assert results["restarted"].log[-1]["step"] == 12
    assert_same_weights(results["restarted"], results["undisturbed"])


# -- the command -----------------------------------------------------------------------------------------------------


def run(*arguments) -> Done:
    return run_command("finetune", *arguments)


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


def test_photos_in_any_mode_train(folder, tmp_path):
    """Grey, transparent and palette pictures beside RGB ones."""
    shutil.copytree(folder, tmp_path / "photos")
    for mode in ("L", "RGBA", "P"):
        Image.new(mode, (50, 20)).save(tmp_path / "photos" / "dog" / f"{mode}.png")
    tuned = tune(tmp_path / "photos")
    assert tuned.finetuning.photos == 43
    assert tuned.finetuning.unreadable == 0
