"""Encode what every class of the glossary looks like with all-MiniLM-L6-v2; reduce; quantise: looks-minilm.npz.

Needs the extra `text`. The encoding takes about seven minutes on one core.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

import common
from build_text import reduce
from unseen.vectors.text_encoder import encode_sentences

DIMENSIONS = 192  # docs/data.md has the measurement behind this choice


def read_glossary(folder: Path) -> tuple[list[str], list[str]]:
    """Ids and looks, in the order of looks.tsv."""
    lines = (folder / "looks.tsv").read_text(encoding="utf-8").splitlines()
    ids, looks = zip(*(line.split("\t") for line in lines), strict=True)
    return list(ids), list(looks)


def all_encodings(looks: list[str], inputs: Path) -> np.ndarray:
    """Unit rows, n x 384. Kept among the inputs by each look's checksum: only what is new is encoded."""
    keys = [hashlib.sha256(look.encode()).hexdigest() for look in looks]
    cached = inputs / "minilm-looks.npz"
    known: dict[str, np.ndarray] = {}
    if cached.exists():
        with np.load(cached, allow_pickle=False) as kept:
            known = dict(zip(kept["keys"].tolist(), kept["encodings"], strict=True))
    new = [place for place, key in enumerate(keys) if key not in known]
    if new:
        known |= zip([keys[place] for place in new], encode_sentences([looks[place] for place in new]), strict=True)
        inputs.mkdir(parents=True, exist_ok=True)
        np.savez(cached, keys=np.array(keys), encodings=np.stack([known[key] for key in keys]))
    return np.stack([known[key] for key in keys])


def main() -> None:
    options = common.arguments(__doc__).parse_args()
    ids, looks = read_glossary(options.out)
    reduced = reduce(all_encodings(looks, options.inputs), np.arange(len(ids)), DIMENSIONS)
    path = options.out / "looks-minilm.npz"
    arrays = {"codes": reduced.codes, "scale": reduced.scale, "components": reduced.components}
    common.save_npz(path, arrays | {"number": np.array([int(id[1:]) for id in ids], np.int32)})
    what = f"all-MiniLM-L6-v2 encodings of looks.tsv, {DIMENSIONS} dimensions, 8 bits"
    common.record(path, what, common.MINILM, "Apache-2.0 (model), MIT (package, looks)", "tools/build_looks.py")


if __name__ == "__main__":
    main()
