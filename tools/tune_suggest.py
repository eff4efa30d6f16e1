"""Choose weights of `unseen.naming.placing`: on the development half of benchmarks/everyday-names.csv, in lists and
alone, and on nouns of WordNet, each hidden in turn with some of its neighbours.

Maximises the mean log of the probability that falls near the true parent (1 for the parent itself, 0.8 one step away,
0.5 two steps), with a penalty for large weights. Prints the weights, and what sixfold cross-validation makes of them.
Takes about four minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import suggest as benchmark
from unseen.data import imagenet_21k
from unseen.hierarchy.core import Hierarchy
from unseen.naming.meaning import HeadNoun, find_head_noun
from unseen.naming.placing import KINDS, WEIGHTS, Places, make_atlas

REWARD = np.array([1, 0.8, 0.5])  # by steps from the true parent
PENALTY = 0.03
SHARES = {"lists": 1.0, "alone": 0.1, "hidden": 0.3}  # what each set of examples counts
FOLDS, REPEATS = 6, 2
HIDDEN, LIST, STRETCH = 800, 8, 48  # nouns to hide; names of a list, drawn from a stretch of neighbouring ones
KEPT = {"artifact": 0.3, "food": 0.3, "animal": 0.075, "plant": 0.03, "person": 0.01}  # share of nouns by kind

Example = tuple[Places, np.ndarray]  # and the steps of each place from the true parent


def reward(hops: np.ndarray) -> np.ndarray:
    return np.where((hops >= 0) & (hops < len(REWARD)), REWARD[np.clip(hops, 0, len(REWARD) - 1)], 0)


def fit(sets: dict[str, list[Example]]) -> np.ndarray:
    spread = np.concatenate([places.facts for examples in sets.values() for places, _ in examples]).std(axis=0) + 1e-9
    scaled = [
        (places.facts / spread, reward(hops), SHARES[name] / len(examples))
        for name, examples in sets.items()
        for places, hops in examples
    ]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = 0.0, np.zeros_like(weights)
        for facts, good, share in scaled:
            score = facts @ weights
            p = np.exp(score - score.max())
            p /= p.sum()
            near = p @ good
            value -= share * np.log(near + 1e-2)
            slope -= share * facts.T @ (p * (good - near)) / (near + 1e-2)
        return value + PENALTY * weights @ weights, slope + 2 * PENALTY * weights

    return minimize(loss, np.zeros(len(WEIGHTS)), jac=True, method="L-BFGS-B").x / spread


def right(examples: list[Example], weights: np.ndarray) -> np.ndarray:
    """How many have a right first place, and how many a right one of three."""
    found = [[0 <= hops[at] <= benchmark.STEPS for at, _ in places.best(3, weights)] for places, hops in examples]
    return np.array([sum(each[0] for each in found), sum(map(any, found))])


def everyday(wordnet: Hierarchy) -> dict[str, list[Example]]:
    names = benchmark.read_half("develop")
    heads = {name.name: find_head_noun(name.name, wordnet) for name in names}
    lists = benchmark.lists_of(names)
    named = [[(name.name, heads[name.name], name.parents) for name in group] for group in lists]
    alone = [[each] for group in named for each in group]
    return {"lists": examples(named, wordnet), "alone": examples(alone, wordnet)}


def hidden(wordnet: Hierarchy) -> list[Example]:
    """Nouns without children whose first name, once they are gone, is no longer in WordNet."""
    rng = np.random.default_rng(0)
    graph = wordnet.subgraph(imagenet_21k())
    kinds = {kind: {id for top in tops for id in graph.descendants(top)} for kind, tops in KINDS.items()}
    chance = {id: max((KEPT[kind] for kind in KINDS if id in kinds[kind]), default=0.03) for id in graph.leaves}
    gone = [id for id, share in chance.items() if rng.random() < share]
    rest = wordnet.without(gone)
    named = [(wordnet.name(id), find_head_noun(wordnet.name(id), rest), tuple(wordnet.parents(id)), id) for id in gone]
    named = [each for each in named if not each[1].is_name]
    named = [named[at] for at in rng.permutation(len(named))[:HIDDEN]]
    named.sort(key=lambda each: wordnet.path_to_root(each[3])[::-1])  # neighbours
    lists = []
    for start in range(0, len(named), STRETCH):
        stretch = [named[start + at][:3] for at in rng.permutation(len(named[start : start + STRETCH]))]
        lists += [stretch[at : at + LIST] for at in range(0, len(stretch), LIST)]
    return examples(lists, rest)


def examples(lists: list[list[tuple[str, HeadNoun, tuple[str, ...]]]], wordnet: Hierarchy) -> list[Example]:
    atlas = make_atlas(wordnet, [head for group in lists for _, head, _ in group])
    found = []
    for group in lists:
        names, heads, parents = zip(*group, strict=True)
        for places, above in zip(atlas.places(names, heads), parents, strict=True):
            hops = wordnet.hops_from([id for id in above if id in wordnet])
            found.append((places, hops[wordnet.indices([atlas.graph.ids[row] for row in places.rows])]))
    return found


def main() -> None:
    wordnet = Hierarchy.wordnet()
    known, nouns = everyday(wordnet), hidden(wordnet)
    count = len(known["lists"])
    hits = {name: np.zeros(2) for name in known}
    for repeat in range(REPEATS):
        for held in np.array_split(np.random.default_rng(repeat).permutation(count), FOLDS):
            others = sorted(set(range(count)) - set(held.tolist()))
            weights = fit({name: [every[at] for at in others] for name, every in known.items()} | {"hidden": nouns})
            for name, every in known.items():
                hits[name] += right([every[at] for at in held], weights)
    for name, weight in zip(WEIGHTS, fit(known | {"hidden": nouns}), strict=True):
        print(f"{name:12} {weight:.2f}")
    print("right in cross-validation, the first place and one of three:")
    for name, found in hits.items():
        print(f"  {name}: {' and '.join(f'{100 * each / count / REPEATS:.1f} %' for each in found)} of {count} names")
    weights = fit(known | {"hidden": nouns[::2]})
    apart = " and ".join(f"{100 * each / len(nouns[1::2]):.1f} %" for each in right(nouns[1::2], weights))
    print(f"  hidden nouns: {apart} of {len(nouns[1::2])}")


if __name__ == "__main__":
    main()
