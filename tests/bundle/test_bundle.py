"""What training leaves: saved whole or not at all, checked on load, and never mistaken for another's."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from support.bundles import DOG, OKAPI, SEEN, TABBY, small_backbone, small_bundle, small_taxonomy
from support.conditions import needs_proc
from unseen.bundle import Bundle
from unseen.bundle.places import check_place
from unseen.bundle.storage import store_bundle
from unseen.errors import UnseenError
from unseen.methods.projections import Linear
from unseen.runtime.files import sha256
from unseen.taxonomy import Taxonomy


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return small_bundle("kin")


@pytest.fixture(scope="module")
def kept(bundle, tmp_path_factory):
    """A saved bundle that no test may change."""
    return bundle.save(tmp_path_factory.mktemp("kept") / "bundle")


@pytest.fixture
def saved(kept, tmp_path):
    return shutil.copytree(kept, tmp_path / "bundle")


def change(path, name: str, **fields) -> None:
    """Edit a JSON file of a bundle, and the checksum with it."""
    file = path / name
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    if name != "bundle.json":
        header = json.loads((path / "bundle.json").read_text())
        header["files"][name] = sha256(file)
        (path / "bundle.json").write_text(json.dumps(header))


def test_what_is_saved_is_what_is_loaded(bundle, kept):
    again = Bundle.load(kept)
    assert again.ids == bundle.ids and again.seen_ids == list(SEEN)
    for name in ("classifiers", "trust"):
        assert np.array_equal(getattr(again.solution, name), getattr(bundle.solution, name))
    assert again.solution.answers is None
    assert again.solution.state.keys() == bundle.solution.state.keys()
    assert all(np.array_equal(again.solution.state[key], value) for key, value in bundle.solution.state.items())
    assert np.array_equal(again.known, bundle.known) and np.array_equal(again.vectors.matrix, bundle.vectors.matrix)
    assert again.header() == bundle.header()
    assert again.backbone == bundle.backbone and again.method == "kin" and again.log == bundle.log
    assert again.taxonomy.definition(OKAPI) == Taxonomy.wordnet().definition(OKAPI)
    assert again.vectors.coverage.zero == bundle.vectors.coverage.zero
    assert again.vectors.coverage.zero_by_part == bundle.vectors.coverage.zero_by_part


def test_a_bundle_of_every_part_survives(bundle, tmp_path):
    whole = replace(
        bundle,
        solution=replace(bundle.solution, answers=np.arange(len(bundle)) % 2 == 0),
        network={"a": np.ones((2, 3), np.float32)},
        added=[OKAPI],
        connecting=[DOG],
        log=[{"epoch": 1, "loss": 0.5}],
    )
    again = Bundle.load(whole.save(tmp_path / "whole"))
    assert np.array_equal(again.solution.answers, whole.solution.answers)
    assert np.array_equal(again.network["a"], whole.network["a"])
    assert (again.added, again.connecting, again.log) == ([OKAPI], [DOG], [{"epoch": 1, "loss": 0.5}])


def test_half_precision_halves_the_classifiers_and_stays_so(bundle, tmp_path):
    half = Bundle.load(bundle.save(tmp_path / "half", "fp16"))
    bundle.precision = "fp32"
    assert load_file(tmp_path / "half" / "classifiers.safetensors")["classifiers"].dtype == np.float16
    assert half.solution.classifiers.dtype == np.float32
    assert np.allclose(half.solution.classifiers, bundle.solution.classifiers, atol=1e-3)
    half.save(tmp_path / "again")
    assert load_file(tmp_path / "again" / "classifiers.safetensors")["classifiers"].dtype == np.float16
    with pytest.raises(UnseenError, match="fp32 or fp16, not 'int8'"):
        bundle.save(tmp_path / "no", "int8")
    bundle.precision = "fp32"


def test_what_overflows_in_half_precision_is_not_saved(bundle, tmp_path):
    large = replace(bundle, solution=replace(bundle.solution, classifiers=bundle.solution.classifiers * 1e6))
    with pytest.raises(UnseenError, match="not finite in fp16"):
        large.save(tmp_path / "large", "fp16")
    assert list(tmp_path.iterdir()) == []


def test_the_card_has_a_snippet_and_the_facts(kept):
    card = (kept / "README.md").read_text()
    assert 'unseen.load("path/to/this/folder")' in card and "| network | module/TinyNetwork, weights " in card
    assert "| hierarchy | imagenet, 43 nodes |" in card


def test_nothing_in_a_bundle_is_pickled(kept):
    assert {file.suffix for file in kept.iterdir()} == {".json", ".jsonl", ".safetensors", ".md"}


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["classes.json", "classifiers.safetensors", "state.safetensors", "log.jsonl"])
def test_a_changed_or_missing_file_is_refused(saved, name):
    with open(saved / name, "ab") as file:
        file.write(b" ")
    with pytest.raises(UnseenError, match=f"{name} was changed or damaged"):
        Bundle.load(saved)
    (saved / name).unlink()
    with pytest.raises(UnseenError, match=f"{name} is missing"):
        Bundle.load(saved)


def test_a_truncated_array_file_is_refused_even_unverified(saved):
    file = saved / "classifiers.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UnseenError, match="is damaged"):
        Bundle.load(saved, verify=False)


@pytest.mark.parametrize(
    ("file", "fields", "says"),
    [
        ("bundle.json", {"format": 99}, "newer version of unseen"),
        ("bundle.json", {"projection": {"kind": "none", "settings": {}}}, "unknown projection 'none'"),
        ("bundle.json", {"backbone": {"name": "tiny"}}, "is damaged"),
        ("bundle.json", {"files": {}}, "wrong: files: classes.json, files: classifiers.safetensors, "),
        ("bundle.json", {"files": ["classes.json"]}, r"is damaged \(missing or wrong: files\)"),
        ("bundle.json", {"details": None}, r"is damaged \(missing or wrong: details\)"),
        ("bundle.json", {"made": {}}, r"is damaged \(missing or wrong: made: at, made: packages\)"),
        ("classes.json", {"seen": ["n00000000"]}, "not in this hierarchy: n00000000"),
        ("classes.json", {"seen": list(SEEN[:2])}, "2 seen classes, but 6 known classifiers"),
        ("classes.json", {"added": ["n00000000"]}, "not in this hierarchy: n00000000"),
    ],
)
def test_a_wrong_field_is_told(saved, file, fields, says):
    change(saved, file, **fields)
    with pytest.raises(UnseenError, match=says):
        Bundle.load(saved)


@pytest.mark.parametrize("name", ["../outside", "README.md/..", "more.json"])
def test_a_file_that_no_bundle_has_is_told(saved, name):
    files = json.loads((saved / "bundle.json").read_text())["files"]
    change(saved, "bundle.json", files=files | {name: "0"})
    with pytest.raises(UnseenError, match=f"{name} is missing"):
        Bundle.load(saved)


@pytest.mark.parametrize("content", ["{", "[]", "null", '"format"', '{"format": "1"}', '{"format": 1}'])
def test_a_header_that_is_none_is_told(saved, content):
    (saved / "bundle.json").write_text(content)
    with pytest.raises(UnseenError, match=r"bundle.json is damaged"):
        Bundle.load(saved)


def test_a_folder_in_place_of_the_header_is_told(saved):
    (saved / "bundle.json").unlink()
    (saved / "bundle.json").mkdir()
    with pytest.raises(UnseenError, match=r"bundle.json is damaged \(.*Is a directory"):
        Bundle.load(saved)


def test_classifiers_that_fit_no_features_are_told(bundle, tmp_path):
    solution = bundle.solution
    narrow = replace(bundle, solution=replace(solution, classifiers=solution.classifiers[:, 1:]))
    with pytest.raises(UnseenError, match="the classifiers do not fit 8 features"):
        Bundle.load(narrow.save(tmp_path / "narrow"))
    linear = replace(solution, projection=Linear(np.ones((7, 9), np.float32)))
    with pytest.raises(UnseenError, match="the classifiers do not fit 8 features"):
        Bundle.load(replace(bundle, solution=linear).save(tmp_path / "linear"))
    with pytest.raises(UnseenError, match=r"8 features, but known classifiers of shape \(6, 8\)"):
        Bundle.load(replace(bundle, known=bundle.known[:, 1:]).save(tmp_path / "known"))
    with pytest.raises(UnseenError, match="the classifiers hold NaN or infinity"):
        Bundle.load(replace(bundle, known=bundle.known * np.nan).save(tmp_path / "nan"))


def test_wrong_rows_and_nan_are_told(bundle, tmp_path):
    solution = bundle.solution
    short = replace(bundle, solution=replace(solution, trust=solution.trust[:-1]))
    with pytest.raises(UnseenError, match="43 classes, but trust has 42 rows"):
        Bundle.load(short.save(tmp_path / "short"))
    broken = replace(bundle, solution=replace(solution, classifiers=solution.classifiers * np.nan))
    with pytest.raises(UnseenError, match="not finite"):
        broken.save(tmp_path / "broken")


def test_what_is_no_bundle_is_told(tmp_path):
    with pytest.raises(UnseenError, match=r"does not exist. `unseen train` makes one"):
        Bundle.load(tmp_path / "none")
    with pytest.raises(UnseenError, match=r"has no bundle\.json"):
        Bundle.load(tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    with pytest.raises(UnseenError, match="unfinished training: continue it with resume=True"):
        Bundle.load(tmp_path)


# -- where it is written -------------------------------------------------------------------------------------------


def test_saving_replaces_a_bundle_and_leaves_nothing_beside_it(bundle, tmp_path):
    bundle.save(tmp_path / "b")
    replace(bundle, seed=7).save(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 7
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


def test_another_bundle_is_replaced_only_when_asked_to(bundle, tmp_path):
    first, other = replace(bundle, path=None), replace(bundle, path=None, seed=7)
    first.save(tmp_path / "b")
    with pytest.raises(
        UnseenError, match="b is another bundle: choose another name, or replace it with overwrite=True"
    ):
        other.save(tmp_path / "b")
    with pytest.raises(UnseenError, match="is another bundle"):
        other.check_output(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 0
    other.save(tmp_path / "b", overwrite=True)
    assert Bundle.load(tmp_path / "b").seed == 7


def test_a_changed_bundle_replaces_the_one_it_was(bundle, tmp_path):
    saved = Bundle.load(replace(bundle, path=None).save(tmp_path / "b"))
    changed = saved.change(seed=5).change(seed=6)
    assert changed.path is None and changed.origin == tmp_path / "b"
    changed.save(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 6 and changed.path == tmp_path / "b"


def test_a_failed_save_keeps_the_old_bundle(bundle, tmp_path, monkeypatch):
    bundle.save(tmp_path / "b")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnseenError, match=r"cannot write to .*: No space left on device"):
        replace(bundle, seed=7).save(tmp_path / "b")
    monkeypatch.undo()
    assert Bundle.load(tmp_path / "b").seed == 0
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


def test_names_that_are_not_unicode_survive(bundle, tmp_path):
    record = replace(bundle.solution.record, extra={"unreadable": ["\udcff.png"]})
    odd = replace(bundle, solution=replace(bundle.solution, record=record))
    assert Bundle.load(odd.save(tmp_path / "b")).solution.record.extra["unreadable"] == ["\udcff.png"]


def test_a_save_stopped_between_its_two_moves_keeps_the_old_bundle(bundle, tmp_path, monkeypatch):
    bundle.save(tmp_path / "b")
    rename = os.rename

    def stop(source, target):
        if str(source).endswith(".saving"):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", stop)
    with pytest.raises(KeyboardInterrupt):
        replace(bundle, seed=7).save(tmp_path / "b")
    assert Bundle.load(tmp_path / "b").seed == 0
    assert [item.name for item in tmp_path.iterdir()] == ["b"]
    (tmp_path / "b").rename(tmp_path / ".b.123.old")  # as a process that was killed there leaves it
    with pytest.raises(UnseenError, match=r"killed while saving: rename .*\.b\.123\.old to it"):
        Bundle.load(tmp_path / "b")


@pytest.mark.parametrize("folder", ["b/retraining", "b"])
def test_only_a_training_replaces_an_interrupted_one(bundle, tmp_path, folder):
    if folder != "b":
        bundle.save(tmp_path / "b")
    checkpoint = tmp_path / folder / "checkpoint.safetensors"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes(b"")
    with pytest.raises(UnseenError, match=f"holds an interrupted training.* resume=True, or remove .*{folder}$"):
        bundle.save(tmp_path / "b")
    assert checkpoint.exists()
    store_bundle(bundle, tmp_path / "b", training=True)
    assert Bundle.load(tmp_path / "b") and not checkpoint.exists()


def test_nothing_but_a_bundle_is_overwritten(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UnseenError, match="is a file; a bundle is a folder"):
        check_place(tmp_path / "file")
    with pytest.raises(UnseenError, match="exists and is not a bundle: file would be lost"):
        check_place(tmp_path)
    (tmp_path / "empty").mkdir()
    check_place(tmp_path / "empty")
    check_place(tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("names", "foreign"),
    [
        (["log.jsonl"], None),
        (["checkpoint.safetensors", "log.jsonl", ".checkpoint.safetensors.123.tmp"], None),
        (["log.jsonl", "thesis.tex"], "thesis.tex"),
        (["log.jsonl", "README.md"], "README.md"),  # a bundle has one, a training does not
        (["log.jsonl/mine.txt"], "log.jsonl"),
        (["log.jsonl", ".thesis.tex.123.tmp"], ".thesis.tex.123.tmp"),
        (["bundle.json", "README.md", "network.safetensors", "retraining/log.jsonl"], None),
        (["bundle.json", "mine.pt"], "mine.pt"),
        (["bundle.json", "retraining/notes.txt"], "retraining/notes.txt"),
    ],
)
def test_a_folder_with_files_of_the_users_own_is_not_replaced(bundle, tmp_path, names, foreign):
    place = tmp_path / "b"
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x")
    if foreign is None:
        store_bundle(bundle, place, training=True)
        return
    for attempt in (check_place, bundle.save):
        with pytest.raises(UnseenError, match=f"{re.escape(foreign)} would be lost"):
            attempt(place)
    assert all((place / name).read_text() == "x" for name in names)


def test_the_current_folder_is_not_replaced(bundle, tmp_path, monkeypatch):
    """Whoever stands in it would stand nowhere."""
    (tmp_path / "b" / "retraining").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "b" / "retraining")
    for place in (".", "..", tmp_path / "b"):
        with pytest.raises(UnseenError, match="is the current folder or one around it: name a new folder"):
            bundle.save(place)


def test_a_link_to_a_bundle_stays_a_link(bundle, tmp_path):
    bundle.save(tmp_path / "disk" / "b")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "b")
    replace(bundle, seed=7).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and Bundle.load(tmp_path / "disk" / "b").seed == 7


@needs_proc
def test_a_place_that_cannot_be_written_is_told_first():
    with pytest.raises(UnseenError, match="cannot write to /proc"):
        check_place(Path("/proc/bundle"))


def test_settings_of_another_version_are_told(bundle):
    with pytest.raises(UnseenError, match="this bundle was made by another version of kin: kin has no setting 'old'"):
        replace(bundle, settings={"old": 1}, path=None).make_method()


# -- the network ---------------------------------------------------------------------------------------------------


def test_another_network_is_refused(bundle):
    bundle.check_backbone(small_backbone())
    with pytest.raises(UnseenError, match="made for other weights of module/TinyNetwork"):
        bundle.check_backbone(small_backbone(seed=1))
    with pytest.raises(UnseenError, match="disagree on the seen classes or their order"):
        bundle.check_backbone(small_backbone(SEEN[::-1]))


# -- what a photo may be called ------------------------------------------------------------------------------------


def test_nodes_outside_imagenet_only_connect(bundle):
    classes = {i for i, is_class in zip(bundle.ids, bundle.is_class, strict=True) if is_class}
    assert "n00001740" in bundle.taxonomy and "n00001740" not in classes  # entity
    assert {*SEEN, OKAPI, DOG} <= classes


def test_what_the_user_named_is_a_class(bundle):
    entity = bundle.taxonomy.index("n00001740")
    assert replace(bundle, added=["n00001740"]).is_class[entity]
    taxonomy = small_taxonomy()
    taxonomy.source = {"kind": "imagenet", "named": ["n00001740", "n99999999"]}
    assert replace(bundle, taxonomy=taxonomy).is_class[entity]


def test_all_of_an_own_hierarchy_are_classes(bundle):
    taxonomy = small_taxonomy()
    taxonomy.source = {"kind": "csv"}
    own = replace(bundle, taxonomy=taxonomy)
    assert own.is_class.all()
    own = replace(own, connecting=[DOG, TABBY])
    assert not own.is_class[taxonomy.index(DOG)]
    assert own.is_class[taxonomy.index(TABBY)]  # it is seen
