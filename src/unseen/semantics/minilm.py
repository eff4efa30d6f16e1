"""The sentence encoder all-MiniLM-L6-v2 in NumPy: the vectors of sentence-transformers without its seconds of imports.

A transformer of 6 layers, 12 heads and 384 dimensions; a sentence is the mean over its tokens, at unit length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

LAYERS, HEADS, WIDTH = 6, 12, 384
LONGEST = 256  # tokens that are read of a sentence
FEW = 1 << 16  # numbers of a layer: those of some 40 tokens
BATCH_TOKENS = 4096  # of a batch, padding included: larger ones are not faster, and take memory


class MiniLM:
    """The encoder whose weights and tokenizer lie in a folder.

    Args:
        folder: With `model.safetensors` and `tokenizer.json`.
    """

    def __init__(self, folder: Path):
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.no_padding()
        self._weights = load_file(folder / "model.safetensors")

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit rows, n x 384 float32."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        rows = np.empty((len(tokens), WIDTH), np.float32)
        for batch in _batches([len(ids) for ids in tokens]):
            rows[batch] = self._read([tokens[place] for place in batch])
        return rows

    def _read(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """The rows of a batch: b sentences of at most t tokens; x is b x t x 384."""
        longest = max(map(len, tokens))
        ids = np.array([[*sentence, *[0] * (longest - len(sentence))] for sentence in tokens])
        there = np.arange(longest) < np.array([[len(sentence)] for sentence in tokens])  # b x t: not padding
        kinds = ("word_embeddings", "position_embeddings", "token_type_embeddings")
        words, positions, types = (self._weights[f"embeddings.{kind}.weight"] for kind in kinds)
        x = self._normalise(words[ids] + positions[:longest] + types[0], "embeddings")
        unseen = np.where(there, 0, -np.inf).astype(np.float32)[:, None, None, :]
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}"
            x = self._normalise(x + self._attend(x, unseen, f"{layer}.attention"), f"{layer}.attention.output")
            inner = _gelu(self._linear(x, f"{layer}.intermediate.dense"))
            x = self._normalise(x + self._linear(inner, f"{layer}.output.dense"), f"{layer}.output")
        mean = (x * there[:, :, None]).sum(axis=1) / there.sum(axis=1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _attend(self, x: np.ndarray, unseen: np.ndarray, name: str) -> np.ndarray:
        """softmax(q k' / sqrt(32)) v for each head of 32 dimensions, and the layer that joins the heads."""

        def heads(part: str) -> np.ndarray:
            made = self._linear(x, f"{name}.self.{part}")
            return made.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)  # b x 12 x t x 32

        query, key, value = map(heads, ("query", "key", "value"))
        scores = query @ key.swapaxes(2, 3) / np.float32(np.sqrt(WIDTH // HEADS)) + unseen
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return self._linear((shares @ value).swapaxes(1, 2).reshape(x.shape), f"{name}.output.dense")

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        flat = x.reshape(-1, x.shape[-1])  # one product: NumPy would make one for each sentence
        return (flat @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]).reshape(*x.shape[:-1], -1)

    def _normalise(self, x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return x * self._weights[f"{name}.LayerNorm.weight"] + self._weights[f"{name}.LayerNorm.bias"]


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * (_erf(x * np.float32(np.sqrt(0.5))) + 1) / 2


def _erf(x: np.ndarray) -> np.ndarray:
    """The error function, float32. For a few names importing scipy would take longer than all else here."""
    if x.size <= FEW:
        return np.fromiter(map(math.erf, x.ravel().tolist()), np.float32, x.size).reshape(x.shape)
    from scipy.special import erf

    return erf(x)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Places of sentences, short ones first, so that those of a batch need little padding."""
    batches: list[list[int]] = [[]]
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[place] > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(place)
    return [batch for batch in batches if batch]
