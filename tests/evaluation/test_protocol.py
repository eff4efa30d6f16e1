"""The protocol against a plain version of it, on classes and features small enough to count by hand."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from support import tiny_network
from support.command_line import run_command
from support.problems import SEEN
from support.stores import FakeStore
from unseen.bundle.records import CalibrationRecord
from unseen.evaluation.metrics import network_confidence
from unseen.evaluation.table import check_table_path
from unseen.methods import Solution
from unseen.methods.projections import Append1
from unseen.model import Model
from unseen.networks import FeatureStore, build_store
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

UNSEEN = ("cat", "poodle", "saw", "pet", "lonely")
LISTS = {"2-hops": ["cat", "poodle", "pet"], "awa2-test": ["cat", "saw"], "awa2-train": ["beagle", "poodle"]}


@pytest.fixture
def model() -> Model:
    return Model(tiny_network.make_bundle(), tiny_network.build(), device="cpu")


@pytest.fixture
def photos() -> FakeStore:
    rng = np.random.default_rng(3)
    ids = rng.choice([*SEEN, *UNSEEN, "elsewhere"], 120)
    return FakeStore(rng.normal(size=(120, tiny_network.FEATURES)), ids, unreadable=2)


def plain(model, photos, candidates, k):
    """Hit@k over images and over classes, photo by photo, with sorted lists."""
    bundle = model.bundle
    hits = {}
    for feature, id in zip(photos.features, photos.ids, strict=True):
        if id not in candidates:
            continue
        point = np.append(feature, 1).astype(np.float64)
        scores = {c: point @ bundle.solution.classifiers[bundle.hierarchy.index(c)].astype(np.float64)
                  for c in candidates}  # fmt: skip
        others = sum(scores[c] >= scores[id] for c in candidates if c != id)
        hits.setdefault(id, []).append(others < k)
    every = [hit for those in hits.values() for hit in those]
    return 100 * np.mean(every), 100 * np.mean([np.mean(those) for those in hits.values()]), len(hits), len(every)


@pytest.mark.parametrize("with_seen", [False, True])
def test_against_a_plain_version(model, photos, with_seen):
    listed = ["cat", "poodle", "saw", "thing"]
    candidates = [*listed, *SEEN] if with_seen else listed
    result = model.evaluate(photos, listed, with_seen=with_seen, ks=(1, 2, 5), photos_of="both")
    for k in (1, 2, 5):
        by_image, by_class, classes, images = plain(model, photos, candidates, k)
        assert result.image[f"hit@{k}"] == pytest.approx(by_image, abs=0.006)
        assert result.class_[f"hit@{k}"] == pytest.approx(by_class, abs=0.006)
    assert (result.classes, result.images) == (classes, images)
    assert (result.listed_classes, result.candidate_classes) == (4, len(candidates))
    assert result.unreadable == 2
    assert result.skipped_classes == len(set(photos.ids) - set(candidates))


def test_seen_classes_among_seen_and_unseen(model, photos):
    """The paper's seen-class test: photos of seen classes, both groups as candidates."""
    own = FakeStore(photos.features, [i if i in SEEN else "elsewhere" for i in photos.ids])
    result = model.evaluate(own, ["cat", "saw"], with_seen=True)
    assert result.image["hit@1"] == pytest.approx(plain(model, own, ["cat", "saw", *SEEN], 1)[0], abs=0.006)
    assert result.generalised is None  # no photo of an unseen class


def test_added_seen_classes_compete_but_their_photos_do_not_count(model, photos, caplog):
    """ImageNet-21K holds the seen classes too: with their folders beside the others, the paper's second table stays."""
    listed = ["cat", "saw", "pet"]
    of_unseen = [i for i, id in enumerate(photos.ids) if id not in SEEN]
    alone = FakeStore(photos.features[of_unseen], [photos.ids[i] for i in of_unseen])
    caplog.set_level("INFO", "unseen")
    mixed, pure = (model.evaluate(store, listed, with_seen=True) for store in (photos, alone))
    assert (mixed.image, mixed.class_, mixed.images) == (pure.image, pure.class_, pure.images)
    assert mixed.candidate_classes == len(listed) + len(SEEN)  # they compete
    assert [f"photos of {len(SEEN)} seen classes do not count" in message for message in caplog.messages] == [True]
    seen = model.evaluate(photos, listed, with_seen=True, photos_of="seen")
    both = model.evaluate(photos, listed, with_seen=True, photos_of="both")
    assert seen.images + pure.images == both.images and both.generalised is not None
    assert {row["id"] for row in seen.per_class} == set(SEEN)
    apart = FakeStore(photos.features, [id if id in SEEN else "elsewhere" for id in photos.ids])
    assert model.evaluate([alone, apart], listed, with_seen=True).image == both.image  # a folder of seen classes
    with pytest.raises(UnseenError, match="photos_of must be auto, unseen, seen or both, not 'all'"):
        model.evaluate(photos, listed, photos_of="all")
    by_name = [model.evaluate(photos, f"unseen{added}").images for added in ("", "+1K", "+seen")]
    assert by_name == [by_name[0]] * 3  # however they are added


