"""The figures and tests of `unseen_lab.tables.sources`, from its files alone, and the page that they fill.

Hit@k is averaged in several ways, each of them a weight for every class with photos; standard errors and tests are
those of the weighted mean. The classes with photos are no sample of a list: `relation` and `group` give each group of
classes the weight that it has in the whole list.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unseen import UnseenError
from unseen.evaluation import RELATIONS
from unseen_lab.data.authors import AUTHORS_LISTS
from unseen_lab.tables.claims import LEVEL, holm, show_p, sign_flips
from unseen_lab.tables.compare import BOTH, HITS, NOVEL
from unseen_lab.tables.ranks import read_ranks
from unseen_lab.tables.sources import GRAPHS, LOGGED, METHODS, SOURCES, TESTED, planned
from unseen_lab.tables.table import Table

MEASURES = {"photos": "over photos", "classes": "over classes", "relation": "weighted by relation",
            "group": "weighted by relation and commonness"}  # fmt: skip
HOPS = {"descendants": (0.244, 0.476, 0.162, 0.060, 0.058), "ancestors": (0.493, 0.322, 0.097, 0.047, 0.041)}  # paper
FLIPS = 100_000  # more than usual: there are hundreds of tests
NAMES = {"dgp": "DGP", "sgcn": "SGCN", NOVEL: "novel"}  # others are called as they are
OTHERS = "comparison-ranks.csv.gz"  # of all methods, beside the folder
MARK = re.compile(r"(?m)^<!-- sources: (.+) -->\n(?:.+\n)*")


Key = tuple[str, str]  # method, sources
WORDS, _, EVERYTHING = SOURCES
PAIRS: list[tuple[Key, Key]] = [
    *(((one, sources), (other, sources)) for one, other in (("dgp", "sgcn"), ("kin", "dgp"), ("kin", "sgcn"))
      for sources in SOURCES),
    *((("kin", EVERYTHING), (method, WORDS)) for method in GRAPHS),
    *(((method, EVERYTHING), (method, WORDS)) for method in METHODS),
]  # fmt: skip
README = (PAIRS[0], *((("kin", sources), (method, sources)) for sources in (WORDS, EVERYTHING) for method in GRAPHS))


def called(name: str, *more: str) -> str:
    return " ".join([NAMES.get(name, name), *more])


def markdown(cells: Sequence[Sequence[str]]) -> str:
    return Table(cells[0], cells[1:], words=2).markdown()


class Shown:
    """The classes with photos of a list: for every measure the weight of each, and the stratum that it is in."""

    def __init__(self, photos: np.ndarray, groups: Sequence[str], counts: Counter[str]):
        self.weights = {"photos": photos / photos.sum(), "classes": np.full(len(photos), 1 / len(photos))}
        self.strata = dict.fromkeys(self.weights, np.zeros(len(photos), int))
        for measure, parts in (("relation", 1), ("group", 2)):
            sizes: Counter[str] = Counter()
            for group, count in counts.items():
                sizes[" ".join(group.split()[:parts])] += count
            names = [" ".join(group.split()[:parts]) for group in groups]
            found, self.strata[measure], shown = np.unique(names, return_inverse=True, return_counts=True)
            shares = np.array([sizes[name] for name in found])
            self.weights[measure] = (shares / shares.sum() / shown)[self.strata[measure]]
        for relation in RELATIONS:
            of = np.array([group.startswith(relation) for group in groups])
            self.weights[relation], self.strata[relation] = of / max(of.sum(), 1), (~of).astype(int)

    def error(self, values: np.ndarray, measure: str) -> float:
        """The standard error of the weighted mean, over the classes of each stratum."""
        weights, variance = self.weights[measure], 0.0
        for stratum in np.unique(self.strata[measure][weights > 0]):
            of = self.strata[measure] == stratum
            apart = weights[of] * (values[of] - np.average(values[of], weights=weights[of]))
            variance += float(apart @ apart) * of.sum() / max(of.sum() - 1, 1)
        return variance**0.5


def values(runs: Sequence[dict[str, Any]], spec: str, hit: str) -> np.ndarray:
    """Hit@k in per cent, seeds x classes, which are sorted."""
    return np.array([[share for _, share in sorted(run["by_class"][spec][hit].items())] for run in runs])


class Network:
    """All that was measured with a network, (method, sources) -> a run for each seed, and all tests of it."""

    def __init__(self, rows: dict[Key, list[dict[str, Any]]], groups: dict[str, Any], counts: dict[str, Any]):
        self.rows, self.shown = rows, {}
        for spec in (*TESTED, BOTH):
            photos = [run["by_class"][spec]["photos"] for runs in rows.values() for run in runs]
            if any(of != photos[0] for of in photos):
                raise UnseenError(f"the ranks on {spec} are of different photos")
            names, shown = zip(*sorted(photos[0].items()), strict=True)
            listed = AUTHORS_LISTS[0] if spec == BOTH else spec
            self.shown[spec] = Shown(np.array(shown), [groups[listed][id] for id in names], counts[listed])
        self.pairs = [(one, other) for one, other in PAIRS if one in rows and other in rows]
        self.tests = self._test()

    def means(self, row: Key, spec: str, hit: str) -> np.ndarray:
        """Of each class, over seeds."""
        return values(self.rows[row], spec, hit).mean(axis=0)

    def _test(self) -> dict[tuple[Any, ...], tuple[float, ...]]:
        """(number of the pair, measure, list, hit) -> difference, its standard error, p among the lists and hits of the
        pair by the measure, p among all tests."""
        found, chances = {}, {}
        for spec in TESTED if self.pairs else ():
            shown, weighted, keys = self.shown[spec], [], []
            for number, (one, other) in enumerate(self.pairs):
                for hit in HITS:
                    apart = self.means(one, spec, hit) - self.means(other, spec, hit)
                    for measure in MEASURES:
                        keys.append((number, measure, spec, hit))
                        weighted.append(apart * shown.weights[measure] * len(apart))
                        found[keys[-1]] = float(weighted[-1].mean()), shown.error(apart, measure)
            chances |= zip(keys, sign_flips(np.stack(weighted, axis=1), FLIPS).tolist(), strict=True)
        among_all, adjusted = dict(zip(chances, holm(list(chances.values())), strict=True)), {}
        for question in {key[:2] for key in chances}:
            own = [key for key in chances if key[:2] == question]
            adjusted |= zip(own, holm([chances[key] for key in own]), strict=True)
        return {key: (mean, error, adjusted[key], among_all[key]) for key, (mean, error) in found.items()}

    def figures(self, measures: Sequence[str], lists: Sequence[str], hits: Sequence[str] = HITS) -> str:
        columns = [(spec, measure, hit) for spec in lists for measure in measures for hit in hits
                   if self.shown[spec].weights[measure].any()]  # fmt: skip
        names = [f"{called(s)} {m + ' ' if measures[1:] else ''}@{hit[4:]}" for s, m, hit in columns]
        cells = [["method", "sources", "epochs", "seeds", *names]]
        for (method, sources), runs in self.rows.items():
            epochs = f"{runs[0]['epochs']:,}" if runs[0]["epochs"] else "–"
            cells.append([called(method), sources, epochs, str(len(runs))])
            for spec, measure, hit in columns:
                shares, shown = values(runs, spec, hit), self.shown[spec]
                means, error = shares @ shown.weights[measure], shown.error(shares.mean(axis=0), measure)
                apart = f" ({means.std(ddof=1):.1f})" if len(means) > 1 else ""
                cells[-1].append(f"{means.mean():.1f} ± {error:.1f}{apart}")
        return markdown(cells)

    def differences(self, measure: str) -> str:
        columns = [(spec, hit) for spec in TESTED for hit in HITS]
        cells = [["first", "second", *(f"{called(spec)} @{hit[4:]}" for spec, hit in columns)]]
        for number, (one, other) in enumerate(self.pairs):
            cells.append([called(*one), called(*other)])
            for spec, hit in columns:
                mean, error, p, among_all = self.tests[number, measure, spec, hit]
                bold = "**" if among_all < LEVEL else ""
                cells[-1].append(f"{bold}{mean:+.1f} ± {error:.1f}{bold} ({show_p(p).removeprefix('p ')})")
        return markdown(cells)

    def finding(self, number: int) -> str:
        """A pair's Hit@1 over photos, and where the first is ahead or behind beyond chance by each measure."""
        shown = []
        for row in self.pairs[number]:
            means = [self.means(row, spec, HITS[0]) @ self.shown[spec].weights["photos"] for spec in AUTHORS_LISTS]
            shown.append(f"{called(*row)} ({' / '.join(f'{mean:.1f}' for mean in means)})")
        verdicts = "; ".join(f"{title} {self._verdict(number, measure)}" for measure, title in MEASURES.items())
        return f"{' against '.join(shown)}: {verdicts}"

    def _verdict(self, number: int, measure: str) -> str:
        found = {"ahead": [], "behind": []}
        for spec in TESTED:
            mean, _, p, _ = self.tests[number, measure, spec, HITS[0]]
            if p < LEVEL:
                found["ahead" if mean > 0 else "behind"].append(f"{called(spec)} ({show_p(p)})")
        return " and ".join(f"{word} on {', '.join(of)}" for word, of in found.items() if of) or "within chance"

    def lengths(self) -> str:
        """Loss and hop weights by epoch, the mean over seeds; the paper's beside them."""
        cells = [["method", "sources", "epochs", "loss", *HOPS, "minutes"]]
        for (method, sources), runs in self.rows.items():
            for epoch in LOGGED if method in GRAPHS else ():
                logs = [run["log"][epoch] for run in runs]
                hops = [np.mean([log["hop_weights"][phase] for log in logs], axis=0) if method == "dgp" else ()
                        for phase in HOPS]  # fmt: skip
                spent = np.mean([log["seconds"] for log in logs]) / 60
                cells.append([called(method), sources, f"{epoch:,}", f"{np.mean([log['loss'] for log in logs]):.4f}",
                              *map(hop_text, hops), f"{spent:.1f}"])  # fmt: skip
        return markdown([*cells, ["DGP", "the paper's", "3,000", "", *map(hop_text, HOPS.values()), ""]])


