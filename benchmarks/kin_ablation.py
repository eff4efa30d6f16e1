"""What each part of kin is worth, which cross-validation to trust, and where its constants come from.

    python benchmarks/kin_ablation.py table    --unseen STORE --seen-val STORE     kin with parts changed or left out
    python benchmarks/kin_ablation.py criteria --unseen STORE --seen-val STORE     which criterion predicts accuracy?
    python benchmarks/kin_ablation.py trust    --unseen STORE --seen-val STORE     are trusted answers more often right?
    python benchmarks/kin_ablation.py learn [--vectors glove+text]                 the constants, from seen classes

A STORE is made by `unseen features --images DIR --out STORE`. `--half` picks photos: classes are split in two by a hash
of their id; the `tuning` half was looked at while kin was built, the `report` half was not. `learn` reads no photo. The
hierarchy is the paper's, whose lists the candidates come from. On two cores each takes some minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from dataclasses import asdict, replace

import numpy as np
from scipy.stats import spearmanr

from unseen._util.run import Run
from unseen.answers.candidates import AUTHORS_LISTS, paper_list
from unseen.answers.scores import Scorer
from unseen.evaluation.metrics import class_hits
from unseen.features import FeatureStore
from unseen.hierarchy.core import Hierarchy
from unseen.methods.base import Problem
from unseen.methods.graph.adjacency import hop_groups
from unseen.methods.kin import Kin, KinSettings
from unseen.methods.kin.kin import (
    Ridges,
    gather,
    halvings,
    leave_groups_out,
    leave_one_out,
    mixed,
    principal_part,
    quality,
)
from unseen.methods.projections import Append1
from unseen.networks.loading import load_network
from unseen.vectors.class_vectors import class_vectors, load_vectors

TRIAL = {  # the first form: constants set by hand, rows simply normalised
    "word_width": 4.4,
    "propagated_width": 7.0,
    "word_weight": 1.0,
    "propagated_weight": 1.0,
    "ancestor_weight": 1.0,
    "decay": 0.6,
    "descendants": [0.25, 0.45, 0.15, 0.08, 0.07],
    "ancestors": [0.5, 0.3, 0.1, 0.05, 0.05],
    "ridge": 0.2,
    "width": 1.0,
    "caution": 0.0,
}
BOTH = "glove+text"
VARIANTS: dict[str, tuple[str, dict]] = {  # name -> (vectors, settings)
    "kin": (BOTH, {}),
    "glove only": ("glove", {}),
    "text only": ("text", {}),
    "no word kernel": (BOTH, {"word_weight": 0.0}),
    "no propagated kernel": (BOTH, {"propagated_weight": 0.0}),
    "no ancestor kernel": (BOTH, {"ancestor_weight": 0.0}),
    "ancestor kernel alone": (BOTH, {"word_weight": 0.0, "propagated_weight": 0.0}),
    "caution 0 (rows normalised)": (BOTH, {"caution": 0.0}),
    "caution 0.5": (BOTH, {"caution": 0.5}),
    "caution 2": (BOTH, {"caution": 2.0}),
    "caution 100 (rows as long as they come)": (BOTH, {"caution": 100.0}),
    "ridge 0.02": (BOTH, {"ridge": 0.02}),
    "ridge 0.05": (BOTH, {"ridge": 0.05}),
    "ridge 0.6": (BOTH, {"ridge": 0.6}),
    "constants set by hand": (BOTH, TRIAL | {"caution": 1.0}),
    "constants set by hand, caution 0": (BOTH, TRIAL),
    "the same, glove only": ("glove", TRIAL),
}


class Bench:
    """The paper's hierarchy, the built-in network, and photos as features."""

    def __init__(self, arguments: argparse.Namespace):
        self.hierarchy = Hierarchy.paper()
        self.network = load_network(arguments.network)
        self.seen = self.hierarchy.indices(self.network.class_ids)
        self.problems: dict[str, Problem] = {}
        self.candidates = {name: self.hierarchy.indices(paper_list(name)) for name in AUTHORS_LISTS}
        self.candidates["2-hops+1K"] = np.concatenate([self.candidates["2-hops"], self.seen])
        node, ancestor, _ = self.hierarchy.ancestor_pairs()
        self.above_seen = np.unique(ancestor[np.isin(node, self.seen)])
        if arguments.action != "learn":
            wanted = {"tuning": [0], "report": [1], "both": [0, 1]}[arguments.half]
            self.unseen = self.photos(arguments.unseen, lambda id: half(id) in wanted)
            self.seen_val = self.photos(arguments.seen_val, lambda id: True)

    def problem(self, vectors: str) -> Problem:
        if vectors not in self.problems:
            encoded = class_vectors(self.hierarchy, load_vectors(vectors))
            self.problems[vectors] = Problem(self.hierarchy, encoded, self.seen, self.network.classifiers())
        return self.problems[vectors]

    def photos(self, store: str, wanted) -> tuple[np.ndarray, np.ndarray]:
        """[feature; 1] (n x D+1) and the row of each photo's class."""
        features, rows = [], []
        for batch in FeatureStore.open(store, self.network).batches():
            kept = [i for i, id in enumerate(batch.class_ids) if id in self.hierarchy and wanted(id)]
            features.append(batch.features[kept])
            rows += [self.hierarchy.index(batch.class_ids[i]) for i in kept]
        return Append1()(np.concatenate(features)), np.array(rows, np.int64)

    def measure(self, classifiers: np.ndarray) -> dict[str, float]:
        """Class-averaged Hit@k in per cent, and the mean log rank on the lists (smaller is better)."""
        found = {}
        for name, k in (("2-hops", 1), ("3-hops", 1), ("all", 1), ("3-hops", 10), ("all", 10), ("2-hops+1K", 1)):
            only = self.candidates["2-hops"] if name == "2-hops+1K" else self.candidates[name]
            found[f"{name} @{k}"] = self.hits(classifiers, self.unseen, self.candidates[name], only, k)[0]
        lower = np.setdiff1d(self.candidates["3-hops"], self.above_seen)
        found["3-hops @1, none seen below"], _ = self.hits(
            classifiers, self.unseen, self.candidates["3-hops"], lower, 1
        )
        found["seen @1"] = self.hits(classifiers, self.seen_val, self.candidates["2-hops+1K"], self.seen, 1)[0]
        for name in AUTHORS_LISTS:
            found[f"{name} log rank"] = self.hits(
                classifiers, self.unseen, self.candidates[name], self.candidates[name], 1
            )[1]
        return found

    def hits(self, classifiers, photos, candidates, only, k: int) -> tuple[float, float]:
        """Hit@k and the mean log rank of the photos whose class is among `only`, over classes."""
        features, rows = photos
        counted = np.isin(rows, only)
        found = Scorer.of_matrix(classifiers, candidates).ranks(features[counted], rows[counted])
        labels, photos_of, sums = class_hits(rows[counted], found.greater, found.equal, (k,))
        each = photos_of[np.searchsorted(labels, rows[counted])]
        log_rank = (np.log1p(found.greater + found.equal / 2) / each).sum() / len(labels)
        return 100 * float((sums[:, 0] / photos_of).mean()), float(log_rank)


