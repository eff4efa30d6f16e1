"""What a few photos of a class are worth, and how much one of them weighs.

    python benchmarks/teaching.py choose --stores DIR              the weight of a photo, on hidden seen classes
    python benchmarks/teaching.py report --stores DIR [--plot F]   what photos are worth, on classes that are unseen

DIR/NETWORK holds the feature stores `seen-train`, `seen-val` (photos of seen classes) and `unseen` (of unseen ones),
made by `unseen features`. The hierarchy is the paper's.

`choose` hides a fifth of the seen classes from a method and teaches them with their photos. The best weight is the one
with which they come nearest to the network's own classifiers, which were hidden; photos of unseen classes are never
looked at. A minute a network. `report` counts class-averaged Hit@1 of kin among the paper's lists. Every photo is
tested once; its class, like all others, is taught with photos that follow it. Some minutes a network.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from unseen import FeatureStore, Hierarchy, Method, Problem, Run, load_network, load_vectors
from unseen.bundle.teach import DOUBT, NOISE, Reference, combine, weigh
from unseen.methods import Append1, make_method, normalise_rows
from unseen.methods.kin import Kin, KinSettings
from unseen.vectors.class_vectors import class_vectors
from unseen_lab.data.authors import AUTHORS_LISTS, paper_list
from unseen_lab.tables.plots import drawing

NETWORKS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "resnet50")
NOISES = (0.5, 1.0, 2.0, 4.0, 8.0)
SEEN_DOUBTS = (0.0, 0.006, 0.02, 0.06, 0.2)
FIFTH = 5
OWN, DRAWS = 20, 20  # classes of one's own, and how often they are drawn
METHODS: dict[str, Callable[[], Method]] = {
    "kin": lambda: Kin(
        KinSettings(sources=[0.5, 1.0, 4.0], width=1.0, ridge=0.1)
    ),  # where its choice begins: near enough
    "sgcn": lambda: make_method("sgcn", {"epochs": 300}),
}
open_network = cache(load_network)
COLOURS = {"prediction": "#6c757d", "photos": "#4361ee", "both": "#f77f00"}


def read_photos(name: str, store: str, stores: Path) -> dict[str, np.ndarray]:
    """Features by class id, with a 1 at the end of each."""
    found: dict[str, list[np.ndarray]] = {}
    for features, ids, _ in FeatureStore.open(stores / name / store, open_network(name)).batches():
        for row, id in zip(Append1()(features), ids, strict=True):
            found.setdefault(id, []).append(row)
    return {id: np.stack(rows) for id, rows in sorted(found.items())}


@dataclass
class Trial:
    """Classes to be taught, with as many photos each, and what is predicted for all candidates."""

    classifiers: np.ndarray  # N x P
    doubt: np.ndarray  # of the classes to be taught
    like: Reference
    rows: np.ndarray  # of the classes to be taught
    photos: np.ndarray  # classes x photos x P
    lists: dict[str, np.ndarray]  # name -> rows of the candidates

    def __post_init__(self) -> None:
        self.every = np.unique(np.concatenate([*self.lists.values(), self.rows]))
        self.base = self.photos @ self.classifiers[self.every].T  # classes x photos x candidates

    def taught(self, turn: int, count: int, noise: float | None) -> np.ndarray:
        """The classifiers of all classes, each taught with `count` photos after the one whose turn it is.

        Without a noise, those of the photos alone.
        """
        places = (turn + 1 + np.arange(count)) % self.photos.shape[1]
        found = self.classifiers[self.rows].copy()
        if not count:
            return found
        means = self.photos[:, places].mean(axis=1)
        predicted = np.broadcast_to(self.like.mean, found.shape) if noise is None else found
        weights = [1.0 if noise is None else weigh(count, doubt, noise) for doubt in self.doubt]
        return combine(predicted, means, weights, self.like, has_bias=True)

    def hits(self, count: int, noise: float | None, among: np.ndarray, which: slice = slice(None)) -> np.ndarray:
        """Classes: the share of photos that are told rightly among some candidates; only `which` are taught."""
        turns = self.photos.shape[1]
        right = np.zeros((len(self.rows), turns))
        columns = np.searchsorted(self.every, among)
        own = np.searchsorted(among, self.rows[which])
        inside = np.isin(self.rows[which], among)
        for turn in range(turns):
            scores = self.base[:, turn][:, columns]
            changed = self.photos[:, turn] @ self.taught(turn, count, noise)[which].T
            scores[:, own[inside]] = changed[:, inside]
            right[:, turn] = among[scores.argmax(axis=1)] == self.rows
        return 100 * right.mean(axis=1)

    def hit(self, count: int, noise: float | None, name: str) -> float:
        """Class-averaged Hit@1 among a list, over the classes that are in it."""
        return float(self.hits(count, noise, self.lists[name])[np.isin(self.rows, self.lists[name])].mean())

    def loss(self, count: int, noise: float, name: str) -> float:
        """What every second class, untaught, loses when the others are taught."""
        among = self.lists[name]
        untaught = np.isin(self.rows, among) & (np.arange(len(self.rows)) % 2 == 1)
        before, after = (self.hits(n, noise, among, slice(0, None, 2))[untaught].mean() for n in (0, count))
        return float(before - after)


def fit(name: str, hierarchy: Hierarchy, hidden: np.ndarray, method: Method):
    """A method's solution without some of the seen classes, given by their places; and the seen rows that are left."""
    network = open_network(name)
    kept = np.setdiff1d(np.arange(len(network.class_ids)), hidden)
    seen = hierarchy.indices([network.class_ids[at] for at in kept])
    vectors = class_vectors(hierarchy, load_vectors("glove+text+looks"))
    problem = Problem(hierarchy, vectors, seen, network.classifiers()[kept])
    return method.fit(problem, Run(show_progress=False)), seen


