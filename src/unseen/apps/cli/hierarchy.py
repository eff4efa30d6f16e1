"""`unseen hierarchy`: look at a hierarchy, check it before training, or get one for a list of names."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from unseen.apps.cli.app import JsonFlag, command, command_group
from unseen.apps.cli.output import emit, print_facts, stderr, stdout
from unseen.data import imagenet_1k
from unseen.hierarchy.core import Hierarchy
from unseen.hierarchy.search import close_matches, did_you_mean
from unseen.naming.check import check_up
from unseen.naming.meaning import find_class
from unseen.naming.reading import read_ids, read_names
from unseen.util.devices import uncollected
from unseen.util.errors import UnseenError
from unseen.util.files import write_atomically
from unseen.util.names import list_some
from unseen.util.safe_text import to_csv, visible
from unseen.vectors.class_vectors import class_vectors, load_vectors
from unseen.vectors.looks import find_look

DEEP = 100  # levels; WordNet's nouns have 18, so more are likely a mistake
SHOWN = 20  # classes that are listed one by one
group = command_group("hierarchy", "Look at a class hierarchy, check it, or get one for a list of names.")
HierarchyOption = Annotated[str, Option("--hierarchy", help="wordnet, imagenet, a file, or imagenet+FILE.")]


@command(
    "check",
    group=group,
    examples="""
    unseen hierarchy check products.csv --classes classes.txt
    unseen hierarchy check imagenet+new-classes.csv
    unseen hierarchy check species.json --json
    """,
)
def check(
    file: Annotated[str, Argument(help="A CSV, JSON or edge-list file, a built-in name, or imagenet+FILE.")],
    classes: Annotated[Path | None, Option(help="The network's class ids; by default ImageNet's 1,000.")] = None,
    vectors: Annotated[str, Option(help="glove, or a file of word vectors.")] = "glove",
    json_: JsonFlag = False,
) -> None:
    """Check a hierarchy before training: its shape, which names have vectors, how far classes are from seen ones."""
    with uncollected():
        hierarchy = Hierarchy.load(file)
        depth = hierarchy.depth
        if depth > DEEP:
            stderr.print(f"{file} is {depth:,} levels deep: is it a chain by mistake? Memory grows with each level.")
        seen = read_ids(classes) if classes else imagenet_1k()
        coverage = class_vectors(hierarchy, load_vectors(vectors)).coverage
        result = {"file": file} | check_up(hierarchy, seen, coverage)
        emit(result, json_, lambda: _show_check(result, hierarchy))


def _show_check(result: dict[str, Any], hierarchy: Hierarchy) -> None:
    def some(ids: Sequence[str]) -> str:
        listed = ", ".join(f"{hierarchy.name(id)} ({id})" for id in ids[:5])
        return f"{len(ids):,}: {listed}{', ...' if len(ids) > 5 else ''}" if ids else "none"

    guesses, missing, present = result["guesswork"], result["seen_missing"], result["seen_present"]
    lacks = f": {list_some(missing)} (train: --skip-missing)" if missing else ""
    restated = f"{result['already_there']:,} row{' restates' if result['already_there'] == 1 else 's restate'}"
    hops = ", ".join(f"{'not connected' if d < 0 else d}: {n:,}" for d, n in result["hops"].items())
    only_own = result["own"] < result["nodes"]
    facts = {
        "classes": f"{result['nodes']:,}, {result['edges']:,} edges, {result['leaves']:,} leaves",
        "roots": some(hierarchy.roots),
        "depth": str(result["depth"]),
        "orphans": some(result["orphans"]),
        "cycles": "none (a cycle would have been an error)",
        "seen classes": f"{present:,} here, {len(missing):,} missing{lacks}",
        "own classes": f"{result['own']:,}; {restated} what is there" if only_own else "all",
        "without vector": some(result["without_vector"]),
        "hops to a seen class": hops,
        "guesswork": f"{len(guesses):,} class{'es' * (len(guesses) > 1)}" if guesses else "none",
    }
    print_facts(result["file"], facts)
    shown = list(result["distance"] if only_own else guesses)
    for id in shown[:SHOWN]:
        hops = result["distance"][id]
        why = f"guesswork: {guesses[id]}" if id in guesses else f"{hops} hop{'s' * (hops != 1)} from a seen class"
        stdout.print(f"  {hierarchy.name(id)} ({id}): {why}")
    if len(shown) > SHOWN:
        stdout.print(f"  ... and {len(shown) - SHOWN:,} more: see --json")
    if not present:
        stderr.print("None of the network's classes is in this hierarchy: training needs some. Do the ids match?")


@command(
    "suggest",
    group=group,
    examples="""
    unseen hierarchy suggest names.txt --out new-classes.csv
    unseen hierarchy suggest names.txt --json
    """,
)
def suggest(
    names: Annotated[Path, Argument(help="A file of names, one per line; after a tab, their looks.")],
    out: Annotated[Path | None, Option(help="The CSV to write; without it the proposal is only shown.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Find a place in WordNet for names that come without a hierarchy. The CSV is a proposal: check it first."""
    from unseen.naming import placing  # with scipy, which the other commands do not need

    entries = read_names(names)
    suggestions = placing.suggest([name for name, _ in entries], looks=dict(entries))
    for item in suggestions:
        kept = item.name.split("|")[0]
        for name in item.dropped:
            why = "listed twice: kept once" if name == kept else f"the same class as {kept}: joined"
            stderr.print(f"{name} is {why}")
    if out is not None:
        placing.write_csv(suggestions, out)
    result = {"out": str(out) if out else None, "classes": [item.to_dict() for item in suggestions]}
    emit(result, json_, lambda: _show_suggestions(suggestions, out))


