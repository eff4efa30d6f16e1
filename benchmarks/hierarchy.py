"""How long the class hierarchy takes, and how much memory: WordNet, the paper's graph, and a million generated classes.

    python benchmarks/hierarchy.py            # about a minute; --nodes 100000 for a quick look

Each figure comes from a process of its own, so that peak memory (all of it, Python and libraries included) is its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.paths import graph_of
from unseen.util.devices import peak_memory_mb
from unseen.util.errors import UnseenError


def random_hierarchy(nodes: int, branching: int = 4, double_parents: float = 0.1, seed: int = 0) -> Hierarchy:
    """A generated hierarchy: a tree whose mean number of children is `branching`, and some classes with two parents.

    Node u > 0 hangs below a random node of the quarter (for branching 4) of the rows before it; depth grows like log N.
    """
    random = np.random.default_rng(seed)
    child = np.arange(1, nodes)
    parent = (child / branching * random.uniform(0.8, 1.0, nodes - 1)).astype(np.int64)
    extra = child[random.random(nodes - 1) < double_parents]
    second = (extra / branching * random.uniform(0.2, 1.0, len(extra))).astype(np.int64)
    graph = graph_of(np.concatenate([child, extra]), np.concatenate([parent, second]), nodes)
    ids = [f"c{number:07d}" for number in range(nodes)]
    return Hierarchy.trusted(
        ids, [(f"class {number}",) for number in range(nodes)], graph, source={"kind": "generated"}
    )


def wordnet(nodes: int) -> dict:
    seconds, hierarchy = timed(Hierarchy.wordnet)
    return {"nodes": len(hierarchy), "seconds": seconds}


def search(nodes: int) -> dict:
    """What a person types, letter by letter, over all of WordNet."""
    hierarchy = Hierarchy.wordnet()
    first, _ = timed(hierarchy.search, "o")
    typed = [word[:end] for word in ("okapi", "sewing machine", "e", "zzz") for end in range(1, len(word) + 1)]
    times = [timed(hierarchy.search, text)[0] for text in typed]
    return {"seconds": float(np.median(times)), "slowest": max(times), "with_index": first}


def pairs_paper(nodes: int) -> dict:
    return count_pairs(Hierarchy.paper())


def pairs_imagenet(nodes: int) -> dict:
    return count_pairs(Hierarchy.imagenet())


def pairs_imagenet_networkx(nodes: int) -> dict:
    """The same pairs the plain way: one breadth-first search a node."""
    import networkx

    hierarchy = Hierarchy.imagenet()
    graph = networkx.DiGraph(zip(*(rows.tolist() for rows in hierarchy.edges()), strict=True))
    graph.add_nodes_from(range(len(hierarchy)))

    def pairs() -> int:
        return sum(len(networkx.single_source_shortest_path_length(graph, node)) for node in graph)

    seconds, count = timed(pairs)
    return {"nodes": len(hierarchy), "pairs": count, "seconds": seconds}


def pairs_generated(nodes: int) -> dict:
    return count_pairs(random_hierarchy(nodes))


def hops_generated(nodes: int) -> dict:
    hierarchy = random_hierarchy(nodes)
    seconds, hops = timed(hierarchy.hops_from, hierarchy.ids[::1000])
    return {"nodes": nodes, "farthest": int(hops.max()), "seconds": seconds}


def csv_generated(nodes: int) -> dict:
    hierarchy = random_hierarchy(nodes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classes.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "name", "parent"])
            for row, id in enumerate(hierarchy.ids):
                above = hierarchy.parent_idx[hierarchy.parent_ptr[row] : hierarchy.parent_ptr[row + 1]]
                writer.writerow([id, hierarchy.names[row], "|".join(hierarchy.ids[up] for up in above)])
        del hierarchy
        seconds, read = timed(Hierarchy.from_csv, path)
    return {"nodes": len(read), "edges": len(read.parent_idx), "seconds": seconds}


MEASURES = [
    wordnet,
    search,
    pairs_paper,
    pairs_imagenet,
    pairs_imagenet_networkx,
    pairs_generated,
    hops_generated,
    csv_generated,
]


def count_pairs(hierarchy: Hierarchy) -> dict:
    seconds, (_, _, distance) = timed(hierarchy.ancestor_pairs)
    return {"nodes": len(hierarchy), "pairs": len(distance), "farthest": int(distance.max()), "seconds": seconds}


def timed(function, *args):
    start = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - start, result


def measure(number_and_nodes: tuple[int, int]) -> dict:
    """Run in a fresh process."""
    number, nodes = number_and_nodes
    function = MEASURES[number]
    try:
        result = function(nodes)
    except UnseenError as error:  # the authors' lists are not everywhere
        return {"name": function.__name__, "skipped": str(error)}
    return {"name": function.__name__, **result, "peak_mb": peak_memory_mb()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000, help="size of the generated hierarchy")
    nodes = parser.parse_args().nodes
    results = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for result in pool.imap(measure, [(number, nodes) for number in range(len(MEASURES))], chunksize=1):
            results.append(result)
            print("  ".join(f"{key} {_short(value)}" for key, value in result.items()), file=sys.stderr)
    seconds = {result["name"]: result.get("seconds") for result in results}
    ratio = seconds["pairs_imagenet_networkx"] / seconds["pairs_imagenet"]
    print(json.dumps({"measures": results, "pairs_times_faster_than_networkx": round(ratio, 1)}))


def _short(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


if __name__ == "__main__":
    main()
