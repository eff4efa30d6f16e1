"""Where DGP and SGCN differ, by the relation of an unseen class to its nearest seen one: docs/results/by-relation.md.

    python benchmarks/by_relation.py --photos PHOTOS --work WORK [--work WORK2] --markdown FILE
    python benchmarks/by_relation.py --photos PHOTOS --bundles efficientnet-lite0:dgp=PATH --bundles ...

PHOTOS holds unseen/, with a folder a class. A WORK is as `unseen reproduce --out` leaves it, one for each network: of
the bundles that it holds, those of stage 1 alone and with a method's own settings count, the longest training of each.
The nearest seen classes are those with the fewest edges in between, in either direction; of several as near the first
relation counts that one of them has:

    ancestor     the unseen class is above it
    descendant   it is below it
    sibling      both have a parent in common
    further      none of these
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from unseen.bundle import Bundle
from unseen.evaluation.protocol import evaluate_lists
from unseen.features.cache import open_features
from unseen.methods import get_method, make_method
from unseen.methods.baselines.structural import distances
from unseen.methods.graph.method import GraphMethod
from unseen.recognition import Recogniser
from unseen.reproduction.claims import LEVEL, sign_flip
from unseen.runtime.files import write_atomically
from unseen.scoring.candidates import AUTHORS_LISTS
from unseen.taxonomy import Taxonomy

RELATIONS = ("ancestor", "descendant", "sibling", "further")
METHODS = ("dgp", "sgcn", "kin")
COMPARED = ("dgp", "sgcn")
NAMES = {"dgp": "DGP", "sgcn": "SGCN"}  # others are called as they are
Figures = dict[str, dict[str, dict[str, Any]]]  # list -> class id -> relation, photos, and Hit@1 by method


def relation(taxonomy: Taxonomy, id: str, nearest: Sequence[str]) -> str:
    """Of a class to the seen ones that are nearest to it."""
    parents = set(taxonomy.parents(id))
    if not taxonomy.descendants(id).keys().isdisjoint(nearest):
        return "ancestor"
    if not taxonomy.ancestors(id).keys().isdisjoint(nearest):
        return "descendant"
    return "sibling" if any(parents & set(taxonomy.parents(seen)) for seen in nearest) else "further"


def relations(taxonomy: Taxonomy, ids: Sequence[str], seen: Sequence[str]) -> dict[str, str]:
    """The relation of each of these unseen classes to its nearest seen ones."""
    steps = distances(taxonomy, taxonomy.indices(seen))[taxonomy.indices(ids)].astype(np.int64)
    steps[steps < 0] = np.iinfo(np.int64).max  # another part of the hierarchy
    least = steps.min(axis=1, keepdims=True)
    return {
        id: relation(taxonomy, id, [seen[i] for i in np.flatnonzero(near)])
        for id, near in zip(ids, steps == least, strict=True)
    }


def measure(bundles: dict[str, Bundle], photos: Callable[[Recogniser], Any], lists: Sequence[str]) -> Figures:
    """Hit@1 of every class with photos, for each list and method."""
    found: Figures = {spec: {} for spec in lists}
    for method, bundle in bundles.items():
        model = Recogniser(bundle, device="cpu")
        results = evaluate_lists(model, photos(model), lists, ks=(1,), show_progress=False, sure=None)
        for spec, result in zip(lists, results, strict=True):
            for entry in result.per_class:
                found[spec].setdefault(entry["id"], {"photos": entry["photos"]})[method] = entry["hit@1"]
    bundle = next(iter(bundles.values()))
    ids = sorted({id for classes in found.values() for id in classes})
    kinds = relations(bundle.taxonomy, ids, bundle.seen_ids)
    return {spec: {id: {"relation": kinds[id], **entry} for id, entry in classes.items()}
            for spec, classes in found.items()}  # fmt: skip


def mixtures(bundle: Bundle, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """What a graph network gathers for these classes in all its layers: the share of the class's own word vector, and
    of how many nodes the rest is (the inverse of the sum of squared shares). Without what layers do in between."""
    from scipy.sparse import csr_array

    method = make_method(bundle.method, bundle.settings)
    assert isinstance(method, GraphMethod)
    rows = bundle.taxonomy.indices(ids)
    shares: Any = csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), len(bundle.taxonomy)))
    weights = list((bundle.solution.record.hop_weights or {}).values())
    layers = method.adjacencies(bundle.taxonomy)
    for number in reversed(range(len(layers))):
        layer = layers[number]
        mixed = layer.weight * (np.array(weights[number % len(weights)])[layer.group] if weights else 1.0)
        shares = shares @ csr_array((mixed, layer.column, layer.pointer), shape=(layer.rows, layer.columns))
    dense = shares.toarray()
    dense /= dense.sum(axis=1, keepdims=True)  # a class without descendants gathers less than 1
    own = dense[np.arange(len(rows)), rows]
    dense[np.arange(len(rows)), rows] = 0
    rest = dense / np.maximum(dense.sum(axis=1, keepdims=True), 1e-12)
    return own, 1 / np.maximum(np.square(rest).sum(axis=1), 1e-12)


def find_bundles(work: Path) -> dict[str, Path]:
    """Method -> its longest training in a work folder: seed 0, own settings, stage 1 alone."""
    found: dict[str, tuple[int, Path]] = {}
    for file in sorted((work / "bundles").glob("*/bundle.json")):
        about = json.loads(file.read_text(encoding="utf-8"))
        method, settings = about["method"], dict(about["settings"])
        if method not in METHODS or about["seed"] or file.parent.name.endswith("-calibrated") or "-tuned-" in str(file):
            continue
        epochs = settings.pop("epochs", 0)
        usual = asdict(get_method(method).Settings())
        usual.pop("epochs", None)
        if json.loads(json.dumps(usual)) == settings and epochs >= found.get(method, (0, file))[0]:
            found[method] = (epochs, file.parent)
    return {method: found[method][1] for method in METHODS if method in found}


def summarise(classes: dict[str, dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each relation that has classes, and one for all of them."""
    rows = []
    for kind in (*RELATIONS, "any"):
        own = [entry for entry in classes.values() if kind in ("any", entry["relation"])]
        if not own:
            continue
        row = {"relation": kind, "classes": len(own), "photos": sum(entry["photos"] for entry in own)}
        row |= {method: float(np.mean([entry[method] for entry in own])) for method in methods}
        if set(COMPARED) <= set(methods):
            differences = np.array([entry[COMPARED[0]] - entry[COMPARED[1]] for entry in own])
            row |= {"difference": float(differences.mean()), "p": sign_flip(differences) if len(own) > 1 else None}
        rows.append(row)
    return rows


