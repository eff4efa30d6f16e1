"""What tables share: trainings are found again by all that they depend on, and photos are looked through once."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from support.problems import PARENTS, SEEN
from support.tables import small_reproduction, write_photos
from unseen.errors import UnseenError
from unseen.reproduction import Reproduction
from unseen.reproduction.levels import Lengths, find_level
from unseen.reproduction.recipe import Row, load_recipe
from unseen.reproduction.trainings import Trainings
from unseen.scoring.awa2_classes import CLASSES, TRAIN
from unseen.scoring.candidates import paper_list

pytestmark = pytest.mark.usefixtures("small_lists")


@pytest.fixture(scope="module")
def work(tmp_path_factory, level, small_lists) -> Reproduction:
    return small_reproduction(tmp_path_factory.mktemp("work"), level)


def test_a_row_that_needs_a_package_is_left_out_where_it_is_missing(work, monkeypatch):
    row = next(row for row in load_recipe("unseen-classes").rows if row.needs == "sklearn")
    assert work.lacks(row) is None
    monkeypatch.setattr("unseen.reproduction.trainings.find_spec", lambda name: None)
    assert work.lacks(row) == "it needs another package: pip install scikit-learn"


def test_attributes_are_learned_from_all_training_classes_of_awa2(tmp_path, monkeypatch):
    """Also from those that the network does not know, as published; never from those that are tested."""
    awa2, seen = tmp_path / "Animals_with_Attributes2", {"siamese+cat": "tabby", "dalmatian": "dog", "lion": "animal"}
    train, test = ["pig", *seen], ["blue+whale", "horse"]
    write_photos(awa2 / "JPEGImages", [*test, *train], 3)
    (awa2 / "classes.txt").write_text("".join(f"{i + 1}\t{name}\n" for i, name in enumerate(CLASSES)))
    np.savetxt(awa2 / "predicate-matrix-continuous.txt", np.random.default_rng(0).uniform(0, 100, (50, 85)))
    monkeypatch.setattr("unseen.evaluation.awa2.CLASSES", {**CLASSES, **seen})  # the tiny network has them by these ids
    monkeypatch.setattr("unseen.reproduction.trainings.TRAIN", {**TRAIN, **seen})
    with open(tmp_path / "classes.csv", "w", encoding="utf-8") as file:
        file.write("id,name,parents\n")
        file.writelines(f"{id},{id},{'|'.join(parents)}\n" for id, parents in PARENTS.items())
        file.writelines(f"{CLASSES[name]},whale,animal\n" for name in (*test, "pig"))
    level = replace(find_level(awa2=awa2), graph=str(tmp_path / "classes.csv"), backbone="support.tiny_network:build")
    work = small_reproduction(tmp_path / "work", level)
    row = Row("Gaussian-Ort, attributes", "gaussian-ort", {"steps": 3}, vectors="attributes")
    assert work.lacks(row) is None
    bundle = work.bundle(row)
    assert bundle.vectors.names == ("attributes",) and CLASSES["pig"] not in bundle.seen_ids
    known = {bundle.ids[i] for i in np.flatnonzero(bundle.solution.answers)}
    assert known == {CLASSES[name] for name in (*test, "pig")} | set(seen.values())
    photos = work._seen_features(row)
    assert Counter(photos.ids[label] for label in photos.labels) == dict.fromkeys([CLASSES["pig"], *seen.values()], 3)


def test_tables_share_their_trainings(work, monkeypatch):
    """SGCN with `layers = 1` in one table is SGCN with defaults in another."""
    work.run("ablation")
    monkeypatch.setattr("unseen.reproduction.trainings.train", forbidden)
    work.bundle(Row("1", "sgcn", {"layers": 1}))


def test_awa2s_classes_need_no_list_of_the_authors(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_ASSETS", str(tmp_path))
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    assert len(paper_list("awa2-test")) == 10 and len(paper_list("awa2-train")) == 40


def test_other_photos_are_other_trainings(tmp_path, level):
    """Photos that were added to a folder are learned from: the bundle from before is not taken for the new one."""
    folder = write_photos(tmp_path / "seen-train", SEEN)
    level, row = replace(level, seen_train=folder), Row("EXEM", "exem")
    before = small_reproduction(tmp_path / "work", level)._plan(row, 0, 0.0).place
    assert small_reproduction(tmp_path / "work", level)._plan(row, 0, 0.0).place == before
    shutil.copy(folder / SEEN[0] / "0.png", folder / SEEN[0] / "new.png")
    assert small_reproduction(tmp_path / "work", level)._plan(row, 0, 0.0).place != before


def test_a_choice_left_open_shares_what_it_comes_to(work):
    plans = [work._plan(Row("SYNC", "sync", settings), 0, 0.0) for settings in ({}, {"learn_from": "features"})]
    assert plans[0].place == plans[1].place
    assert work._plan(Row("SYNC", "sync", {"learn_from": "classifiers"}), 0, 0.0).place != plans[0].place


def test_a_folder_of_photos_is_looked_through_once(work, monkeypatch):
    """Not for every row: ImageNet-21K has 14 million photos."""
    model = work.model(Row("structural", "structural"))
    first = work.store(model, work.level.unseen)
    monkeypatch.setattr("unseen.reproduction.trainings.open_features", forbidden)
    assert work.store(work.model(Row("ConSE", "conse")), work.level.unseen) is first


def test_processes_share_the_photos_of_a_step(tmp_path, level):
    """However many they are, a step of stage 2 has as many photos."""
    for world, batch in ((1, 4), (2, 2), (4, 1)):
        work = small_reproduction(tmp_path, level)
        work.processes = SimpleNamespace(world=world, rank=0)
        assert work.finetune_settings().batch == batch
    work.processes = SimpleNamespace(world=3, rank=0)
    with pytest.raises(UnseenError, match="a step of stage 2 has 4 photos, which 3 processes"):
        work.finetune_settings()


def test_the_papers_level_computes_in_full_precision(tmp_path, level):
    """As the authors do: classifiers that stage 2 freezes, and stage 2 itself."""
    paper = small_reproduction(tmp_path, replace(level, name="paper"))
    assert paper._precision == "fp32" and not paper.finetune_settings().mixed_precision
    photos = small_reproduction(tmp_path, level)
    assert photos._precision == "fp16" and photos.finetune_settings().mixed_precision


def test_epochs_of_a_row(tmp_path, level):
    work = Trainings(tmp_path, level, Lengths(3000, 100, 1, study_epochs=300))
    assert work.epochs(Row("a", "dgp")) == 3000
    assert work.epochs(Row("a", "dgp", study=True)) == 300
    assert work.epochs(Row("a", "sgcn", study=True, as_long_as="gcnz")) == 100
    assert work.epochs(Row("a", "gcnz", epochs_share=0.1)) == 10
    assert work.epochs(Row("a", "kin")) is None


def forbidden(*args, **kwargs):
    raise AssertionError("this should have been found on disk")