def _show_suggestions(suggestions: Sequence[Any], out: Path | None) -> None:
    for item in suggestions:
        state = "is in WordNet" if item.known else "new class" if item.parent else "no place found"
        stdout.print(f"{item.name} ({item.id}): {state}")
        if item.known:
            lines = [item.definition, *(f"or {sense.id} {sense.definition}" for sense in item.others)]
        else:
            lines = [f"{p.score:4.0%}  {p.sense.id} {p.sense.name}: {p.sense.definition}" for p in item.places]
        for line in lines:
            stdout.print(f"  {line}")
    doubtful = [item.name for item in suggestions if item.check]
    if doubtful:
        stdout.print(f"To check: {list_some(doubtful, 10)}")
    if out is not None:
        stdout.print(f"Check {out}, then run: unseen hierarchy check imagenet+{out}")


@command(
    "find",
    group=group,
    examples="""
    unseen hierarchy find drill
    unseen hierarchy find "sewing machine" --limit 5
    unseen hierarchy find cup --hierarchy products.csv --json
    """,
)
def find(
    word: Annotated[str, Argument(help="A name, the beginning of one, or an id.")],
    source: HierarchyOption = "wordnet",
    limit: Annotated[int, Option(min=1, help="Most classes to list.")] = 20,
    json_: JsonFlag = False,
) -> None:
    """Look a word up: the ids of the classes that it may mean, with their definitions."""
    hierarchy = Hierarchy.load(source)
    senses = hierarchy.search(word, limit)
    if not senses:
        near = close_matches(word, (name for lemmas in hierarchy.lemmas for name in lemmas))
        raise UnseenError(f"{word!r} is in no name of {source}.{did_you_mean(near)}")
    classes = [
        {
            "id": sense.id,
            "names": list(sense.lemmas),
            "definition": sense.definition,
            "parents": [{"id": parent, "name": hierarchy.name(parent)} for parent in hierarchy.parents(sense.id)],
        }
        for sense in senses
    ]
    emit({"word": word, "hierarchy": source, "classes": classes}, json_, lambda: _show_found(classes))


def _show_found(classes: Sequence[dict[str, Any]]) -> None:
    for item in classes:
        above = ", ".join(parent["name"] for parent in item["parents"])
        text = ": ".join(filter(None, (", ".join(item["names"]), item["definition"])))
        stdout.print(f"{item['id']} {text}{f'  (under {above})' if above else ''}")


