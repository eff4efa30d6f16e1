"""Which figure on seen classes predicts accuracy of unseen ones, and the constants of kin that follow from it.

    python benchmarks/criterion.py study  --stores DIR [--out FILE]   how well each criterion predicts accuracy
    python benchmarks/criterion.py choose --stores DIR [--out FILE]   constants for all networks, and with each left out
    python benchmarks/criterion.py sources --stores DIR [--out FILE]  which class vectors, with kin's constants
    python benchmarks/criterion.py report --stores DIR                kin as it is, on classes not used in development

`study`: many variants of kin, each fitted to each network, are measured by several criteria on seen classes and by
Hit@1 on photos of unseen classes; a criterion is as good as its correlation with the latter over the variants.
DIR/NETWORK holds the feature stores `seen-train`, `seen-val` (photos of seen classes) and `unseen` (of unseen ones),
made by `unseen features`. Of the classes of `unseen`, in the order of their ids, every second one is used by
`study`, the others by `report` alone. The hierarchy is the paper's, whose lists the candidates come from. Some seconds
a variant and network.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr

from kin_bench import BOTH, LISTS, NETWORKS, SOURCES, Bench
from unseen._util.run import Run
from unseen.answers.candidates import paper_list
from unseen.features import FeatureStore
from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import Problem
from unseen.methods.kin import Kin, KinSettings
from unseen.methods.kin.kin import LOSS
from unseen.methods.projections import Append1
from unseen.networks.loading import load_network
from unseen.vectors.class_vectors import class_vectors, load_vectors

LOOKED_AT, REPORTED = 0, 1  # which of every two classes of photos
HALVES, UPWARD = "halves", "up 3-hops reciprocal rank"
HOPS = {"descendants": [0.25, 0.32, 0.2, 0.22, 0.01], "ancestors": [0.8, 0.06, 0.05, 0.04, 0.05]}
START = KinSettings(  # what variants are variants of: constants learned on hidden halves, for one network
    width=1.0,
    ridge=0.05,
    word_width=3.5,
    propagated_width=2.5,
    word_weight=0.2,
    ancestor_weight=0.1,
    decay=0.8,
    descendants=[0.36, 0.27, 0.17, 0.19, 0.01],
    ancestors=[0.69, 0.09, 0.08, 0.06, 0.08],
)


def variants() -> dict[str, tuple[tuple[str, ...], dict]]:
    """name -> sources of vectors, settings: one thing changed at a time, then many at random."""
    found: dict[str, tuple[tuple[str, ...], dict]] = {
        "as it was": (BOTH, {}),
        "glove only": (("glove",), {}),
        "text only": (("text",), {}),
        "no word kernel": (BOTH, {"word_weight": 0.0}),
        "no propagated kernel": (BOTH, {"propagated_weight": 0.0, "word_weight": 1.0}),
        "no ancestor kernel": (BOTH, {"ancestor_weight": 0.0}),
        "ancestors 1": (BOTH, {"ancestor_weight": 1.0}),
        "hops flat": (BOTH, {"descendants": [0.2] * 5, "ancestors": [0.2] * 5}),
        "no descendants": (BOTH, {"descendants": [1.0, 0, 0, 0, 0]}),
        "upward at any price": (BOTH, {"ancestor_weight": 6.4, "decay": 0.6, "propagated_width": 1.4} | HOPS),
    }
    for name, values in {"caution": (0.0, 0.3, 3.0), "ridge": (0.01, 0.2, 0.6), "width": (0.5, 2.0, 4.0)}.items():
        found |= {f"{name} {value}": (BOTH, {name: value}) for value in values}
    random = np.random.default_rng(7)
    for i in range(12):
        factor = np.exp(random.uniform(-1, 1, 7))
        settings = {
            "word_width": START.word_width * factor[0],
            "propagated_width": START.propagated_width * factor[1],
            "word_weight": START.word_weight * factor[2] ** 1.5,
            "ancestor_weight": START.ancestor_weight * factor[3] ** 1.5,
            "ridge": 0.1 * factor[4] ** 1.5,
            "caution": START.caution * factor[5] ** 1.5,
            "decay": float(random.uniform(0.3, 0.9)),
        }
        found[f"random {i}"] = ((BOTH, BOTH, ("text",), ("glove",))[i % 4], settings)
    return found


CRITERIA = {
    "hidden halves: own classifiers among the hidden": {"halves": 1.0},
    "hidden classes' photos among hidden and 2-hops": {"hidden among hidden and 2-hops hit@1": 1.0},
    "up: seen photos among unseen classes, right is a parent": {"up 3-hops hit@1": 1.0},
    "own-up: the same with a seen class's own classifier": {"own-up 3-hops reciprocal rank": 1.0},
    "own-up and hidden halves, 4 : 1": {"own-up 3-hops reciprocal rank": 0.8, "halves": 0.2},
}


def correlations(found: dict[str, dict[str, dict[str, float]]], networks: list[str]) -> str:
    """A table: each criterion's correlation with Hit@1 of photos of unseen classes, Pearson's and Spearman's."""
    lines = [f"| criterion | {' | '.join(LISTS)} |", "|:--|" + "--:|" * len(LISTS)]
    for name, weights in CRITERIA.items():
        cells = []
        for key in LISTS:
            pairs = []
            for network in networks:
                of = {f: np.array([found[v][network][f] for v in found]) for f in (*weights, f"unseen {key} hit@1")}
                value = sum(weight * of[f] / of[f].std() for f, weight in weights.items())
                photos = of[f"unseen {key} hit@1"]
                pairs.append((pearsonr(value, photos)[0], spearmanr(value, photos)[0]))
            cells.append("{:.2f} ({:.2f})".format(*np.mean(pairs, axis=0)))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measured(bench: Bench, tried: dict[str, tuple], out: Path | None) -> dict:
    """Figures by variant and network, kept in `out` as they come."""
    found = json.loads(out.read_text()) if out and out.exists() else {}
    for name, (sources, changed) in tried.items():
        if name not in found:
            found[name] = bench.measure(sources, replace(START, **changed))
            if out:
                out.write_text(json.dumps(found))
            print(name, flush=True)
    return {name: found[name] for name in tried}


