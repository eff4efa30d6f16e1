"""What tables share: trainings are found again by all that they depend on, and photos are listed once."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from support.problems import PARENTS, SEEN
from support.tables import TINY, small_trainings, write_photos
from unseen.util.errors import UnseenError
from unseen_lab.data.awa2 import AWA2_CLASSES, AWA2_TRAIN
from unseen_lab.tables.levels import Lengths, Row, find_level
from unseen_lab.tables.trainings import Trainings

pytestmark = pytest.mark.usefixtures("small_lists")


@pytest.fixture(scope="module")
def work(tmp_path_factory, level, small_lists) -> Trainings:
    return small_trainings(tmp_path_factory.mktemp("work"), level)


def test_attributes_are_learned_from_all_training_classes_of_awa2(tmp_path, monkeypatch):
    """Also from those that the network does not know, as published; never from those that are tested."""
    awa2, seen = tmp_path / "Animals_with_Attributes2", {"siamese+cat": "tabby", "dalmatian": "dog", "lion": "animal"}
    train, test = ["pig", *seen], ["blue+whale", "horse"]
    write_photos(awa2 / "JPEGImages", [*test, *train], 3)
    (awa2 / "classes.txt").write_text("".join(f"{i + 1}\t{name}\n" for i, name in enumerate(AWA2_CLASSES)))
    np.savetxt(awa2 / "predicate-matrix-continuous.txt", np.random.default_rng(0).uniform(0, 100, (50, 85)))
    for name in (
        "unseen_lab.data.awa2.AWA2_CLASSES",
        "unseen_lab.data.attributes.AWA2_CLASSES",
        "unseen_lab.tables.trainings.AWA2_CLASSES",
    ):
        monkeypatch.setattr(name, {**AWA2_CLASSES, **seen})  # the tiny network has them by these ids
    monkeypatch.setattr("unseen_lab.tables.trainings.AWA2_TRAIN", {**AWA2_TRAIN, **seen})
    with open(tmp_path / "classes.csv", "w", encoding="utf-8") as file:
        file.write("id,name,parents\n")
        file.writelines(f"{id},{id},{'|'.join(parents)}\n" for id, parents in PARENTS.items())
        file.writelines(f"{AWA2_CLASSES[name]},whale,animal\n" for name in (*test, "pig"))
    level = replace(
        find_level(awa2=awa2), hierarchy=str(tmp_path / "classes.csv"), network="support.tiny_network:build"
    )
    work = small_trainings(tmp_path / "work", level)
    row = Row("Gaussian-Ort, attributes", "gaussian-ort", {"steps": 3}, vectors="attributes")
    assert work.lacks(row) is None
    bundle = work.bundle(row)
    assert bundle.vectors.names == ("attributes",) and AWA2_CLASSES["pig"] not in bundle.seen_ids
    known = {bundle.ids[i] for i in np.flatnonzero(bundle.solution.answers)}
    assert known == {AWA2_CLASSES[name] for name in (*test, "pig")} | set(seen.values())
    photos = work._seen_features(row)
    assert Counter(photos.ids[label] for label in photos.labels) == dict.fromkeys(
        [AWA2_CLASSES["pig"], *seen.values()], 3
    )


def test_tables_share_their_trainings(work):
    """SGCN with `layers = 1` in one table is SGCN with defaults in another."""
    assert work.plan(Row("1", "sgcn", {"layers": 1})).place == work.plan(Row("SGCN", "sgcn")).place


def test_other_photos_are_other_trainings(tmp_path, level):
    """Photos that were added to a folder are learned from: the bundle from before is not taken for the new one."""
    folder = write_photos(tmp_path / "seen-train", SEEN)
    level, row = replace(level, seen_train=folder), Row("EXEM", "exem")
    before = small_trainings(tmp_path / "work", level).plan(row).place
    assert small_trainings(tmp_path / "work", level).plan(row).place == before
    shutil.copy(folder / SEEN[0] / "0.png", folder / SEEN[0] / "new.png")
    assert small_trainings(tmp_path / "work", level).plan(row).place != before


def test_a_choice_left_open_shares_what_it_comes_to(work):
    plans = [work.plan(Row("SYNC", "sync", settings)) for settings in ({}, {"learn_from": "features"})]
    assert plans[0].place == plans[1].place
    assert work.plan(Row("SYNC", "sync", {"learn_from": "classifiers"})).place != plans[0].place


def test_processes_share_the_photos_of_a_step(tmp_path, level):
    """However many they are, a step of stage 2 has as many photos."""
    for world, batch in ((1, 4), (2, 2), (4, 1)):
        work = small_trainings(tmp_path, level)
        work.processes = SimpleNamespace(world=world, rank=0)
        assert work.finetune_settings().batch == batch
    work.processes = SimpleNamespace(world=3, rank=0)
    with pytest.raises(UnseenError, match="a step of stage 2 has 4 photos, which 3 processes"):
        work.finetune_settings()


def test_epochs_of_a_row(tmp_path, level):
    work = Trainings(tmp_path, level, Lengths(3000, 100, 1, study_epochs=300))
    assert work.epochs(Row("a", "dgp")) == 3000
    assert work.epochs(Row("a", "dgp", study=True)) == 300
    assert work.epochs(Row("a", "sgcn", study=True, as_long_as="gcnz")) == 100
    assert work.epochs(Row("a", "gcnz", epochs_share=0.1)) == 10
    assert work.epochs(Row("a", "kin")) is None


def test_the_learning_rate_of_stage_2_is_the_networks(tmp_path, level):
    """What the trials of docs/results/finetuning.md chose, unless another is asked for."""
    lengths = replace(TINY, finetune_rate=None)
    rates = {network: small_trainings(tmp_path, level.with_parts(network=network), lengths).finetune_rate
             for network in ("efficientnet-lite0", "resnet50", "another")}  # fmt: skip
    assert rates == {"efficientnet-lite0": 1e-2, "resnet50": 3e-4, "another": 3e-4}
    page = (Path(__file__).parents[3] / "docs" / "results" / "finetuning.md").read_text(encoding="utf-8")
    for network in ("efficientnet-lite0", "resnet50"):
        assert re.search(rf"## {network}: .* learning rate {rates[network]:g}$", page, re.MULTILINE)
    asked = replace(lengths, finetune_rate=0.5)
    assert small_trainings(tmp_path, level, asked).finetune_settings().learning_rate == 0.5