def make_trial(name: str, hierarchy: Hierarchy, photos: dict[str, np.ndarray], each: int) -> Trial:
    """kin, and the unseen classes with at least `each` photos."""
    solution, seen = fit(name, hierarchy, np.array([], int), Kin())
    lists = {key: np.unique(hierarchy.indices(paper_list(key))) for key in AUTHORS_LISTS}
    wanted = set(paper_list("all"))
    chosen = {id: rows[:each] for id, rows in photos.items() if id in wanted and len(rows) >= each}
    assert solution.trust is not None
    node, ancestor, _ = hierarchy.ancestor_pairs()
    novel = np.setdiff1d(np.arange(len(hierarchy)), ancestor[np.isin(node, seen)])
    doubt, rows = 1 - solution.trust.astype(np.float64) ** 2, hierarchy.indices(chosen)
    return Trial(
        solution.classifiers,
        np.where(np.isin(rows, novel), np.median(doubt[novel]), doubt[rows]),
        Reference.of(solution.classifiers[seen]),
        rows,
        np.stack(list(chosen.values())),
        lists,
    )


def choose(stores: Path, networks: list[str]) -> None:
    """Mean cosine of taught classifiers with the network's own, in per cent, over the noise."""
    hierarchy = Hierarchy.paper()
    for title, make in METHODS.items():
        print(f"\n| {title} | photos | none | {' | '.join(map(str, NOISES))} | photos alone |")
        print("|:--|--:|--:|" + "--:|" * len(NOISES) + "--:|")
        sums = dict.fromkeys(NOISES, 0.0)
        for name in networks if title == "kin" else networks[:1]:
            network = open_network(name)
            hidden = np.arange(len(network.class_ids))[::FIFTH]
            solution, seen = fit(name, hierarchy, hidden, make())
            rows = hierarchy.indices([network.class_ids[at] for at in hidden])
            like = Reference.of(solution.classifiers[seen])
            own = normalise_rows(network.classifiers())[hidden] - like.mean
            trust = solution.trust
            doubt = DOUBT if trust is None else 1 - float(np.median(trust[rows])) ** 2
            photos = read_photos(name, "seen-train", stores)
            for count in (1, 3, 5):
                means = np.stack([photos[network.class_ids[at]][:count].mean(axis=0) for at in hidden])
                cells = []
                for noise in (np.inf, *NOISES, 0.0):
                    weights = [weigh(count, doubt, noise)] * len(rows)
                    found = combine(solution.classifiers[rows], means, weights, like, has_bias=True) - like.mean
                    cosine = normalise_rows(found[:, :-1]) * normalise_rows(own[:, :-1])
                    cells.append(100 * float(cosine.sum(axis=1).mean()))
                    if noise in sums:
                        sums[noise] += cells[-1]
                print(f"| {name} | {count} | {' | '.join(f'{cell:.1f}' for cell in cells)} |", flush=True)
        print(f"\nBest: {max(sums, key=sums.__getitem__)}")
    choose_for_seen(stores, networks)