def test_named_lists(model, photos, monkeypatch):
    monkeypatch.setattr("unseen_lab.data.authors.paper_list", lambda name: LISTS[name])
    for spec, listed, seen in (
        ("2-hops", LISTS["2-hops"], False),
        ("2-hops+1K", LISTS["2-hops"], True),
        ("awa2-test", ["cat", "saw"], False),
        ("awa2-test+1K", ["cat", "saw"], True),
        ("awa2", ["cat", "saw", "beagle", "poodle"], False),
    ):
        candidates = sorted({*listed, *(SEEN if seen else ())})
        result = model.evaluate(photos, spec, photos_of="both")
        by_image, by_class, *_ = plain(model, photos, candidates, 1)
        assert result.candidates == spec
        assert result.candidate_classes == len(candidates)
        assert result.listed_classes == len(listed)
        assert (result.image["hit@1"], result.class_["hit@1"]) == pytest.approx((by_image, by_class), abs=0.006)


def test_ties(model, photos):
    """All classes alike: every rank is a tie over all candidates."""
    bundle = model.bundle
    flat = Solution(np.ones_like(bundle.solution.classifiers), Append1())
    alike = Model(replace(bundle, solution=flat), tiny_network.build(), device="cpu")
    hits = {ties: alike.evaluate(photos, ["cat", "saw", "pet", "poodle"], ties=ties).image["hit@1"]
            for ties in ("realistic", "optimistic", "pessimistic")}  # fmt: skip
    assert hits == {"realistic": 25.0, "optimistic": 100.0, "pessimistic": 0.0}


def test_ties_between_the_groups_count_by_one_rule(model, photos):
    """With all classes alike, seen and unseen accuracy are Hit@1 as the tables of each group alone have it."""
    flat = Solution(np.ones_like(model.bundle.solution.classifiers), Append1())
    alike = Model(replace(model.bundle, solution=flat), tiny_network.build(), device="cpu")
    listed = ["cat", "saw", "pet"]
    both = alike.evaluate(photos, listed, with_seen=True, photos_of="both").generalised
    for group in ("seen", "unseen"):
        alone = alike.evaluate(photos, listed, with_seen=True, photos_of=group)
        assert (both["image"][group], both["class"][group]) == (alone.image["hit@1"], alone.class_["hit@1"])
        assert both["class"][group] == pytest.approx(100 / 8, abs=0.01)  # eight candidates


def test_no_answer_is_a_miss(model, photos):
    """Where a method has no answer for the true class, as the network alone for unseen ones, it misses."""
    answers = model.bundle.is_seen
    mute = replace(model.bundle, solution=replace(model.bundle.solution, answers=answers))
    result = Model(mute, device="cpu").evaluate(photos, list(UNSEEN), with_seen=True, photos_of="both")
    seen = {row["id"]: row["hit@20"] for row in result.per_class}
    assert all(value == (100 if id in SEEN else 0) for id, value in seen.items())


def test_several_folders_count_together(model, photos):
    half = [FakeStore(photos.features[s], photos.ids[s]) for s in (slice(0, 50), slice(50, None))]
    together, apart = model.evaluate(half, "any"), model.evaluate(photos, "any")
    assert (together.image, together.class_, together.per_class) == (apart.image, apart.class_, apart.per_class)


def test_nothing_to_measure_is_told(model):
    with pytest.raises(UnseenError, match="no photo shows a class"):
        model.evaluate(FakeStore(np.zeros((1, tiny_network.FEATURES)), ["elsewhere"]), "any")
    with pytest.raises(UnseenError, match="no such folder"):
        model.evaluate("does-not-exist", "any")


def test_features_from_a_file(model, photos, tmp_path):
    np.savez(tmp_path / "x.npz", features=photos.features, labels=photos.ids)
    expected = model.evaluate(photos, "any")
    found = model.evaluate(tmp_path / "x.npz", "any")
    assert (found.image, found.class_, found.per_class) == (expected.image, expected.class_, expected.per_class)
    np.savez(tmp_path / "narrow.npz", features=photos.features[:, 1:], labels=photos.ids)
    with pytest.raises(UnseenError, match=f"rows of {tiny_network.FEATURES - 1} features, but the bundle is for"):
        model.evaluate(tmp_path / "narrow.npz", "any")
    model.bundle.save(tmp_path / "bundle")
    done = run_command(
        "evaluate", tmp_path / "bundle", "--features", tmp_path / "x.npz", "--candidates", "any", "--json"
    )
    assert done.code == 0 and done.json["image"] == found.image
    assert run_command("evaluate", tmp_path / "bundle").code == 2