def half(id: str) -> int:
    return int(hashlib.sha1(id.encode()).hexdigest(), 16) % 2


def table(bench: Bench) -> None:
    columns = None
    for name, (vectors, settings) in VARIANTS.items():
        started = time.perf_counter()
        solution = Kin(KinSettings(**settings)).fit(bench.problem(vectors), Run())
        seconds = time.perf_counter() - started
        found = {key: value for key, value in bench.measure(solution.classifiers).items() if "rank" not in key}
        quality = solution.record.extra.get("hidden_halves", {}).get("mean_reciprocal_rank")
        chosen = solution.record.chosen
        if columns is None:
            columns = list(found)
            print("| variant | " + " | ".join(columns) + " | hidden halves | width, ridge | seconds |")
            print("|:---|" + "---:|" * (len(columns) + 3))
        cells = [f"{found[key]:.1f}" for key in columns] + [f"{quality:.3f}" if quality else "–"]
        cells += [f"{chosen['width']:g}, {chosen['ridge']:g}", f"{seconds:.1f}"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def trust(bench: Bench, vectors: str) -> None:
    """Photos in quarters by the trust of the class that they were given: how many in each were given the right one."""
    solution = Kin(KinSettings()).fit(bench.problem(vectors), Run())
    features, rows = bench.unseen
    print("| candidates | least trusted quarter | second | third | most trusted quarter |\n|:---|" + "---:|" * 4)
    for name in AUTHORS_LISTS:
        candidates = bench.candidates[name]
        counted = np.isin(rows, candidates)
        answers = candidates[(features[counted] @ solution.classifiers[candidates].T).argmax(axis=1)]
        right = answers == rows[counted]
        quarters = np.array_split(np.argsort(solution.trust[answers], kind="stable"), 4)
        cells = [f"{100 * right[q].mean():.1f} (trust {solution.trust[answers[q]].mean():.2f})" for q in quarters]
        print(f"| {name} | " + " | ".join(cells) + " |")


# --- which criterion on seen classes predicts accuracy ----------------------------------------------------------------


def subtrees(hierarchy: Hierarchy, seen: np.ndarray, largest: int) -> list[np.ndarray]:
    """Seen classes in groups: the largest subtrees with at most `largest` seen classes, each class in one."""
    position = {row: i for i, row in enumerate(seen)}
    members: dict[int, set[int]] = {}
    for node, ancestor in zip(*hierarchy.ancestor_pairs()[:2], strict=True):
        if int(node) in position:
            members.setdefault(int(ancestor), set()).add(position[int(node)])
    groups, left = [], set(range(len(seen)))
    for own in sorted((m for m in members.values() if len(m) <= largest), key=lambda m: (-len(m), min(m))):
        if own & left:
            groups.append(np.array(sorted(own & left)))
            left -= own
    return groups


def criteria(bench: Bench, trials: int, seed: int) -> None:
    """Random settings: Spearman's rank correlation of every criterion with the mean log rank of photos."""
    random = np.random.default_rng(seed)
    problem = bench.problem("glove+text")
    targets = problem.targets().astype(np.float64)
    targets -= targets.mean(axis=0)
    part = principal_part(targets)
    groups = {
        f"subtrees of {size} left out, squared error": subtrees(bench.hierarchy, bench.seen, size) for size in (5, 60)
    }
    splits = halvings(len(targets), 2)
    rows = []
    for _ in range(trials):
        factor = np.exp(random.uniform(-1, 1, size=6))
        base = KinSettings(width=1.0, sources=[1.0, 1.0])
        settings = replace(
            base,
            word_width=base.word_width * factor[0],
            propagated_width=base.propagated_width * factor[1],
            word_weight=base.word_weight * factor[2],
            propagated_weight=base.propagated_weight * factor[3],
            ancestor_weight=base.ancestor_weight * factor[4],
            ridge=0.15 * factor[5] ** 1.5,
            decay=random.uniform(0.3, 0.9),
        )
        kin = Kin(settings)
        inputs = gather(problem, settings.descendants, settings.ancestors, settings.decay, problem.seen)
        kernel = kin._kernel(inputs, {"width": 1.0, "sources": [1.0, 1.0]})(inputs, inputs)
        inverse = Ridges(kernel).inverse(settings.ridge)
        found = {"leave one out, squared error": error(leave_one_out(inverse, targets), targets)}
        found |= {name: error(leave_groups_out(inverse, targets, group), targets) for name, group in groups.items()}
        found["hidden halves, squared error"] = error(leave_groups_out(inverse, targets, splits[0]), targets)
        found["hidden halves, reciprocal rank"] = quality(kernel, settings.ridge, part, splits).mean()
        rows.append((found, bench.measure(kin.fit(problem, Run()).classifiers)))
    print(f"{trials} random settings; correlation with the mean log rank of photos (good error: near 1, good rank: -1)")
    print("| criterion on seen classes | " + " | ".join(AUTHORS_LISTS) + " |\n|:---|" + "---:|" * len(AUTHORS_LISTS))
    for name in rows[0][0]:
        values = [found[name] for found, _ in rows]
        cells = [spearmanr(values, [photos[f"{key} log rank"] for _, photos in rows])[0] for key in AUTHORS_LISTS]
        print(f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")


def error(predicted: np.ndarray, targets: np.ndarray) -> float:
    return float(np.square(predicted - targets).sum() / np.square(targets).sum())


# --- the constants, learned on seen classes ---------------------------------------------------------------------------


def learn(bench: Bench, vectors: str, steps: int, seed: int) -> None:
    """Adam on the cross-entropy of recognising hidden halves, a fresh halving each step, through the closed form."""
    import torch

    torch.manual_seed(seed)
    problem = bench.problem(vectors)
    data = hop_products(problem)
    targets = problem.targets().astype(np.float64)
    part = torch.tensor(principal_part(targets - targets.mean(axis=0)), dtype=torch.float32)
    part_unit, count = part / part.norm(dim=1, keepdim=True), len(part)
    start = TRIAL | {"temperature": 25.0}
    single = ("word_width", "propagated_width", "word_weight", "propagated_weight", "ancestor_weight", "decay", "ridge")
    logs = {key: torch.tensor(np.log(start[key]), dtype=torch.float32) for key in (*single, "temperature")}
    logs |= {key: torch.tensor(np.log(start[key]), dtype=torch.float32) for key in ("descendants", "ancestors")}
    for value in logs.values():
        value.requires_grad_()
    optimiser = torch.optim.Adam(logs.values(), lr=0.08)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, 0.004)
    random, recent = np.random.default_rng(seed), []
    for step in range(steps):
        inverse = torch.linalg.inv(torch_kernel(data, logs) + logs["ridge"].exp() * torch.eye(count))
        dual, loss = inverse @ part, 0.0
        for hidden in torch.from_numpy(random.permutation(count)).chunk(2):
            predicted = part[hidden] - torch.linalg.solve(inverse[hidden][:, hidden], dual[hidden])
            predicted = predicted / predicted.norm(dim=1, keepdim=True)
            scores = logs["temperature"].exp() * part_unit[hidden] @ predicted.T
            loss = loss + torch.nn.functional.cross_entropy(scores, torch.arange(len(hidden))) / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        recent.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1}: cross-entropy {np.mean(recent[-20:]):.3f}", flush=True)
    values = {key: round(float(logs[key].exp()), 3) for key in single}
    values |= {key: np.round(logs[key].softmax(0).tolist(), 3).tolist() for key in ("descendants", "ancestors")}
    print(json.dumps(values, indent=1))


