"""How well hidden branches of seen classes predict accuracy on photos of new ones, and what kin was chosen by it.

    python benchmarks/criterion.py study   --stores DIR [--out FILE]   how well each criterion predicts accuracy
    python benchmarks/criterion.py looks   --stores DIR                looks swapped among siblings, or shuffled
    python benchmarks/criterion.py report  --stores DIR                kin as it is, on classes not used for any choice

`study`: many variants of kin, each fitted to each network, are measured by criteria on seen classes and by Hit@1 on
photos of unseen ones; a criterion is as good as its correlation with the latter over the variants. DIR/NETWORK holds
the feature stores `seen-train` and `unseen` (photos of seen and of unseen classes), made by `unseen features`. Of the
classes of `unseen`, in the order of their ids, every second one is used by all but `report`, the others by `report`
alone. The hierarchy is the paper's, whose lists the candidates come from. Some seconds a variant.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from unseen import FeatureStore, Hierarchy, Problem, Run, load_network, load_vectors
from unseen.answers.prior import COMMON, ColumnPrior
from unseen.methods import Append1, normalise_rows
from unseen.methods.kin import Kin, KinSettings
from unseen.methods.kin.kin import SPLITS, START, WEIGHTS, Inputs, gather, hidden_branches, principal_part, quality
from unseen.training.default import DEFAULT_VECTORS
from unseen.vectors import ClassVectors
from unseen.vectors.class_vectors import class_vectors
from unseen_lab.data.authors import AUTHORS_LISTS, paper_list

NETWORKS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "resnet50")
LOOKED_AT, REPORTED = 0, 1  # which of every two classes of photos
SOURCES, LENGTHS = ("glove", "text", "looks"), (10, 20, 100)
HOPS = ("2-hops", "3-hops")
USUAL = KinSettings(width=START["width"], ridge=START["ridge"])
Figures = dict[str, dict[str, float]]  # network -> figure -> per cent


@dataclass(frozen=True)
class Photos:
    """Of one network: the centred classifiers of the seen classes (M x P), and photos with the row of their class."""

    centred: np.ndarray
    along: np.ndarray  # the same in coordinates along their strongest directions
    unseen: np.ndarray
    unseen_row: np.ndarray  # row of the hierarchy
    seen_scores: np.ndarray  # of two photos of each seen class with the centred classifiers
    seen_class: np.ndarray  # position among the seen classes


def read_photos(name: str, stores: Path, hierarchy: Hierarchy, part: int) -> Photos:
    network = load_network(name)
    targets = normalise_rows(network.classifiers()).astype(np.float64)
    centred = targets - targets.mean(axis=0)
    store = FeatureStore.open(stores / name / "unseen", network)
    half = {id for id in sorted(store.classes())[part::2] if id in hierarchy}
    batches = list(store.batches(classes=half))
    features = Append1()(np.concatenate([batch.features for batch in batches]))
    rows = hierarchy.indices([id for batch in batches for id in batch.class_ids])
    position, seen, classes, taken = {id: i for i, id in enumerate(network.class_ids)}, [], [], defaultdict(int)
    for batch in FeatureStore.open(stores / name / "seen-train", network).batches():
        for id, feature in zip(batch.class_ids, batch.features, strict=True):
            taken[id] += 1
            if taken[id] <= 2:
                seen.append(feature)
                classes.append(position[id])
    return Photos(
        centred, principal_part(centred), features, rows, Append1()(np.stack(seen)) @ centred.T, np.array(classes)
    )


class Bench:
    """The paper's hierarchy: the seen classes, then those of the lists, which are nested, then other novel ones."""

    def __init__(self, networks: list[str], stores: Path, part: int, lists: tuple[str, ...] = AUTHORS_LISTS):
        self.hierarchy, ids = Hierarchy.paper(), load_network().class_ids
        self.seen = self.hierarchy.indices(ids)
        order, self.lists = list(ids), {}
        for name in lists:
            order += sorted(set(paper_list(name)) - set(order))
            self.lists[name] = np.arange(len(ids), len(order))  # places among the rows
        node, ancestor, _ = self.hierarchy.ancestor_pairs()
        above = np.union1d(ancestor[np.isin(node, self.seen)], self.seen)
        folder = FeatureStore.open(stores / networks[0] / "unseen", load_network(networks[0])).classes()
        novel = np.setdiff1d(self.hierarchy.indices([id for id in folder if id in self.hierarchy]), above)
        listed = self.hierarchy.indices(order)
        self.rows = np.concatenate([listed, np.setdiff1d(novel, listed)])
        self.place = np.full(len(self.hierarchy), -1)
        self.place[self.rows] = np.arange(len(self.rows))
        self.lists = {"novel": self.place[novel], **self.lists}
        self.photos = {name: read_photos(name, stores, self.hierarchy, part) for name in networks}
        self.vectors = {name: class_vectors(self.hierarchy, load_vectors(name)) for name in SOURCES}
        random = np.random.default_rng(0)
        self.branches: list = []
        self.thirds = [np.array_split(random.permutation(len(ids)), 3) for _ in range(SPLITS)]
        self._inputs: dict[tuple, Inputs] = {}

    def problem(self, vectors: ClassVectors) -> Problem:
        return Problem(self.hierarchy, vectors, self.seen, np.zeros((len(self.seen), 1), np.float32))

    def inputs(self, sources: tuple[str, ...], s: KinSettings) -> Inputs:
        parts = []
        for source in sources:
            key = (source, tuple(s.descendants), tuple(s.ancestors), s.decay)
            if key not in self._inputs:
                problem = self.problem(self.vectors[source])
                self._inputs[key] = gather(problem, s.descendants, s.ancestors, s.decay, self.rows)
            parts.append(self._inputs[key])
        for key in list(self._inputs)[:-12]:  # the oldest
            del self._inputs[key]
        words, propagated = (tuple(getattr(part, kind)[0] for part in parts) for kind in ("words", "propagated"))
        return Inputs(words, propagated, parts[0].ancestors)

    def measure(self, sources: tuple[str, ...], settings: KinSettings) -> Figures:
        """Every criterion, and Hit@k on photos of unseen classes, with weights, width and ridge as given."""
        inputs, m, ridge = self.inputs(sources, settings), len(self.seen), settings.ridge or START["ridge"]
        weights = settings.sources or [WEIGHTS.get(name, 1.0) for name in sources]
        chosen = {"width": settings.width, "sources": weights}
        kernel = Kin(settings)._kernel(inputs[:m], chosen)(inputs, inputs[:m])
        inverse = np.linalg.inv(kernel[:m].astype(np.float64) + ridge * np.eye(m))
        doubt = settings.caution * float(np.median(np.linalg.norm(kernel[m::7] @ inverse.astype(np.float32), axis=1)))
        self.branches = self.branches or hidden_branches(inputs.ancestors[:m], SPLITS)
        found = {}
        for name, photos in self.photos.items():
            figures = {
                "hidden branches": 100 * float(quality(kernel[:m], ridge, photos.along, self.branches).mean()),
                "hidden at random": 100 * float(quality(kernel[:m], ridge, photos.along, self.thirds).mean()),
                "photos of hidden branches": 100 * photos_of_hidden(photos, inverse, self.branches, doubt),
            }
            dual = (inverse @ photos.centred).astype(np.float32)
            lengths = np.sqrt(np.einsum("cm,cm->c", kernel @ (dual @ dual.T), kernel).clip(0) + doubt**2)
            scores = (photos.unseen @ dual.T) @ kernel.T / lengths
            for key, places in self.lists.items():
                figures |= hits(key, *ranks_among(scores, places, self.place[photos.unseen_row]))
            found[name] = figures
        return found


