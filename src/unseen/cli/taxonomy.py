"""`unseen taxonomy check` and `suggest`: hierarchies before training. `taxonomy_views` has what only looks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from unseen.cli.app import JsonFlag, command, command_group, emit, escaped, say, stdout, tell
from unseen.cli.taxonomy_views import register

DEEP = 100  # levels; WordNet's nouns have 18, so more are likely a mistake
SHOWN = 20  # classes that are listed one by one
group = command_group("taxonomy", "Look at a class hierarchy, check it, or get one for a list of names.")


@command(
    "check",
    group=group,
    examples="""
    unseen taxonomy check products.csv --classes classes.txt
    unseen taxonomy check imagenet+new-classes.csv
    unseen taxonomy check species.json --json
    """,
)
def check(
    file: Annotated[str, typer.Argument(help="A CSV, JSON or edge-list file, a built-in name, or imagenet+FILE.")],
    classes: Annotated[
        Path | None, typer.Option(help="The network's class ids, one a line; ImageNet's 1,000 if not given.")
    ] = None,
    vectors: Annotated[str, typer.Option(help="glove, or a file of word vectors.")] = "glove",
    json_: JsonFlag = False,
) -> None:
    """Check a hierarchy before training: its shape, which names have vectors, how far classes are from seen ones."""
    from unseen.advice.checkup import check_up
    from unseen.assets import imagenet_1k
    from unseen.runtime.memory import uncollected
    from unseen.scoring.candidates import read_ids
    from unseen.semantics import load_vectors
    from unseen.semantics.vectors import find_coverage
    from unseen.taxonomy import Taxonomy

    with uncollected():
        taxonomy = Taxonomy.load(file)
        if taxonomy.depth > DEEP:
            tell(f"{file} is {taxonomy.depth:,} levels deep: is it a chain by mistake? Memory grows with each level.")
        seen = read_ids(classes) if classes else imagenet_1k()
        result = {"file": file} | check_up(taxonomy, seen, find_coverage(taxonomy, load_vectors(vectors)))
        emit(result, json_, lambda: _show_check(result, taxonomy))


def _show_check(result: dict, taxonomy) -> None:
    roots = ", ".join(f"{root['name']} ({root['id']})" for root in result["some_roots"])
    hops = ", ".join(f"{'not connected' if d < 0 else d}: {n:,}" for d, n in result["hops"].items())
    guesses = result["guesswork"]
    missing = result["seen_missing"]
    restated = f"{result['already_there']:,} row{' restates' if result['already_there'] == 1 else 's restate'}"
    rows = {
        "classes": f"{result['nodes']:,}, {result['edges']:,} edges, {result['leaves']:,} leaves",
        "roots": f"{result['roots']:,}: {roots}{', ...' if result['roots'] > 5 else ''}",
        "depth": str(result["depth"]),
        "orphans": _some(result["orphans"], taxonomy) or "none",
        "cycles": "none (a cycle would have been an error)",
        "seen classes": f"{result['seen_present']:,} here, {len(missing):,} missing"
        + (f": {', '.join(missing[:5])}{', ...' * (len(missing) > 5)} (train: --skip-missing)" if missing else ""),
        "own classes": f"{result['own']:,}; {restated} what is there" if result["own"] < result["nodes"] else "all",
        "without vector": _some(result["without_vector"], taxonomy) or "none",
        "hops to a seen class": hops,
        "guesswork": f"{len(guesses):,} class{'es' * (len(guesses) > 1)}" if guesses else "none",
    }
    table = Table(show_header=False, title=escaped(result["file"]), title_justify="left")
    for name, text in rows.items():
        table.add_row(name, escaped(text))
    stdout.print(table)
    shown = list(result["distance"] if result["own"] < result["nodes"] else guesses)
    for id in shown[:SHOWN]:
        hops = result["distance"][id]
        why = f"guesswork: {guesses[id]}" if id in guesses else f"{hops} hop{'s' * (hops != 1)} from a seen class"
        stdout.print(f"  {taxonomy.name(id)} ({id}): {why}", markup=False, highlight=False)
    if len(shown) > SHOWN:
        stdout.print(f"  ... and {len(shown) - SHOWN:,} more: see --json")
    if not result["seen_present"]:
        say("[red]None of the network's classes is in this hierarchy[/red]: training needs some. Do the ids match?")


def _some(ids: list[str], taxonomy) -> str:
    shown = ", ".join(f"{taxonomy.name(i)} ({i})" for i in ids[:5])
    return f"{len(ids):,}: {shown}{', ...' if len(ids) > 5 else ''}" if ids else ""


@command(
    "suggest",
    group=group,
    examples="""
    unseen taxonomy suggest names.txt --out new-classes.csv
    unseen taxonomy suggest names.txt --json
    """,
)
def suggest(
    names: Annotated[Path, typer.Argument(help="A file of class names, one a line.")],
    out: Annotated[Path | None, typer.Option(help="The CSV to write; without it the proposal is only shown.")] = None,
    json_: JsonFlag = False,
) -> None:
    """Find a place in WordNet for names that come without a hierarchy. The CSV is a proposal: check it first."""
    from unseen.advice.suggestions import read_names, write_csv
    from unseen.advice.suggestions import suggest as place

    found = place(read_names(names))
    for item in found:
        for name in item.dropped:
            kept = item.name.split("|")[0]
            tell(
                f"{name} is listed twice: kept once" if name == kept else f"{name} is the same class as {kept}: joined"
            )
    if out is not None:
        write_csv(found, out)
    result = {"out": str(out) if out else None, "classes": [item.as_dict() for item in found]}
    emit(result, json_, lambda: _show_suggestions(found, out))


def _show_suggestions(found, out: Path | None) -> None:
    for item in found:
        state = "is in WordNet" if item.known else "new class" if item.parent else "[red]no place found[/red]"
        stdout.print(f"[bold]{escaped(item.name)}[/bold] ({escaped(item.id)}): {state}", highlight=False)
        if item.known:
            lines = [f"  {item.definition}", *(f"  or {sense.id} {sense.definition}" for sense in item.others)]
        else:
            lines = [f"  {p.score:4.0%}  {p.sense.id} {p.sense.name}: {p.sense.definition}" for p in item.places]
        for line in lines:
            stdout.print(line, markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        stdout.print(f"Check {escaped(out)}, then run: unseen taxonomy check imagenet+{escaped(out)}")


register(group)
