"""`unseen teach`, and photos given with `unseen add`."""

from __future__ import annotations

import numpy as np
import pytest

from support.bundles import OKAPI, POODLE, SEEN, small_photo
from unseen.bundle import Bundle

FIELDS = {"bundle", "classes", "photos", "unreadable", "skipped_classes"}
TRUST = "--trust-code"


@pytest.fixture
def photos(here):
    """Two photos of okapis by id, one of a poodle by name, a folder of no class, and what is no photo."""
    for number, place in enumerate([f"{OKAPI}/a.png", f"{OKAPI}/b.png", "poodle/c.png", "starship/d.png"]):
        path = here / "photos" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        small_photo(number + 1).save(path)
    (here / "photos" / OKAPI / "broken.png").write_bytes(b"no photo")
    return here / "photos"


def test_classes_are_taught_again_and_forget(unseen, photos):
    first = unseen("teach", "bundle", "--photos", photos, "--out", "taught", TRUST, "--json")
    assert first.code == 0, first.err
    assert first.json == {"bundle": "taught", "classes": 2, "photos": 3, "unreadable": 1, "skipped_classes": 1}
    assert "broken.png" in first.err and "starship" in first.err
    plain, taught = Bundle.load("bundle"), Bundle.load("taught")
    assert {id: lesson.photos for id, lesson in taught.taught.items()} == {OKAPI: 2, POODLE: 1}
    assert not plain.taught

    small_photo(9).save(photos / OKAPI / "new.png")
    second = unseen("teach", "taught", "--photos", photos, "--out", "taught", TRUST, "--json")
    assert second.json["photos"] == 1 and "3 photos were taught before" in second.err
    assert Bundle.load("taught").taught[OKAPI].photos == 3

    told = unseen("info", "taught")
    assert f"{OKAPI} (3 photos)" in " ".join(told.out.split())
    assert unseen("info", "taught", "--json").json["details"]["taught"][0]["photos"] == 3

    gone = unseen("teach", "taught", "--forget", "okapi", "--forget", POODLE, "--out", "taught", "--json")
    assert gone.code == 0 and set(gone.json) == FIELDS and gone.json["classes"] == 2
    assert (Bundle.load("taught").solution.classifiers == plain.solution.classifiers).all()


def test_an_explanation_names_the_photos(unseen, photos):
    unseen("teach", "bundle", "--photos", photos, "--out", "taught", TRUST)
    ids = photos.parent / "okapi.txt"
    ids.write_text(OKAPI + "\n")
    told = unseen("classify", "photo.png", "--bundle", "taught", "--candidates", ids, "--explain", TRUST)
    assert told.code == 0, told.err
    assert "learned from 2 photos" in told.out
    told = unseen("classify", "photo.png", "--bundle", "taught", "--candidates", ids, "--explain", TRUST, "--json")
    assert told.json["photos"][0]["explanation"]["photos"] == 2


def test_a_new_class_comes_with_its_photos(unseen, photos):
    done = unseen(
        "add", "bundle", "--name", "zorse", "--parent", "zebra", "--photos", photos / "poodle", "--out", "grown", TRUST,
        "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["added"][0]["id"] == "zorse"
    assert Bundle.load("grown").taught["zorse"].photos == 1


def test_features_teach_too(unseen, here):
    features = np.random.default_rng(0).uniform(0, 1, (3, 8)).astype(np.float32)
    np.savez(here / "features.npz", features=features, labels=np.array(["okapi", "okapi", SEEN[0]]))
    done = unseen("teach", "bundle", "--features", "features.npz", "--out", "taught", TRUST, "--json")
    assert done.code == 0, done.err
    assert done.json["classes"] == 2 and done.json["photos"] == 3
    assert Bundle.load("taught").taught["n02439398"].mean == pytest.approx(features[:2].mean(axis=0))


def test_mistakes_are_told_and_change_nothing(unseen, photos, here):
    before = (here / "bundle").read_bytes()
    (here / "none" / OKAPI).mkdir(parents=True)
    (here / "none" / OKAPI / "broken.png").write_bytes(b"no photo")
    (here / "strange" / "starship").mkdir(parents=True)
    np.savez(here / "wide.npz", features=np.ones((1, 9)), labels=np.array([OKAPI]))
    for options, words in (
        (["--photos", "none"], "no photo could be read"),
        (["--photos", "strange"], "starship"),
        (["--photos", "nowhere"], "nowhere"),
        (["--features", "wide.npz"], "9 features"),
        (["--forget", "okapi"], "no photos were taught"),
    ):
        done = unseen("teach", "bundle", *options, "--out", "bundle", TRUST)
        assert done.code == 1 and words in done.err, done.err
    assert unseen("teach", "bundle", "--out", "bundle").code == 2
    assert (here / "bundle").read_bytes() == before
