"""The learning rate of stage 2 is chosen on photos of seen classes alone, for the network at hand, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.problems import SEEN
from support.tables import TINY, small_trainings, write_photos
from unseen_lab.tables import trainings
from unseen_lab.tables.levels import Row
from unseen_lab.tables.trainings import CAREFUL, RATES, TRIED, choose_rate, place_of, split_photos, try_out

pytestmark = pytest.mark.usefixtures("small_lists")
OPEN = replace(TINY, finetune_rate=None)


@pytest.fixture
def work(tmp_path, level, monkeypatch):
    """Ten photos of each seen class, and of one that the network does not know."""
    photos = write_photos(tmp_path / "photos", [*SEEN, "saw"], 10)
    monkeypatch.setattr(trainings, "FEWEST", 2)
    return small_trainings(tmp_path / "work", replace(level, seen_train=photos), OPEN)


def test_the_parts_have_no_photo_in_common_and_others_no_class(work):
    parts = split_photos(work)
    photos = {part: {link.resolve() for link in folder.glob("*/*")} for part, folder in parts.items()}
    classes = {part: {folder.name for folder in folder.iterdir()} for part, folder in parts.items()}
    assert classes["train"] == classes["known"] and not classes["train"] & classes["other"]
    assert set.union(*classes.values()) == set(SEEN)  # none that stage 2 would refuse
    assert not photos["train"] & photos["known"] and len(set.union(*photos.values())) == 10 * len(SEEN)
    assert len(photos["known"]) == 2 * len(classes["known"])


def test_the_best_rate_is_found_and_higher_ones_are_not_tried(work, monkeypatch):
    """A rate that lacks less than a point does not end the search: low rates differ by chance."""
    reached = {1e-4: 50.0, 3e-4: 49.5, 1e-3: 54.0, 3e-3: 52.9, 1e-2: 90.0}
    tried = []

    def trial(work, row, settings):
        tried.append(settings.learning_rate)
        return {"after": {"known": reached[settings.learning_rate] + 3, "other": reached[settings.learning_rate] - 3}}

    monkeypatch.setattr(trainings, "try_out", trial)
    assert choose_rate(work) == 1e-3 and tried == [1e-4, 3e-4, 1e-3, 3e-3]


def test_a_trial_is_made_once_and_told_apart_by_all_that_it_depends_on(work, monkeypatch):
    settings = work.finetune_settings(1e-3)
    trial = try_out(work, TRIED, settings)
    assert set(trial["before"]) == set(trial["after"]) == {"known", "other"}
    assert trial["settings"]["learning_rate"] == 1e-3 and trial["photos"]["train"] > trial["photos"]["known"] > 0
    monkeypatch.setattr(trainings, "finetune", forbidden)
    assert try_out(work, TRIED, settings) == trial
    place = place_of(work, TRIED, settings)
    assert place.exists() and not place.with_suffix("").exists()
    other = small_trainings(work.work, work.level.with_parts(network="another"), OPEN)
    places = [place, place_of(other, TRIED, settings), place_of(work, Row("SGCN", "sgcn"), settings)]
    assert len({*places, place_of(work, TRIED, work.finetune_settings(3e-3))}) == 4


@pytest.mark.slow
def test_rows_are_finetuned_with_what_was_chosen(work):
    row = Row("SGCN", "sgcn", finetune=True)
    assert only_done(work).lacks(row) == "not trained yet"
    bundle = work.bundle(row)
    assert bundle.finetuning.settings["learning_rate"] == work.find_rate() in RATES
    again = only_done(work)
    assert again.lacks(row) is None and again.find_rate() == work.find_rate()


def test_too_few_photos_to_choose_by(tmp_path, level):
    """Then a rate that did no harm to any network, and no trial."""
    work = small_trainings(tmp_path / "work", level, OPEN)
    assert work.choose_rate() == CAREFUL and not list((tmp_path / "work" / "choices").glob("*.json"))


def only_done(work):
    return small_trainings(work.work, work.level, OPEN, only_done=True)


def forbidden(*args, **kwargs):
    raise AssertionError("this should have been found on disk")
