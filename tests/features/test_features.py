"""The feature store: complete, exact, and the same however it came about.

A tiny network stands in for the real one, which has a test of its own: what is tested here does not depend on weights.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from support import tiny_network
from unseen.backbones import PhotoTransform, load_backbone
from unseen.errors import UnseenError
from unseen.evaluation.metrics import HitCounter
from unseen.features import build_store, builder
from unseen.features import construction as features
from unseen.features.store import FeatureStore, block_path, blocks_of, read_index
from unseen.scoring import Scorer

QUIET = {"workers": 0, "batch": 4, "show_progress": False}


def picture(path: Path, seed: int, size: tuple[int, int] = (30, 26), **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """Classes of 1, 9, 0 and 5 photos, one file of which is no photo."""
    images = tmp_path / "images"
    for place, (class_id, count) in enumerate((("one", 1), ("nine", 9), ("none", 0), ("five", 5))):
        (images / class_id).mkdir(parents=True)
        for number in range(count):
            picture(images / class_id / f"{number}.png", 10 * place + number)
    (images / "five" / "2.png").write_text("no photo")
    return images


@pytest.fixture
def backbone():
    return tiny_network.build()


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store, by its path."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def rows(store: FeatureStore | Path, size: int = 1024) -> dict[str, np.ndarray]:
    store = FeatureStore.open(store) if isinstance(store, Path) else store
    found = {}
    for batch in store.batches(size):
        assert batch.features.dtype == np.float32
        for feature, class_id, path in zip(*batch, strict=True):
            assert path.startswith(f"{class_id}/") and path not in found
            found[path] = feature
    return found


# -- what is in it ---------------------------------------------------------------------------------------------------


def test_every_photo_has_the_features_that_the_network_gives(tmp_path, folder, backbone):
    built = build_store(folder, tmp_path / "store", backbone, precision="fp32", **QUIET)
    assert (built.photos, built.new, built.unreadable, built.classes) == (14, 14, 1, 4)
    store = FeatureStore.open(tmp_path / "store", backbone)
    found = rows(store)
    assert sorted(found) == sorted(
        f"{p.parent.name}/{p.name}" for p in folder.glob("*/*") if p.name != "2.png" or p.parent.name == "nine"
    )
    for path, feature in found.items():
        alone = backbone.features(backbone.transform.open(folder / path)[None])[0].numpy()
        np.testing.assert_allclose(feature, alone, rtol=1e-4, atol=1e-5)
    assert store.classes() == {"five": 4, "nine": 9, "none": 0, "one": 1}
    assert len(store) == 14 and store.unreadable_count() == 1
    assert [item["photo"] for item in store.unreadable()] == ["five/2.png"]
    listed = [json.loads(line) for line in (tmp_path / "store" / "unreadable.jsonl").read_text().splitlines()]
    assert listed == list(store.unreadable()) and "not a picture" in listed[0]["why"]


@pytest.mark.parametrize("size", [1, 3, 14, 100])
def test_batches_of_any_size_give_the_same_rows(tmp_path, folder, backbone, size, monkeypatch):
    monkeypatch.setattr(builder, "BLOCK", 4)
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    store = FeatureStore.open(tmp_path / "store")
    sizes = [len(batch.paths) for batch in store.batches(size)]
    assert sizes == [size] * (14 // size) + ([14 % size] if 14 % size else [])
    whole, parts = rows(store), rows(store, size)
    assert list(whole) == list(parts)
    for path in whole:
        np.testing.assert_array_equal(whole[path], parts[path])
    assert [p for b in store.batches(size, {"one", "nine"}) for p in b.class_ids] == ["nine"] * 9 + ["one"]


def test_seen_matrix_loads_the_classes_asked_for(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    store = FeatureStore.open(tmp_path / "store")
    seen = store.seen_matrix(["absent", "one", "nine"])
    assert np.bincount(seen.labels).tolist() == [0, 1, 9]
    assert seen.matrix.dtype == np.float32 and seen.matrix.shape == (10, tiny_network.FEATURES)
    np.testing.assert_array_equal(seen.matrix[seen.labels == 1][0], rows(store)["one/0.png"])
    with pytest.raises(UnseenError, match="no photo of any"):
        store.seen_matrix(["absent", "none"])


def test_half_precision_is_the_rounded_single(tmp_path, folder, backbone):
    for precision in ("fp16", "fp32"):
        build_store(folder, tmp_path / precision, backbone, precision=precision, **QUIET)
    half, single = rows(tmp_path / "fp16"), rows(tmp_path / "fp32")
    assert FeatureStore.open(tmp_path / "fp16").precision == "fp16"
    for path in single:
        np.testing.assert_array_equal(half[path], single[path].astype(np.float16))


# -- the same however it came about ----------------------------------------------------------------------------------


def test_workers_change_nothing(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "here", backbone, **QUIET)
    build_store(folder, tmp_path / "workers", backbone, workers=2, batch=4, show_progress=False)
    assert contents(tmp_path / "here") == contents(tmp_path / "workers")


def test_the_death_of_a_worker_is_told_and_what_is_done_is_kept(tmp_path, folder, backbone, monkeypatch):
    """As the kernel does when memory runs out: here once the class `five` is written, at the last photo of all."""
    here, open_photo, kept = os.getpid(), PhotoTransform.open, tmp_path / "store" / "features" / "five"

    def open_or_die(self, source):
        if os.getpid() != here and Path(source).parent.name == "one":
            patience = time.monotonic() + 60
            while not list(kept.glob("*.safetensors")) and time.monotonic() < patience:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return open_photo(self, source)

    options = {"batch": 2, "show_progress": False}
    with monkeypatch.context() as patch, pytest.raises(UnseenError, match=r"ended unexpectedly: .* run it again"):
        patch.setattr(PhotoTransform, "open", open_or_die)
        build_store(folder, tmp_path / "store", backbone, workers=1, **options)
    assert kept.is_dir()
    read = watch_reading(monkeypatch)
    built = build_store(folder, tmp_path / "store", backbone, workers=0, **options)
    assert "one/0.png" in read and not any(path.startswith("five/") for path in read)
    assert built.photos == 14 and built.new == len(read) < 14
    build_store(folder, tmp_path / "plain", backbone, workers=0, **options)
    assert contents(tmp_path / "store") == contents(tmp_path / "plain")


def change_everything(images: Path) -> set[str]:
    """Add, change, rename and remove photos and classes. Returns those that are new or changed."""
    picture(images / "nine" / "00 first.png", 501)
    picture(images / "nine" / "7.png", 502, size=(40, 40))
    (images / "nine" / "4.png").unlink()
    os.rename(images / "five" / "0.png", images / "five" / "z.png")
    picture(images / "five" / "2.png", 503)  # was unreadable
    picture(images / "none" / "was empty.png", 504)
    picture(images / "ninety" / "0.png", 505)
    shutil.rmtree(images / "one")
    return {"nine/00 first.png", "nine/7.png", "five/z.png", "five/2.png", "none/was empty.png", "ninety/0.png"}


@pytest.mark.parametrize("block", [3, 1024])
def test_only_new_and_changed_photos_are_read_and_the_store_is_as_if_made_afresh(
    tmp_path, folder, backbone, block, monkeypatch
):
    monkeypatch.setattr(builder, "BLOCK", block)
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    read = watch_reading(monkeypatch)
    assert build_store(folder, tmp_path / "store", backbone, **QUIET).new == 0
    assert read == []
    changed = change_everything(folder)
    built = build_store(folder, tmp_path / "store", backbone, **QUIET)
    assert sorted(read) == sorted(changed) and built.new == len(changed)
    monkeypatch.undo()
    monkeypatch.setattr(builder, "BLOCK", block)
    build_store(folder, tmp_path / "afresh", backbone, **QUIET)
    assert contents(tmp_path / "store") == contents(tmp_path / "afresh")  # without the removed class


def watch_reading(monkeypatch) -> list[str]:
    read, whole = [], PhotoTransform.open

    def watched(self, path):
        read.append("/".join(Path(path).parts[-2:]))
        return whole(self, path)

    monkeypatch.setattr(PhotoTransform, "open", watched)
    return read


class Stop(BaseException):
    """As good as a kill: nothing in the code may catch it."""


def test_stopped_at_any_step_it_goes_on_to_the_same_store(tmp_path, folder, backbone, monkeypatch):
    """Every change to the disk, in its turn, is where a run stops; the next run must finish as if it never had."""
    monkeypatch.setattr(builder, "BLOCK", 3)
    original = tmp_path / "original"
    build_store(folder, original, backbone, **QUIET)
    change_everything(folder)
    build_store(folder, tmp_path / "afresh", backbone, **QUIET)
    wanted = contents(tmp_path / "afresh")
    steps = 0
    while True:
        steps += 1
        store = tmp_path / f"store{steps}"
        shutil.copytree(original, store)
        if not run_until_step(steps, monkeypatch, folder, store, backbone):
            break
        if not (store / "contents.json").exists():
            with pytest.raises(UnseenError, match="not finished"):
                FeatureStore.open(store)
        build_store(folder, store, backbone, **QUIET)
        found = contents(store)
        assert {path: found[path] for path in found if "features/one/" not in path} == wanted, (
            f"stopped at step {steps}"
        )
    assert steps > 40


def run_until_step(step: int, monkeypatch, folder: Path, store: Path, backbone) -> bool:
    """Whether the run was stopped just before its n-th change to the disk."""
    count = 0

    def counted(change):
        def stopping(*args, **kwargs):
            nonlocal count
            count += 1
            if count == step:
                raise Stop
            return change(*args, **kwargs)

        return stopping

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)  # slow, and of no matter while the machine itself runs on
        for owner, name in (
            (os, "replace"),
            (os, "unlink"),
            (os, "mkdir"),
            (os, "rmdir"),
            (Path, "unlink"),
        ):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            build_store(folder, store, backbone, **QUIET)
        except Stop:
            return True
    return False


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "unseen", "features", *map(str, arguments), "--json"]


def environment() -> dict[str, str]:
    return os.environ | {"CUDA_VISIBLE_DEVICES": ""}


def test_killed_again_and_again_it_ends_with_the_same_bytes(tmp_path):
    images = tmp_path / "images"
    for class_id in range(30):
        for number in range(1 + class_id % 4):
            picture(images / f"class {class_id:02d}" / f"{number}.png", 10 * class_id + number)
    (images / "class 03" / "broken.jpg").write_bytes(b"")
    slow = tiny_network.build_slow()  # the same weights, slow enough to be caught
    build_store(images, tmp_path / "undisturbed", slow, batch=2, workers=0, show_progress=False)
    store, kills, moments = tmp_path / "store", 0, random.Random(0)
    arguments = ("--images", images, "--out", store, "--backbone", "support.tiny_network:build_slow", "--batch", 2)
    said = (tmp_path / "said").open("w+")
    while True:
        wanted = len(list(store.glob("features/*/*.safetensors"))) + moments.randint(1, 6)
        process = subprocess.Popen(
            command(*arguments, "--workers", 2), env=environment(), stdout=said, stderr=subprocess.STDOUT
        )
        while process.poll() is None and len(list(store.glob("features/*/*.safetensors"))) < wanted:
            time.sleep(0.01)
        if process.poll() is not None or kills == 3:
            break
        time.sleep(moments.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()  # its workers live on for a moment: they must not be in the way of the next run
        kills += 1
        with pytest.raises(UnseenError, match="not finished"):
            FeatureStore.open(store)
    assert process.wait(timeout=300) == 0, said.seek(0) or said.read()
    assert kills == 3
    said.seek(0)
    result = json.loads(said.readlines()[-1])
    assert result["photos"] == len(list(images.glob("*/*.png"))) > result["new"]
    assert contents(store) == contents(tmp_path / "undisturbed")


def test_two_processes_under_torchrun_make_the_store_of_one(tmp_path, folder):
    """Twice in the same processes, as an evaluation of two folders does."""
    for class_id in range(9):
        for number in range(3):
            picture(folder / f"more {class_id}" / f"{number}.png", 20 * class_id + number)
    build_store(folder, tmp_path / "one", tiny_network.build(), **QUIET)
    (tmp_path / "twice.py").write_text(
        "import sys\n"
        "from unseen.cli import main\n"
        "for out in sys.argv.pop(1), sys.argv.pop(1):\n"
        "    sys.argv[1:] = ['features', '--out', out, *sys.argv[sys.argv.index('--images'):]]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ["--images", folder, "--backbone", "support.tiny_network:build", "--batch", "4", "--workers", "1"]
    done = subprocess.run(
        [*torchrun, tmp_path / "twice.py", tmp_path / "two", tmp_path / "again", *options, "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == 2  # of the processes one speaks
    for result in results:
        assert (result["photos"], result["new"], result["unreadable"], result["classes"]) == (41, 41, 1, 13)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "again")


def test_metrics_of_two_shares_are_exactly_those_of_the_whole(tmp_path, folder, backbone):
    """As two processes would count them: other batches, other threads, states merged."""
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    store, classes = FeatureStore.open(tmp_path / "store"), ["five", "nine", "one"]
    random_classes = np.random.default_rng(0).standard_normal((400, tiny_network.FEATURES), dtype=np.float32)
    scorer = Scorer(np.repeat(random_classes, 2, axis=0))  # every class has a twin: a tie for each photo

    def count(ids: list[str], size: int) -> HitCounter:
        counter = HitCounter(classes)
        for batch in store.batches(size, ids):
            labels = np.array([classes.index(id) for id in batch.class_ids])
            ranks = scorer.ranks(batch.features, labels)
            counter.update(labels, ranks.greater, ranks.equal)
        return counter

    whole, threads = count(classes, 1024), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        merged = count(["nine"], 2)
        merged.merge(count(["five", "one"], 3).state())
    finally:
        torch.set_num_threads(threads)
    assert whole.by_image() == merged.by_image() and whole.by_class() == merged.by_class()
    assert whole.table() == merged.table() and whole.coverage == (3, 3)


class Second:
    """The second of two processes, as it hears of the first one's trouble."""

    rank, world = 1, 2

    def gather(self, value):
        return [(None, "the first process says no"), value]