def page(networks: dict[str, tuple[dict[str, Bundle], Figures]], command: str) -> str:
    parts = [
        "# Where DGP and SGCN differ",
        "Hit@1 in per cent, averaged over classes, by the relation of an unseen class to its nearest seen one: it is "
        "an *ancestor* of it, a *descendant*, a *sibling* with a parent in common, or *further* away. Of several seen "
        "classes that are as near, the first of these counts. p is the paired test of the report: the signs of the "
        f"classes' differences between DGP and SGCN are flipped at random, and from {LEVEL} on a difference is within "
        "chance. Stage 1 alone, without finetuning.",
    ]
    for network, (bundles, figures) in networks.items():
        lengths = {_name(method): bundle.settings.get("epochs") for method, bundle in bundles.items()}
        told = ", ".join(f"{name}: {epochs:,} epochs" if epochs else name for name, epochs in lengths.items())
        tables = {spec: summarise(classes, list(bundles)) for spec, classes in figures.items()}
        parts += [f"## {network}", f"{told}.", _table(tables, list(bundles)), *_findings(tables)]
        graphs = {method: bundle for method, bundle in bundles.items()
                  if issubclass(get_method(bundle.method), GraphMethod)}  # fmt: skip
        if graphs:
            parts += ["What they gather for these classes, before layers change it: how much of it is the class's own "
                      "word vector, in per cent, and of about how many other nodes the rest is; medians.",
                      _gathered(graphs, figures)]  # fmt: skip
    return "\n\n".join([*parts, f"Made by `{command}`."]) + "\n"


def _name(method: str) -> str:
    return NAMES.get(method, method)


