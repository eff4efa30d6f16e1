"""Compile WordNet 3.0's nouns (data.noun) into wordnet-nouns.npz and wordnet-glosses.txt.xz."""

from __future__ import annotations

import lzma
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import common


@dataclass(frozen=True)
class Synset:
    offset: int
    lemmas: list[str]
    hypernyms: list[int]  # offsets; '@' pointers only: '@i' (instance of) is not an edge of the class graph
    definition: str


def parse_synset(line: str) -> Synset:
    """One line of data.noun (man 5 wndb): offset file type count {lemma id} count {pointer offset pos st} | gloss."""
    data, gloss = line.split(" | ", 1)
    fields = data.split(" ")
    words = int(fields[3], 16)
    lemmas = [fields[4 + 2 * i].replace("_", " ") for i in range(words)]
    first = 4 + 2 * words + 1
    pointers = [fields[i : i + 4] for i in range(first, first + 4 * int(fields[first - 1]), 4)]
    hypernyms = [int(offset) for symbol, offset, part, _ in pointers if symbol == "@" and part == "n"]
    return Synset(int(fields[0]), lemmas, hypernyms, gloss.split('; "')[0].strip())


def parse_nouns(text: str) -> list[Synset]:
    """All synsets by offset. Lines that begin with a blank are the licence."""
    synsets = [parse_synset(line) for line in text.splitlines() if not line.startswith(" ")]
    return sorted(synsets, key=lambda synset: synset.offset)


def compile_nouns(synsets: list[Synset]) -> dict[str, np.ndarray]:
    """Ids, hypernyms as compressed rows (child -> row numbers of its parents, WordNet's order) and lemmas."""
    row = {synset.offset: i for i, synset in enumerate(synsets)}
    counts = [len(synset.hypernyms) for synset in synsets]
    return {
        "offset": np.array(list(row), np.int32),
        "parent_ptr": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "parent_idx": np.array([row[parent] for synset in synsets for parent in synset.hypernyms], np.int32),
        "lemmas": common.text_array(["|".join(synset.lemmas) for synset in synsets]),
    }


def build(data_noun: str, out: Path) -> list[Path]:
    """Write both files; return their paths."""
    synsets = parse_nouns(data_noun)
    nouns, glosses = out / "wordnet-nouns.npz", out / "wordnet-glosses.txt.xz"
    common.save_npz(nouns, compile_nouns(synsets))
    definitions = "".join(f"{synset.definition}\n" for synset in synsets)
    glosses.write_bytes(lzma.compress(definitions.encode(), preset=9))
    return [nouns, glosses]


def main() -> None:
    options = common.arguments(__doc__).parse_args()
    with tarfile.open(common.WORDNET.find(options.inputs)) as archive:
        data_noun = archive.extractfile("package/dict/data.noun").read().decode("ascii")
    nouns, glosses = build(data_noun, options.out)
    made_by = "tools/build_wordnet.py"
    common.record(nouns, "WordNet 3.0 nouns: ids, hypernyms, lemmas", common.WORDNET, "WordNet 3.0", made_by)
    common.record(glosses, "WordNet 3.0 nouns: definitions", common.WORDNET, "WordNet 3.0", made_by)


if __name__ == "__main__":
    main()