def study(bench: Bench, networks: list[str], out: Path | None) -> None:
    found = measured(bench, variants(), out)
    print(f"\n{len(found)} variants, {len(networks)} networks; the mean of their correlations: Pearson (Spearman)\n")
    print(correlations(found, networks))
    for network in networks:
        print(f"\n{network}\n\n{correlations(found, [network])}")


def candidates() -> dict[str, tuple[tuple[str, ...], dict]]:
    """What `choose` chooses from."""
    found: dict[str, tuple[tuple[str, ...], dict]] = {"as it was": (BOTH, {"ridge": 0.1})}
    for weight in (0.1, 0.2, 0.4, 0.8, 1.6):
        for decay in (0.8, 0.6, 0.4):
            settings = {"word_weight": 0.1, "word_width": 5.0, "ridge": 0.1, "ancestor_weight": weight, "decay": decay}
            found[f"ancestors {weight}, decay {decay}"] = BOTH, settings | HOPS
    return found


def choose(bench: Bench, networks: list[str], out: Path | None) -> None:
    """Most upward, as long as hidden halves lose no more than LOSS: to gain on the one at the cost of the other gains
    nothing on photos."""
    found = measured(bench, candidates(), out)

    def best(networks: list[str]) -> str:
        mean = {v: {f: np.mean([of[n][f] for n in networks]) for f in (HALVES, UPWARD)} for v, of in found.items()}
        kept = [v for v in mean if mean[v][HALVES] >= mean["as it was"][HALVES] - 100 * LOSS]
        return max(kept, key=lambda v: mean[v][UPWARD])

    print(f"| constants | {' | '.join(f'{n}: halves, up' for n in networks)} |\n|:--|" + "--:|" * len(networks))
    for name, of in found.items():
        cells = [f"{of[n][HALVES]:.1f}, {of[n][UPWARD]:.1f}" for n in networks]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\nChosen for all: {best(networks)}")
    for left_out in networks if len(networks) > 1 else []:
        print(f"without {left_out}: {best([n for n in networks if n != left_out])}")


def sources(bench: Bench, networks: list[str], out: Path | None) -> None:
    """Every choice of sources by the criteria, the mean over the networks; photos of unseen classes to compare with."""
    sets = [chosen for count in (1, 2, 3) for chosen in combinations(SOURCES, count)]
    settings = candidates()["ancestors 0.8, decay 0.4"][1]  # what was chosen
    found = measured(bench, {"+".join(chosen): (chosen, settings) for chosen in sets}, out)
    shown = {HALVES: HALVES, "own-up": "own-up 3-hops reciprocal rank", "up": UPWARD}
    shown |= {f"photos, {key}": f"unseen {key} hit@1" for key in LISTS}
    print(f"| sources | {' | '.join(shown)} |\n|:--|" + "--:|" * len(shown))
    for name, of in found.items():
        cells = [f"{np.mean([of[n][figure] for n in networks]):.1f}" for figure in shown.values()]
        print(f"| {name} | {' | '.join(cells)} |")