def hop_text(weights: Sequence[float]) -> str:
    return " ".join(f"{weight:.3f}" for weight in weights)


def read(ranks: Path) -> dict[str, Network]:
    """What the files of a folder hold, by network."""
    if not (ranks / "log.jsonl").exists():
        raise UnseenError(f"{ranks} holds no ranks yet: name a folder of photos with --photos, and they are made")
    rows, lines = defaultdict(lambda: defaultdict(list)), (ranks / "log.jsonl").read_text().splitlines()
    logs = {line["training"]: {record["epoch"]: record for record in line["log"]} for line in map(json.loads, lines)}
    for training in sorted(planned(), key=lambda training: METHODS.index(training.method)):
        if training.file(ranks).exists():
            (run,) = read_ranks(training.file(ranks))
            rows[training.network][training.method, training.sources].append(run | {"log": logs[training.name]})
    return {network: Network(of, *read_groups(ranks)) for network, of in rows.items()}


def read_groups(ranks: Path) -> tuple[dict[str, dict[str, str]], dict[str, Counter[str]]]:
    """list -> the group of each class with photos; list -> how many of all its classes are in each group."""
    groups, counts = defaultdict(dict), defaultdict(Counter)
    for line in csv.DictReader((ranks / "groups.csv").read_text().splitlines()):
        if line["class"]:
            groups[line["list"]][line["class"]] = line["group"]
        else:
            counts[line["list"]][line["group"]] = int(line["classes"])
    return groups, counts


