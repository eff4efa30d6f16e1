"""Where DGP and SGCN differ, by the relation of an unseen class to its nearest seen one: docs/results/by-relation.md.

    python benchmarks/by_relation.py --photos PHOTOS --work WORK [--work WORK2] --markdown FILE

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

from pages import kept_words
from unseen import Bundle, Hierarchy, Model
from unseen.bundle import is_bundle
from unseen.evaluation import evaluate_lists
from unseen.methods import get_method, make_method, normalise_rows
from unseen.methods.graph import GraphMethod
from unseen.methods.structural import distances
from unseen.networks import open_features
from unseen.util import write_atomically
from unseen_lab.data.authors import AUTHORS_LISTS
from unseen_lab.tables.claims import LEVEL, holm, show_p, sign_flip
from unseen_lab.tables.table import Table

RELATIONS = ("ancestor", "descendant", "sibling", "further")
METHODS = ("dgp", "sgcn", "kin")
COMPARED = ("dgp", "sgcn")
KS = (1, 5)
Figures = dict[str, dict[str, dict[str, Any]]]  # list -> class id -> relation, photos, and by method Hit@k by k


def relation(hierarchy: Hierarchy, id: str, nearest: Sequence[str]) -> str:
    """Of a class to the seen ones that are nearest to it."""
    parents = set(hierarchy.parents(id))
    if not hierarchy.descendants(id).keys().isdisjoint(nearest):
        return "ancestor"
    if not hierarchy.ancestors(id).keys().isdisjoint(nearest):
        return "descendant"
    return "sibling" if any(parents & set(hierarchy.parents(seen)) for seen in nearest) else "further"


def relations(hierarchy: Hierarchy, ids: Sequence[str], seen: Sequence[str]) -> dict[str, str]:
    """The relation of each of these unseen classes to its nearest seen ones."""
    steps = distances(hierarchy, hierarchy.indices(seen))[hierarchy.indices(ids)].astype(np.int64)
    steps[steps < 0] = np.iinfo(np.int64).max  # another part of the hierarchy
    least = steps.min(axis=1, keepdims=True)
    return {
        id: relation(hierarchy, id, [seen[i] for i in np.flatnonzero(near)])
        for id, near in zip(ids, steps == least, strict=True)
    }


def measure(bundles: dict[str, Bundle], photos: Callable[[Model], Any], lists: Sequence[str]) -> Figures:
    """Hit@k of every class with photos, for each list and method."""
    found: Figures = {spec: {} for spec in lists}
    for method, bundle in bundles.items():
        model = Model(bundle, device="cpu")
        results = evaluate_lists(model.bundle, photos(model), lists, ks=KS, confidence=None)
        for spec, result in zip(lists, results, strict=True):
            for entry in result.per_class:
                own = found[spec].setdefault(entry["id"], {"photos": entry["photos"]})
                own[method] = {k: entry[f"hit@{k}"] for k in KS}
    bundle = next(iter(bundles.values()))
    ids = sorted({id for classes in found.values() for id in classes})
    kinds = relations(bundle.hierarchy, ids, bundle.seen_ids)
    return {spec: {id: {"relation": kinds[id], **entry} for id, entry in classes.items()}
            for spec, classes in found.items()}  # fmt: skip


def composition(bundle: Bundle, lists: Sequence[str]) -> str:
    """A table of the relations in whole lists, of which photos show some classes."""
    model = Model(bundle, device="cpu")
    lines = []
    for spec in lists:
        ids = [bundle.ids[row] for row in model.candidates(spec)]
        kinds = list(relations(bundle.hierarchy, ids, bundle.seen_ids).values())
        shares = [f"{100 * kinds.count(kind) / len(ids):.1f} %" for kind in RELATIONS]
        lines.append([spec, f"{len(ids):,}", *shares])
    return Table(["candidates", "classes", *RELATIONS], lines).markdown()


def mixtures(bundle: Bundle, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """What a graph network gathers for these classes in all its layers: the share of the class's own word vector, and
    of how many nodes the rest is (the inverse of the sum of squared shares). Without what layers do in between."""
    from scipy.sparse import csr_array

    method = make_method(bundle.method, bundle.settings)
    assert isinstance(method, GraphMethod)
    rows = bundle.hierarchy.indices(ids)
    shares: Any = csr_array(
        (np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), len(bundle.hierarchy))
    )
    weights = list((bundle.solution.record.hop_weights or {}).values())
    layers = method.adjacencies(bundle.hierarchy)
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


def likeness(bundle: Bundle, ids: Sequence[str]) -> np.ndarray:
    """Of each class, the mean cosine of its predicted classifier with those of its siblings; NaN without siblings."""
    hierarchy, found = bundle.hierarchy, []
    predicted = normalise_rows(bundle.solution.classifiers.astype(np.float32))
    for id in ids:
        siblings = {child for parent in hierarchy.parents(id) for child in hierarchy.children(parent)} - {id}
        cosines = predicted[hierarchy.indices(sorted(siblings))] @ predicted[hierarchy.index(id)]
        found.append(float(cosines.mean()) if siblings else np.nan)
    return np.array(found)


def find_bundles(work: Path) -> dict[str, Path]:
    """Method -> its longest training in a work folder: seed 0, own settings, stage 1 alone."""
    found: dict[str, tuple[int, Path]] = {}
    for file in sorted(filter(is_bundle, (work / "bundles").iterdir())):
        about = Bundle.load(file, verify=False).header()
        method, settings = about["method"], dict(about["settings"])
        if method not in METHODS or about["seed"] or file.name.endswith("-calibrated") or "-tuned-" in str(file):
            continue
        epochs = settings.pop("epochs", 0)
        usual = asdict(get_method(method).Settings())
        usual.pop("epochs", None)
        if json.loads(json.dumps(usual)) == settings and epochs >= found.get(method, (0, file))[0]:
            found[method] = (epochs, file)
    return {method: found[method][1] for method in METHODS if method in found}


def summarise(classes: dict[str, dict[str, Any]], methods: Sequence[str], k: int) -> list[dict[str, Any]]:
    """A row of Hit@k for each relation that has classes, and one for all of them."""
    rows = []
    for kind in (*RELATIONS, "any"):
        own = [entry for entry in classes.values() if kind in ("any", entry["relation"])]
        if not own:
            continue
        row = {"relation": kind, "classes": len(own), "photos": sum(entry["photos"] for entry in own)}
        row |= {method: float(np.mean([entry[method][k] for entry in own])) for method in methods}
        if set(COMPARED) <= set(methods):
            differences = np.array([entry[COMPARED[0]][k] - entry[COMPARED[1]][k] for entry in own])
            row |= {"difference": float(differences.mean()), "p": sign_flip(differences) if len(own) > 1 else None}
        rows.append(row)
    return rows


def adjust(tables: dict[int, dict[str, list[dict[str, Any]]]]) -> None:
    """Every p for the number of tests of a network."""
    every = [row for of_k in tables.values() for rows in of_k.values() for row in rows]
    tested = [row for row in every if row.get("p") is not None]
    for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p"] = p


def page(networks: dict[str, tuple[dict[str, Bundle], Figures]], command: str) -> str:
    parts = [
        "# Where DGP and SGCN differ",
        "Hit@1 and Hit@5 in per cent, averaged over classes, by the relation of an unseen class to its "
        "nearest seen class: an *ancestor* of it, a *descendant*, a *sibling* with a common parent, or "
        "*further* away. If several seen classes are equally near, the first of these relations counts. p is "
        "the paired test of the report: the signs of the classes' differences between DGP and SGCN are "
        f"flipped at random; with p of {LEVEL} or more a difference is within chance. p is adjusted by Holm's "
        "method for all groups, lists and k of a network; the lists are nested, so they do not confirm each "
        "other. Stage 1 only, without finetuning.",
    ]
    bundles, figures = next(iter(networks.values()))
    parts += [
        "The complete lists; there are photos of some of their classes:",
        composition(next(iter(bundles.values())), list(figures)),
    ]
    for network, (bundles, figures) in networks.items():
        lengths = {_name(method): bundle.settings.get("epochs") for method, bundle in bundles.items()}
        told = ", ".join(f"{name}: {epochs:,} epochs" if epochs else name for name, epochs in lengths.items())
        methods = list(bundles)
        tables = {k: {spec: summarise(classes, methods, k) for spec, classes in figures.items()} for k in KS}
        adjust(tables)
        parts += [f"## {network}", f"{told}."]
        for k, of_k in tables.items():
            parts += [f"Hit@{k}:", _table(of_k, methods), *_findings(of_k)]
        graphs = {method: bundle for method, bundle in bundles.items()
                  if issubclass(get_method(bundle.method), GraphMethod)}  # fmt: skip
        if graphs:
            parts += ["What each method gathers for these classes before its layers change it: the share of its "
                      "own word vector in per cent, and the number of other nodes that share the rest; medians.",
                      _gathered(graphs, figures)]  # fmt: skip
        parts += ["How similar predictions are: the cosine between a class's predicted classifier and those of its "
                  "siblings, averaged over siblings and classes.", _alike(bundles, figures)]  # fmt: skip
    return "\n\n".join([*parts, f"Made by `{command}`."]) + "\n"


def _name(method: str) -> str:
    return method.upper() if method in COMPARED else method


def _table(tables: dict[str, list[dict[str, Any]]], methods: Sequence[str]) -> str:
    compared = set(COMPARED) <= set(methods)
    header = ["candidates", "relation", "classes", "photos", *map(_name, methods)]
    header += ["DGP - SGCN", "p"] if compared else []
    lines = []
    for spec, rows in tables.items():
        for row in rows:
            line = [spec, row["relation"], f"{row['classes']:,}", f"{row['photos']:,}"]
            line += [f"{row[method]:.1f}" for method in methods]
            if compared:
                line += [f"{row['difference']:+.1f}", show_p(row["p"]).removeprefix("p ")]
            lines.append(line)
    return Table(header, lines, words=2).markdown()


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
                told.append(f"{spec}, {of}: {_name(better)} (by {abs(row['difference']):.1f}, {show_p(row['p'])})")
    if not any("p" in row for rows in tables.values() for row in rows):
        return []
    return [f"Beyond chance: {'; '.join(told)}." if told else "No group of classes differs beyond chance."]


def _alike(bundles: dict[str, Bundle], figures: Figures) -> str:
    kinds = _kinds(figures)
    ids = sorted(kinds)
    header = ["relation", "classes", *map(_name, bundles)]
    lines = []
    found = {method: likeness(bundle, ids) for method, bundle in bundles.items()}
    with_siblings = np.isfinite(next(iter(found.values())))
    for kind in RELATIONS:
        own = with_siblings & np.array([kinds[id] == kind for id in ids])
        if own.any():
            lines.append([kind, f"{own.sum():,}", *(f"{values[own].mean():.3f}" for values in found.values())])
    return Table(header, lines).markdown()


def _kinds(figures: Figures) -> dict[str, str]:
    """The relation of every class with photos."""
    return {id: entry["relation"] for classes in figures.values() for id, entry in classes.items()}


def _gathered(graphs: dict[str, Bundle], figures: Figures) -> str:
    kinds = _kinds(figures)
    ids = sorted(kinds)
    header = ["relation", "classes", *(f"{_name(method)}, {what}" for method in graphs for what in ("own", "nodes"))]
    lines = []
    found = {method: mixtures(bundle, ids) for method, bundle in graphs.items()}
    for kind in RELATIONS:
        own = np.array([kinds[id] == kind for id in ids])
        if own.any():
            numbers = [text for share, nodes in found.values()
                       for text in (f"{100 * np.median(share[own]):.1f}", f"{np.median(nodes[own]):,.1f}")]  # fmt: skip
            lines.append([kind, f"{own.sum():,}", *numbers])
    return Table(header, lines).markdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True, help="a folder with unseen/, by class id")
    parser.add_argument("--work", type=Path, action="append", required=True, help="of `unseen reproduce`, repeatable")
    parser.add_argument("--markdown", type=Path, help="a page to write")
    options = parser.parse_args()
    networks = {}
    for work in options.work:
        bundles = {method: Bundle.load(place) for method, place in find_bundles(work).items()}
        if not bundles:
            parser.error(f"{work}: there is no finished training of {', '.join(METHODS)}")

        def photos(model: Model, work=work) -> Any:
            return open_features(options.photos / "unseen", lambda: model.network, cache=work / "features")

        network = next(iter(bundles.values())).network.name
        networks[network] = (bundles, measure(bundles, photos, AUTHORS_LISTS))
    works = " ".join(["--work WORK"] * len(options.work))
    text = page(networks, f"python benchmarks/by_relation.py --photos PHOTOS {works} --markdown FILE")
    print(text)
    if options.markdown is not None:
        write_atomically(options.markdown, (text + kept_words(options.markdown)).encode())


if __name__ == "__main__":
    main()
