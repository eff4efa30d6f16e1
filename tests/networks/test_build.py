"""A feature store from files of every kind, and what is refused.

A tiny network stands in for the real one, which has a test of its own: what is tested here does not depend on weights.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from support import tiny_network
from support.stores import QUIET, picture, rows, watch_reading
from unseen.networks import build_store
from unseen.networks.loading import load_network
from unseen.networks.store import FeatureStore
from unseen.networks.translate import for_photos
from unseen.photos import by_class
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

# -- files of every kind ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory) -> Path:
    images = tmp_path_factory.mktemp("odd")
    upright = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))
    good, bad = images / "good", images / "bad"
    good.mkdir(), bad.mkdir(), (images / "empty").mkdir()
    upright.save(good / "plain.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(good / "turned.png", exif=exif)
    upright.convert("CMYK").save(good / "cmyk.jpg")
    Image.fromarray(np.linspace(0, 65535, 2400).astype(np.uint16).reshape(40, 60)).save(good / "16 bit.png")
    upright.save(good / "animated.gif", save_all=True, append_images=[upright.rotate(90), upright.rotate(180)])
    upright.save(good / "фото 写真 é.jpg")
    upright.save(good / "no ending", "png")
    upright.save(os.fsencode(good) + b"/not unicode \xff.png", "png")
    os.symlink("plain.png", good / "link.png")
    (good / "folder within").mkdir()
    (good / ".hidden").write_text("no photo")
    upright.resize((600, 400)).save(bad / "truncated.jpg")
    os.truncate(bad / "truncated.jpg", 5000)
    (bad / "zero bytes.jpg").touch()
    (bad / "text.jpg").write_text("not a photo at all")
    Image.new("1", (20_000, 20_000)).save(bad / "huge.png")
    os.symlink("loop.png", bad / "loop.png")
    os.symlink("nowhere", bad / "dangling.png")
    os.mkfifo(bad / "pipe.png")
    os.symlink("..", images / "loop of folders")  # a class folder that leads to its own parent
    os.symlink("folder in a circle", images / "folder in a circle")
    (images / "readme.txt").write_text("not a class")
    return images


def test_each_odd_file_is_read_or_reported(tmp_path, odd_files, network):
    built = build_store(odd_files, tmp_path / "store", network, workers=2)
    assert (built.photos, built.unreadable, built.classes) == (9, 7, 4)
    store = FeatureStore.open(tmp_path / "store")
    assert store.classes() == {"bad": 0, "empty": 0, "good": 9, "loop of folders": 0}
    found = rows(store)
    names = ["16 bit.png", "animated.gif", "cmyk.jpg", "link.png", "no ending", "not unicode \udcff.png", "plain.png"]
    assert list(found) == [f"good/{name}" for name in (*names, "turned.png", "фото 写真 é.jpg")]
    for twin in ("turned.png", "link.png", "no ending", "not unicode \udcff.png", "animated.gif"):
        tolerance = 0.3 if twin == "animated.gif" else 0  # 256 colours
        np.testing.assert_allclose(found[f"good/{twin}"], found["good/plain.png"], atol=tolerance)
    why = {item["photo"]: item["why"] for item in store.unreadable()}
    assert sorted(why) == sorted(f"bad/{path.name}" for path in (odd_files / "bad").iterdir())
    for name, reason in {
        "truncated.jpg": "cannot be decoded",
        "zero bytes.jpg": "empty",
        "text.jpg": "not a picture",
        "huge.png": "pixels",
        "loop.png": "symbolic links",
        "dangling.png": "No such file",
        "pipe.png": "not a regular file",
    }.items():
        assert reason in why[f"bad/{name}"], name
    assert not any(str(odd_files) in reason for reason in why.values())  # where the folder lies is no matter
    listed = (tmp_path / "store" / "unreadable.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in listed] == list(store.unreadable())


def test_unreadable_files_are_tried_again_only_when_changed_or_asked_to(tmp_path, folder, network, monkeypatch):
    build_store(folder, tmp_path / "store", network, **QUIET)
    read = watch_reading(monkeypatch)
    build_store(folder, tmp_path / "store", network, **QUIET)
    assert read == []
    before = rows(tmp_path / "store")
    build_store(folder, tmp_path / "store", network, retry_unreadable=True, **QUIET)
    assert read == ["five/2.png"] and rows(tmp_path / "store").keys() == before.keys()
    picture(folder / "five" / "2.png", 7)
    assert build_store(folder, tmp_path / "store", network, **QUIET).unreadable == 0


def test_features_that_are_not_finite_or_too_large(tmp_path, folder):
    class Wild(tiny_network.TinyNetwork):
        def forward(self, x):
            means = x.mean((1, 2, 3))
            return self.last(means[:, None] * torch.ones(tiny_network.FEATURES) * 1e9)

    wild = tiny_network.from_module(Wild(), tiny_network.SEEN, PhotoTransform(tiny_network.SIZE))
    with pytest.raises(UnseenError, match="the precision fp32"):
        build_store(folder, tmp_path / "half", wild, **QUIET)
    assert build_store(folder, tmp_path / "single", wild, precision="fp32", **QUIET).photos == 14

    class Broken(Wild):
        def forward(self, x):
            return self.last(x.mean((1, 2, 3))[:, None] * torch.full((tiny_network.FEATURES,), np.nan))

    broken = tiny_network.from_module(Broken(), tiny_network.SEEN, PhotoTransform(tiny_network.SIZE))
    assert build_store(folder, tmp_path / "none", broken, **QUIET).unreadable == 15
    assert {item["why"] for item in FeatureStore.open(tmp_path / "none").unreadable()} >= {
        "the network's features of this photo are not finite"
    }


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_another_network_or_transform_is_refused(tmp_path, folder, network):
    store = tmp_path / "store"
    build_store(folder, store, network, **QUIET)
    other = tiny_network.build()
    with torch.no_grad():
        other.get_classifier().weight += 1
    sharper = tiny_network.build()
    sharper.transform = PhotoTransform(tiny_network.SIZE, resize=2 * tiny_network.SIZE)
    for wrong, message in ((other, "with weights"), (sharper, "prepared as")):
        with pytest.raises(UnseenError, match=message):
            build_store(folder, store, wrong, **QUIET)
        with pytest.raises(UnseenError, match=message):
            FeatureStore.open(store, wrong)
    FeatureStore.open(store, network)


def test_mistakes_are_reported(tmp_path, folder, network):
    (tmp_path / "flat").mkdir()
    picture(tmp_path / "flat" / "0.png", 0)
    for images, out, options, message in (
        (tmp_path / "flat", "store", {}, "has no class folders"),
        (tmp_path / "absent", "store", {}, "cannot be read as a folder"),
        (folder, "images/store", {}, "one of the class folders"),
        (folder, "flat", {}, "neither empty nor a feature store"),
        (folder, "store", {"precision": "fp8"}, "precision must be fp16 or fp32"),
        (folder, "store", {"batch": 0}, "batch must be an integer of at least 1"),
    ):
        with pytest.raises(UnseenError, match=message):
            build_store(images, tmp_path / out, network, **QUIET | options)
    with pytest.raises(UnseenError, match="not a feature store"):
        FeatureStore.open(tmp_path / "flat")
    build_store(folder, tmp_path / "store", network, **QUIET)
    with pytest.raises(UnseenError, match="contains fp16"):
        build_store(folder, tmp_path / "store", network, precision="fp32", **QUIET)


def test_another_folder_of_photos_does_not_delete_what_is_in_the_store(tmp_path, folder, network):
    store = tmp_path / "store"
    build_store(folder, store, network, **QUIET)
    before = rows(store)
    picture(tmp_path / "other" / "new" / "0.png", 77)
    built = build_store(tmp_path / "other", store, network, **QUIET)
    assert (built.photos, built.new, built.unreadable, built.classes) == (15, 1, 1, 5)
    assert built.kept == ("five", "nine", "none", "one") and built.pruned == ()
    after = rows(store)
    assert after.keys() == before.keys() | {"new/0.png"}
    for path, row in before.items():
        np.testing.assert_array_equal(after[path], row)
    assert FeatureStore.open(store).unreadable_count() == 1
    pruned = build_store(tmp_path / "other", store, network, prune=True, **QUIET)
    assert pruned.pruned == built.kept and pruned.kept == () and pruned.photos == 1
    assert list(rows(store)) == ["new/0.png"] and len(list(store.glob("0*.safetensors"))) == 1


def test_a_class_whose_folder_cannot_be_read_keeps_its_features(tmp_path, folder, network, monkeypatch):
    build_store(folder, tmp_path / "store", network, **QUIET)
    before, listed = rows(tmp_path / "store"), by_class.photos_in

    def refuse(place):
        if Path(place).name == "nine":
            raise UnseenError(f"{place}: cannot be read as a folder (Permission denied).")
        return listed(place)

    monkeypatch.setattr(by_class, "photos_in", refuse)
    built = build_store(folder, tmp_path / "store", network, prune=True, **QUIET)
    assert built.unlisted == ("nine",) and (built.photos, built.new) == (14, 0)
    assert rows(tmp_path / "store").keys() == before.keys()


def test_damaged_features_of_a_class_without_photos_are_not_dropped_silently(tmp_path, folder, network):
    store = tmp_path / "store"
    build_store(folder, store, network, **QUIET)
    next(store.glob("0*.safetensors")).write_bytes(b"?")
    shutil.rmtree(folder / "nine")
    with pytest.raises(UnseenError, match=r"features of 9 photos are damaged, and .* has no folder for their classes"):
        build_store(folder, store, network, **QUIET)
    assert build_store(folder, store, network, prune=True, **QUIET).pruned == ("nine",)


# -- the real network ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_photos_through_the_real_network(tmp_path, shared_photos):
    images = tmp_path / "images"
    for class_folder in sorted((shared_photos / "seen-val").iterdir())[:16]:
        (images / class_folder.name).mkdir(parents=True)
        for photo in sorted(class_folder.iterdir())[:1]:
            os.symlink(photo, images / class_folder.name / photo.name)
    torchs = load_network()
    network = for_photos(torchs)
    for precision in ("fp16", "fp32"):
        built = build_store(images, tmp_path / precision, network, precision=precision)
        assert (built.photos, built.unreadable) == (16, 0)
    half, single = (
        FeatureStore.open(tmp_path / precision).seen_matrix(network.class_ids) for precision in ("fp16", "fp32")
    )
    build_store(images, tmp_path / "other threads", network, precision="fp32", workers=3)
    again = FeatureStore.open(tmp_path / "other threads").seen_matrix(network.class_ids)
    np.testing.assert_array_equal(again.matrix, single.matrix)
    known = network.classifiers()
    answers = [np.argmax(part.matrix @ known[:, :-1].T + known[:, -1], axis=1) for part in (half, single)]
    np.testing.assert_array_equal(*answers)  # rounding features changes no answer
    assert (answers[0] == half.labels).mean() > 0.5
    batch = torch.stack([torchs.transform.open(path) for path in sorted(images.glob("*/*"))[:8]])
    np.testing.assert_allclose(single.matrix[:8], torchs.features(batch).numpy(), rtol=1e-3, atol=1e-4)