def test_what_the_first_process_refuses_all_refuse():
    with pytest.raises(UnseenError, match="the first process says no"):
        features._first_does(Second(), lambda: pytest.fail("only the first does it"))


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


def test_a_damaged_block_is_refused_and_made_anew(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    before = contents(tmp_path / "store")
    block = block_path(tmp_path / "store", "nine", 0)
    os.truncate(block, block.stat().st_size - 1)
    with pytest.raises(UnseenError, match="damaged"):
        list(FeatureStore.open(tmp_path / "store").batches())
    assert build_store(folder, tmp_path / "store", backbone, **QUIET).new == 9
    assert contents(tmp_path / "store") == before


def test_a_missing_block_is_told(tmp_path, folder, backbone):
    """As in a copy that is not complete: neither fewer photos nor rows of whatever was in memory."""
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    block_path(tmp_path / "store", "nine", 0).unlink()
    store = FeatureStore.open(tmp_path / "store")
    for read in (lambda: list(store.batches()), lambda: store.seen_matrix(["one", "nine"])):
        with pytest.raises(UnseenError, match=r"nine: is damaged\. Run the same `unseen features` again"):
            read()
    list(store.batches(classes=["one"]))


@pytest.mark.parametrize(
    ("name", "content"),
    [("contents.json", {}), ("contents.json", []), ("contents.json", {"classes": {"nine": 9}})]
    + [("store.json", []), ("store.json", {"format": 1, "precision": "fp16"})],
)
def test_damaged_lists_of_a_store_are_told(tmp_path, folder, backbone, name, content):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    (tmp_path / "store" / name).write_text(json.dumps(content))
    with pytest.raises(UnseenError, match=f"{name}: is damaged"):
        FeatureStore.open(tmp_path / "store", backbone)


def test_rubbish_in_a_store_is_cleared(tmp_path, folder, backbone):
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    before = contents(tmp_path / "store")
    (tmp_path / "store" / "features" / "nine" / ".000001.safetensors.123.tmp").write_bytes(b"half")
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    assert contents(tmp_path / "store") == before


def test_features_that_are_not_finite_or_too_large(tmp_path, folder):
    class Wild(tiny_network.TinyNetwork):
        def forward(self, x):
            means = x.mean((1, 2, 3))
            return self.last(means[:, None] * torch.ones(tiny_network.FEATURES) * 1e9)

    wild = tiny_network.from_module(Wild(), tiny_network.SEEN, PhotoTransform(tiny_network.SIZE))
    with pytest.raises(UnseenError, match="--precision fp32"):
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
        (folder, "images/store", {}, "among the class folders"),
        (folder, "flat", {}, "neither empty nor a feature store"),
        (folder, "store", {"precision": "fp8"}, "fp16, fp32"),
        (folder, "store", {"batch": 0}, "1 photo or more"),
    ):
        with pytest.raises(UnseenError, match=message):
            build_store(images, tmp_path / out, backbone, **QUIET | options)
    with pytest.raises(UnseenError, match="not a feature store"):
        FeatureStore.open(tmp_path / "flat")
    build_store(folder, tmp_path / "store", backbone, **QUIET)
    with pytest.raises(UnseenError, match="holds fp16"):
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


# -- the real network ------------------------------------------------------------------------------------------------


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
