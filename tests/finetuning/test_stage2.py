"""Stage 2: what it trains and leaves, from which photos, and what it refuses.

Most tests train a tiny network on coloured noise; one trains the built-in network on real photos.
"""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import unseen
from support.finetuning import QUICK, assert_close_weights, assert_same_weights, interrupt_at, tune
from support.problems import SEEN
from support.tiny_network import build, make_bundle, make_shards
from unseen.assets import imagenet_1k
from unseen.backbones import load_backbone
from unseen.bundle import BackboneInfo, Bundle
from unseen.errors import UnseenError
from unseen.finetuning import FinetuneSettings
from unseen.methods import Solution
from unseen.methods.projections import Append1, Linear
from unseen.runtime.run import Run
from unseen.semantics import ClassVectors, Coverage
from unseen.taxonomy import Taxonomy

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


@pytest.mark.slow
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
    once = Bundle.load(tmp_path / "once", trust_code=True)
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


# -- data ------------------------------------------------------------------------------------------------------------


def test_the_number_of_workers_changes_nothing(folder):
    assert_same_weights(tune(folder, workers=2), tune(folder, workers=0))


@pytest.mark.slow
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


def test_photos_in_any_mode_train(folder, tmp_path):
    """Grey, transparent and palette pictures beside RGB ones."""
    shutil.copytree(folder, tmp_path / "photos")
    for mode in ("L", "RGBA", "P"):
        Image.new(mode, (50, 20)).save(tmp_path / "photos" / "dog" / f"{mode}.png")
    tuned = tune(tmp_path / "photos")
    assert tuned.finetuning.photos == 43
    assert tuned.finetuning.unreadable == 0


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
    kept = ["checkpoint-previous.safetensors", "checkpoint.safetensors", "log.jsonl"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == kept
    resumed = tune(folder, tmp_path / "out", run=Run(resume=True, show_progress=False))
    assert_same_weights(resumed, tune(folder))


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
