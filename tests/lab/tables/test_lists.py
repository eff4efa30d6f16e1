"""What to expect of a list: by its length and the photos taught."""

from __future__ import annotations

import numpy as np
import pytest

from support.command_line import run_command
from support.tables import small_trainings, write_photos
from unseen.util.errors import UnseenError
from unseen_lab.tables import lists
from unseen_lab.tables.levels import Row
from unseen_lab.tables.lists import NEAREST_MEAN, NewClasses, hits_in_lists, list_page, list_table, measure_lists

STRUCTURAL = [Row("structural", "structural")]


@pytest.fixture
def few(monkeypatch):
    """Lists of two classes, one photo taught."""
    monkeypatch.setattr(lists, "LENGTHS", (2,))
    monkeypatch.setattr(lists, "TAUGHT", (0, 1))


@pytest.fixture(scope="module")
def trainings(tmp_path_factory, level):
    work = tmp_path_factory.mktemp("lists")
    photos = write_photos(work / "photos", ["lonely", "saw", "poodle", "pet", "cat"], 2)
    return small_trainings(work, level.with_parts(unseen=photos))


def test_only_new_classes_count(trainings, few):
    result = measure_lists(trainings, STRUCTURAL, draws=2)
    # Pets and cats are not new: tabbies were seen.
    assert (result["classes"], result["pool"], result["photos"]) == (3, 3, 6)
    lines = {(row["method"], row["taught"], row["length"]) for row in result["rows"]}
    assert lines == {("structural", 0, 2), ("structural", 1, 2), (NEAREST_MEAN, 1, 2), ("structural", 0, 3)}
    assert all(0 <= row["hit@1"] <= row["hit@5"] == 100 for row in result["rows"])
    header, cells = list_table(result).header, list_table(result).rows
    assert header[2:] == ["2", "3"] and cells[1][:2] == ["1", "structural"] and cells[1][3] == "–"
    page = list_page(result, trainings, STRUCTURAL)
    assert "--methods structural --draws 2 --markdown FILE" in page and "3 new classes, 6 photos" in page


def test_photos_that_are_taught_are_not_tested(trainings):
    features = [np.arange(12.0).reshape(6, 2), np.arange(100, 112.0).reshape(6, 2)]
    new = NewClasses(("a", "b"), tuple(features)).shuffled(np.random.default_rng(0))
    photos, truth = new.tested(4)
    assert truth.tolist() == [0, 0, 1, 1]
    assert not {tuple(row) for row in photos} & {tuple(row) for part in new.features for row in part[:4]}
    assert NewClasses(("a", "b"), (features[0], features[1][:2])).with_photos(3).ids == ("a",)


def test_a_nearest_mean_finds_what_it_was_taught():
    new = NewClasses(("a", "b"), (np.array([[1.0, 0]] * 2), np.array([[0, 1.0]] * 2)))
    ((name, scores),) = lists.score_all({}, new, 1, new.tested(1)[0])
    assert name == NEAREST_MEAN and scores.argmax(axis=1).tolist() == [0, 1]


def test_only_the_own_list_competes_and_ties_count_half():
    scores = np.array([[1.0, 0, 5, 5, 5], [1, 1, 5, 5, 5]])
    assert hits_in_lists(scores, np.array([0, 1]), 2).tolist() == [100.0, 100.0]
    assert hits_in_lists(scores, np.array([0, 1]), 5).tolist() == [0.0, 100.0]
    assert hits_in_lists(np.array([[1.0, 1, 1]]), np.array([0]), 3)[0] == 0  # in the middle of three equal ones


def test_photos_of_seen_classes_are_not_enough(trainings, level):
    work = small_trainings(trainings.work, level.with_parts(unseen=level.seen_train))
    with pytest.raises(UnseenError, match="no photo of a class that is new"):
        measure_lists(work, STRUCTURAL)


def test_command_line(tmp_path, trainings, few, monkeypatch):
    monkeypatch.setattr("unseen_lab.commands.find_level", lambda photos: trainings.level)
    options = ["--photos", "x", "--lists", "--methods", "structural", "--draws", "1", "--out", tmp_path]
    done = run_command("compare", *options, "--markdown", tmp_path / "lists.md", "--json")
    assert done.code == 0, done.err
    assert done.json["draws"] == 1 and (tmp_path / "plots" / "lists.svg").read_bytes().startswith(b"<?xml")
    assert "| none | structural |" in (tmp_path / "lists.md").read_text(encoding="utf-8")
    assert run_command("compare", *options, "--network", "a,b").code == 1