def _table(tables: dict[str, list[dict[str, Any]]], methods: Sequence[str]) -> str:
    compared = set(COMPARED) <= set(methods)
    header = ["candidates", "relation", "classes", "photos", *map(_name, methods)]
    header += ["DGP - SGCN", "p"] if compared else []
    lines = [header, [":---", ":---", *["---:"] * (len(header) - 2)]]
    for spec, rows in tables.items():
        for row in rows:
            line = [spec, row["relation"], f"{row['classes']:,}", f"{row['photos']:,}"]
            line += [f"{row[method]:.1f}" for method in methods]
            if compared:
                line += [f"{row['difference']:+.1f}", "–" if row["p"] is None else f"{row['p']:.3f}"]
            lines.append(line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _findings(tables: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Which differences are beyond chance."""
    told = []
    for spec, rows in tables.items():
        for row in rows:
            if row.get("p") is not None and row["p"] < LEVEL:
                better = COMPARED[0] if row["difference"] > 0 else COMPARED[1]
                of = (
                    "all classes"
                    if row["relation"] == "any"
                    else f"{row['relation']}s".replace("furthers", "further ones")
                )
                told.append(f"{spec}, {of}: {_name(better)} (by {abs(row['difference']):.1f}, p {row['p']:.3f})")
    if not any("p" in row for rows in tables.values() for row in rows):
        return []
    return [f"Beyond chance: {'; '.join(told)}." if told else "No group of classes differs beyond chance."]


def _gathered(graphs: dict[str, Bundle], figures: Figures) -> str:
    kinds = {id: entry["relation"] for classes in figures.values() for id, entry in classes.items()}
    ids = sorted(kinds)
    header = ["relation", "classes", *(f"{_name(method)}, {what}" for method in graphs for what in ("own", "nodes"))]
    lines = [header, [":---", *["---:"] * (len(header) - 1)]]
    found = {method: mixtures(bundle, ids) for method, bundle in graphs.items()}
    for kind in RELATIONS:
        own = np.array([kinds[id] == kind for id in ids])
        if own.any():
            numbers = [
                f"{100 * np.median(share[own]):.1f} | {np.median(nodes[own]):,.1f}" for share, nodes in found.values()
            ]
            lines.append([kind, f"{own.sum():,}", *numbers])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="a folder with unseen/, by class id")
    parser.add_argument("--work", type=Path, action="append", default=[], help="of `unseen reproduce`, may be repeated")
    parser.add_argument("--bundles", action="append", default=[], help="NETWORK:METHOD=PATH, may be repeated")
    parser.add_argument("--candidates", default=",".join(AUTHORS_LISTS), help="lists, by default the authors'")
    parser.add_argument("--markdown", type=Path, help="a page to write")
    options = parser.parse_args()
    named: dict[str, dict[str, Path]] = {}
    folders: dict[str, Path] = {}
    for work in options.work:
        found = find_bundles(work)
        if not found:
            parser.error(f"{work}: there is no finished training of {', '.join(METHODS)}")
        name = Bundle.load(next(iter(found.values())), verify=False).backbone.name
        named[name], folders[name] = found, work / "features"
    for text in options.bundles:
        about, _, path = text.partition("=")
        name, _, method = about.partition(":")
        if not (name and method and path):
            parser.error(f"--bundles {text}: expected NETWORK:METHOD=PATH")
        named.setdefault(name, {})[method] = Path(path)
    if not named:
        parser.error("name trainings with --work or --bundles")
    lists = options.candidates.split(",")
    networks = {}
    for name, places in named.items():
        bundles = {method: Bundle.load(place) for method, place in places.items()}

        def photos(model: Recogniser, name=name) -> Any:
            return open_features(options.photos / "unseen", model.backbone, folder=folders.get(name))

        networks[name] = (bundles, measure(bundles, photos, lists))
    works = " ".join(["--work WORK"] * len(options.work) + ["--bundles NETWORK:METHOD=PATH"] * len(options.bundles))
    text = page(networks, f"python benchmarks/by_relation.py --photos PHOTOS {works} --markdown FILE")
    print(text)
    if options.markdown is not None:
        write_atomically(options.markdown, text.encode())


if __name__ == "__main__":
    main()