def parts(ranks: Path) -> dict[str, str]:
    """What stands below the marks of the page."""
    made, lacking = {}, [training for training in planned() if not training.file(ranks).exists()]
    alike = Counter(f"{training.network} {called(*training[1:3])}" for training in lacking)
    listed = ", ".join(f"{name} ({count})" for name, count in alike.items())
    told = f"Not trained yet: {len(lacking)} of {len(planned())}. {listed}."
    made["missing"] = told if lacking else "All are trained."
    for name, network in read(ranks).items():
        findings = {pair: network.finding(number) for number, pair in enumerate(network.pairs)}
        made[f"{name} findings"] = "\n".join(f"- {finding}." for finding in findings.values())
        made[f"{name} sentences"] = "\n".join(f"- {findings[pair]}." for pair in README if pair in findings)
        for measure in MEASURES:
            lists = TESTED if measure in ("relation", "group") else (*TESTED, BOTH)
            made[f"{name} {measure}"] = network.figures([measure], lists)
            made[f"{name} {measure} differences"] = network.differences(measure)
        made[f"{name} relations"] = network.figures(RELATIONS, TESTED, HITS[:1])
        made[f"{name} lengths"] = network.lengths()
    if (others := ranks.parent / OTHERS).exists():
        rows = {(row["method"], row["vectors"]): [row] for row in read_ranks(others) if row["method"] != "network"}
        network = Network(rows, *read_groups(ranks))
        for measure in MEASURES:
            made[f"others {measure}"] = network.figures([measure], AUTHORS_LISTS)
    return made


def fill(page: str, made: dict[str, str]) -> str:
    return MARK.sub(lambda mark: f"<!-- sources: {mark[1]} -->\n{made.get(mark[1]) or 'Not trained yet.'}\n", page)