def hop_products(problem: Problem) -> dict:
    """Of the seen classes, all that the kernel needs as functions of its constants."""
    import torch

    one = np.eye(len(TRIAL["descendants"]))
    descendants = hop_groups(problem.hierarchy, "descendants", len(one) - 1)
    ancestors = hop_groups(problem.hierarchy, "ancestors", len(one) - 1)
    down, up = [mixed(descendants, hop) for hop in one], [mixed(ancestors, hop)[problem.seen] for hop in one]
    words, products = [], []
    for part in problem.vectors.parts:
        words.append(torch.from_numpy(part[problem.seen]))
        below = [hop @ part for hop in down]
        products.append(torch.from_numpy(np.array([[hop @ vectors for vectors in below] for hop in up])))
    node, ancestor, distance = problem.hierarchy.ancestor_pairs()
    position = np.full(len(problem.hierarchy), -1)
    position[problem.seen] = np.arange(len(problem.seen))
    own = position[node] >= 0
    columns, column = np.unique(ancestor[own], return_inverse=True)
    steps = np.full((len(problem.seen), len(columns)), np.inf, np.float32)
    steps[position[node[own]], column] = distance[own]
    return {"words": words, "products": products, "steps": torch.from_numpy(steps)}


def torch_kernel(data: dict, logs: dict):
    """`Kernel` as a differentiable function of the constants' logarithms."""
    import torch

    def unit(x):
        return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-8)

    def likeness(x, width):
        count, together = len(x), x.sum(dim=0)
        natural = 1 - (together @ together - x.square().sum()) / (count * (count - 1))
        return torch.exp(width / natural.detach() * (x @ x.T - 1))

    decay = logs["decay"].exp().clamp(max=1.0)
    above = unit(torch.where(data["steps"].isfinite(), decay ** data["steps"].nan_to_num(posinf=0.0), 0.0))
    total = logs["ancestor_weight"].exp()
    kernel = total * (above @ above.T)
    down, up = logs["descendants"].softmax(0), logs["ancestors"].softmax(0)
    for words, products in zip(data["words"], data["products"], strict=True):
        propagated = unit(torch.einsum("a,d,adns->ns", up, down, products))
        for kind, x in (("word", words), ("propagated", propagated)):
            weight = logs[f"{kind}_weight"].exp()
            kernel = kernel + weight * likeness(x, logs[f"{kind}_width"].exp())
            total = total + weight
    return kernel / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("table", "criteria", "trust", "learn"))
    parser.add_argument("--unseen", help="feature store of photos of unseen classes")
    parser.add_argument("--seen-val", help="feature store of photos of seen classes")
    parser.add_argument("--half", choices=("tuning", "report", "both"), default="report")
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--vectors", default="glove+text")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.action != "learn" and not (arguments.unseen and arguments.seen_val):
        parser.error(f"{arguments.action} needs --unseen STORE and --seen-val STORE")
    bench = Bench(arguments)
    if arguments.action == "table":
        print(f"Photos: {arguments.half} half. Defaults: {json.dumps(asdict(KinSettings()))}\n")
        table(bench)
    elif arguments.action == "criteria":
        criteria(bench, arguments.trials, arguments.seed)
    elif arguments.action == "trust":
        trust(bench, arguments.vectors)
    else:
        learn(bench, arguments.vectors, arguments.steps, arguments.seed)


if __name__ == "__main__":
    main()