def report(stores: Path, networks: list[str], part: int, vectors_name: str) -> None:
    """kin with its defaults, and with the constants that it had: class-averaged Hit@1, and with the seen classes."""
    hierarchy = Hierarchy.paper()
    vectors = class_vectors(hierarchy, load_vectors(vectors_name))
    lists = {name: hierarchy.indices(paper_list(name)) for name in LISTS}
    print(f"| network | kin | {' | '.join(LISTS)} | seen | seen, 2-hops+1K | unseen, 2-hops+1K | AUSUC |")
    print("|:--|:--|" + "--:|" * 7)
    for name in networks:
        network = load_network(name)
        problem = Problem(hierarchy, vectors, hierarchy.indices(network.class_ids), network.classifiers())
        store = FeatureStore.open(stores / name / "unseen", network)
        half = [id for id in sorted(store.classes())[part::2] if id in hierarchy]
        unseen, unseen_rows = read_all(store, hierarchy, half)
        seen, seen_rows = read_all(FeatureStore.open(stores / name / "seen-val", network), hierarchy, network.class_ids)
        alone = problem.seen[(seen @ network.classifiers().T).argmax(axis=1)] == seen_rows
        before = replace(START, sources=[1.0] * len(vectors.names))
        for label, settings in (("kin", KinSettings()), ("as it was", before)):
            solution = Kin(settings).fit(problem, Run())
            cells = []
            for rows in lists.values():
                kept = np.isin(unseen_rows, rows)
                answers = rows[(unseen[kept] @ solution.classifiers[rows].T).argmax(axis=1)]
                cells.append(class_mean(answers == unseen_rows[kept], unseen_rows[kept]))
            kept = np.isin(unseen_rows, lists["2-hops"])
            photos = (seen, seen_rows), (unseen[kept], unseen_rows[kept])
            cells += [
                class_mean(alone, seen_rows),
                *both_kinds(solution.classifiers, problem.seen, lists["2-hops"], *photos),
            ]
            told = " | ".join(f"{cell:.1f}" for cell in cells[:-1]) + f" | {cells[-1]:.3f}"
            print(f"| {name} | {label} | {told} |", flush=True)
            print(name, label, solution.record.chosen, file=sys.stderr)


def read_all(store: FeatureStore, hierarchy: Hierarchy, ids) -> tuple[np.ndarray, np.ndarray]:
    """[feature; 1] and the row of each photo's class."""
    batches = list(store.batches(classes=set(ids)))
    features = Append1()(np.concatenate([batch.features for batch in batches]))
    return features, hierarchy.indices([id for batch in batches for id in batch.class_ids])


def class_mean(right: np.ndarray, classes: np.ndarray) -> float:
    counts = np.bincount(classes)
    return 100 * float((np.bincount(classes, right)[counts > 0] / counts[counts > 0]).mean())


def both_kinds(classifiers, seen, unseen, seen_photos, unseen_photos) -> list[float]:
    """Class-averaged Hit@1 of seen and of unseen photos among both kinds of classes; the area over all shifts."""
    margins, right, weights = [], [], []
    for (features, rows), own in ((seen_photos, seen), (unseen_photos, unseen)):
        scores = {"seen": features @ classifiers[seen].T, "unseen": features @ classifiers[unseen].T}
        margins.append(scores["seen"].max(axis=1) - scores["unseen"].max(axis=1))
        right.append(own[scores["seen" if own is seen else "unseen"].argmax(axis=1)] == rows)
        weights.append(1 / np.bincount(rows)[rows] / len(np.unique(rows)))
    counted = [r * w for r, w in zip(right, weights, strict=True)]
    shifts = np.sort(np.concatenate([*margins, [-np.inf, np.inf]]))
    of_seen = np.array([counted[0][margins[0] > shift].sum() for shift in shifts])
    of_unseen = np.array([counted[1][margins[1] <= shift].sum() for shift in shifts])
    now = 100 * counted[0][margins[0] > 0].sum(), 100 * counted[1][margins[1] <= 0].sum()
    return [*map(float, now), float(abs(np.trapezoid(of_unseen, of_seen)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("study", "choose", "sources", "report"))
    parser.add_argument("--stores", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--vectors", default="+".join(BOTH), help="for report")
    parser.add_argument("--out", type=Path, help="keep the figures of every variant here, and go on from there")
    arguments = parser.parse_args()
    networks = arguments.networks.split(",")
    if arguments.action == "report":
        report(arguments.stores, networks, REPORTED, arguments.vectors)
    else:
        act = {"study": study, "choose": choose, "sources": sources}[arguments.action]
        act(Bench(networks, arguments.stores, LOOKED_AT), networks, arguments.out)


if __name__ == "__main__":
    main()
