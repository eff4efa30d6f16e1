"""A bundle on disk: what is saved is loaded, and damage is told."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from support.bundles import DOG, OKAPI, SEEN
from unseen.bundle import Bundle, files
from unseen.bundle.files import read_header, write_arrays
from unseen.errors import UnseenError
from unseen.methods.projections import Linear
from unseen.runtime.files import sha256
from unseen.runtime.seals import sealed
from unseen.taxonomy import Taxonomy


def change(path, name: str, **fields) -> None:
    """Edit a JSON file of a bundle, and the checksums with it."""
    file = path / name
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    header = json.loads((path / "bundle.json").read_text())
    header.pop("checksum", None)
    if name != "bundle.json":
        header["files"][name] = sha256(file)
    (path / "bundle.json").write_text(json.dumps(sealed(header)))


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


def test_no_changed_byte_of_the_header_goes_unnoticed(saved):
    """A changed byte there once turned a wolf into a truck. Every seventh byte is changed once."""
    file, rng = saved / "bundle.json", np.random.default_rng(0)
    content, before = file.read_bytes(), Bundle.load(saved).header()
    noticed = 0
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        try:
            header = read_header(saved)
        except UnseenError as error:
            assert "bundle.json" in str(error)
            noticed += 1
        else:
            assert {key: header[key] for key in before} == json.loads(json.dumps(before))  # white space at most
    assert noticed > 0.8 * len(content) / 7


def test_a_bundle_without_a_checksum_of_its_header_is_loaded(saved):
    """As 0.1.0 wrote them."""
    header = json.loads((saved / "bundle.json").read_text())
    assert len(header.pop("checksum")) == 64
    (saved / "bundle.json").write_text(json.dumps(header))
    assert Bundle.load(saved).seen_ids == list(SEEN)
    (saved / "bundle.json").write_text(json.dumps(header | {"checksun": "0" * 64}))
    with pytest.raises(UnseenError, match=r"bundle\.json was changed or damaged"):
        Bundle.load(saved)


def test_damage_that_no_checksum_tells_is_told_too(saved):
    """Old headers, and bundles that are loaded unverified: whatever is changed, no foreign error is raised."""
    rng = np.random.default_rng(0)
    for name in ("bundle.json", "classes.json", "classifiers.safetensors", "state.safetensors"):
        content = (saved / name).read_bytes()
        for place in [*range(0, 16), *rng.integers(0, min(len(content), 20_000), 60)]:
            changed = bytearray(content)
            changed[place % len(content)] = int(rng.integers(256))
            (saved / name).write_bytes(changed)
            with suppress(UnseenError):
                Bundle.load(saved, verify=False).header()
        (saved / name).write_bytes(content)
    (saved / "classes.json").write_text("[" * 200_000)
    with pytest.raises(UnseenError, match="is damaged"):
        Bundle.load(saved, verify=False)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_permission_is_not_told_as_damage(saved):
    (saved / "classes.json").chmod(0)
    with pytest.raises(UnseenError, match=r"classes\.json cannot be read: permission denied"):
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


def test_arrays_are_written_some_rows_at_a_time_as_their_library_writes_them(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    kinds = ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")
    arrays = {f"{kind} ä": (9 * random.standard_normal((7, 3))).astype(kind) for kind in kinds}
    arrays |= {"number": np.array(3.5), "none": np.empty((0, 4), np.float32), "turned": arrays["int32 ä"].T}
    monkeypatch.setattr(files, "BLOCK", 32)
    write_arrays(tmp_path / "ours", arrays)
    found = load_file(tmp_path / "ours")
    assert found.keys() == arrays.keys()
    for key, array in arrays.items():
        assert found[key].dtype == array.dtype and np.array_equal(found[key], array), key
    assert (tmp_path / "ours").stat().st_size == len(save({key: np.array(a, order="C") for key, a in arrays.items()}))
    write_arrays(tmp_path / "half", arrays, {"float32 ä": np.float16})
    assert np.array_equal(load_file(tmp_path / "half")["float32 ä"], arrays["float32 ä"].astype(np.float16))


def test_a_large_class_matrix_is_mapped_and_not_read(bundle, tmp_path, monkeypatch):
    half = bundle.solution.classifiers.astype(np.float16)
    half.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float16, "r", shape=half.shape)
    saved = replace(bundle, solution=replace(bundle.solution, classifiers=mapped)).save(tmp_path / "bundle")
    assert read_header(saved)["precision"] == "fp16"
    whole = Bundle.load(saved)
    assert whole.solution.classifiers.dtype == np.float32 and np.array_equal(whole.solution.classifiers, half)
    monkeypatch.setattr(files, "LARGE", (saved / "classifiers.safetensors").stat().st_size - 1)
    large = Bundle.load(saved)
    assert isinstance(large.solution.classifiers, np.memmap) and np.array_equal(large.solution.classifiers, half)
    assert np.array_equal(large.solution.trust, bundle.solution.trust)
    again = Bundle.load(large.save(tmp_path / "again"))
    assert np.array_equal(again.solution.classifiers, half)

    with open(saved / "classifiers.safetensors", "r+b") as file:  # the last byte of the last array
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(UnseenError, match="changed or damaged"):
        Bundle.load(saved)
    Bundle.load(saved, verify=False)
