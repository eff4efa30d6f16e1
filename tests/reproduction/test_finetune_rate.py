"""The learning rate of stage 2 is chosen on photos of seen classes alone, for the network at hand, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.problems import SEEN
from support.tables import TINY, small_reproduction, write_photos
from unseen.reproduction import finetune_rate
from unseen.reproduction.finetune_rate import CAREFUL, RATES, TRIED, choose_rate, place_of, split_photos, try_out
from unseen.reproduction.levels import LENGTHS
from unseen.reproduction.recipe import Row
from unseen.reproduction.report import _rate_told, command

pytestmark = pytest.mark.usefixtures("small_lists")
OPEN = replace(TINY, finetune_rate=None)


@pytest.fixture
def work(tmp_path, level, monkeypatch):
    """Ten photos of each seen class, and of one that the network does not know."""
    photos = write_photos(tmp_path / "photos", [*SEEN, "saw"], 10)
    monkeypatch.setattr(finetune_rate, "FEWEST", 2)
    return small_reproduction(tmp_path / "work", replace(level, seen_train=photos), OPEN)


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

    monkeypatch.setattr(finetune_rate, "try_out", trial)
    assert choose_rate(work) == 1e-3 and tried == [1e-4, 3e-4, 1e-3, 3e-3]


def test_a_trial_is_made_once_and_told_apart_by_all_that_it_depends_on(work, monkeypatch):
    settings = work.finetune_settings(1e-3)
    trial = try_out(work, TRIED, settings)
    assert set(trial["before"]) == set(trial["after"]) == {"known", "other"}
    assert trial["settings"]["learning_rate"] == 1e-3 and trial["photos"]["train"] > trial["photos"]["known"] > 0
    monkeypatch.setattr(finetune_rate, "finetune", forbidden)
    assert try_out(work, TRIED, settings) == trial
    place = place_of(work, TRIED, settings)
    assert place.exists() and not place.with_suffix("").exists()
    other = small_reproduction(work.work, work.level.with_parts(backbone="another"), OPEN)
    places = [place, place_of(other, TRIED, settings), place_of(work, Row("SGCN", "sgcn"), settings)]
    assert len({*places, place_of(work, TRIED, work.finetune_settings(3e-3))}) == 4


@pytest.mark.slow
def test_rows_are_finetuned_with_what_was_chosen(work):
    row = Row("SGCN", "sgcn", finetune=True)
    assert small_reproduction_only_done(work).lacks(row) == "not trained yet"
    bundle = work.bundle(row)
    assert bundle.finetuning.settings["learning_rate"] == work.find_rate() in RATES
    again = small_reproduction_only_done(work)
    assert again.lacks(row) is None and again.find_rate() == work.find_rate()


def test_too_few_photos_to_choose_by(tmp_path, level):
    """Then a rate that did no harm to any network, and no trial."""
    work = small_reproduction(tmp_path / "work", level, OPEN)
    assert work.find_rate() == CAREFUL and not list((tmp_path / "work" / "choices").glob("*.json"))


def test_what_is_asked_for_is_not_chosen(tmp_path, level, monkeypatch):
    monkeypatch.setattr("unseen.reproduction.trainings.choose_rate", forbidden)
    assert small_reproduction(tmp_path, level, replace(OPEN, finetune_rate=0.5)).find_rate() == 0.5


def test_the_report_tells_it(work):
    made_with = small_reproduction(work.work, work.level, LENGTHS["photos"]).settings()
    tables = {"a": {"rows": [{"finetune_rate": 3e-4}, {"label": "kin"}]}}
    assert _rate_told(made_with, tables) == "learning rate 0.0003 (chosen on photos of seen classes)"
    assert _rate_told(made_with, {}) == "a learning rate to be chosen"
    assert "--finetune-rate" not in command(made_with)
    assert "--finetune-rate 0.02" in command(made_with | {"finetune_rate": 0.02})


def small_reproduction_only_done(work):
    again = small_reproduction(work.work, work.level, OPEN)
    again.only_done = True
    return again


def forbidden(*args, **kwargs):
    raise AssertionError("this should have been found on disk")