def photos_of_hidden(photos: Photos, inverse: np.ndarray, splits: list, doubt: float) -> float:
    """The mean reciprocal rank of hidden classes, among those hidden with them, for their photos."""
    inner, ranks = photos.centred @ photos.centred.T, []
    for groups in splits[:2]:
        for hidden in groups:
            shares = -np.linalg.solve(inverse[np.ix_(hidden, hidden)], inverse[hidden])
            shares[:, hidden] = 0
            lengths = np.sqrt(np.einsum("hm,hm->h", shares @ inner, shares) + doubt**2)
            asked = np.isin(photos.seen_class, hidden)
            scores = photos.seen_scores[asked] @ (shares / lengths[:, None]).T
            ranks.append(ranks_of(scores, np.searchsorted(hidden, photos.seen_class[asked])))
    return float((1 / (1 + np.concatenate(ranks))).mean())


def ranks_among(scores: np.ndarray, places: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ranks, from 0, of the photos whose class is in the list, and their class's number in it."""
    number = np.full(scores.shape[1], -1)
    number[places] = np.arange(len(places))
    kept = (right >= 0) & (number[right] >= 0)
    return ranks_of(scores[kept][:, places], number[right[kept]]), number[right[kept]]


def ranks_of(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    own = scores[np.arange(len(scores)), right][:, None]
    return (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2


def first_of_drawn(ranks: np.ndarray, others: int, length: int) -> np.ndarray:
    """The chance that a class of this rank comes first when `length` - 1 of the others are drawn beside it."""
    ways = math.comb(others, length - 1)
    return np.array([math.comb(others - math.ceil(rank), length - 1) / ways for rank in ranks.tolist()])


def hits(what: str, ranks: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    return {f"{what} @{k}": class_mean(ranks < k, classes) for k in (1, 5)}


def class_mean(values: np.ndarray, classes: np.ndarray) -> float:
    counts = np.bincount(classes)
    return 100 * float((np.bincount(classes, values)[counts > 0] / counts[counts > 0]).mean())


# --- how well a criterion predicts ------------------------------------------------------------------------------------


def variants() -> dict[str, tuple[tuple[str, ...], dict]]:
    """name -> sources of vectors, settings: one thing changed at a time, then many at random."""
    sets = [chosen for count in (1, 2, 3) for chosen in combinations(SOURCES, count)]
    found: dict[str, tuple[tuple[str, ...], dict]] = {"+".join(chosen): (chosen, {}) for chosen in sets}
    changes = {
        "no words": {"word_weight": 0.0},
        "no propagation": {"propagated_weight": 0.0, "word_weight": 1.0},
        "no ancestors": {"ancestor_weight": 0.0},
        "ancestors alone": {"word_weight": 0.0, "propagated_weight": 0.0},
        "ancestors 3.2": {"ancestor_weight": 3.2},
        "decay 0.8": {"decay": 0.8},
        "descendants flat": {"descendants": [0.2] * 5},
        "no descendants": {"descendants": [1.0, 0, 0, 0, 0]},
        "ancestors' words 0.4": {"ancestors": [0.6, 0.2, 0.1, 0.05, 0.05]},
        "no ancestors' words": {"ancestors": [1.0, 0, 0, 0, 0]},
        "sources alike": {"sources": [1.0, 1.0, 1.0]},
        "looks 1": {"sources": [0.5, 1.0, 1.0]},
        "looks 8": {"sources": [0.5, 1.0, 8.0]},
        "text 4": {"sources": [0.5, 4.0, 4.0]},
        "glove 4": {"sources": [4.0, 1.0, 4.0]},
        "width 0.3": {"width": 0.3},
        "width 0.5": {"width": 0.5},
        "width 2": {"width": 2.0},
        "width 4": {"width": 4.0},
        "ridge 0.01": {"ridge": 0.01},
        "ridge 0.3": {"ridge": 0.3},
        "ridge 1": {"ridge": 1.0},
    }
    found |= {name: (SOURCES, change) for name, change in changes.items()}
    random = np.random.default_rng(7)
    for number in range(12):
        sources, factor = sets[number % len(sets)], np.exp(random.uniform(-1.2, 1.2, 6))
        settings = {
            "word_width": USUAL.word_width * factor[0],
            "propagated_width": USUAL.propagated_width * factor[1],
            "word_weight": USUAL.word_weight * factor[2] ** 2,
            "ancestor_weight": USUAL.ancestor_weight * factor[3] ** 2,
            "ridge": START["ridge"] * factor[4] ** 2,
            "decay": float(random.uniform(0.3, 0.9)),
        }
        found[f"random {number}"] = sources, settings
    return found


def study(bench: Bench, out: Path | None) -> None:
    """The table of variants (means over the networks), and each criterion's correlations."""
    found: dict[str, Figures] = json.loads(out.read_text()) if out and out.exists() else {}
    for name, (sources, changed) in variants().items():
        if name not in found:
            found[name] = bench.measure(sources, replace(USUAL, **changed))
            if out:
                out.write_text(json.dumps(found))
    criteria = ("hidden branches", "hidden at random", "photos of hidden branches")
    print_table("variant", found, (*criteria, "novel @1", "novel @5", *(f"{key} @1" for key in HOPS)))
    photos = ("novel @1", "novel @5", *(f"{key} @1" for key in HOPS))
    print(f"\n{len(found)} variants; Pearson's correlation (Spearman's), the mean over the networks, and the lowest\n")
    print(f"| criterion | {' | '.join(photos)} |\n|:--|" + "--:|" * len(photos))
    for criterion in criteria:
        cells = []
        for figure in photos:
            of = [np.array([[found[v][n][f] for v in found] for f in (criterion, figure)]) for n in bench.photos]
            linear = [np.corrcoef(pair)[0, 1] for pair in of]
            ranked = [np.corrcoef(rankdata(pair, axis=1))[0, 1] for pair in of]
            cells.append(f"{np.mean(linear):.2f} ({np.mean(ranked):.2f}), {min(linear):.2f}")
        print(f"| {criterion} | {' | '.join(cells)} |")


def print_table(first: str, found: dict[str, Figures], figures: tuple[str, ...]) -> None:
    """Means over the networks."""
    print(f"| {first} | {' | '.join(figures)} |\n|:--|" + "--:|" * len(figures))
    for name, of in found.items():
        cells = [f"{np.mean([values[figure] for values in of.values()]):.1f}" for figure in figures]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def looks(bench: Bench, times: int = 3) -> None:
    """Does the gain come from what a look says of its own class? Swapped looks say as much, of others."""
    figures = ("hidden branches", "novel @1", "novel @5", *(f"{key} @1" for key in HOPS))
    true, found = bench.vectors["looks"], {}
    for others in (("glove", "text"), ()):
        if others:
            found["glove+text"] = bench.measure(others, USUAL)
        name = "+".join((*others, "looks"))
        found[name] = bench.measure((*others, "looks"), USUAL)
        for kind in ("swapped among siblings", "shuffled among all"):
            parts = []
            for seed in range(times):
                part = true.parts[0][dealt(bench.hierarchy, true.parts[0], kind.startswith("swapped"), seed)]
                bench.vectors[kind] = replace(true, parts=(part,))
                bench._inputs = {key: value for key, value in bench._inputs.items() if key[0] != kind}
                weights = [WEIGHTS.get(name, 1.0) for name in (*others, "looks")]
                parts.append(bench.measure((*others, kind), replace(USUAL, sources=weights)))
            found[f"{name}, {kind}"] = {f"{n} {i}": parts[i][n] for i in range(times) for n in bench.photos}
    print_table("class vectors", found, figures)


def dealt(hierarchy: Hierarchy, vectors: np.ndarray, siblings: bool, seed: int) -> np.ndarray:
    """A permutation of the classes that have a vector, among children of one parent or among all.

    Siblings are dealt in a circle, so that none keeps its own.
    """
    order, groups = np.arange(len(vectors)), defaultdict(list)
    for row in np.flatnonzero(vectors.any(axis=1)):
        above = hierarchy.parents(hierarchy.ids[row])
        groups[above[0] if siblings and above else ""].append(row)
    random = np.random.default_rng(seed)
    for group in groups.values():
        mixed = random.permutation(group)
        order[mixed] = np.roll(mixed, 1)
    return order


# --- what is reported -------------------------------------------------------------------------------------------------


def report(bench: Bench, vectors_names: tuple[str, ...] = ("glove+text", DEFAULT_VECTORS)) -> None:
    """kin with its defaults: class-averaged Hit@k on the list of novel classes, lists drawn from them, hop lists."""
    header = ["novel @1", "novel @5", *(f"{n} of them" for n in LENGTHS)]
    header += [*AUTHORS_LISTS, *(f"{key}, prior" for key in AUTHORS_LISTS)]
    print(f"| network | vectors | {' | '.join(header)} |\n|:--|:--|" + "--:|" * len(header))
    for name in bench.photos:
        network, photos = load_network(name), bench.photos[name]
        for vectors_name in vectors_names:
            vectors = class_vectors(bench.hierarchy, load_vectors(vectors_name))
            problem = Problem(
                bench.hierarchy, vectors, bench.hierarchy.indices(network.class_ids), network.classifiers()
            )
            classifiers = Kin().fit(problem, Run()).classifiers[bench.rows]
            scores, right = photos.unseen @ classifiers.T, bench.place[photos.unseen_row]
            ranks, classes = ranks_among(scores, bench.lists["novel"], right)
            cells = list(hits("", ranks, classes).values())
            others = len(bench.lists["novel"]) - 1
            cells += [class_mean(first_of_drawn(ranks, others, length), classes) for length in LENGTHS]
            for common in (False, True):
                for key in AUTHORS_LISTS:
                    places = bench.lists[key]
                    among = scores[:, places]
                    if common:
                        prior = ColumnPrior(COMMON, bench.hierarchy, np.array([], int), bench.rows[places])
                        among = prior.shift(among, 0)
                    filled = np.full_like(scores, -np.inf)
                    filled[:, places] = among
                    cells.append(hits("", *ranks_among(filled, places, right))[" @1"])
            print(f"| {name} | {vectors_name} | {' | '.join(f'{cell:.1f}' for cell in cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("study", "looks", "report"))
    parser.add_argument("--stores", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--out", type=Path, help="study: keep the figures of every variant here, and resume from there")
    arguments = parser.parse_args()
    choice = (REPORTED, AUTHORS_LISTS) if arguments.action == "report" else (LOOKED_AT, HOPS)
    bench = Bench(arguments.networks.split(","), arguments.stores, *choice)
    if arguments.action == "study":
        study(bench, arguments.out)
    else:
        {"looks": looks, "report": report}[arguments.action](bench)


if __name__ == "__main__":
    main()