def choose_for_seen(stores: Path, networks: list[str]) -> None:
    """The network's own accuracy when all its classes are taught with five photos."""
    print("\n| network | " + " | ".join(f"doubt {doubt}" for doubt in SEEN_DOUBTS) + " |")
    print("|:--|" + "--:|" * len(SEEN_DOUBTS))
    for name in networks:
        known, ids = open_network(name).classifiers(), open_network(name).class_ids
        lessons, tests = read_photos(name, "seen-train", stores), read_photos(name, "seen-val", stores)
        like, cells = Reference.of(known), []
        truth = np.concatenate([[at] * len(tests[id]) for at, id in enumerate(ids) if id in tests])
        photos = np.concatenate([tests[id] for id in ids if id in tests])
        for doubt in SEEN_DOUBTS:
            head = known.copy()
            for at, id in enumerate(ids):
                if id in lessons:
                    mean = lessons[id][:5].mean(axis=0)[None]
                    head[at] = combine(known[at][None], mean, [weigh(5, doubt)], like, has_bias=True)[0]
            cells.append(f"{100 * float(((photos @ head.T).argmax(axis=1) == truth).mean()):.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def curves(trial: Trial, counts: tuple[int, ...]) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """For each list of candidates Hit@1 over the number of photos: the prediction, the photos alone, both."""
    for name in trial.lists:
        yield name, _curves(lambda count, noise, name=name: trial.hit(count, noise, name), counts)
    random = np.random.default_rng(0)
    draws = [np.sort(random.permutation(trial.rows)[:OWN]) for _ in range(DRAWS)]

    def own(count: int, noise: float | None) -> float:
        hits = [trial.hits(count, noise, among)[np.isin(trial.rows, among)].mean() for among in draws]
        return float(np.mean(hits))

    yield f"{OWN} classes", _curves(own, counts)


def _curves(hit: Callable[[int, float | None], float], counts: tuple[int, ...]) -> dict[str, list[float]]:
    prediction = hit(0, NOISE)
    return {
        "prediction": [prediction] * len(counts),
        "photos": [float("nan"), *(hit(count, None) for count in counts[1:])],
        "both": [prediction, *(hit(count, NOISE) for count in counts[1:])],
    }


def report(stores: Path, networks: list[str], plot: Path | None) -> None:
    hierarchy, found, counts = Hierarchy.paper(), {}, (0, 1, 2, 3, 5)
    for name in networks:
        trial = make_trial(name, hierarchy, read_photos(name, "unseen", stores), 6)
        found[name] = dict(curves(trial, counts))
        print(f"\n{name}, {len(trial.rows)} classes\n\n| candidates | | {' | '.join(map(str, counts))} |")
        print("|:--|:--|" + "--:|" * len(counts))
        for key, lines in found[name].items():
            for what, figures in lines.items():
                cells = " | ".join("" if np.isnan(figure) else f"{figure:.1f}" for figure in figures)
                print(f"| {key} | {what} | {cells} |", flush=True)
        for key in trial.lists:
            told = ", ".join(f"{count}: {trial.loss(count, NOISE, key):.2f}" for count in (1, 3, 5))
            print(f"\nuntaught classes lose, {key}, with photos of every second class: {told}", flush=True)
    if plot is not None:
        draw(found[networks[0]], counts, plot)


def draw(found: dict[str, dict[str, list[float]]], counts: tuple[int, ...], path: Path) -> None:
    with drawing():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, len(found), figsize=(2.6 * len(found), 2.6), constrained_layout=True)
        for axis, (name, lines) in zip(axes, found.items(), strict=True):
            for what, figures in lines.items():
                axis.plot(counts, figures, label=what, color=COLOURS[what], marker="o", markersize=3)
            axis.set(title=name, xlabel="photos of each class", ylim=(0, 100), xticks=counts)
        axes[0].set_ylabel("Hit@1 (%)")
        axes[-1].legend()
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choose", "report"])
    parser.add_argument("--stores", type=Path, required=True, help="DIR/NETWORK/{seen-train,seen-val,unseen}")
    parser.add_argument("--networks", nargs="+", default=None, choices=NETWORKS)
    parser.add_argument("--plot", type=Path, help="where the curves are drawn, as SVG")
    options = parser.parse_args()
    if options.what == "choose":
        choose(options.stores, options.networks or list(NETWORKS))
    else:
        report(options.stores, options.networks or ["efficientnet-lite0"], options.plot)


if __name__ == "__main__":
    main()
