"""Ideas for kin, each measured upward and on photos of unseen classes, over several networks.

    python benchmarks/kin_ideas.py --stores DIR [--bundle NETWORK=METHOD=BUNDLE ...]

- centred: scores without those of the mean photo, w.(x - m)
- neural kernel: one more kernel, on what a class's seen relatives look like (a seen class does not count its own look)
- with structural: each row plus a share of the mean of its seen relatives
- with a graph network: each row plus a share of that of a bundle trained on the same network

`--stores` as for benchmarks/criterion.py, whose criteria and half of the photos these are. An idea is
kept if it gains upward on every network, and photos do not speak against it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra

from criterion import LOOKED_AT, START, candidates
from kin_bench import BOTH, DIRECTIONS, LISTS, NETWORKS, UP, Bench, ranks_of, summary
from unseen.bundle import Bundle
from unseen.methods.base import normalise_rows
from unseen.methods.kin import Kin
from unseen.networks.loading import load_network

REACH = 8  # steps within which a seen class is a relative; each step weighs a class less by e
HEADER = ("network", "idea", "up, reciprocal rank", "own-up", *(f"photos, {key}" for key in LISTS))


class Ideas:
    def __init__(self, bench: Bench):
        self.bench, self.m = bench, len(bench.seen)
        self.settings = replace(START, **candidates()["ancestors 0.8, decay 0.4"][1])
        inputs = bench.inputs(BOTH, self.settings)
        chosen = {"width": self.settings.width, "sources": [1.0] * len(BOTH)}
        self.kernel = Kin(self.settings)._kernel(inputs[: self.m], chosen)(inputs, inputs[: self.m])
        self.relatives = np.exp(-self._steps())

    def _steps(self) -> np.ndarray:
        """Steps from each row to each seen class, infinite beyond REACH."""
        child, parent = self.bench.hierarchy.edges()
        ends, count = np.concatenate([child, parent]), len(self.bench.hierarchy)
        other = np.concatenate([parent, child])
        graph = coo_matrix((np.ones(len(ends)), (ends, other)), shape=(count, count)).tocsr()
        steps = dijkstra(graph, unweighted=True, indices=self.bench.seen, limit=REACH)
        return steps[:, self.bench.rows].T.astype(np.float32)

    def fit(self, kernel: np.ndarray, own: np.ndarray) -> np.ndarray:
        """kin's rows of the unseen classes, from this kernel."""
        m, s = self.m, self.settings
        inverse = np.linalg.inv(kernel[:m].astype(np.float64) + s.ridge * np.eye(m)).astype(np.float32)
        chance = float(np.median(np.linalg.norm(kernel[m::7] @ inverse, axis=1)))
        rows = kernel[m:] @ (inverse @ own)
        return rows / np.sqrt(np.einsum("np,np->n", rows, rows) + (s.caution * chance) ** 2)[:, None]

    def tell(self, network: str, idea: str, rows: np.ndarray, mean: np.ndarray | float = 0.0) -> None:
        photos, bench = self.bench.photos[network], self.bench
        figures = bench.upward("up", photos.seen - mean, photos.seen_class, rows)
        figures |= bench.upward("own-up", photos.own, np.arange(self.m), rows)
        cells = [figures[f"{what} {UP} reciprocal rank"] for what in ("up", "own-up")]
        places = bench.place[photos.unseen_row]
        scores = (photos.unseen - mean) @ rows.T
        for key in LISTS:
            kept = (places >= 0) & (places < bench.count[key])
            ranks = ranks_of(scores[kept][:, : bench.count[key]], places[kept])
            cells.append(summary(key, ranks, places[kept])[f"{key} hit@1"])
        print(f"| {network} | {idea} | {' | '.join(f'{cell:.1f}' for cell in cells)} |", flush=True)

    def try_all(self, network: str) -> None:
        photos, m = self.bench.photos[network], self.m
        plain = self.fit(self.kernel, photos.own)
        self.tell(network, "kin", plain)
        for share in (0.5, 1.0):
            self.tell(network, f"centred {share}", plain, share * photos.seen.mean(axis=0))
        others = self.relatives.copy()
        others[np.arange(m), np.arange(m)] = 0  # a seen class's own look is what is to be foretold
        looks = normalise_rows(others @ photos.own)
        alike = looks @ looks[:m].T
        for width, weight in ((0.5, 0.1), (0.5, 0.3), (1.0, 0.3)):
            kernel = self.kernel + weight * np.exp((alike - 1) / width**2)
            self.tell(network, f"neural kernel, width {width}, weight {weight}", self.fit(kernel, photos.own))
        structural = normalise_rows(self.relatives[m:] @ photos.own)
        for share in (0.2, 0.5):
            self.tell(network, f"with {share} structural", plain + share * structural)

    def try_bundle(self, network: str, method: str, place: Path) -> None:
        bundle = Bundle.load(place)
        known = normalise_rows(load_network(network).classifiers())
        centred = (known - known.mean(axis=0)).astype(np.float64)
        values, vectors = np.linalg.eigh(centred @ centred.T)
        strongest = np.argsort(-values)[:DIRECTIONS]
        directions = centred.T @ vectors[:, strongest] / np.sqrt(values[strongest])
        rows = bundle.hierarchy.indices([self.bench.hierarchy.ids[row] for row in self.bench.rows[self.m :]])
        classifiers = np.asarray(bundle.solution.classifiers, np.float32)
        theirs = (classifiers[rows] - classifiers.mean(axis=0)) @ directions.astype(np.float32)
        theirs /= np.linalg.norm(theirs, axis=1).mean()
        self.tell(network, method, theirs)
        plain = self.fit(self.kernel, self.bench.photos[network].own)
        for share in (0.25, 0.5, 1.0):
            self.tell(network, f"with {share} {method}", plain + share * theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=Path, required=True)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--bundle", action="append", default=[], metavar="NETWORK=METHOD=BUNDLE")
    arguments = parser.parse_args()
    networks = arguments.networks.split(",")
    ideas = Ideas(Bench(networks, arguments.stores, LOOKED_AT))
    print(f"| {' | '.join(HEADER)} |\n|:--|:--|" + "--:|" * (len(HEADER) - 2))
    for network in networks:
        ideas.try_all(network)
    for network, method, place in (given.split("=", 2) for given in arguments.bundle):
        ideas.try_bundle(network, method, Path(place))


if __name__ == "__main__":
    main()
