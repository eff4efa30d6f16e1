"""Choose the weights of `unseen.advice.places` on the development half of benchmarks/everyday-names.csv.

Maximises the mean log of the probability that falls near the true parent (1 for the parent itself, 0.8 one step away,
0.5 two steps), with a penalty for large weights. Prints the weights, and what sixfold cross-validation makes of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import suggest as benchmark
from unseen.advice.head_nouns import find_head
from unseen.advice.places import WEIGHTS, Places, make_atlas
from unseen.taxonomy import Taxonomy

REWARD = np.array([1, 0.8, 0.5])  # by steps from the true parent
PENALTY = 0.03
FOLDS, REPEATS = 6, 3


def reward(hops: np.ndarray) -> np.ndarray:
    return np.where((hops >= 0) & (hops < len(REWARD)), REWARD[np.clip(hops, 0, len(REWARD) - 1)], 0)


def fit(examples: list[tuple[Places, np.ndarray]]) -> np.ndarray:
    spread = np.concatenate([places.facts for places, _ in examples]).std(axis=0) + 1e-9
    scaled = [(places.facts / spread, reward(hops)) for places, hops in examples]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = 0.0, np.zeros_like(weights)
        for facts, good in scaled:
            score = facts @ weights
            p = np.exp(score - score.max())
            p /= p.sum()
            near = p @ good
            value -= np.log(near + 1e-3)
            slope -= facts.T @ (p * (good - near)) / (near + 1e-3)
        return value / len(scaled) + PENALTY * weights @ weights, slope / len(scaled) + 2 * PENALTY * weights

    return minimize(loss, np.zeros(len(WEIGHTS)), jac=True, method="L-BFGS-B").x / spread


def right(examples: list[tuple[Places, np.ndarray]], weights: np.ndarray) -> int:
    chosen = [hops[np.argmax(places.probabilities(weights))] for places, hops in examples]
    return sum(0 <= hops <= benchmark.STEPS for hops in chosen)


def main() -> None:
    names = benchmark.read_half("develop")
    wordnet = Taxonomy.wordnet()
    heads = {name.name: find_head(name.name, wordnet) for name in names}
    atlas = make_atlas(wordnet, list(heads.values()))
    examples = []
    for group in benchmark.lists_of(names):
        found = atlas.places([name.name for name in group], [heads[name.name] for name in group])
        for name, places in zip(group, found, strict=True):
            hops = wordnet.hops_from(name.parents)
            examples.append((places, hops[wordnet.indices([atlas.graph.ids[row] for row in places.rows])]))
    hits = 0
    for repeat in range(REPEATS):
        order = np.random.default_rng(repeat).permutation(len(examples))
        for held in np.array_split(order, FOLDS):
            weights = fit([examples[i] for i in order if i not in set(held.tolist())])
            hits += right([examples[i] for i in held], weights)
    weights = fit(examples)
    for name, weight in zip(WEIGHTS, weights, strict=True):
        print(f"{name:12} {weight:.2f}")
    print(f"right: {100 * right(examples, weights) / len(examples):.1f} % of {len(examples)} names, ", end="")
    print(f"{100 * hits / len(examples) / REPEATS:.1f} % in cross-validation")


if __name__ == "__main__":
    main()