@command(
    "show",
    group=group,
    examples="""
    unseen hierarchy show n03239726
    unseen hierarchy show poodle --depth 3
    unseen hierarchy show drinkware --hierarchy products.csv --json
    """,
)
def show(
    id: Annotated[str, Argument(help="The id of a class, or a name that means one class only.")],
    source: HierarchyOption = "wordnet",
    depth: Annotated[int, Option(min=0, max=DEEP, help="Levels to show below the class.")] = 2,
    json_: JsonFlag = False,
) -> None:
    """Show a branch of a hierarchy: a class, what it looks like, what is above it and what is below it."""
    hierarchy = Hierarchy.load(source)
    id = find_class(id, hierarchy)
    above = [{"id": up, "name": hierarchy.name(up)} for up in hierarchy.path_to_root(id)[1:]]
    look, definition = find_look(hierarchy, id), hierarchy.definition(id)
    result = {
        "hierarchy": source,
        "above": above,
        "branch": _branch(hierarchy, id, depth),
        "below": len(hierarchy.descendants(id)),
        "definition": definition,
        "looks": look.text if look else "",
        "looks_of": look.id if look else None,
    }
    note = f": {definition}" if definition else ""
    if look:
        whose = "" if look.id == id else f" (as {hierarchy.name(look.id)}, {look.id}, which is below it)"
        note += f"\nlooks like{whose}: {look.text}"
    emit(result, json_, lambda: _draw(result, note))


def _branch(hierarchy: Hierarchy, id: str, depth: int) -> dict[str, Any]:
    """A class and what is below it, `depth` levels deep; `more` counts the children that are left out."""
    children = sorted(hierarchy.children(id), key=lambda child: hierarchy.name(child).lower())
    below = [_branch(hierarchy, child, depth - 1) for child in children] if depth else []
    return {"id": id, "name": hierarchy.name(id), "children": below, "more": 0 if depth else len(children)}


def _draw(result: dict[str, Any], note: str) -> None:
    if result["above"]:
        stdout.print(" > ".join(up["name"] for up in reversed(result["above"])))
    for line in _lines(result["branch"], note):
        stdout.print(line)
    stdout.print(f"{result['below']:,} classes below {result['branch']['name']}")


def _lines(branch: dict[str, Any], note: str = "", indent: str = "") -> Iterator[str]:
    more = f" +{branch['more']}" if branch["more"] else ""
    yield f"{indent}{branch['name']} {branch['id']}{more}{note}"
    for child in branch["children"]:
        yield from _lines(child, indent=f"{indent}  ")


@command(
    "export",
    group=group,
    examples="""
    unseen hierarchy export --out wordnet.csv
    unseen hierarchy export --hierarchy imagenet --below n02084071 --out dogs.csv
    unseen hierarchy export --hierarchy imagenet+new.csv > all.csv
    """,
)
def export(
    source: HierarchyOption = "wordnet",
    below: Annotated[str | None, Option(help="Only this class (id or name) and its descendants.")] = None,
    out: Annotated[Path | None, Option(help="The CSV to write; without it, standard output.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace OUT.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Write a hierarchy as a CSV of ids, names, parents and definitions, which `--hierarchy FILE` reads again."""
    if json_ and out is None:
        raise UnseenError("--json needs --out FILE: standard output holds either the table or the JSON object")
    if out is not None and out.exists() and not overwrite:
        raise UnseenError(f"{out} exists already: choose another name, or replace it with --overwrite")
    hierarchy = Hierarchy.load(source)
    if below is not None:
        root = find_class(below, hierarchy)
        hierarchy = hierarchy.subgraph([root, *hierarchy.descendants(root)], closed=False)
    table = _table(hierarchy)
    if out is None:
        sys.stdout.write(visible(table) if sys.stdout.isatty() else table)
        return
    write_atomically(out, table.encode())
    result = {"out": str(out), "hierarchy": source, "classes": len(hierarchy), "edges": len(hierarchy.parent_idx)}
    emit(result, json_, lambda: stdout.print(f"{out}: {len(hierarchy):,} classes"))


def _table(hierarchy: Hierarchy) -> str:
    own = hierarchy.own_looks  # the glossary's are found by id again
    rows = [("id", "name", "parent", "definition", *(["looks"] if own else []))]
    for id, lemmas in zip(hierarchy.ids, hierarchy.lemmas, strict=True):
        row = id, "|".join(lemmas), "|".join(hierarchy.parents(id)), hierarchy.definition(id)
        rows.append((*row, own.get(id, "")) if own else row)
    return to_csv(rows)
