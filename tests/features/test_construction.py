"""A feature store from files of every kind, and what is refused.

A tiny network stands in for the real one, which has a test of its own: what is tested here does not depend on weights.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from support import tiny_network
from support.stores import QUIET, contents, picture, rows, watch_reading
from unseen.backbones import PhotoTransform, load_backbone
from unseen.errors import UnseenError
from unseen.features import build_store, builder
from unseen.features import construction as features
from unseen.features.blocks import blocks_of, read_index
from unseen.features.store import FeatureStore

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


def test_each_odd_file_is_read_or_reported(tmp_path, odd_files, backbone):
    built = build_store(odd_files, tmp_path / "store", backbone, workers=2, batch=4, show_progress=False)
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
        "huge.png": "20000 x 20000 pixels",
        "loop.png": "symbolic links",
        "dangling.png": "No such file",
        "pipe.png": "not a regular file",
    }.items():
        assert reason in why[f"bad/{name}"], name
    assert not any(str(odd_files) in reason for reason in why.values())  # where the folder lies is no matter
    listed = (tmp_path / "store" / "unreadable.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in listed] == list(store.unreadable())


def test_unreadable_files_are_tried_again_only_when_changed_or_told_to(tmp_path, folder, backbone, monkeypatch):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    read = watch_reading(monkeypatch)
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    assert read == []
    before = contents(tmp_path / "store")
    build_store(folder, tmp_path / "store", backbone, retry_unreadable=True, **QUIET)
    assert read == ["five/2.png"] and contents(tmp_path / "store") == before
    picture(folder / "five" / "2.png", 7)
    assert build_store(folder, tmp_path / "store", backbone, **QUIET).unreadable == 0


def test_features_that_are_not_finite_or_too_large(tmp_path, folder):
    class Wild(tiny_network.TinyNetwork):
        def forward(self, x):
            means = x.mean((1, 2, 3))
            return self.last(means[:, None] * torch.ones(tiny_network.FEATURES) * 1e9)

    wild = tiny_network.from_module(Wild(), tiny_network.SEEN, PhotoTransform(tiny_network.SIZE))
    with pytest.raises(UnseenError, match="precision='fp32'"):
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


# -- size ------------------------------------------------------------------------------------------------------------


def test_classes_are_listed_as_they_are_needed(tmp_path, backbone, monkeypatch):
    images = tmp_path / "images"
    for class_id in range(40):
        picture(images / f"{class_id:02d}" / "0.png", class_id)
    listed, looked, threads = [], [], torch.get_num_threads()
    whole, network = builder.photos_in, type(backbone).features

    def listing(folder):
        listed.append(folder.name)
        return whole(folder)

    def looking(self, batch):
        looked.append(len(listed))
        return network(self, batch)

    monkeypatch.setattr(builder, "photos_in", listing)
    monkeypatch.setattr(type(backbone), "features", looking)
    torch.set_num_threads(1)  # each thread has a batch on its way
    try:
        build_store(images, tmp_path / "store", backbone, **QUIET)
    finally:
        torch.set_num_threads(threads)
    assert len(looked) == 10
    assert all(ahead <= 4 * (place + 3) for place, ahead in enumerate(looked))


def test_blocks_bound_what_is_held(tmp_path, folder, backbone, monkeypatch):
    monkeypatch.setattr(builder, "BLOCK", 4)
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    sizes = [len(read_index(block).photos) for block in blocks_of(tmp_path / "store", "nine")]
    assert sizes == [4, 4, 1]


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_another_network_or_transform_is_refused(tmp_path, folder, backbone):
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
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
    FeatureStore.open(store, backbone)


def test_mistakes_are_told(tmp_path, folder, backbone):
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
            build_store(images, tmp_path / out, backbone, **QUIET | options)
    with pytest.raises(UnseenError, match="not a feature store"):
        FeatureStore.open(tmp_path / "flat")
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    with pytest.raises(UnseenError, match="contains fp16"):
        build_store(folder, tmp_path / "store", backbone, precision="fp32", **QUIET)


def test_two_runs_do_not_write_to_one_store(tmp_path, folder, backbone):
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    (tmp_path / "store").mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "store" / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"locked\n"
    with pytest.raises(UnseenError, match="another process is writing"):
        build_store(folder, tmp_path / "store", backbone, **QUIET)
    holder.communicate()
    build_store(folder, tmp_path / "store", backbone, **QUIET)


def test_another_folder_of_photos_does_not_delete_what_is_in_the_store(tmp_path, folder, backbone):
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
    before = rows(store)
    picture(tmp_path / "other" / "new" / "0.png", 77)
    built = build_store(tmp_path / "other", store, backbone, **QUIET)
    assert (built.photos, built.new, built.unreadable, built.classes) == (15, 1, 1, 5)
    assert built.kept == ("five", "nine", "none", "one") and built.pruned == ()
    after = rows(store)
    assert after.keys() == before.keys() | {"new/0.png"}
    for path, row in before.items():
        np.testing.assert_array_equal(after[path], row)
    assert FeatureStore.open(store).unreadable_count() == 1
    pruned = build_store(tmp_path / "other", store, backbone, prune=True, **QUIET)
    assert pruned.pruned == built.kept and pruned.kept == () and pruned.photos == 1
    assert list(rows(store)) == ["new/0.png"] and [path.name for path in (store / "features").iterdir()] == ["new"]


def test_a_class_whose_folder_cannot_be_read_keeps_its_features(tmp_path, folder, backbone, monkeypatch):
    store = tmp_path / "store"
    build_store(folder, store, backbone, **QUIET)
    before, listed = contents(store), builder.photos_in

    def refuse(place):
        if place.name == "nine":
            raise UnseenError(f"{place}: cannot be read as a folder (Permission denied).")
        return listed(place)

    monkeypatch.setattr(builder, "photos_in", refuse)
    built = build_store(folder, store, backbone, prune=True, **QUIET)
    assert built.unlisted == ("nine",) and (built.photos, built.new) == (14, 0)
    assert contents(store) == before
    fresh = build_store(folder, tmp_path / "fresh", backbone, **QUIET)  # nothing to keep: told as unreadable
    assert fresh.unlisted == () and (fresh.photos, fresh.unreadable) == (5, 2)
    assert build_store(folder, tmp_path / "fresh", backbone, **QUIET).unlisted == ()


def test_killed_while_store_json_was_written_it_starts_again(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "plain", backbone, **QUIET)
    for name, leftovers in {
        "temporary": {"lock": "", ".store.json.4711.tmp": '{"form'},
        "empty": {"lock": "", "store.json": ""},  # as after a power cut
        "half": {"lock": "", "store.json": '{"form'},
    }.items():
        store = tmp_path / name
        store.mkdir()
        for file, content in leftovers.items():
            (store / file).write_text(content)
        assert build_store(folder, store, backbone, **QUIET).photos == 14
        assert contents(store) == contents(tmp_path / "plain")


def test_a_store_that_another_process_has_just_begun_is_not_taken_for_another_folder(
    tmp_path, folder, backbone, monkeypatch
):
    """It appears while this process lists the folder, which was empty a moment ago."""
    store, listing, begun = tmp_path / "store", Path.iterdir, []
    store.mkdir()

    def begin_elsewhere(path):
        if path == store and not begun:
            begun.append(True)
            build_store(folder, store, backbone, **QUIET)
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", begin_elsewhere)
    assert build_store(folder, store, backbone, **QUIET).new == 0
    assert begun


# -- the real network ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_photos_through_the_real_network(tmp_path, shared_photos):
    images = tmp_path / "images"
    for class_folder in sorted((shared_photos / "seen-val").iterdir())[:16]:
        (images / class_folder.name).mkdir(parents=True)
        for photo in sorted(class_folder.iterdir())[:1]:
            os.symlink(photo, images / class_folder.name / photo.name)
    network = load_backbone()
    for precision in ("fp16", "fp32"):
        built = build_store(images, tmp_path / precision, network, precision=precision, batch=16, show_progress=False)
        assert (built.photos, built.unreadable) == (16, 0)
    half, single = (
        FeatureStore.open(tmp_path / precision).seen_matrix(network.class_ids) for precision in ("fp16", "fp32")
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - min(threads, 2))  # 1 if there were more, else 2
    try:
        build_store(images, tmp_path / "other threads", network, precision="fp32", batch=4, show_progress=False)
    finally:
        torch.set_num_threads(threads)
    assert contents(tmp_path / "other threads") == contents(tmp_path / "fp32")  # nor do the batches matter
    known = network.classifiers()
    answers = [np.argmax(part.matrix @ known[:, :-1].T + known[:, -1], axis=1) for part in (half, single)]
    np.testing.assert_array_equal(*answers)  # rounding features changes no answer
    assert (answers[0] == half.labels).mean() > 0.5
    batch = torch.stack([network.transform.open(path) for path in sorted(images.glob("*/*"))[:8]])
    np.testing.assert_allclose(single.matrix[:8], network.features(batch).numpy(), rtol=1e-3, atol=1e-4)


def test_the_default_number_of_workers(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert features.count_workers(None) == 8
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert features.count_workers(None) == 4
    assert features.count_workers(0) == 0
