"""`unseen features`: with the network of a bundle, or one that is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.bundles import SEEN, small_photo
from unseen.networks import FeatureStore


@pytest.fixture
def photos(here) -> Path:
    for number, id in enumerate(SEEN[:3]):
        (here / "photos" / id).mkdir(parents=True)
        small_photo(number).save(here / "photos" / id / "a.png")
    (here / "photos" / SEEN[0] / "b.png").write_text("no photo")
    return Path("photos")


def test_a_bundles_network_and_the_same_by_its_name(photos, unseen):
    quick = ("--photos", photos, "--workers", 0)
    done = unseen("features", *quick, "--out", "one", "--bundle", "bundle", "--json")
    assert done.code == 0, done.err
    assert (done.json["photos"], done.json["new"], done.json["unreadable"]) == (3, 3, 1)
    assert "1 files could not be read: one/unreadable.jsonl says which and why." in done.err
    named = ("--network", "cli_networks:build", "--classes", "classes.txt")
    shown = unseen("features", *quick, "--out", "two", *named)
    assert shown.code == 0 and "3 photos of 3 classes in two, 3 of them new" in shown.out
    one, two = FeatureStore.open("one"), FeatureStore.open("two")
    assert one.network["checksum"] == two.network["checksum"] and one.classes() == two.classes()


def test_photos_are_prepared_as_told(photos, unseen):
    network = ("--network", "cli_networks:build", "--classes", "classes.txt", "--photos", photos, "--workers", 0)
    transform = '{"size": 16, "mean": 0.5, "std": 0.25}'
    assert unseen("features", *network, "--out", "one", "--transform", transform).code == 0
    told = FeatureStore.open("one").network["transform"]
    assert (told["size"], told["mean"], told["std"]) == (16, [0.5] * 3, [0.25] * 3)
    done = unseen("features", *network, "--out", "two", "--transform", "16 pixels")
    assert done.code == 1 and "--transform: '16 pixels' is neither JSON nor a file" in done.err


def test_a_bundle_already_says_which_network(photos, unseen):
    for options in (("--classes", "classes.txt"), ("--layer", "head"), ("--weights", "w.pth"), ("--transform", "{}")):
        done = unseen("features", "--photos", photos, "--out", "one", "--bundle", "bundle", *options)
        assert done.code == 1 and "--bundle already says which network to use" in done.err
    assert not Path("one").exists()


def test_classes_are_dropped_only_when_told_to_and_aloud(photos, here, unseen):
    options = ("--out", "one", "--bundle", "bundle", "--workers", 0)
    assert unseen("features", "--photos", photos, *options).code == 0
    (here / "others" / SEEN[3]).mkdir(parents=True)
    small_photo(5).save(here / "others" / SEEN[3] / "a.png")
    done = unseen("features", "--photos", "others", *options, "--json")
    assert done.code == 0 and (done.json["photos"], done.json["classes"], done.json["kept"]) == (4, 4, 3)
    told = " ".join(done.err.split())
    assert f"{max(SEEN[:3])}: not in others, kept in the store. --prune drops such classes." in told
    done = unseen("features", "--photos", "others", *options, "--prune", "--json")
    assert done.code == 0 and (done.json["photos"], done.json["pruned"], done.json["kept"]) == (1, 3, 0)
    assert "not in others, dropped from the store." in " ".join(done.err.split())


def test_a_list_with_classes_is_evaluated_as_its_folder_is(photos, here, unseen):
    lines = [f"photos/{id}/a.png\t{id}" for id in SEEN[:3]]
    Path("list.txt").write_text("\n".join([*lines, f"photos/{SEEN[0]}/b.png\t{SEEN[0]}"]) + "\n")
    options = ("--candidates", "seen", "--workers", 0, "--trust-code", "--json")
    folder, listed = (unseen("evaluate", "bundle", "--photos", place, *options) for place in (photos, "list.txt"))
    assert folder.code == listed.code == 0, listed.err
    assert folder.json == listed.json and listed.json["images"] == 3 and listed.json["unreadable"] == 1
    Path("list.txt").write_text("photo.png\tzebra crossing\n")
    done = unseen("evaluate", "bundle", "--photos", "list.txt", *options)
    told = " ".join(done.err.split())
    assert done.code == 1 and "no photo is of a class among the candidates" in told and "zebra crossing" in told
