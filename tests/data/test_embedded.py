"""The embedded files are what the manifest says."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from unseen import data as assets
from unseen.util.errors import UnseenError
from unseen.util.files import sha256

ROOT = Path(__file__).resolve().parents[2]


def test_every_embedded_file_matches_the_manifest():
    entries = {entry["file"]: entry for entry in assets.manifest()}
    folder = assets.data_file("MANIFEST.json").parent
    assert set(entries) == {path.name for path in folder.iterdir() if path.is_file() and path.suffix != ".py"} - {
        "MANIFEST.json"
    }
    for name, entry in entries.items():
        path = assets.data_file(name)
        assert (sha256(path), path.stat().st_size) == (entry["sha256"], entry["bytes"]), name
        assert all(entry[key] for key in ("what", "source", "version", "licence", "made_by"))
        assert (ROOT / entry["made_by"]).is_file()


def test_wordnet_nouns():
    with np.load(assets.data_file("wordnet-nouns.npz"), allow_pickle=False) as nouns:
        offset, pointer, parents = nouns["offset"], nouns["parent_ptr"], nouns["parent_idx"]
        lemmas = nouns["lemmas"].tobytes().decode().split("\n")
    assert len(offset) == len(lemmas) == len(pointer) - 1 == 82_115
    assert {array.dtype for array in (offset, pointer, parents)} == {np.dtype(np.int32)}
    assert (np.diff(offset) > 0).all() and pointer[-1] == len(parents)
    dog = np.searchsorted(offset, 2084071)
    assert lemmas[dog] == "dog|domestic dog|Canis familiaris"
    assert [lemmas[row].split("|")[0] for row in parents[pointer[dog] : pointer[dog + 1]]] == [
        "canine",
        "domestic animal",
    ]
    with lzma.open(assets.data_file("wordnet-glosses.txt.xz"), "rt", encoding="utf-8") as file:
        definitions = file.read().splitlines()
    assert len(definitions) == 82_115 and all(definitions)
    assert definitions[dog].startswith("a member of the genus Canis") and '"' not in definitions[dog]


def test_wordnet_instances_are_not_edges():
    with np.load(assets.data_file("wordnet-nouns.npz"), allow_pickle=False) as nouns:
        row = nouns["lemmas"].tobytes().decode().split("\n").index("Einstein|Albert Einstein")
        assert nouns["parent_ptr"][row] == nouns["parent_ptr"][row + 1]


def test_glove():
    with np.load(assets.data_file("glove-6b-100d.npz"), allow_pickle=False) as glove:
        words, vectors = glove["words"].tobytes().decode().split("\n"), glove["vectors"]
    assert vectors.shape == (len(words), 100) == (47_364, 100) and vectors.dtype == np.float16
    assert len(set(words)) == len(words) and np.isfinite(vectors).all() and vectors.any(axis=1).all()
    unit = vectors.astype(np.float32) / np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
    cat, dog, bank = (unit[words.index(word)] for word in ("cat", "dog", "bank"))
    assert cat @ dog > 0.8 > 0.5 > cat @ bank


def test_commonness():
    with np.load(assets.data_file("commonness.npz"), allow_pickle=False) as file:
        common = file["nouns"]
    assert common.shape == (82_115,) and np.isfinite(common).all()
    with np.load(assets.data_file("wordnet-nouns.npz"), allow_pickle=False) as nouns:
        dog, okapi, frank = np.searchsorted(nouns["offset"], [2084071, 2439398, 7676602])
    assert common[dog] > 3 > 2 > common[okapi] and common[frank] < common[dog]


def test_class_lists(authors_lists):
    small, large = assets.imagenet_1k(), assets.imagenet_21k()
    assert (len(small), len(large)) == (1_000, 21_842) and set(small) < set(large)
    assert list(small) == sorted(small) and list(large) == sorted(large)
    split = json.loads((authors_lists / "imagenet-split.json").read_text())
    assert set(split["train"]) == set(small) and set(split["train"]) | set(split["test"]) == set(large)


def test_unknown_embedded_file():
    with pytest.raises(UnseenError, match=r"no-such-file\.npz: the embedded file is missing"):
        assets.data_file("no-such-file.npz")


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path, monkeypatch) -> Path:
    """A copy of the embedded files, in their place."""
    folder = Path(shutil.copytree(assets.data_file("MANIFEST.json").parent, tmp_path / "data"))
    monkeypatch.setattr(assets, "FOLDER", folder)
    return folder


@pytest.mark.parametrize("name", [entry["file"] for entry in assets.manifest()])
def test_one_changed_bit_is_reported_with_the_name_of_the_file(copied, name):
    path = copied / name
    assert assets.data_file(name) == path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(0, 0))  # even where the file system's clock is coarse, it has changed
    with pytest.raises(UnseenError, match=rf"{name}: is damaged .*Install unseen again\."):
        assets.data_file(name)
    assert assets.data_file(name, verify=False) == path


@pytest.mark.parametrize("content", ["", "[", "{}7"])
def test_a_damaged_manifest_is_reported(copied, content):
    (copied / "MANIFEST.json").write_text(content)
    with pytest.raises(UnseenError, match=r"MANIFEST\.json: is damaged"):
        assets.data_file("imagenet-1k.txt")