def test_a_folder_given_twice_is_refused(model, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UnseenError, match="given twice: name each folder of photos once"):
        model.evaluate([folder, f"{folder}/../photos"], "any", workers=0)
    build_store(folder, tmp_path / "store", model.network, workers=0)
    store = FeatureStore.open(tmp_path / "store", model.network)
    with pytest.raises(UnseenError, match="store is given twice"):
        model.evaluate([store, tmp_path / "store"], "any")


def test_confidence_is_the_largest_softmax():
    rng = np.random.default_rng(0)
    known, features = rng.normal(size=(5, 4)), rng.normal(size=(3, 3))
    logits = features @ known[:, :3].T + known[:, 3]
    softmax = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert np.allclose(network_confidence(known, features), softmax.max(1))


# -- from photos, and on the command line --------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    for number, id in enumerate((*SEEN, "cat", "saw", "elsewhere")):
        (tmp_path / "photos" / id).mkdir(parents=True)
        for i in range(3):
            pixels = np.random.default_rng([number, i]).integers(0, 256, (30, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / id / f"{i}.png")
    (tmp_path / "photos" / "cat" / "broken.png").write_text("no photo")
    return tmp_path / "photos"


def test_a_folder_and_its_store_give_the_same(model, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    build_store(folder, tmp_path / "store", model.network, workers=0)
    figures = []
    for source in (folder, tmp_path / "store", FeatureStore.open(tmp_path / "store", model.network)):
        result = model.evaluate(source, "any", workers=0)
        figures.append(result.to_dict(per_class=True))
    assert figures[0] == figures[1] == figures[2]
    assert (figures[0]["images"], figures[0]["unreadable"], figures[0]["skipped_classes"]) == (21, 1, 1)


def test_photos_prepared_in_another_way_have_features_of_their_own(model, folder, tmp_path, monkeypatch):
    """The same weights with another transform: neither is refused for what the other left in the cache."""
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    network = tiny_network.build()
    network.transform = PhotoTransform(tiny_network.SIZE, resize=2 * tiny_network.SIZE)
    sharper = Model(model.bundle, network, device="cpu")
    for one in (model, sharper, model):
        one.evaluate(folder, "any", workers=0)
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 2


def test_command_line(model, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    bundle = replace(model.bundle, calibration=CalibrationRecord())
    bundle.save(tmp_path / "bundle")
    command = ["evaluate", str(tmp_path / "bundle"), "--photos", str(folder), "--candidates", "unseen", "--with-seen",
               "--photos-of", "both", "--workers", "0", "--trust-code"]  # fmt: skip
    done = run_command(*command, "--json")
    assert done.code == 0, done.err
    result = done.json
    assert set(result["image"]) == {"hit@1", "hit@2", "hit@5", "hit@10", "hit@20"}
    assert "per_class" not in result
    plain = run_command(*command, "--no-verdicts")
    assert plain.code == 0 and "verdicts" not in plain.out and "over classes" in plain.out
    by_class = run_command(*command, "--per-class").out
    assert all(f"│ {id} " in by_class for id in (*SEEN, "cat", "saw")) and "│ elsewhere " not in by_class


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_table_is_written(model, folder, tmp_path, monkeypatch, ending):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    model.bundle.save(tmp_path / "bundle")
    file = tmp_path / f"ranks.{ending}"
    options = ("--photos", folder, "--candidates", "any", "--workers", 0, "--trust-code", "--table", file)
    if ending == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
    done = run_command("evaluate", tmp_path / "bundle", *options, "--json")
    assert done.code == 0, done.err
    if ending == "parquet":
        rows = pq.read_table(file).to_pylist()
    else:
        with open(file, newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
    assert len(rows) == done.json["images"] == 21
    assert {row["photo"].split("/")[0] for row in rows} == {row["class"] for row in rows}
    hit = 100 * np.mean([int(row["greater"]) == 0 and int(row["equal"]) == 0 for row in rows])
    assert done.json["image"]["hit@1"] == pytest.approx(hit, abs=0.006)
    assert "label 1" in rows[0] and "verdict at 0.9" in rows[0]


def test_a_table_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch):
    with pytest.raises(UnseenError, match=r"\.csv or \.parquet"):
        check_table_path(tmp_path / "ranks.txt")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UnseenError, match="pip install pyarrow"):
        check_table_path(tmp_path / "ranks.parquet")


def test_other_figures_come_from_the_table(model, photos):
    result = model.evaluate(photos, "any")
    assert result.hits(ties="pessimistic")["image"] == model.evaluate(photos, "any", ties="pessimistic").image
    assert len(result.table) == result.images and len(result.table.photos) == result.images
