"""`unseen classify`: labels for photos, whatever the photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.bundles import SEEN, small_photo
from unseen.model import load

BUNDLE = ("--bundle", "bundle", "--device", "cpu")


def test_the_json(here, unseen):
    done = unseen("classify", "photo.png", *BUNDLE, "-k", 3, "--json")
    assert done.code == 0 and set(done.json) == {"photos", "unreadable", "confidence", "calibrated", "prior"}
    assert done.json["unreadable"] == [] and done.json["calibrated"] is False
    (photo,) = done.json["photos"]
    assert photo["photo"] == "photo.png" and len(photo["labels"]) == 3
    for label in photo["labels"]:
        assert set(label) >= {"id", "name", "score", "seen"} and label["seen"] == (label["id"] in SEEN)
    scores = [label["score"] for label in photo["labels"]]
    assert scores == sorted(scores, reverse=True)


def test_folders_globs_and_standard_input(here, unseen):
    Path("many/deep").mkdir(parents=True)
    for seed in range(3):
        small_photo(seed).save(f"many/deep/{seed}.png")
    Path("many/.hidden").write_text("x")
    for argument in ("many", "many/*/*.png"):
        found = unseen("classify", argument, *BUNDLE, "--json").json["photos"]
        assert [Path(photo["photo"]).name for photo in found] == ["0.png", "1.png", "2.png"]
    done = unseen("classify", "-", *BUNDLE, "--json", stdin=Path("photo.png").read_bytes())
    assert done.json["photos"][0]["photo"] == "-"
    same = unseen("classify", "photo.png", *BUNDLE, "--json").json["photos"][0]["labels"]
    assert done.json["photos"][0]["labels"] == same


def test_features_instead_of_photos(here, unseen):
    model = load("bundle", device="cpu", trust_code=True)
    features = model.features([small_photo(0), small_photo(1)])
    np.save("x.npy", features)
    done = unseen("classify", "--features", "x.npy", "--bundle", "bundle", "-k", 2, "--json")
    assert done.code == 0, done.err
    assert [photo["photo"] for photo in done.json["photos"]] == ["row 0", "row 1"]
    expected = [[label.id for label in answer] for answer in model.answers(features, k=2)]
    assert [[label["id"] for label in photo["labels"]] for photo in done.json["photos"]] == expected
    assert unseen("classify").code == 2
    assert unseen("classify", "photo.png", "--features", "x.npy", *BUNDLE).code == 2
    done = unseen("classify", "--features", "x.npy", "--heatmap", "map.png", *BUNDLE)
    assert done.code == 1 and "--heatmap needs a photo" in done.err
    done = unseen("classify", "--features", "none.npy", *BUNDLE)
    assert done.code == 1 and "none.npy: there is no such file of features" in done.err


def test_unreadable_photos_do_not_stop_the_others(here, unseen):
    Path("no.jpg").write_text("no photo")
    done = unseen("classify", "no.jpg", "photo.png", "none.png", *BUNDLE, "--json")
    assert done.code == 3 and len(done.json["photos"]) == 1
    assert [item["photo"] for item in done.json["unreadable"]] == ["no.jpg", "none.png"]
    assert [item["why"] for item in done.json["unreadable"]] == [
        "is not a picture in one of these formats: JPEG, PNG, WEBP, GIF, TIFF, BMP, AVIF, HEIF, PPM.",
        "cannot be opened (No such file or directory).",
    ]
    shown = unseen("classify", "no.jpg", "photo.png", *BUNDLE)
    assert "unreadable no.jpg: is not a picture" in shown.err and "photo.png" in shown.out
    done = unseen("classify", "no.jpg", *BUNDLE, "--json")
    assert done.code == 1 and done.json["photos"] == []


def test_for_people(here, unseen):
    done = unseen("classify", "photo.png", *BUNDLE, "--explain", "-k", 2)
    assert done.code == 0 and "photo.png" in done.out and "borrows from" in done.out
    assert "trained on" in done.out


def test_candidates(here, unseen):
    done = unseen("classify", "photo.png", *BUNDLE, "--candidates", "classes.txt", "-k", 99, "--json")
    assert {label["id"] for label in done.json["photos"][0]["labels"]} == set(SEEN)


def test_explanations_in_json(here, unseen):
    done = unseen("classify", "photo.png", *BUNDLE, "--explain", "--json")
    why = done.json["photos"][0]["explanation"]
    assert why["id"] == done.json["photos"][0]["labels"][0]["id"] and len(why["neighbours"]) == 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("photo.png", "--bundle", "none"), "none is not a bundle: it does not exist"),
        (("photo.png", "--bundle", "classes.txt"), "is not a bundle"),
        (("photo.png", *BUNDLE, "--candidates", "some"), "no candidates named 'some'"),
        (("photo.png", *BUNDLE, "--candidates", "hops:²"), "hops:N takes an integer of at least 1"),
        (("photo.png", *BUNDLE, "--seen-share", "nan"), "seen_share must be a number between 0 and 1"),
        (("photo.png", *BUNDLE, "--confidence", "1"), "confidence must be a number between 0 and 1"),
        (("photo.png", *BUNDLE, "--heatmap", "map.png"), "There is no heat map for"),
        (("photo.png", "other.png", *BUNDLE, "--heatmap", "map.png"), "--heatmap takes one photo, not 2"),
        (("*.bmp", *BUNDLE), "*.bmp: no file matches"),
        (("photo.png", "--bundle", "bundle", "--device", "tpu9"), "the device 'tpu9' cannot be used here"),
        (("photo.png", "--bundle", "bundle", "--device", "meta"), "the device 'meta' cannot be used here"),
    ],
)
def test_mistakes_are_one_line_and_exit_1(here, unseen, arguments, says):
    done = unseen("classify", *arguments, "--json")
    assert done.code == 1 and says in done.json["error"]
    assert done.err.startswith("error: ") and says in done.err


@pytest.mark.parametrize("arguments", [(), ("photo.png", "-k", "0"), ("photo.png", "-k", "x")])
def test_wrong_usage_is_exit_2(here, unseen, arguments):
    assert unseen("classify", *arguments).code == 2


def test_labels_in_a_file(here, unseen):
    Path("many/deep").mkdir(parents=True)
    for seed in range(3):
        small_photo(seed).save(f"many/deep/{seed}.png")
    Path("many/notes.jpg").write_text("no photo")
    done = unseen("classify", "many", "many/deep/0.png", "--out", "many/labels.csv", *BUNDLE, "-k", 2, "--json")
    assert done.code == 3, done.err
    assert set(done.json) == {"out", "labelled", "already", "again", "unreadable", "seconds", "photos_per_s"}
    assert (done.json["labelled"], done.json["already"]) == (3, 0)
    assert [item["photo"] for item in done.json["unreadable"]] == ["many/notes.jpg"]
    assert done.err.count("many/notes.jpg") == 1
    lines = Path("many/labels.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "photo",
        *(f"many/deep/{seed}.png" for seed in range(3)),
        "many/notes.jpg",
    ]
    small_photo(3).save("many/deep/3.png")
    done = unseen("classify", "many", "--out", "many/labels.csv", *BUNDLE, "-k", 2)
    assert done.code == 3 and "1 photos labelled in many/labels.csv, 3 were there" in " ".join(done.out.split())
    assert Path("many/labels.csv").read_text().splitlines()[:4] == lines[:4]
    assert "labelled again, since they had changed or could not be read: many/notes.jpg" in done.err
    assert done.out.count("many/labels.csv") == 1 and "many/deep" not in done.out
